"""The lists above the composer: of commands while the draft is a `/` and a beginning of a name, of files while a
mention is typed, such as `@src/ex` (H7).

They never have the focus: the draft filters them, the composer's keys move in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from tui_agent.text import make_visible
from widgets.line_view import LinesView
from widgets.styled_text import Line, Span, TextStyles, fit, line, overlay, split_cells, width_of

SHOWN = 8
"""Entries that show at once."""


def rank(name: str, typed: str) -> int | None:
    """How well a name fits, less is better: beginning, then within, then letters in order; None for not at all."""
    if name.startswith(typed):
        return 0
    if typed in name:
        return 1
    letters = iter(name)
    return 2 if all(letter in letters for letter in typed) else None


class CompletionList(LinesView):
    """Names, of which one is chosen; hidden at first."""

    def __init__(self, painter: Callable[[int, TextStyles], list[Line]], *, id: str | None = None) -> None:
        super().__init__(painter, id=id)
        self.names: Sequence[str] = ()
        self.chosen = 0
        self.display = False

    @property
    def name_chosen(self) -> str:
        """The name that Enter takes; empty where there is none."""
        return self.names[self.chosen] if self.chosen < len(self.names) else ""

    def move(self, by: int) -> None:
        """Choose another one."""
        self.chosen = (self.chosen + by) % max(1, len(self.names))
        self.relayout()


class CommandMenu(CompletionList):
    """Names and what they do."""

    def __init__(self, entries: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.entries = dict(entries)
        self._typed = ""
        self._closed_at = ""
        """The draft at which the user closed it."""

    def filter(self, draft: str) -> bool:
        """List what fits the draft; True while there is something to choose."""
        if draft != self._typed:
            self._typed, self.chosen = draft, 0
            if draft != self._closed_at:
                self._closed_at = ""
            name, blank, _rest = draft[1:].partition(" ")
            listed = self.entries if draft.startswith("/") and "\n" not in draft else ()
            ranks = {
                candidate: 0 if candidate == name else None if blank else rank(candidate, name) for candidate in listed
            }
            found = [(fits, candidate) for candidate, fits in ranks.items() if fits is not None]
            self.names = [candidate for _fits, candidate in sorted(found, key=lambda pair: pair[0])]
        opened = bool(self.names) and not self._closed_at
        if opened or self.display:
            self.display = opened
            self.relayout()
        return opened

    def close(self) -> None:
        """Stay closed until the draft is another."""
        self._closed_at = self._typed
        self.display = False

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        first = max(0, self.chosen - SHOWN + 1)
        wide = max(map(len, self.entries), default=1) + 3
        lines: list[Line] = []
        for number, name in enumerate(self.names[first : first + SHOWN], start=first):
            on = number == self.chosen
            spans: list[Span] = [
                ("› " if on else "  ", styles.accent),
                (f"{'/' + name:<{wide}}", styles.strong if on else styles.text),
            ]
            lines.append(line(*spans, (fit(self.entries[name], max(1, width - wide - 2)), styles.muted)))
        if len(self.names) > SHOWN:
            lines.append(line((f"  {self.chosen + 1} of {len(self.names)}", styles.muted)))
        return lines


class MentionPicker(CompletionList):
    """Names of files and folders. It looks nothing up: what was found is shown to it."""

    def __init__(self, picked: Callable[[str], object], *, id: str | None = None) -> None:
        """`picked` gets the name that was clicked."""
        super().__init__(self._paint, id=id)
        self._picked = picked
        self.wanted = ""
        """What `names` are found for."""
        self.moved = False
        """The user chose, not the order."""
        self._note = ""
        self._listing = False
        self._tallest = 0
        """Lines that were shown at once since it is open: fewer would lay the whole screen out anew with every key."""

    def show(self, wanted: str, names: Sequence[str], *, listing: bool = False, note: str = "") -> None:
        """These were found. What the user chose stays chosen as long as it is among them."""
        kept = self.name_chosen if self.moved and wanted == self.wanted else ""
        self.wanted, self.names, self._listing, self._note = wanted, names, listing, note
        self.chosen = names.index(kept) if kept in names else 0
        self.moved = bool(kept) and kept in names
        self.display = bool(names) or listing
        self.relayout()

    def close(self) -> None:
        """Nothing is being looked for."""
        if self.display or self.names:
            self.wanted, self.names, self.chosen, self.moved = "", (), 0, False
            self.display, self._tallest = False, 0

    def move(self, by: int) -> None:
        """Choose another one."""
        self.moved = True
        super().move(by)

    @property
    def _first(self) -> int:
        return max(0, min(self.chosen - SHOWN // 2, len(self.names) - SHOWN))

    def on_click(self, event: events.Click) -> None:
        """Take the name that was clicked."""
        shown = min(SHOWN, len(self.names))
        at = event.y - (len(self.lines) - shown - 1)
        if 0 <= at < shown:
            self._picked(self.names[self._first + at])

    # --- painting ---

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        lines = [
            self._row(name, number == self.chosen, width, styles)
            for number, name in enumerate(self.names[self._first : self._first + SHOWN], start=self._first)
        ]
        lines.append(line((fit(f"  {self._words()}", width), styles.muted)))
        self._tallest = max(self._tallest, len(lines))
        return [*(Line([]) for _ in range(self._tallest - len(lines))), *lines]

    def _words(self) -> str:
        """How many there are, and what can be done with the chosen one."""
        if not self.names:
            return "listing files …" if self._listing else ""
        parts = [f"{self.chosen + 1} of {len(self.names)}"] if len(self.names) > SHOWN else []
        folder = self.name_chosen.endswith("/")
        parts.append("enter inserts it · tab opens it" if folder else "enter inserts it · :L10-L50 for lines")
        if self._note or self._listing:
            parts.append(self._note or "listing files …")
        return " · ".join(parts)

    def _row(self, name: str, on: bool, width: int, styles: TextStyles) -> Line:
        shown = make_visible(name, lookalikes=False)
        room = max(1, width - 2)
        base = shown.rstrip("/").rfind("/") + 1
        if width_of([(shown, styles.text)]) > room:  # the end of a path says more than its beginning
            cells = max(0, room - 1 - width_of([(shown[base:], styles.text)]))
            head = _end(shown[:base], cells)
            shown, base = fit(f"…{head}{shown[base:]}", room), len(head) + 1
        strong, plain = (styles.strong, styles.text) if on else (styles.text, styles.muted)
        letters = [(at, at + 1) for at in _letters(shown, self.wanted)]
        path = overlay([(shown[:base], plain), (shown[base:], strong)], letters, styles.link)
        return line(("› " if on else "  ", styles.accent), *path)


def _end(text: str, cells: int) -> str:
    """The longest end of `text` that fits."""
    return split_cells(text[::-1], cells)[0][::-1]


def _letters(name: str, query: str) -> set[int]:
    """Places of the letters that were typed: side by side where they are, the last ones of the name first."""
    lower, wanted = name.lower(), query.lower()
    if not wanted or len(lower) != len(name):
        return set()
    if (at := lower.rfind(wanted)) >= 0:
        return set(range(at, at + len(wanted)))
    found: set[int] = set()
    at = len(lower)
    for character in reversed(wanted):
        at = lower.rfind(character, 0, at)
        if at < 0:
            return set()
        found.add(at)
    return found

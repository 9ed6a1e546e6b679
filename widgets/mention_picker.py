"""The list of files above the composer: open while a mention is typed, such as `@src/ex` (H7).

It never has the focus and looks nothing up: the composer's keys move in it, and what was found is shown to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.style import Style
from textual import events

from tui_agent.text import visible
from widgets.ink import Ink, Line, Span, cut, fit, line, width_of
from widgets.line_view import LinesView

SHOWN = 8
"""Names that show at once."""


class MentionPicker(LinesView):
    """Names of files and folders; one is chosen."""

    def __init__(self, picked: Callable[[str], object], *, id: str | None = None) -> None:
        """`picked` gets the name that was clicked."""
        super().__init__(self._paint, id=id)
        self._picked = picked
        self.wanted = ""
        """What `names` are found for."""
        self.names: Sequence[str] = ()
        self.chosen = 0
        self.moved = False
        """The user chose, not the order."""
        self._note = ""
        self._listing = False
        self._tallest = 0
        """Lines that were shown at once since it is open: fewer would lay the whole screen out anew with every key."""
        self.display = False

    @property
    def name_chosen(self) -> str:
        """The name that Enter takes; empty where there is none."""
        return self.names[self.chosen] if self.chosen < len(self.names) else ""

    def show(self, wanted: str, names: Sequence[str], *, listing: bool = False, note: str = "") -> None:
        """These were found. What the user chose stays chosen as long as it is among them."""
        kept = self.name_chosen if self.moved and wanted == self.wanted else ""
        self.wanted, self.names, self._listing, self._note = wanted, names, listing, note
        self.chosen = names.index(kept) if kept in names else 0
        self.moved = bool(kept) and kept in names
        self.display = bool(names) or listing
        self._changed()

    def close(self) -> None:
        """Nothing is being looked for."""
        if self.display or self.names:
            self.wanted, self.names, self.chosen, self.moved = "", (), 0, False
            self.display, self._tallest = False, 0

    def move(self, by: int) -> None:
        """Choose another one."""
        self.chosen = (self.chosen + by) % max(1, len(self.names))
        self.moved = True
        self._changed()

    def _changed(self) -> None:
        if self.is_attached:
            self.relayout()

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

    def _paint(self, width: int, ink: Ink) -> list[Line]:
        lines = [
            self._row(name, number == self.chosen, width, ink)
            for number, name in enumerate(self.names[self._first : self._first + SHOWN], start=self._first)
        ]
        lines.append(line((fit(f"  {self._words()}", width), ink.muted)))
        self._tallest = max(self._tallest, len(lines))
        return [*(Line([]) for _ in range(self._tallest - len(lines))), *lines]

    def _words(self) -> str:
        """How many there are, and what can be done with the chosen one."""
        if not self.names:
            return "listing files …" if self._listing else ""
        parts = [f"{self.chosen + 1} of {len(self.names)}"] if len(self.names) > SHOWN else []
        folder = self.name_chosen.endswith("/")
        parts.append("enter takes it · tab goes into it" if folder else "enter takes it · :L10-L50 for lines")
        if self._note or self._listing:
            parts.append(self._note or "listing files …")
        return " · ".join(parts)

    def _row(self, name: str, on: bool, width: int, ink: Ink) -> Line:
        shown = visible(name, lookalikes=False)
        room = max(1, width - 2)
        base = shown.rstrip("/").rfind("/") + 1
        if width_of([(shown, ink.text)]) > room:  # the end of a path says more than its beginning
            cells = max(0, room - 1 - width_of([(shown[base:], ink.text)]))
            head = _end(shown[:base], cells)
            shown, base = fit(f"…{head}{shown[base:]}", room), len(head) + 1
        strong, plain = (ink.strong, ink.text) if on else (ink.text, ink.muted)
        spans: list[Span] = [("› " if on else "  ", ink.accent)]
        lit = _letters(shown, self.wanted)
        for place, character in enumerate(shown):
            style: Style = strong if place >= base else plain
            spans.append((character, style + ink.link if place in lit else style))
        return line(*_joined(spans))


def _end(text: str, cells: int) -> str:
    """The longest end of `text` that fits."""
    return cut(text[::-1], cells)[0][::-1]


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for text, style in spans:
        if joined and joined[-1][1] is style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined


def _letters(name: str, query: str) -> set[int]:
    """Places of the letters that were typed: side by side where they are, the last ones of the name first."""
    lower, wanted = name.lower(), query.lower()
    if not wanted or len(lower) != len(name):
        return set()
    if (at := lower.rfind(wanted)) >= 0:
        return set(range(at, at + len(wanted)))
    found: set[int] = set()
    at = len(lower)
    for one in reversed(wanted):
        at = lower.rfind(one, 0, at)
        if at < 0:
            return set()
        found.add(at)
    return found

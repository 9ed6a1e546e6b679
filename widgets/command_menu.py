"""The list of commands above the composer: open while the draft is a `/` and a beginning of a name.

It never has the focus: the draft filters it, the composer asks it what Enter means.
"""

from __future__ import annotations

from collections.abc import Sequence

from widgets.ink import Ink, Line, Span, fit, line
from widgets.line_view import LinesView

SHOWN = 8
"""Commands that show at once."""


def rank(name: str, typed: str) -> int | None:
    """How well a name fits, less is better: beginning, then within, then letters in order; None for not at all."""
    if name.startswith(typed):
        return 0
    if typed in name:
        return 1
    letters = iter(name)
    return 2 if all(letter in letters for letter in typed) else None


class CommandMenu(LinesView):
    """Names and what they do; one is chosen."""

    def __init__(self, entries: Sequence[tuple[str, str]], *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.entries = list(entries)
        self.found: list[tuple[str, str]] = []
        self.chosen = 0
        self._typed = ""
        self._closed_at = ""
        """The draft at which the user closed it."""
        self.display = False

    def filter(self, draft: str) -> bool:
        """List what fits the draft; True while there is something to choose."""
        if draft != self._typed:
            self._typed, self.chosen = draft, 0
            if draft != self._closed_at:
                self._closed_at = ""
            name, blank, _rest = draft[1:].partition(" ")
            found: list[tuple[int, tuple[str, str]]] = []
            if draft.startswith("/") and "\n" not in draft:
                for entry in self.entries:
                    fits = (0 if entry[0] == name else None) if blank else rank(entry[0], name)
                    if fits is not None:
                        found.append((fits, entry))
            self.found = [entry for _rank, entry in sorted(found, key=lambda one: one[0])]
        opened = bool(self.found) and not self._closed_at
        if opened or self.display:
            self.display = opened
            self.relayout()
        return opened

    def close(self) -> None:
        """Stay closed until the draft is another."""
        self._closed_at = self._typed
        self.display = False

    def move(self, by: int) -> None:
        """Choose another one."""
        self.chosen = (self.chosen + by) % max(1, len(self.found))
        self.relayout()

    @property
    def name_chosen(self) -> str:
        """The name that Enter runs."""
        return self.found[self.chosen][0] if self.found else ""

    def _paint(self, width: int, ink: Ink) -> list[Line]:
        first = max(0, self.chosen - SHOWN + 1)
        wide = max((len(name) for name, _does in self.entries), default=1) + 3
        lines: list[Line] = []
        for number, (name, does) in enumerate(self.found[first : first + SHOWN], start=first):
            on = number == self.chosen
            spans: list[Span] = [
                ("› " if on else "  ", ink.accent),
                (f"{'/' + name:<{wide}}", ink.strong if on else ink.text),
            ]
            lines.append(line(*spans, (fit(does, max(1, width - wide - 2)), ink.muted)))
        if len(self.found) > SHOWN:
            lines.append(line((f"  {self.chosen + 1} of {len(self.found)}", ink.muted)))
        return lines

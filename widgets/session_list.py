"""The rows of the session picker: painted only where they are seen, however many there are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message

from tui_agent.text import one_line
from widgets.ink import Ink, Line, Span, fit, line, width_of, wrap
from widgets.line_view import LineView

LONGEST = 300
"""Characters of a title or a found line that are looked at."""
UNSAID = "(nothing was said)"
"""In the place of a title that there is none of."""
LOOKING = "Looking for sessions …"
TITLE = 16
"""Cells that a title keeps beside what stands at the right."""


class Row(NamedTuple):
    """A session as the picker shows it. Nothing of it is trusted text."""

    id: str
    title: str
    age: str
    """When it was used last, in words."""
    where: str = ""
    """Its folder, as the user knows it."""
    facts: str = ""
    """What else is known of it, on one line."""
    here: bool = True
    """It works in the folder that the user is in."""
    mine: bool = False
    """It is the one on the screen."""
    running: bool = False
    problem: str = ""
    """Why it can't be opened as it is."""


class SessionList(LineView):
    """One line a session, two where words were found in it; one is chosen."""

    @dataclass
    class Clicked(Message):
        """A row was clicked; `twice` opens it."""

        place: int
        twice: bool

    def __init__(self, nothing: str = "", *, id: str | None = None) -> None:
        """`nothing` is said until there are rows."""
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.chosen = 0
        self._found: Mapping[str, str] = {}
        self._needle = ""
        self._folders = False
        self._ends: list[int] = []
        """For each row: the line behind it."""
        self._painted: dict[int, list[Line]] = {}
        self._nothing = nothing

    def show(
        self,
        rows: Sequence[Row],
        found: Mapping[str, str],
        needle: str,
        chosen: int,
        *,
        folders: bool,
        nothing: str,
    ) -> None:
        """Rows, the lines in which `needle` was found by id, the place of the chosen row, whether folders tell the
        rows apart, and what to say where there is no row."""
        self.rows, self._found, self._needle, self._folders = rows, found, needle, folders
        self._nothing = nothing
        self._ends = list(accumulate(2 if row.id in found else 1 for row in rows))
        self.chosen = chosen
        self.repaint()
        self.refresh_content()

    def choose(self, place: int) -> None:
        """Another row is the chosen one; it comes into view."""
        self._painted.pop(self.chosen, None)
        self._painted.pop(place, None)
        self.chosen = place
        self.refresh()
        self._reveal()

    def refresh_content(self) -> None:
        """Take the height of what there is; the chosen row comes into view."""
        self.resize_content(Size(self.columns, self._ends[-1] if self._ends else 0))
        self._reveal()

    def on_resize(self) -> None:
        """Lay the rows out for the new width."""
        self.repaint()
        self.refresh_content()

    def repaint(self) -> None:
        """Forget what was painted for another width or theme."""
        self._painted.clear()
        super().repaint()

    def on_click(self, event: events.Click) -> None:
        """Choose; twice opens."""
        place = bisect_right(self._ends, self.scroll_offset.y + event.y)
        if place < len(self.rows):
            self.post_message(self.Clicked(place, event.chain > 1))

    def _reveal(self) -> None:
        if not self._ends or not self.size.height:
            return
        top = self._ends[self.chosen - 1] if self.chosen else 0
        end = self._ends[self.chosen]
        if top < self.scroll_offset.y:
            self.scroll_to(y=top, animate=False)
        elif end > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=end - self.size.height, animate=False)

    # --- painting ---

    def line_at(self, y: int) -> Line | None:
        """A row's title, or what was found in it."""
        place = bisect_right(self._ends, y)
        if not self.rows and y < self.size.height:
            lines = self._painted.setdefault(-1, wrap([(self._nothing, self.ink.muted)], self.columns))
            return lines[y] if y < len(lines) else None
        if place >= len(self.rows):
            return None
        if place not in self._painted:
            self._painted[place] = self._lines(place, self.columns, self.ink)
        lines = self._painted[place]
        return lines[min(len(lines) - 1, y - (self._ends[place - 1] if place else 0))]

    def _lines(self, place: int, width: int, ink: Ink) -> list[Line]:
        row, on = self.rows[place], place == self.chosen
        mark: Span = ("  ", ink.text)
        if row.mine or row.running:
            mark = ("● ", ink.ok)
        elif row.problem:
            mark = ("! ", ink.warn)
        head: list[Span] = [("▸ " if on else "  ", ink.accent), mark]
        right = self._right(row, width - width_of(head), ink)
        room = max(1, width - width_of([*head, *right]) - 2)
        title = fit(one_line(row.title, LONGEST) or UNSAID, room)
        style = ink.strong if on else ink.text if row.title else ink.muted
        spans: list[Span] = [*head, *lit(title, self._needle, style, ink)]
        gap = width - width_of([*spans, *right])
        lines = [line(*spans, (" " * gap, ink.text), *right)]
        if row.id in self._found:
            words = fit(around(self._found[row.id], self._needle, max(8, width - 6)), width - 6)
            lines.append(line(("      ", ink.text), *lit(words, self._needle, ink.muted, ink)))
        return lines

    def _right(self, row: Row, width: int, ink: Ink) -> list[Span]:
        """The folder where it matters, then the age, as far as there is room beside a title."""
        age = "this one" if row.mine else row.age
        spans: list[Span] = [(age, ink.muted)]
        room = width - TITLE - width_of(spans) - 3
        if self._folders and not row.here and room > 6:
            where = one_line(row.where, LONGEST)
            short = where if len(where) <= min(room, 30) else "…" + where[1 - min(room, 30) :]
            spans = [(fit(short, room), ink.muted), (" · ", ink.faint), *spans]
        return spans if width - TITLE - width_of(spans) > 0 else []


def around(text: str, needle: str, width: int) -> str:
    """The part of a line in which the first word of `needle` stands, on one line."""
    words = one_line(text, 10 * LONGEST)
    first = next(iter(needle.casefold().split()), "")
    at = words.casefold().find(first) if first else 0
    if len(words) <= width or at <= width // 2:
        return words
    return "…" + words[at - width // 3 :]


def lit(text: str, needle: str, style: Style, ink: Ink) -> list[Span]:
    """`text` with the words of `needle` standing out."""
    lower = text.casefold()
    words = [word for word in needle.casefold().split() if word] if len(lower) == len(text) else []
    spans: list[Span] = []
    at = 0
    while at < len(text):
        hits = [(found, -len(word), word) for word in words if (found := lower.find(word, at)) >= 0]
        if not hits:
            break
        found, _length, word = min(hits)
        spans += [(text[at:found], style), (text[found : found + len(word)], style + ink.link)]
        at = found + len(word)
    return [*spans, (text[at:], style)]


def why_none(searched: bool, everywhere: bool) -> str:
    """What stands where there is no row."""
    if searched:
        return "Nothing found." if everywhere else "Nothing found in this folder. Tab looks in all."
    if everywhere:
        return "There is no session yet."
    return "No session was held in this folder. Tab shows all."

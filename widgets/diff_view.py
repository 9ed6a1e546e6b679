"""A diff that can be scrolled to its end at any size; only the visible lines are painted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.geometry import Size
from textual.message import Message

from tui_agent.domain import Diff
from widgets.diff_lines import Look, Row, coloured, digits, height, paint_row, rows, shown
from widgets.diff_sides import NARROWEST, Pair, paint_pair, pair_height, pairs
from widgets.highlight import language_of
from widgets.ink import Ink, Line, Span
from widgets.line_view import LineView
from widgets.stack import Stack
from widgets.word_changes import WordMarks

AT_ONCE = 8_000
"""Characters of a diff that get their colours before the first paint."""
AT_MOST = 2_000_000
"""Characters beyond which a diff stays plain."""

Head = Callable[[int, int, Ink], Line]
"""(place of a hunk, width, ink) → the line over it."""


class DiffView(LineView):
    """Unified, with line numbers and a sign column, or the two sides beside each other where there is room."""

    class Laid(Message):
        """How much of it can be seen may have changed."""

    def __init__(self, diff: Diff, *, head: Head | None = None, id: str | None = None) -> None:
        """`head` paints the line over each hunk, where more is to be said of it than its line numbers."""
        super().__init__(id=id)
        self._head = head
        self._split = False
        self._left_out: frozenset[int] = frozenset()
        self._width = 0
        self._take(diff)

    def _take(self, diff: Diff) -> None:
        self.rows = list(rows(diff, heads=self._head is not None))
        self._number = digits(diff)
        self._stack = Stack()
        self._pairs: list[Pair] = []
        self._painted: dict[int, list[Line]] = {}
        self._language = diff.path
        self._colours: dict[int, list[Span]] | None = None
        self._characters = sum(len(row.text) for row in self.rows)
        texts = [shown(row.text) if row.sign in "+-" else "" for row in self.rows]
        self._words = WordMarks(texts, [row.sign for row in self.rows])

    # --- what is shown ---

    def show(self, diff: Diff) -> None:
        """Another diff."""
        top = self.scroll_offset.y
        self._take(diff)
        if self._width:
            self._layout()
            self.scroll_to(y=min(top, self.max_scroll_y), animate=False)
        self.refresh(layout=True)

    def leave_out(self, places: Iterable[int]) -> None:
        """The hunks that are not taken."""
        self._left_out = frozenset(places)
        self.repaint_lines()

    @property
    def split(self) -> bool:
        """The two sides beside each other are wanted."""
        return self._split

    @split.setter
    def split(self, wanted: bool) -> None:
        if wanted != self._split:
            top = self._place_at(self.scroll_offset.y)
            self._split = wanted
            self._layout()
            self._show_place(top)
            self.refresh(layout=True)

    @property
    def beside(self) -> bool:
        """The two sides stand beside each other."""
        return self._split and self.columns >= NARROWEST

    # --- hunks ---

    def hunks_seen(self) -> list[int]:
        """Places of the hunks whose beginning is in view, or of the one that fills it."""
        top = self.scroll_offset.y
        first, last = self._place_at(top), self._place_at(top + self.size.height - 1)
        begun = [row.hunk for row in self.rows[first : last + 1] if row.sign == "@"]
        return begun or ([self._hunk_at(first)] if self.rows else [])

    def go_to(self, hunk: int) -> None:
        """Bring the beginning of a hunk to the top."""
        place = next((at for at, row in enumerate(self.rows) if row.hunk == hunk), None)
        if place is not None:
            self._show_place(place)

    def _hunk_at(self, place: int) -> int:
        return max(0, self.rows[min(place, len(self.rows) - 1)].hunk)

    def _place_at(self, y: int) -> int:
        """The row that stands at line `y`."""
        unit, _within = self._stack.find(y) if len(self._stack) else (0, 0)
        return self._place_of(unit) if unit < len(self._stack) else len(self.rows)

    def _show_place(self, place: int) -> None:
        unit = place
        if self._pairs:
            unit = next((at for at, pair in enumerate(self._pairs) if place in pair), len(self._pairs))
        if unit < len(self._stack):
            self.scroll_to(y=self._stack.top(unit), animate=False)

    # --- painting ---

    def _colour(self) -> None:
        """Small diffs at once; big ones in a thread, plain until then; huge ones stay plain."""
        self._colours, ink = {}, self.ink
        if self._characters <= AT_ONCE:
            self._colours = coloured(self.rows, language_of(self._language), ink)
        elif self._characters <= AT_MOST:
            self.run_worker(self._colour_behind(self.rows, ink), exclusive=True, exit_on_error=False)

    async def _colour_behind(self, some: list[Row], ink: Ink) -> None:
        from asyncio import to_thread

        language = await to_thread(language_of, self._language)
        found = await to_thread(coloured, some, language, ink)
        if some is self.rows:
            self._colours = found
            self.repaint_lines()

    def on_show(self) -> None:
        """It stands in its place again."""
        self.post_message(self.Laid())

    def on_resize(self) -> None:
        """Lay out for the new width, keeping the first visible row."""
        self.post_message(self.Laid())
        if not self.size.width or self.columns == self._width:
            return
        place = self._place_at(self.scroll_offset.y)
        self._layout()
        self._show_place(place)

    def _layout(self) -> None:
        if self.size.width or not self._width:
            self._width = self.columns  # while it is hidden, the width that it had
        self._stack.clear()
        self._pairs = pairs(self.rows) if self.beside else []
        if self._pairs:
            for pair in self._pairs:
                self._stack.append(pair_height(pair, self.rows, self._width, self._number))
        else:
            for row in self.rows:
                self._stack.append(self._height(row, self._width))
        self.virtual_size = Size(self._width, self._stack.total)
        self.repaint_lines()

    def _height(self, row: Row, width: int) -> int:
        return 1 if row.sign == "@" and self._head is not None else height(row, width, self._number)

    def repaint(self) -> None:
        """Paint the visible lines in other colours."""
        self._colours = None
        self.repaint_lines()

    def repaint_lines(self) -> None:
        """Paint the visible lines again."""
        self._painted.clear()
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are; the style sheet says how many may show at once."""
        room = max(1, width)
        if self._split and room >= NARROWEST and self._pairs:
            return self._stack.total or 1
        return sum(self._height(row, room) for row in self.rows[: viewport.height]) or 1

    def line_at(self, y: int) -> Line | None:
        """A line of the row, or of the pair of rows, that covers `y`."""
        place, within = self._stack.find(y)
        if place >= len(self._stack):
            return None
        if self._colours is None:
            self._colour()
        if place not in self._painted:
            if len(self._painted) > 500:
                self._painted.clear()
            self._painted[place] = self._paint(place)
        lines = self._painted[place]
        return lines[min(within, len(lines) - 1)]

    def _paint(self, unit: int) -> list[Line]:
        first = self._place_of(unit)
        row = self.rows[first]
        if row.sign == "@" and self._head is not None:
            return [self._head(row.hunk, self._width, self.ink)]
        if self._pairs:
            return paint_pair(self._pairs[unit], self.rows, self._width, self._number, self.ink, self._look)
        return paint_row(row, self._width, self._number, self.ink, self._look(unit))

    def _place_of(self, unit: int) -> int:
        if not self._pairs:
            return unit
        left, right = self._pairs[unit]
        return left if left is not None else right or 0

    def _look(self, place: int) -> Look:
        return Look(
            colours=(self._colours or {}).get(place),
            words=self._words.of(place),
            left_out=self.rows[place].hunk in self._left_out,
        )

    @property
    def end_seen(self) -> bool:
        """True when the last line is, or has been scrolled, into view."""
        return self.scroll_offset.y >= self.max_scroll_y

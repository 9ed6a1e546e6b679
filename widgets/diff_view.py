"""A scrollable diff of any size; only visible lines are painted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.geometry import Size

from tui_agent.common.domain import Diff
from widgets.diff_lines import (
    MIN_SPLIT_COLUMNS,
    DiffRow,
    Pair,
    RowStyle,
    WordMarks,
    colored_rows,
    diff_rows,
    number_width,
    paint_pair,
    paint_row,
    pair_height,
    row_height,
    row_pairs,
    visible_text,
)
from widgets.highlight import lexer_name
from widgets.line_view import ListView
from widgets.styled_text import Line, Span, TextStyles

MAX_IMMEDIATE_CHARACTERS = 8_000
"""Largest diff that is highlighted before the first paint."""
MAX_COLORED_CHARACTERS = 2_000_000
"""Largest diff that is highlighted at all."""

Head = Callable[[int, int, TextStyles], Line]
"""(index of a hunk, width, styles) → its header line"""
LOW_VIEW = 8
"""Number of lines up to which the view begins with the first change."""


class DiffView(ListView[Pair]):
    """A diff, unified or side by side, with line numbers and signs."""

    def __init__(self, diff: Diff, *, head: Head | None = None, id: str | None = None) -> None:
        """`head` paints the header of each hunk; by default it shows the line numbers."""
        super().__init__(self._unit_lines, id=id)
        self._head = head
        self._split = False
        self._left_out: frozenset[int] = frozenset()
        self._paired = False
        """Whether the rows are laid out side by side."""
        self._width = 0
        self._seen: set[int] = set()
        """Indexes of the rows of which every line was on the screen since the diff was set."""
        self._seen_lines: dict[int, set[int]] = {}
        """Unit → those of its lines that were on the screen, if not all."""
        self.on_seen = self._note_seen
        self._load(diff)

    @property
    def follows_cursor(self) -> bool:
        """See ListView: there is no cursor."""
        return False

    @property
    def columns(self) -> int:
        """Width of a line; while hidden, the last one."""
        return super().columns if self.size.width or not self._width else self._width

    def _load(self, diff: Diff) -> None:
        self._lines = list(diff_rows(diff, heads=self._head is not None))
        self._number = number_width(diff)
        self._language = diff.path
        self._colors: dict[int, list[Span]] | None = None
        self._characters = sum(len(row.text) for row in self._lines)
        texts = [visible_text(row.text) if row.sign in "+-" else "" for row in self._lines]
        self._signs = [row.sign for row in self._lines]
        self._seen.clear()
        self._seen_lines.clear()
        self._changed: dict[int, set[int]] = {}
        for index, row in enumerate(self._lines):
            if row.sign in ("+", "-"):
                self._changed.setdefault(row.hunk, set()).add(index)
        self._word_marks = WordMarks(texts, self._signs)

    # --- what is shown ---

    def show(self, diff: Diff) -> None:
        """Replace the diff, keeping the scroll position."""
        top = self.scroll_offset.y
        self._load(diff)
        if self._width:
            self._update_rows()
            self.scroll_to(y=min(top, self.max_scroll_y), animate=False)
        self.refresh(layout=True)

    def leave_out(self, hunks: Iterable[int]) -> None:
        """Set the excluded hunks."""
        self._left_out = frozenset(hunks)
        self.repaint_lines()

    @property
    def split(self) -> bool:
        """Whether the side-by-side layout is requested."""
        return self._split

    @split.setter
    def split(self, enabled: bool) -> None:
        if enabled != self._split:
            top = self._row_at(self.scroll_offset.y)
            self._split = enabled
            self._update_rows()
            self._scroll_to_row(top)
            self.refresh(layout=True)

    @property
    def side_by_side(self) -> bool:
        """Whether there is room for the requested side-by-side layout."""
        return self._split and self.columns >= MIN_SPLIT_COLUMNS

    # --- what was in sight ---

    def _note_seen(self, lines: range) -> None:
        """Note which rows were painted: a row counts once all its lines were."""
        before = len(self._seen)
        y = max(0, lines.start)
        while y < min(lines.stop, self._heights.total):
            unit, within = self._heights.find(y)
            height = self._heights.heights[unit]
            painted = range(within, min(height, within + lines.stop - y))
            y += height - within
            shown = self._seen_lines.setdefault(unit, set())
            shown.update(painted)
            if len(shown) == height:
                self._seen.update(index for index in self.rows[unit] if index is not None)
        if len(self._seen) != before:
            self.post_message(self.Seen())

    def forget_seen(self) -> None:
        """See LineView."""
        self._seen.clear()
        self._seen_lines.clear()

    def unseen(self, hunks: Iterable[int]) -> set[int]:
        """Return the indexes of the changed lines of `hunks` that were never completely on the screen."""
        return set().union(*(self._changed.get(hunk, set()) for hunk in hunks)) - self._seen

    def is_above(self, index: int) -> bool:
        """Return whether a row is above the visible ones."""
        return index < self._row_at(self.scroll_offset.y)

    def show_row(self, index: int) -> None:
        """Scroll to a row, or to its first line that was never on the screen."""
        unit = next((number for number, pair in enumerate(self.rows) if index in pair), 0)
        seen = self._seen_lines.get(unit, set())
        within = next((line for line in range(self._heights.heights[unit]) if line not in seen), 0)
        self.scroll_to(y=self._heights.top(unit) + within, animate=False)

    def show_first_change(self) -> int | None:
        """Scroll to the first changed line unless it is in view; return the new offset if it scrolls.

        In a low view, it comes right after one line of its surroundings."""
        first = min((index for rows in self._changed.values() for index in rows), default=0)
        room = max(0, self.size.height - 2) if self.size.height > LOW_VIEW else 1
        if first > self._row_at(self.scroll_offset.y + room):
            return self._scroll_to_row(max(0, first - (self.size.height > 3)), immediate=True)
        return None

    # --- hunks ---

    def visible_hunks(self) -> list[int]:
        """Return the hunks that begin in the visible area, otherwise the one that fills it."""
        top = self.scroll_offset.y
        first, last = self._row_at(top), self._row_at(top + self.size.height - 1)
        starting = [row.hunk for row in self._lines[first : last + 1] if row.sign == "@"]
        return starting or [max(0, row.hunk) for row in self._lines[first : first + 1] or self._lines[-1:]]

    def go_to(self, hunk: int) -> None:
        """Scroll the beginning of a hunk to the top."""
        index = next((index for index, row in enumerate(self._lines) if row.hunk == hunk), None)
        if index is not None:
            self._scroll_to_row(index)

    def _row_at(self, y: int) -> int:
        """Return the index of the row at line `y`."""
        unit, _within = self._heights.find(y)
        return self._row_of(self.rows[unit]) if unit < len(self.rows) else len(self._lines)

    def _scroll_to_row(self, index: int, *, immediate: bool = False) -> int | None:
        unit = next((number for number, pair in enumerate(self.rows) if index in pair), None)
        if unit is not None:
            self.scroll_to(y=self._heights.top(unit), animate=False, immediate=immediate)
        return None if unit is None else self._heights.top(unit)

    # --- painting ---

    def _start_coloring(self) -> None:
        """Highlight a small diff immediately, a larger one in a thread, and a huge one not at all."""
        self._colors, styles = {}, self.text_styles
        if self._characters <= MAX_IMMEDIATE_CHARACTERS:
            self._colors = colored_rows(self._lines, lexer_name(self._language), styles)
        elif self._characters <= MAX_COLORED_CHARACTERS:
            self.run_worker(self._color_in_worker(self._lines, styles), exclusive=True, exit_on_error=False)

    async def _color_in_worker(self, rows: list[DiffRow], styles: TextStyles) -> None:
        from asyncio import to_thread

        language = await to_thread(lexer_name, self._language)
        colors = await to_thread(colored_rows, rows, language, styles)
        if rows is self._lines:
            self._colors = colors
            self.repaint_lines()

    def on_show(self) -> None:
        """Update the layout when shown again."""
        self.post_message(self.Resized())

    def lay_out(self) -> None:
        """Lay out for a new width, keeping the first visible row."""
        if not self.size.width or self.columns == self._width:
            return
        index = self._row_at(self.scroll_offset.y)
        self._update_rows()
        self._scroll_to_row(index)

    def _update_rows(self) -> None:
        self._width, self._paired = self.columns, self.side_by_side
        self._seen_lines.clear()
        self.set_rows(
            row_pairs(self._signs) if self._paired else [Pair(index, None) for index in range(len(self._lines))]
        )

    def row_height(self, pair: Pair, width: int) -> int:
        """See ListView."""
        if self._paired:
            return pair_height(pair, self._lines, width, self._number)
        return self._height(self._lines[self._row_of(pair)], width)

    def _height(self, row: DiffRow, width: int) -> int:
        return 1 if row.sign == "@" and self._head is not None else row_height(row, width, self._number)

    def repaint(self) -> None:
        """Paint the visible lines in the colors of a changed theme."""
        self._colors = None
        self.repaint_lines()

    def repaint_lines(self) -> None:
        """Paint the visible lines again."""
        super().repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines; the style sheet limits it."""
        room = max(1, width)
        if self._split and room >= MIN_SPLIT_COLUMNS and self._paired:
            return self._heights.total or 1
        return sum(self._height(row, room) for row in self._lines[: viewport.height]) or 1

    def _unit_lines(self, pair: Pair, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint a row, or a pair of rows."""
        if self._colors is None:
            self._start_coloring()
        first = self._row_of(pair)
        row = self._lines[first]
        if row.sign == "@" and self._head is not None:
            return [self._head(row.hunk, width, styles)]
        if self._paired:
            return paint_pair(pair, self._lines, width, self._number, styles, self._row_style)
        return paint_row(row, width, self._number, styles, self._row_style(first))

    @staticmethod
    def _row_of(pair: Pair) -> int:
        return pair.left if pair.left is not None else pair.right or 0

    def _row_style(self, index: int) -> RowStyle:
        return RowStyle(
            colors=(self._colors or {}).get(index),
            words=self._word_marks.of(index),
            left_out=self._lines[index].hunk in self._left_out,
        )

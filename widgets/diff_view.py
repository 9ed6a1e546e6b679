"""A diff that can be scrolled to its end at any size; only the visible lines are painted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.geometry import Size

from tui_agent.common.domain import Diff
from widgets.diff_lines import (
    NARROWEST,
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

AT_ONCE = 8_000
"""Characters of a diff that get their colors before the first paint."""
AT_MOST = 2_000_000
"""Characters beyond which a diff stays plain."""

Head = Callable[[int, int, TextStyles], Line]
"""(place of a hunk, width, styles) → the line over it."""


class DiffView(ListView[Pair]):
    """Unified, with line numbers and a sign column, or the two sides beside each other where there is room."""

    def __init__(self, diff: Diff, *, head: Head | None = None, id: str | None = None) -> None:
        """`head` paints the line over each hunk, where more is to be said of it than its line numbers."""
        super().__init__(self._unit_lines, id=id)
        self._head = head
        self._split = False
        self._left_out: frozenset[int] = frozenset()
        self._paired = False
        """Its rows are pairs; otherwise each is a line alone."""
        self._width = 0
        self._take(diff)

    @property
    def follows_cursor(self) -> bool:
        """There is none."""
        return False

    @property
    def columns(self) -> int:
        """While it is hidden, those that it had."""
        return super().columns if self.size.width or not self._width else self._width

    def _take(self, diff: Diff) -> None:
        self._lines = list(diff_rows(diff, heads=self._head is not None))
        self._number = number_width(diff)
        self._language = diff.path
        self._colors: dict[int, list[Span]] | None = None
        self._characters = sum(len(row.text) for row in self._lines)
        texts = [visible_text(row.text) if row.sign in "+-" else "" for row in self._lines]
        self._signs = [row.sign for row in self._lines]
        self._words = WordMarks(texts, self._signs)

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
            top = self._hunk_at(self.scroll_offset.y)
            self._split = wanted
            self._layout()
            self._scroll_to_row(top)
            self.refresh(layout=True)

    @property
    def beside(self) -> bool:
        """The two sides stand beside each other."""
        return self._split and self.columns >= NARROWEST

    # --- hunks ---

    def hunks_seen(self) -> list[int]:
        """Places of the hunks whose beginning is in view, or of the one that fills it."""
        top = self.scroll_offset.y
        first, last = self._hunk_at(top), self._hunk_at(top + self.size.height - 1)
        begun = [row.hunk for row in self._lines[first : last + 1] if row.sign == "@"]
        return begun or [max(0, row.hunk) for row in self._lines[first : first + 1] or self._lines[-1:]]

    def go_to(self, hunk: int) -> None:
        """Bring the beginning of a hunk to the top."""
        index = next((at for at, row in enumerate(self._lines) if row.hunk == hunk), None)
        if index is not None:
            self._scroll_to_row(index)

    def _hunk_at(self, y: int) -> int:
        """The row that stands at line `y`."""
        unit, _within = self._heights.find(y)
        return self._row_of(self.rows[unit]) if unit < len(self.rows) else len(self._lines)

    def _scroll_to_row(self, index: int) -> None:
        unit = next((at for at, pair in enumerate(self.rows) if index in pair), None)
        if unit is not None:
            self.scroll_to(y=self._heights.top(unit), animate=False)

    # --- painting ---

    def _color(self) -> None:
        """Small diffs at once; big ones in a thread, plain until then; huge ones stay plain."""
        self._colors, styles = {}, self.text_styles
        if self._characters <= AT_ONCE:
            self._colors = colored_rows(self._lines, lexer_name(self._language), styles)
        elif self._characters <= AT_MOST:
            self.run_worker(self._color_in_worker(self._lines, styles), exclusive=True, exit_on_error=False)

    async def _color_in_worker(self, some: list[DiffRow], styles: TextStyles) -> None:
        from asyncio import to_thread

        language = await to_thread(lexer_name, self._language)
        found = await to_thread(colored_rows, some, language, styles)
        if some is self._lines:
            self._colors = found
            self.repaint_lines()

    def on_show(self) -> None:
        """It stands in its place again."""
        self.post_message(self.Resized())

    def lay_out(self) -> None:
        """Keeps the first visible row."""
        if not self.size.width or self.columns == self._width:
            return
        index = self._hunk_at(self.scroll_offset.y)
        self._layout()
        self._scroll_to_row(index)

    def _layout(self) -> None:
        self._width, self._paired = self.columns, self.beside
        self.set_rows(row_pairs(self._signs) if self._paired else [Pair(at, None) for at in range(len(self._lines))])

    def row_height(self, pair: Pair, width: int) -> int:
        """See ListView."""
        if self._paired:
            return pair_height(pair, self._lines, width, self._number)
        return self._height(self._lines[self._row_of(pair)], width)

    def _height(self, row: DiffRow, width: int) -> int:
        return 1 if row.sign == "@" and self._head is not None else row_height(row, width, self._number)

    def repaint(self) -> None:
        """Paint the visible lines in other colors."""
        self._colors = None
        self.repaint_lines()

    def repaint_lines(self) -> None:
        """Paint the visible lines again."""
        super().repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are; the style sheet says how many may show at once."""
        room = max(1, width)
        if self._split and room >= NARROWEST and self._paired:
            return self._heights.total or 1
        return sum(self._height(row, room) for row in self._lines[: viewport.height]) or 1

    def _unit_lines(self, pair: Pair, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """The lines of a row, or of the pair of rows."""
        if self._colors is None:
            self._color()
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
            words=self._words.of(index),
            left_out=self._lines[index].hunk in self._left_out,
        )

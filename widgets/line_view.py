"""Views that scroll over lines: of a painter, or of a list of rows with a cursor. Only what is visible is painted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from widgets.styled_text import ROLES, Line, TextStyles, text_styles_of, wrap
from widgets.textual_private import component_classes

RowT = TypeVar("RowT")
MAX_PAINTED_ROWS = 500
"""Number of painted rows that a list caches."""
MOVES = ("up", "down", "page_up", "page_down", "top", "bottom")
"""Actions that move a cursor."""
MAX_MOVE = 10**9
"""Number of rows to move by to reach either end."""
RowPainter = Callable[[RowT, bool, int, TextStyles], Sequence[Line]]
"""(row, whether it has the cursor, width, styles) → lines of the row"""


class LineHeights:
    """Heights and first lines of consecutive blocks. The cost of a change depends only on the blocks after it."""

    def __init__(self) -> None:
        self.heights: list[int] = []
        self._tops: list[int] = [0]
        """First line of each block, cached for the first `len(_tops)` blocks."""

    def __len__(self) -> int:
        return len(self.heights)

    def append(self, height: int) -> None:
        """Append a block."""
        self.heights.append(height)

    def set(self, index: int, height: int) -> int:
        """Change a height; return the difference."""
        grown = height - self.heights[index]
        if grown:
            self.heights[index] = height
            del self._tops[index + 1 :]
        return grown

    def drop(self, count: int) -> None:
        """Remove the first `count` blocks."""
        del self.heights[:count]
        self._tops = [0]

    def top(self, index: int) -> int:
        """Return the first line of a block; `index` may be `len(self)`."""
        tops, heights = self._tops, self.heights
        line = tops[-1]
        for number in range(len(tops) - 1, index):
            line += heights[number]
            tops.append(line)
        return tops[index]

    @property
    def total(self) -> int:
        """Total number of lines."""
        return self.top(len(self.heights))

    def find(self, line: int) -> tuple[int, int]:
        """Return the block that contains `line` and the line's index in it; `(len(self), 0)` beyond the end."""
        if line >= self.total:
            return len(self.heights), 0
        index = bisect_right(self._tops, max(0, line), 0, len(self.heights) + 1) - 1
        return index, max(0, line) - self._tops[index]

    def clear(self) -> None:
        """Remove all blocks."""
        self.heights, self._tops = [], [0]


MAX_FINISHED_STRIPS = 256
"""Number of finished strips that a view caches."""


class LineView(ScrollView, can_focus=False):
    """A scrolled view that requests visible lines from `line_at`; invisible lines cost nothing."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = component_classes(ROLES)

    class Resized(Message):
        """The size of the view changed."""

    class Seen(Message):
        """More lines have been on the screen."""

    _text_styles: TextStyles | None = None
    _base: Style | None = None
    _stale = False
    on_seen: Callable[[range], None] | None = None
    """Called with the lines of the content that are painted, after each paint."""
    _finish: tuple[object, ...] = ()
    """What the cached strips depend on: padding, styles, filters."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._finished: dict[int, tuple[Strip, Strip]] = {}
        """id of a line's strip → (that strip, finished strip). A line keeps the same strip object while it scrolls, so
        Textual's caches on the strip stay valid."""

    def on_resize(self) -> None:
        """Lay out for the new size, and report it."""
        self.lay_out()
        self.post_message(self.Resized())

    def lay_out(self) -> None:
        """Lay out the lines for the current width."""

    @property
    def text_styles(self) -> TextStyles:
        """Text styles of the theme on the background of this widget."""
        if self._text_styles is None:
            self._text_styles = text_styles_of(self)
        return self._text_styles

    def notify_style_update(self) -> None:
        """Check at the next paint whether the text styles changed."""
        super().notify_style_update()
        self._stale = True

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render lines, after repainting if the text styles changed."""
        if self._stale:
            old, self._stale, self._text_styles, self._base = self._text_styles, False, None, None
            if old is not None and old != self.text_styles:
                self.repaint()
        strips = self._finished_lines(crop) if self._has_only_padding else super().render_lines(crop)
        if self.on_seen is not None:
            top = self.scroll_offset.y - self.styles.padding.top
            self.on_seen(range(top + crop.y, top + crop.bottom))
        return strips

    @property
    def _has_only_padding(self) -> bool:
        """Whether the lines have no decoration other than padding."""
        styles = self.styles
        return (
            self.opacity == 1.0
            and not any(edge for edge, _color in (*styles.border, *styles.outline))
            and not styles.tint.a
            and styles.text_opacity == 1.0
            and not styles.has_rule("hatch")
        )

    def _finished_lines(self, crop: Region) -> list[Strip]:
        """Apply padding and filters as Textual would, but only once per line."""
        (width, height), (content_width, content_height) = self.region.size, self.content_region.size
        top, right, bottom, left = self.styles.padding
        ground, background = self.background_colors
        inner = Style(bgcolor=(ground + background).rich_color)
        filters = tuple(self.get_line_filters())
        finish = (left, right, content_width, inner, background, filters)
        if finish != self._finish or len(self._finished) > MAX_FINISHED_STRIPS:
            self._finish = finish
            self._finished.clear()
        strips = []
        for y in crop.line_range:
            if y < top or y >= height - bottom:
                strip = Strip.blank(width, inner)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, background)
                strips.append(strip)
                continue
            line = self.render_line(y - top) if y - top < content_height else Strip.blank(content_width, inner)
            cached = self._finished.get(id(line))
            if cached is None:
                body = line.adjust_cell_length(content_width, inner)
                padded = [Segment(" " * left, inner)] if left else []
                padded += [*body, Segment(" " * right, inner)] if right else list(body)
                strip = Strip(padded, width)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, background)
                cached = self._finished[id(line)] = (line, strip)
            strips.append(cached[1])
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def repaint(self) -> None:
        """Paint again, for example in other colors."""
        self.refresh()

    def resize_content(self, size: Size) -> None:
        """Set the size of the content. With a permanent scroll bar, a new height moves nothing: Textual's layout is
        skipped."""
        if size == self.virtual_size:
            return
        if self.styles.overflow_y != "scroll" or size.width != self.virtual_size.width:
            self.virtual_size = size
            return
        self.set_reactive(Widget.virtual_size, size)
        bar = self.vertical_scrollbar
        bar.window_virtual_size = size.height
        bar.window_size = self.container_size.height - self.scrollbar_size_horizontal

    @property
    def columns(self) -> int:
        """Available width of a line in cells."""
        return max(1, self.scrollable_content_region.width)

    def forget_seen(self) -> None:
        """Forget which lines were on the screen."""

    def scroll_for(self, action: str) -> bool:
        """Scroll for an action (up, down, page_up, page_down, top, bottom); return False for other actions."""
        page, y = max(1, self.size.height - 1), self.scroll_offset.y
        goals = {"up": y - 1, "down": y + 1, "page_up": y - page, "page_down": y + page, "top": 0}
        goals["bottom"] = self.max_scroll_y
        if action in goals:
            self.scroll_to(y=goals[action], animate=False)
        return action in goals

    @property
    def lines_below(self) -> int:
        """Number of lines below the visible ones."""
        return int(self.max_scroll_y - self.scroll_offset.y)

    @property
    def end_seen(self) -> bool:
        """Whether the last line is visible."""
        return self.scroll_offset.y >= self.max_scroll_y

    def line_at(self, y: int) -> Line | None:
        """Return the line at `y`, counted from the top of the content; None beyond the end."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """Render the line at `y` of the visible area."""
        width = self.size.width
        if self._base is None:
            self._base = self.rich_style
        painted_line = self.line_at(self.scroll_offset.y + y)
        return Strip.blank(width, self._base) if painted_line is None else painted_line.strip(width, self._base)


class LinesView(LineView):
    """Shows lines that a painter returns for a width, such as a command or a question."""

    def __init__(self, painter: Callable[[int, TextStyles], Sequence[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.painter = painter
        self._lines: Sequence[Line] = ()
        self._width = 0
        self._seen: set[int] = set()
        """Indexes of the lines that were on the screen since these texts are shown."""
        self._seen_texts: tuple[str, ...] = ()

    def forget_seen(self) -> None:
        """See LineView."""
        self._seen = set()

    def track_seen(self) -> None:
        """Note from now on which lines were on the screen, and report them with `Seen`."""
        self.on_seen = self._note_seen

    def _note_seen(self, lines: range) -> None:
        texts = tuple(line.text for line in self._lines)
        if texts != self._seen_texts:
            self._seen_texts, self._seen = texts, set()
        before = len(self._seen)
        self._seen.update(range(max(0, lines.start), min(lines.stop, len(texts))))
        if len(self._seen) != before:
            self.post_message(self.Seen())

    def unseen(self) -> list[int]:
        """Return the indexes of the lines that were never on the screen; `[0]` before the first paint."""
        is_shown = bool(self._lines) and self._seen_texts == tuple(line.text for line in self._lines)
        return [index for index in range(max(1, len(self._lines))) if not is_shown or index not in self._seen]

    def lay_out(self) -> None:
        """See LineView."""
        if self.columns != self._width:
            self.repaint()

    def repaint(self) -> None:
        """Paint all lines again."""
        self._width = self.columns
        self._lines = self.painter(self._width, self.text_styles)
        self.virtual_size = Size(self._width, len(self._lines))
        self.refresh()

    @property
    def lines(self) -> Sequence[Line]:
        """Lines of the last paint."""
        return self._lines

    def relayout(self) -> None:
        """Paint again if attached; lay out again if the number of lines changed, or is not that of the last layout."""
        before = len(self._lines)
        if self.is_attached:
            self.repaint()
        follows_lines = self.styles.auto_dimensions and self.styles.max_height is None
        is_stale = follows_lines and self.size.height not in (0, max(1, len(self._lines)))
        if len(self._lines) != before or is_stale:
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines; the style sheet limits it."""
        if not self.is_attached:
            return 1
        return max(1, len(self.painter(max(1, width), self.text_styles)))

    def line_at(self, y: int) -> Line | None:
        """Return a painted line."""
        return self._lines[y] if 0 <= y < len(self._lines) else None


class ListView(LineView, Generic[RowT]):
    """A list with a cursor, which stays in view. Only visible rows are painted."""

    @dataclass
    class Left(Message):
        """The focus returns to the composer, with typed text or a key pressed after leaving."""

        text: str = ""
        key: events.Key | None = None

    @dataclass
    class Clicked(Message):
        """A row was clicked."""

        index: int
        x: int
        double: bool

    def __init__(
        self,
        paint: RowPainter[RowT],
        *,
        empty: str = "",
        height: Callable[[RowT, int], int] | None = None,
        id: str | None = None,
    ) -> None:
        """`empty` is shown without rows; `height` returns the number of lines of a row for a width (default: 1)."""
        super().__init__(id=id)
        self.rows: Sequence[RowT] = ()
        self.cursor = 0
        self.empty = empty
        self._paint = paint
        self._height_of = height
        self._heights = LineHeights()
        self._painted: dict[int, Sequence[Line]] = {}

    @property
    def current(self) -> RowT | None:
        """Row with the cursor; None if the list is empty or has no selectable row there."""
        row = self.rows[self.cursor] if self.cursor < len(self.rows) else None
        return row if row is not None and self.selectable(row) else None

    @property
    def page(self) -> int:
        """Number of rows that a page key moves by."""
        return max(1, self.size.height - 1)

    def selectable(self, row: RowT) -> bool:
        """Return whether the cursor stops at a row."""
        return True

    @property
    def follows_cursor(self) -> bool:
        """Whether the row with the cursor is kept in view."""
        return True

    def set_rows(self, rows: Sequence[RowT], cursor: int = 0) -> None:
        """Replace the rows."""
        self.rows = rows
        self.cursor = max(0, min(len(rows) - 1, cursor))
        self._heights.clear()
        width = self.columns
        for row in rows:
            self._heights.append(self.row_height(row, width) if width > 1 else 1)
        self._painted.clear()
        self.resize_content(Size(width, max(1, self._heights.total)))
        self.move_to(cursor)

    def row_height(self, row: RowT, width: int) -> int:
        """Return the number of lines of a row."""
        return self._height_of(row, width) if self._height_of and self.is_attached else 1

    def natural_height(self, width: int) -> int:
        """Return the number of lines of all rows, or of the text for an empty list."""
        return sum(self.row_height(row, width) for row in self.rows) or len(self._empty_lines(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines; the style sheet limits it."""
        return self.natural_height(max(1, width)) if self.is_attached else 1

    def move_for(self, action: str) -> bool:
        """Move the cursor for an action (see `MOVES`); return False for other actions."""
        if action in MOVES:
            self.move((-1, 1, -self.page, self.page, -MAX_MOVE, MAX_MOVE)[MOVES.index(action)])
        return action in MOVES

    def move(self, by: int) -> None:
        """Move the cursor by a number of rows."""
        self.move_to(self.cursor + by)

    def move_to(self, index: int) -> None:
        """Move the cursor to a row, or to the nearest existing one."""
        self._painted.pop(self.cursor, None)
        self.cursor = max(0, min(len(self.rows) - 1, index))
        self._painted.pop(self.cursor, None)
        if self.follows_cursor:
            self.show_cursor()
        self.refresh()

    def take_focus(self) -> None:
        """Take the focus, at the request of the user."""
        self.can_focus = True
        self.screen.set_focus(self)
        self.show_cursor()

    def on_blur(self) -> None:
        """Only `take_focus` may focus the list again."""
        self.can_focus = False
        self.repaint()

    def show_cursor(self) -> None:
        """Scroll the cursor into view; the first selectable row together with the rows above it."""
        height, top = self.size.height, 0
        if height and any(map(self.selectable, self.rows[: self.cursor])):
            end = self._heights.top(self.cursor + 1)
            top = min(self._heights.top(self.cursor), max(self.scroll_offset.y, end - height))
        if top != self.scroll_offset.y:
            self.scroll_to(y=top, animate=False, immediate=True)

    def lay_out(self) -> None:
        """See LineView."""
        self.set_rows(self.rows, self.cursor)

    def repaint(self) -> None:
        """Paint all visible rows again."""
        self._painted.clear()
        super().repaint()

    def repaint_rows(self, numbers: Collection[int]) -> None:
        """Paint some rows again, and nothing else."""
        width, scrolled = self.size.width, int(self.scroll_offset.y)
        for number in numbers:
            self._painted.pop(number, None)
            if number < len(self.rows):
                top, bottom = self._heights.top(number) - scrolled, self._heights.top(number + 1) - scrolled
                if bottom > 0 and top < self.size.height:
                    self.refresh(Region(0, top, width, bottom - top))

    def line_at(self, y: int) -> Line | None:
        """Return the line at `y`, from a row or from the text for an empty list."""
        if not self.rows:
            lines: Sequence[Line] = self._empty_lines(self.columns)
            return lines[y] if y < len(lines) else None
        index, within = self._heights.find(y)
        if index >= len(self.rows):
            return None
        if index not in self._painted:
            if len(self._painted) > MAX_PAINTED_ROWS:
                self._painted.clear()
            self._painted[index] = self._paint(self.rows[index], index == self.cursor, self.columns, self.text_styles)
        lines = self._painted[index]
        return lines[min(within, len(lines) - 1)]

    def _empty_lines(self, width: int) -> list[Line]:
        return wrap([(self.empty, self.text_styles.muted)], width)

    def on_click(self, event: events.Click) -> None:
        """Report the clicked row."""
        y = event.y - self.styles.padding.top
        index, _within = self._heights.find(int(self.scroll_offset.y) + y)
        if y >= 0 and index < len(self.rows):
            self.post_message(self.Clicked(index, event.x, event.chain > 1))

"""The base of all that is painted line by line: the ink of the theme, the strips of the visible lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from widgets.ink import Ink, Line, ink_of

FINISHED = 256
"""Finished lines that a view keeps."""


class LineView(ScrollView, can_focus=False):
    """A scrolled view that asks `line_at` for one line at a time. What is not visible costs nothing."""

    ALLOW_SELECT = False

    class Resized(Message):
        """The view has another size than before."""

    _ink: Ink | None = None
    _base: Style | None = None
    _stale = False
    _finish: tuple[object, ...] = ()
    """What lines are finished for: paddings, their style, filters."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._finished: dict[int, tuple[Strip, Strip]] = {}
        """id of a line's strip → that strip, and what it is on the screen. The same line is the same object in every
        paint, wherever it has scrolled to, so that all that Textual keeps with a strip is kept."""

    def on_resize(self) -> None:
        """Who counts on how much is visible looks again."""
        self.post_message(self.Resized())

    @property
    def ink(self) -> Ink:
        """The theme's styles, on this widget's own background."""
        if self._ink is None:
            self._ink = ink_of(self)
        return self._ink

    def notify_style_update(self) -> None:
        """The theme or a class may have changed; whether our colours did shows at the next paint."""
        super().notify_style_update()
        self._stale = True

    def render_lines(self, crop: Region) -> list[Strip]:
        """Everything is painted anew when the colours are others now."""
        if self._stale:
            old, self._stale, self._ink, self._base = self._ink, False, None, None
            if old is not None and old != self.ink:
                self.repaint()
        return self._finished_lines(crop) if self._plain else super().render_lines(crop)

    @property
    def _plain(self) -> bool:
        """True when nothing but padding surrounds the lines."""
        styles = self.styles
        return (
            self.opacity == 1.0
            and not any(edge for edge, _colour in (*styles.border, *styles.outline))
            and not styles.tint.a
            and styles.text_opacity == 1.0
            and not styles.has_rule("hatch")
        )

    def _finished_lines(self, crop: Region) -> list[Strip]:
        """What Textual would make of the lines, made once for each."""
        (width, height), (content_width, content_height) = self.region.size, self.content_region.size
        top, right, bottom, left = self.styles.padding
        ground, background = self.background_colors
        inner = Style(bgcolor=(ground + background).rich_color)
        filters = tuple(self.get_line_filters())
        finish = (left, right, content_width, inner, background, filters)
        if finish != self._finish or len(self._finished) > FINISHED:
            self._finish = finish
            self._finished.clear()
        strips = []
        for y in crop.line_range:
            if y < top or y >= height - bottom:
                strip = Strip.blank(width, inner)
                for one in filters:
                    strip = strip.apply_filter(one, background)
                strips.append(strip)
                continue
            line = (
                self.render_line(y - top) if y - top < content_height else Strip.blank(content_width, inner)
            )
            known = self._finished.get(id(line))
            if known is None:
                body = line.adjust_cell_length(content_width, inner)
                padded = [Segment(" " * left, inner)] if left else []
                padded += [*body, Segment(" " * right, inner)] if right else list(body)
                strip = Strip(padded, width)
                for one in filters:
                    strip = strip.apply_filter(one, background)
                known = self._finished[id(line)] = (line, strip)
            strips.append(known[1])
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def repaint(self) -> None:
        """Forget what was painted with other colours."""
        self.refresh()

    def resize_content(self, size: Size) -> None:
        """What is shown has this size now. Where the scroll bar always stands, more lines move nothing on the screen:
        Textual's layout, made for the case that they do, is left out."""
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
        """Cells that a line may take."""
        return max(1, self.scrollable_content_region.width)

    def line_at(self, y: int) -> Line | None:
        """The line at `y`, counted from the top of everything; None behind the end."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        """The line at `y` of the visible part."""
        width = self.size.width
        if self._base is None:
            self._base = self.rich_style
        found = self.line_at(self.scroll_offset.y + y)
        return Strip.blank(width, self._base) if found is None else found.strip(width, self._base)


class LinesView(LineView):
    """Shows lines that a painter makes for a width, such as a command or a question; all of it can be reached."""

    def __init__(self, painter: Callable[[int, Ink], Sequence[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.painter = painter
        self._lines: Sequence[Line] = ()
        self._width = 0

    def on_resize(self) -> None:
        """Lay the lines out for the new width."""
        if self.columns != self._width:
            self.repaint()

    def repaint(self) -> None:
        """Paint all lines again."""
        self._width = self.columns
        self._lines = self.painter(self._width, self.ink)
        self.virtual_size = Size(self._width, len(self._lines))
        self.refresh()

    @property
    def lines(self) -> Sequence[Line]:
        """What was painted last."""
        return self._lines

    def relayout(self) -> None:
        """Paint again; when that gives another number of lines, take another height."""
        before = len(self._lines)
        self.repaint()
        if len(self._lines) != before:
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are; the style sheet says how many may show at once."""
        if not self.is_attached:
            return 1
        return max(1, len(self.painter(max(1, width), self.ink)))

    def line_at(self, y: int) -> Line | None:
        """One of the painted lines."""
        return self._lines[y] if 0 <= y < len(self._lines) else None

    @property
    def end_seen(self) -> bool:
        """True when the last line is, or has been scrolled, into view."""
        return self.scroll_offset.y >= self.max_scroll_y

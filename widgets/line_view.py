"""The base of all that is painted line by line: the ink of the theme, the strips of the visible lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.ink import INK_CLASSES, Ink, Line


class LineView(ScrollView, can_focus=False):
    """A scrolled view that asks `line_at` for one line at a time. What is not visible costs nothing."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(INK_CLASSES)
    ALLOW_SELECT = False

    _ink: Ink | None = None
    _base: Style | None = None
    _stale = False

    @property
    def ink(self) -> Ink:
        """The theme's styles, on this widget's own background."""
        if self._ink is None:
            self._ink = Ink(*(self.get_component_rich_style(f"ink--{role}") for role in Ink._fields))
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
        return super().render_lines(crop)

    def repaint(self) -> None:
        """Forget what was painted with other colours."""
        self.refresh()

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

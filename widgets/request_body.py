"""Scrolled contents of a request panel, as high as a part of the screen permits."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import TextArea

from widgets.line_view import LinesView, LineView

MAX_HEIGHT_SHARE = 0.6
"""Maximum share of the screen's height for a request panel."""
FRAME_LINES = 6
"""Maximum lines of head, keys, border and gaps."""


def lines_available(viewport: Size) -> int:
    """Return the maximum number of lines for the content of a request."""
    return max(3, int(viewport.height * MAX_HEIGHT_SHARE) - FRAME_LINES)


class Body(LinesView):
    """As high as its lines, up to the lines available."""

    reserved_lines = 0
    """Lines reserved for another widget."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Limit the height to the lines available."""
        limit = max(3, lines_available(viewport) - self.reserved_lines)
        return min(limit, super().get_content_height(container, viewport, width))


class FieldsView(VerticalScroll, can_focus=False):
    """As high as its fields, up to the lines available; notes which lines, also of long texts in it, were in sight."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._columns = 0
        self._seen: dict[Widget, set[int]] = {}
        """Seen lines of this widget and of each text area."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Limit the height to the lines available."""
        return min(lines_available(viewport), super().get_content_height(container, viewport, width))

    def on_mount(self) -> None:
        """Note what is in sight whenever something scrolls."""
        for part in (self, *self.query(TextArea)):
            self.watch(part, "scroll_y", self._note_soon, init=False)
        self._note_soon()

    def _note_soon(self) -> None:
        self.call_after_refresh(self.note_seen)

    on_resize = _note_soon

    def note_seen(self) -> None:
        """Note what is in sight now; tells if that was not seen before."""
        before = sum(map(len, self._seen.values()))
        if self._columns != self.size.width:  # lines are wrapped anew
            self._columns, self._seen = self.size.width, {}
        top = int(self.scroll_offset.y)
        self._seen.setdefault(self, set()).update(range(top, top + self.size.height))
        for area in self.query(TextArea):
            shown = area.region.intersection(self.region)
            first = int(area.scroll_offset.y) + shown.y - area.region.y
            self._seen.setdefault(area, set()).update(range(first, first + shown.height))
        if sum(map(len, self._seen.values())) != before:
            self.post_message(LineView.Seen())

    def unseen(self) -> list[tuple[Widget, int]]:
        """Return the lines that were never in sight, with the widget that scrolls to them."""
        heights: list[tuple[Widget, int]] = [(self, max(1, self.virtual_size.height))]
        areas = ((area, area.wrapped_document.height) for area in self.query(TextArea))
        heights += [(area, height) for area, height in areas if height > area.size.height]
        unseen: list[tuple[Widget, int]] = []
        for part, height in heights:
            seen = self._seen.get(part, set())
            unseen += [(part, number) for number in range(height) if number not in seen]
        return unseen

    def show_unseen(self) -> None:
        """Scroll to the first line that was never in sight."""
        part, number = self.unseen()[0]
        if part is not self:
            self.scroll_to_widget(part, animate=False)
        part.scroll_to(y=number, animate=False)

"""Scrolled contents of a request panel, as high as a part of the screen permits."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.geometry import Size

from widgets.line_view import LinesView

MAX_HEIGHT_SHARE = 0.6
"""Maximum share of the screen's height for a request panel."""
PANEL_SHARE = 0.62
"""The same with the frame; see `styles/request_panel.tcss`."""
FRAME_LINES = 6
"""Maximum lines of head, keys, border and gaps."""


def lines_available(viewport: Size) -> int:
    """Return the maximum number of lines for the content of a request."""
    return max(3, int(viewport.height * MAX_HEIGHT_SHARE) - FRAME_LINES)


class Body(LinesView):
    """As high as its lines, up to the lines available."""

    reserved_lines = 0
    """Lines reserved for another widget."""
    lines_around = 0
    """Lines of the panel that are always visible, beside these."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Limit the height to the lines available."""
        limit = max(3, lines_available(viewport) - self.reserved_lines)
        limit = min(limit, max(1, int(viewport.height * PANEL_SHARE) - self.lines_around))
        return min(limit, super().get_content_height(container, viewport, width))


class FieldsView(VerticalScroll, can_focus=False):
    """As high as its fields, up to the lines available."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Limit the height to the lines available."""
        return min(lines_available(viewport), super().get_content_height(container, viewport, width))

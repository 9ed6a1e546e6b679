"""A diff that can be scrolled to its end at any size; only the visible lines are painted."""

from __future__ import annotations

from textual.geometry import Size

from tui_agent.domain import Diff
from widgets.diff_lines import coloured, digits, height, paint_row, rows
from widgets.highlight import language_of
from widgets.ink import Ink, Line, Span
from widgets.line_view import LineView
from widgets.stack import Stack

AT_ONCE = 8_000
"""Characters of a diff that get their colours before the first paint."""
AT_MOST = 2_000_000
"""Characters beyond which a diff stays plain."""


class DiffView(LineView):
    """Unified, with line numbers and a sign column."""

    def __init__(self, diff: Diff, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows = list(rows(diff))
        self._number = digits(diff)
        self._stack = Stack()
        self._painted: dict[int, list[Line]] = {}
        self._width = 0
        self._language = diff.path
        self._colours: dict[int, list[Span]] | None = None
        self._characters = sum(len(row.text) for row in self.rows)

    def _colour(self) -> None:
        """Small diffs at once; big ones in a thread, plain until then; huge ones stay plain."""
        self._colours, ink = {}, self.ink
        if self._characters <= AT_ONCE:
            self._colours = coloured(self.rows, language_of(self._language), ink)
        elif self._characters <= AT_MOST:
            self.run_worker(self._colour_behind(ink), exclusive=True, exit_on_error=False)

    async def _colour_behind(self, ink: Ink) -> None:
        from asyncio import to_thread

        language = await to_thread(language_of, self._language)
        self._colours = await to_thread(coloured, self.rows, language, ink)
        self._painted.clear()
        self.refresh()

    def on_resize(self) -> None:
        """Lay out for the new width, keeping the first visible row."""
        if self.columns == self._width:
            return
        place, _within = self._stack.find(self.scroll_offset.y) if len(self._stack) else (0, 0)
        self._layout()
        if place < len(self._stack):
            self.scroll_to(y=self._stack.top(place), animate=False)

    def _layout(self) -> None:
        self._width = self.columns
        self._stack.clear()
        for row in self.rows:
            self._stack.append(height(row, self._width, self._number))
        self.virtual_size = Size(self._width, self._stack.total)
        self._painted.clear()
        self.refresh()

    def repaint(self) -> None:
        """Paint the visible lines again."""
        self._painted.clear()
        self._colours = None
        self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are; the style sheet says how many may show at once."""
        room = max(1, width)
        return sum(height(row, room, self._number) for row in self.rows[: viewport.height]) or 1

    def line_at(self, y: int) -> Line | None:
        """A line of the row that covers `y`."""
        place, within = self._stack.find(y)
        if place >= len(self._stack):
            return None
        if self._colours is None:
            self._colour()
        if place not in self._painted:
            if len(self._painted) > 500:
                self._painted.clear()
            self._painted[place] = paint_row(
                self.rows[place], self._width, self._number, self.ink, (self._colours or {}).get(place)
            )
        lines = self._painted[place]
        return lines[min(within, len(lines) - 1)]

    @property
    def end_seen(self) -> bool:
        """True when the last line is, or has been scrolled, into view."""
        return self.scroll_offset.y >= self.max_scroll_y

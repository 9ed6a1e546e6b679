"""The transcript of a session, with selection and search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from time import time
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from tui_agent.view.items import Item
from widgets.block_view import BlockView
from widgets.blocks.reply import ReplyBlock
from widgets.blocks.tool_card import ToolCard
from widgets.blocks.user import ShellBlock
from widgets.links import target_at
from widgets.styled_text import Line, Source, TextStyles
from widgets.text_selection import CharacterSpan, JoinedText, TextSearch, TextSelection

EAGER_BLOCKS = 50
"""Number of blocks at the end that are painted immediately; older ones are painted when scrolled to."""

DRAG_SCROLL_SECONDS = 0.05
"""Seconds per line while a selection is dragged beyond the edge."""

TICKED_BLOCKS = 500
"""Number of blocks at the end that may show a running time; sub-agent blocks come after the block of their call."""

MARKS = ("transcript--selected", "transcript--found", "transcript--current")


class Transcript(BlockView):
    """The blocks of a session, with selection and search. Both stop following the end."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*MARKS}

    @dataclass
    class LinkClicked(Message):
        """A hyperlink was clicked."""

        target: str

    def __init__(
        self,
        *,
        now: Callable[[], float] = time,
        greeting: Callable[[int, TextStyles], Sequence[Line]] = lambda width, styles: (),
        id: str | None = None,
    ) -> None:
        super().__init__(now=now, greeting=greeting, id=id)
        self.selection: TextSelection | None = None
        self.finder: TextSearch | None = None
        self._search_origin = (0, 0), 0, True
        """When the search began: the anchor of the view, its last visible block, and whether it followed the end."""
        self._press_span: CharacterSpan | None = None
        self._dragged = False
        self._pointer = (0, 0)
        self._drag_timer: Timer | None = None
        self._last_copied = (-1, -1)
        """Reply and part that `select_last` selected last."""
        self._marks: tuple[Style, ...] = ()
        self.read_older: Callable[[], Awaitable[None]]
        """Calls `load_older` with the items that were dropped."""

    # --- what the router calls ---

    def show(self, items: list[Item], changed: Iterable[int]) -> None:
        """Update the blocks of added or changed items (`changed` are their indexes)."""
        first_eager = len(items) - EAGER_BLOCKS
        offset_before, first_line = self.scroll_offset, self._stack.total
        for index in sorted(changed):
            while index >= len(self.blocks) and len(self.blocks) < len(items):
                self._append(items[len(self.blocks)])
            block = self.blocks[index]
            if index < first_eager and not self._is_measured(index):
                self._guess(index)
            else:
                self._remeasure(index)
                first_line = min(first_line, self._stack.top(index) + self._gaps[index] + block.reused_lines)
            if self.finder is not None:
                self.finder.recount(index, block)
        if self._settle() or self.scroll_offset != offset_before:
            self.refresh()
        elif (top := max(0, first_line - self.scroll_offset.y)) < self.size.height:
            self.refresh(Region(0, top, self.size.width, self.size.height - top))

    def load_older(self, items: list[Item], older: int, *, complete: bool = True) -> None:
        """Replace the items, of which the first `older` were not loaded before. The visible lines do not move.

        Not `complete`: there are even older ones.
        """
        self.select(None)
        self._hold_text()
        old_blocks, following, (index, within) = self.blocks, self.following, self._anchor
        self.blocks, self._gaps, self.following = [], [], True  # do not count older items as unseen
        for item in items:
            self._append(item)
        for number, block in enumerate(old_blocks[: len(items) - older]):
            if block.item.__class__ is self.blocks[older + number].item.__class__:
                self.blocks[older + number].user_expanded = block.user_expanded
        self.following = following
        self._anchor = (0, 0) if self._wants_top else (index + older, within)
        self._wants_top, self.lacks_older = False, not complete
        (top, line), bottom, was_following = self._search_origin
        self._search_origin = (top + older, line), bottom + older, was_following
        self._relayout()
        if self.finder is not None:
            for number, block in enumerate(self.blocks):
                self.finder.recount(number, block)

    @property
    def at_rest(self) -> bool:
        """Whether the end is followed and nothing is selected or searched."""
        return self.following and self.selection is None and self.finder is None and self._press_span is None

    def refresh_greeting(self) -> None:
        """Repaint a changed greeting."""
        if self.scroll_offset.y < 8:
            self.refresh()

    def tick(self) -> bool:
        """Repaint the blocks that show a running time, once a second; return whether there are any."""
        last = len(self.blocks)
        live_blocks = [
            index
            for index in range(max(0, last - TICKED_BLOCKS), last)
            if self.blocks[index].live and self.blocks[index].is_visible
        ]
        for index in live_blocks:
            self._remeasure(index)
        if live_blocks:
            self._settle()
            self.refresh()
        return bool(live_blocks)

    @property
    def holds_back(self) -> bool:
        """Whether the beginning of a reply is held back until more of it has arrived."""
        last = self.blocks[-1] if self.blocks else None
        return isinstance(last, ReplyBlock) and last.is_held

    def show_details(self, details: bool) -> None:
        """Expand or collapse all blocks."""
        self.options.details = details
        for block in self.blocks:
            block.user_expanded = None
        self._relayout()

    # --- selecting ---

    def joined(self, index: int) -> JoinedText:
        """Return the text of a block."""
        return self.blocks[index].joined(self._width, self.text_styles)

    @property
    def selected_text(self) -> str:
        """Source of the selected text; empty without a selection."""
        return self.selection.text(self.joined) if self.selection else ""

    def select(self, selection: TextSelection | None) -> None:
        """Change the selection; None clears it."""
        if selection != self.selection:
            self.selection = selection
            self.refresh()
        if selection is None and self.scroll_offset.y >= self.max_scroll_y:
            self._set_following(True)

    def select_last(self) -> str:
        """Select the last reply; repeated calls cycle through its code blocks, last one first.

        Return a description of the selection; empty if there is no reply.
        """
        index = next((n for n in range(len(self.blocks) - 1, -1, -1) if self._is_main_reply(n)), -1)
        if index < 0:
            return ""
        step = self._last_copied[1] + 1 if self._last_copied[0] == index and self.selection else 0
        return self._select_part(index, step)

    def select_code(self, number: int) -> tuple[str, int]:
        """Select code block `number` of the last reply with code blocks; 0 selects its last one.

        Return a description of the selection (empty if there is no such block) and the reply's number of code blocks.
        """
        for index in range(len(self.blocks) - 1, -1, -1):
            if self._may_hold_code(index) and (count := len(self._code_sources(index))):
                if not 0 <= number <= count:
                    return "", count
                return self._select_part(index, count - number + 1 if number else 1), count
        return "", 0

    def _may_hold_code(self, index: int) -> bool:
        """Check the source for code blocks; painting every reply of a long session would be slow."""
        block = self.blocks[index]
        text = block.item.text.text if isinstance(block, ReplyBlock) else ""
        return any(mark in text for mark in ("```", "~~~", "\n    ", "\n\t"))

    def _code_sources(self, index: int) -> list[Source]:
        """Return the code blocks of a reply, last one first."""
        lines = self.blocks[index].lines(self._width, self.text_styles)
        codes = [row.source for row in lines if row.source and row.source.inner is not row.source.text]
        return list(dict.fromkeys(codes))[::-1]

    def _select_part(self, index: int, step: int) -> str:
        """Select all of a reply (step 0) or one of its code blocks; return a description."""
        lines, parts = self.blocks[index].lines(self._width, self.text_styles), self._code_sources(index)
        step %= len(parts) + 1
        self._last_copied = (index, step)
        code = parts[step - 1] if step else None
        numbers = [n for n, row in enumerate(lines) if (row.source is code if code else row.source)]
        if not numbers:
            return ""
        joined, last = self.joined(index), len(lines) - 1 if code is None else numbers[-1]
        begin, end = joined.place_at(numbers[0], 0), joined.place_at(last, self._width)
        self.select(TextSelection(CharacterSpan(index, begin, begin), CharacterSpan(index, end, end)))
        return f"code block {len(parts) - step + 1} of {len(parts)}" if code else "the last reply"

    def _is_main_reply(self, index: int) -> bool:
        block = self.blocks[index]
        return isinstance(block, ReplyBlock) and bool(block.item.text.size) and not block.item.agent

    def _span_at(self, x: int, y: int) -> CharacterSpan | None:
        """Return the character at or nearest to a cell of the visible area."""
        if not self.blocks:
            return None
        index, line = self.spot(min(max(0, y + self.scroll_offset.y), max(0, self._stack.total - 1)))
        if index >= len(self.blocks):
            return None
        if line < 0:
            return CharacterSpan(index, 0, 0)
        joined = self.joined(index)
        return CharacterSpan(index, joined.place_at(line, x), joined.place_at(line, x, after=True))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Start a possible selection."""
        offset = event.get_content_offset_capture(self)
        if event.button == 1 and 0 <= offset.x < self._width + 1:
            self._press_span, self._dragged = self._span_at(*offset), False
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Extend the selection; scroll while the pointer is beyond the edge."""
        if self._press_span is None:
            return
        self._pointer = event.get_content_offset_capture(self)
        mark = self._span_at(*self._pointer)
        if mark is None or (mark == self._press_span and not self._dragged):
            return
        self._dragged = True
        self._set_following(False)
        height = self.scrollable_content_region.height
        outside = not 0 <= self._pointer[1] < height
        if outside and self._drag_timer is None:
            self._drag_timer = self.set_interval(DRAG_SCROLL_SECONDS, self._drag_scroll)
        elif not outside:
            self._stop_drag_scroll()
        self.select(TextSelection(self._press_span, mark))

    def _drag_scroll(self) -> None:
        x, y = self._pointer
        self.scroll_to(y=self.scroll_offset.y + (-1 if y < 0 else 1), animate=False)
        self._set_following(False)
        mark = self._span_at(x, max(0, min(y, self.scrollable_content_region.height - 1)))
        if self._press_span and mark:
            self.select(TextSelection(self._press_span, mark))

    def _stop_drag_scroll(self) -> None:
        if self._drag_timer is not None:
            self._drag_timer.stop()
            self._drag_timer = None

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Finish the selection; a click without dragging clears it."""
        if self._press_span is None:
            return
        self.release_mouse()
        self._stop_drag_scroll()
        self._press_span = None
        if not self._dragged:
            self._dragged = self.selection is not None
            self.select(None)

    def on_click(self, event: events.Click) -> None:
        """Collapse or expand the clicked block."""
        if self._dragged:
            self._dragged = False  # a click that a dialog passes on comes without the press that would reset it
            return
        y = event.get_content_offset_capture(self).y + self.scroll_offset.y
        index, line = self.spot(max(0, y))
        block = self.blocks[index] if index < len(self.blocks) and line >= 0 else None
        if block is not None and (target := self._target_at(index, line, event.get_content_offset_capture(self).x)):
            self.post_message(self.LinkClicked(target))
            return
        if isinstance(block, ReplyBlock | ToolCard | ShellBlock):
            if self.following and index != len(self.blocks) - 1:
                self._set_following(False)
            block.toggle()
            self._measure(index)
            self._settle()
            self.refresh()

    def _target_at(self, index: int, line: int, cell: int) -> str:
        """Return the target of the hyperlink at a cell of a block; empty if there is none."""
        lines = self.blocks[index].lines(self._width, self.text_styles)
        return target_at(lines[line], cell) if line < len(lines) else ""

    # --- searching ---

    async def find(self, query: str) -> None:
        """Search for a text and go to the match nearest to the end of the view. An empty query ends the search.

        While the query is being typed, each search starts from the position at which the first one began.
        """
        if self.finder is None:
            top = self.scroll_offset.y
            bottom = self._stack.find(top + self.scrollable_content_region.height - 1)[0]
            self._search_origin = self._stack.find(top), bottom, self.following
        self.finder = finder = TextSearch(query) if query else None
        self.refresh()
        if finder is None:
            return
        if self.lacks_older:
            await self.read_older()
        await finder.scan(self.blocks)
        if self.finder is not finder:
            return
        view, bottom, following = self._search_origin
        self._set_following(following and not finder.total)
        self._hold(view)
        self._settle()
        if finder.total:
            self._go_to_block(finder, min(bottom + 1, len(self.blocks)), -1)

    def find_next(self, direction: int) -> None:
        """Go to the next match in a direction (1 down, -1 up), wrapping around."""
        finder = self.finder
        if finder is None or not finder.total:
            return
        if finder.current is None:
            self._go_to_block(finder, len(self.blocks), direction)
            return
        block, match_index = finder.current
        if 0 <= match_index + direction < len(finder.spans(block, self.joined(block))):
            finder.current = (block, match_index + direction)
            self._reveal_match(finder)
        else:
            self._go_to_block(finder, block, direction)

    def _go_to_block(self, finder: TextSearch, block: int, direction: int) -> None:
        """Go to the first match in the next block with matches, expanding it if necessary."""
        index = finder.next_block(block, direction)
        if index is None:
            return
        spans = finder.spans(index, self.joined(index))
        if not spans and not self.blocks[index].open:  # the match is in the collapsed part
            self.blocks[index].toggle()
            self._measure(index)
            spans = finder.spans(index, self.joined(index))
        finder.set_count(index, len(spans) or 1)
        finder.current = (index, 0 if direction > 0 or not spans else len(spans) - 1)
        self._reveal_match(finder)

    def _reveal_match(self, finder: TextSearch) -> None:
        block, match_index = finder.current or (0, 0)
        joined = self.joined(block)
        spans = finder.spans(block, joined)
        self.reveal(block, joined.line_of(spans[match_index][0]) if match_index < len(spans) else 0)

    # --- painting ---

    def repaint(self) -> None:
        """Repaint in the colors of a changed theme."""
        self._marks = ()
        super().repaint()

    def render_line(self, y: int) -> Strip:
        """Render a line with its selected text and matches."""
        strip = super().render_line(y)
        if self.selection is None and self.finder is None:
            return strip
        index, line = self.spot(y + self.scroll_offset.y)
        if line < 0 or index >= len(self.blocks):
            return strip
        for left, right, style in self._marked_cells(index, line):
            strip = _overlay_cells(strip, left, right, style)
        return strip

    def _marked_cells(self, index: int, line: int) -> list[tuple[int, int, Style]]:
        """Return the marked cells of a line as (first, end, style)."""
        if not self._marks:
            self._marks = tuple(self._mark_style(name) for name in MARKS)
        selected_style, match_style, current_style = self._marks
        joined = self.joined(index)
        ranges: list[tuple[int, int, Style]] = []
        if self.finder is not None:
            for number, (begin, end) in enumerate(self.finder.spans(index, joined)):
                is_current = self.finder.current == (index, number)
                ranges.append((begin, end, current_style if is_current else match_style))
        selected = self.selection.within(index, len(joined.text)) if self.selection else None
        if selected is not None:
            ranges.append((*selected, selected_style))
        return [
            (*cells, style) for begin, end, style in ranges if (cells := joined.cells(line, begin, end)) is not None
        ]

    def _mark_style(self, name: str) -> Style:
        style = self.get_component_rich_style(name)  # sets the text color too: role colors may be unreadable here
        bold, underline, reverse = style.bold or None, style.underline or None, style.reverse or None
        return Style(color=style.color, bgcolor=style.bgcolor, bold=bold, underline=underline, reverse=reverse)


def _overlay_cells(strip: Strip, left: int, right: int, style: Style) -> Strip:
    """Return the strip with a style applied to the cells from `left` to `right`."""
    middle = strip.crop(left, right)
    marked = Strip([Segment(s.text, (s.style or Style.null()) + style) for s in middle], middle.cell_length)
    return Strip.join([strip.crop(0, left), marked, strip.crop(right, strip.cell_length)])

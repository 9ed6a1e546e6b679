"""The transcript: the blocks of a session, what is selected of them, and the search through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.timer import Timer

from tui_agent.view.items import Item
from widgets.block_view import BlockView
from widgets.blocks.reply import ReplyBlock
from widgets.blocks.tool_card import ToolCard
from widgets.blocks.user import ShellBlock
from widgets.styled_text import Line, Source, TextStyles
from widgets.text_selection import CharacterSpan, JoinedText, TextSearch, TextSelection

NEAR = 50
"""Blocks at the end that are painted as they come; older ones only when they are scrolled to."""

EDGE = 0.05
"""Seconds between two lines while a selection is dragged over the edge."""

TICKED = 500
"""Blocks from the end that may show time: those of sub-agents come between a call and its end."""

MARKS = ("transcript--selected", "transcript--found", "transcript--current")


class Transcript(BlockView):
    """All blocks of a session. Selecting and searching end following."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*MARKS}

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
        self._began = (0, 0), 0, True
        """Where the view stood when the search began, its last block, and whether it followed."""
        self._pressed: CharacterSpan | None = None
        self._dragged = False
        self._pointer = (0, 0)
        self._edge: Timer | None = None
        self._copied = (-1, -1)
        """Which reply and which part of it `select_last` selected."""
        self._marks: tuple[Style, ...] = ()

    # --- what the router calls ---

    def show(self, items: list[Item], touched: Iterable[int]) -> None:
        """Items were added or changed."""
        near = len(items) - NEAR
        before, first = self.scroll_offset, self._stack.total
        for index in sorted(touched):
            while index >= len(self.blocks) and len(self.blocks) < len(items):
                self._append(items[len(self.blocks)])
            block = self.blocks[index]
            if index < near and not block.exact(self._width):
                self._guess(index)
            else:
                self._remeasure(index)
                first = min(first, self._stack.top(index) + self._gaps[index] + block.kept)
            if self.finder is not None:
                self.finder.recount(index, block)
        if self._settle() or self.scroll_offset != before:
            self.refresh()
        elif (top := max(0, first - self.scroll_offset.y)) < self.size.height:
            self.refresh(Region(0, top, self.size.width, self.size.height - top))

    def load_older(self, items: list[Item], older: int) -> None:
        """All items anew, `older` ones before those that are shown so far; what is seen stays where it is."""
        self.select(None)
        self._hold_text()
        before, following, (index, within) = self.blocks, self.following, self._anchor
        self.blocks, self._gaps, self.following = [], [], True  # what comes from before is not new
        for item in items:
            self._append(item)
        for number, block in enumerate(before[: len(items) - older]):
            if block.item.__class__ is self.blocks[older + number].item.__class__:
                self.blocks[older + number].unfolded = block.unfolded
        self.following = following
        self._anchor = index + older, within
        self._relayout()
        if self.finder is not None:
            for number, block in enumerate(self.blocks):
                self.finder.recount(number, block)

    def refresh_greeting(self) -> None:
        """Something in the greeting changed."""
        if self.scroll_offset.y < 8:
            self.refresh()

    def tick(self) -> bool:
        """A second went by: paint again what shows time. False when nothing does."""
        last = len(self.blocks)
        places = [
            index
            for index in range(max(0, last - TICKED), last)
            if self.blocks[index].live and self.blocks[index].shown
        ]
        for index in places:
            self._remeasure(index)
        if places:
            self._settle()
            self.refresh()
        return bool(places)

    @property
    def holding(self) -> bool:
        """True while the beginning of a reply waits for a few more characters."""
        last = self.blocks[-1] if self.blocks else None
        return isinstance(last, ReplyBlock) and last.held

    def show_details(self, details: bool) -> None:
        """Unfold or fold everything."""
        self.options.details = details
        for block in self.blocks:
            block.unfolded = None
        self._relayout()

    # --- selecting ---

    def joined(self, index: int) -> JoinedText:
        """What a block says."""
        return self.blocks[index].joined(self._width, self.text_styles)

    @property
    def selected_text(self) -> str:
        """The source of what is selected; empty when nothing is."""
        return self.selection.text(self.joined) if self.selection else ""

    def select(self, selection: TextSelection | None) -> None:
        """Select something else, or nothing."""
        if selection != self.selection:
            self.selection = selection
            self.refresh()
        if selection is None and self.scroll_offset.y >= self.max_scroll_y:
            self._set_following(True)

    def select_last(self) -> str:
        """Select the last reply; again: its last code block, the one before it, and so on around.

        Returns what was selected, in words; empty when there is no reply.
        """
        index = next((n for n in range(len(self.blocks) - 1, -1, -1) if self._replied(n)), -1)
        if index < 0:
            return ""
        step = self._copied[1] + 1 if self._copied[0] == index and self.selection else 0
        return self._select_part(index, step)

    def select_code(self, number: int) -> tuple[str, int]:
        """Select code block `number` of the last reply that has any; 0 is its last one.

        Returns what was selected, in words, empty when there is no such block; and how many that reply has.
        """
        for index in range(len(self.blocks) - 1, -1, -1):
            if self._may_hold_code(index) and (count := len(self._codes(index))):
                if not 0 <= number <= count:
                    return "", count
                return self._select_part(index, count - number + 1 if number else 1), count
        return "", 0

    def _may_hold_code(self, index: int) -> bool:
        """A look at the text, since painting all replies of a long session would take long."""
        block = self.blocks[index]
        text = block.item.text.text if isinstance(block, ReplyBlock) else ""
        return any(mark in text for mark in ("```", "~~~", "\n    ", "\n\t"))

    def _codes(self, index: int) -> list[Source]:
        """The code blocks of a reply, the last one first."""
        lines = self.blocks[index].lines(self._width, self.text_styles)
        codes = [row.source for row in lines if row.source and row.source.bare is not row.source.text]
        return list(dict.fromkeys(codes))[::-1]

    def _select_part(self, index: int, step: int) -> str:
        """Select a reply whole (0), or one of its code blocks."""
        lines, parts = self.blocks[index].lines(self._width, self.text_styles), self._codes(index)
        step %= len(parts) + 1
        self._copied = (index, step)
        wanted = parts[step - 1] if step else None
        numbers = [n for n, row in enumerate(lines) if (row.source is wanted if wanted else row.source)]
        if not numbers:
            return ""
        joined, last = self.joined(index), len(lines) - 1 if wanted is None else numbers[-1]
        begin, end = joined.place_at(numbers[0], 0), joined.place_at(last, self._width)
        self.select(TextSelection(CharacterSpan(index, begin, begin), CharacterSpan(index, end, end)))
        return f"code block {len(parts) - step + 1} of {len(parts)}" if wanted else "the last reply"

    def _replied(self, index: int) -> bool:
        block = self.blocks[index]
        return isinstance(block, ReplyBlock) and bool(block.item.text.size) and not block.item.agent

    def _mark(self, x: int, y: int) -> CharacterSpan | None:
        """The character at a cell of the visible part, or the nearest one."""
        if not self.blocks:
            return None
        at = min(max(0, y + self.scroll_offset.y), max(0, self._stack.total - 1))
        index, line = self.spot(at)
        if index >= len(self.blocks):
            return None
        if line < 0:
            return CharacterSpan(index, 0, 0)
        joined = self.joined(index)
        return CharacterSpan(index, joined.place_at(line, x), joined.place_at(line, x, after=True))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Perhaps the beginning of a selection."""
        offset = event.get_content_offset_capture(self)
        if event.button == 1 and 0 <= offset.x < self._width + 1:
            self._pressed, self._dragged = self._mark(*offset), False
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Select up to here; beyond the edge the view follows."""
        if self._pressed is None:
            return
        self._pointer = event.get_content_offset_capture(self)
        mark = self._mark(*self._pointer)
        if mark is None or (mark == self._pressed and not self._dragged):
            return
        self._dragged = True
        self._set_following(False)
        height = self.scrollable_content_region.height
        outside = not 0 <= self._pointer[1] < height
        if outside and self._edge is None:
            self._edge = self.set_interval(EDGE, self._drag)
        elif not outside:
            self._end_edge()
        self.select(TextSelection(self._pressed, mark))

    def _drag(self) -> None:
        x, y = self._pointer
        self.scroll_to(y=self.scroll_offset.y + (-1 if y < 0 else 1), animate=False)
        self._set_following(False)
        mark = self._mark(x, max(0, min(y, self.scrollable_content_region.height - 1)))
        if self._pressed and mark:
            self.select(TextSelection(self._pressed, mark))

    def _end_edge(self) -> None:
        if self._edge is not None:
            self._edge.stop()
            self._edge = None

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """The selection stands; a mere click takes it away."""
        if self._pressed is None:
            return
        self.release_mouse()
        self._end_edge()
        self._pressed = None
        if not self._dragged:
            self._dragged = self.selection is not None
            self.select(None)

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the block that was clicked."""
        if self._dragged:
            return
        y = event.get_content_offset_capture(self).y + self.scroll_offset.y
        index, line = self.spot(max(0, y))
        block = self.blocks[index] if index < len(self.blocks) and line >= 0 else None
        if isinstance(block, ReplyBlock | ToolCard | ShellBlock):
            if self.following and index != len(self.blocks) - 1:
                self._set_following(False)
            block.toggle()
            self._measure(index)
            self._settle()
            self.refresh()

    # --- searching ---

    async def find(self, query: str) -> None:
        """Search for a text and go to the match nearest to the end of the view. An empty query ends the search.

        With every letter that is typed on, from where the first one began: what shorter texts led to counts no more.
        """
        if self.finder is None:
            top = self.scroll_offset.y
            bottom = self._stack.find(top + self.scrollable_content_region.height - 1)[0]
            self._began = self._stack.find(top), bottom, self.following
        self.finder = finder = TextSearch(query) if query else None
        self.refresh()
        if finder is None:
            return
        await finder.scan(self.blocks)
        if self.finder is not finder:
            return
        view, bottom, following = self._began
        self._set_following(following and not finder.total)
        self._hold(view)
        self._settle()
        if finder.total:
            self._go(finder, min(bottom + 1, len(self.blocks)), -1)

    def find_next(self, direction: int) -> None:
        """Go to the next match: 1 towards the end, -1 towards the beginning, and around."""
        finder = self.finder
        if finder is None or not finder.total:
            return
        if finder.current is None:
            self._go(finder, len(self.blocks), direction)
            return
        block, which = finder.current
        if 0 <= which + direction < len(finder.spans(block, self.joined(block))):
            finder.current = (block, which + direction)
            self._reveal_match(finder)
        else:
            self._go(finder, block, direction)

    def _go(self, finder: TextSearch, block: int, direction: int) -> None:
        """To the first match of the next block that has one."""
        found = finder.beyond(block, direction)
        if found is None:
            return
        spans = finder.spans(found, self.joined(found))
        if not spans and not self.blocks[found].open:  # it is in what is folded away
            self.blocks[found].toggle()
            self._measure(found)
            spans = finder.spans(found, self.joined(found))
        finder.count(found, len(spans) or 1)
        finder.current = (found, 0 if direction > 0 or not spans else len(spans) - 1)
        self._reveal_match(finder)

    def _reveal_match(self, finder: TextSearch) -> None:
        block, which = finder.current or (0, 0)
        joined = self.joined(block)
        spans = finder.spans(block, joined)
        self.reveal(block, joined.line_of(spans[which][0]) if which < len(spans) else 0)

    # --- painting ---

    def repaint(self) -> None:
        """The theme changed."""
        self._marks = ()
        super().repaint()

    def render_line(self, y: int) -> Strip:
        """A line, with what is selected or found on it."""
        strip = super().render_line(y)
        if self.selection is None and self.finder is None:
            return strip
        index, line = self.spot(y + self.scroll_offset.y)
        if line < 0 or index >= len(self.blocks):
            return strip
        for left, right, style in self._marked(index, line):
            strip = _over(strip, left, right, style)
        return strip

    def _marked(self, index: int, line: int) -> list[tuple[int, int, Style]]:
        """Cells of a line that are marked, and how."""
        if not self._marks:
            self._marks = tuple(self._mark_style(name) for name in MARKS)
        selected, found, current = self._marks
        joined = self.joined(index)
        ranges: list[tuple[int, int, Style]] = []
        if self.finder is not None:
            for number, (begin, end) in enumerate(self.finder.spans(index, joined)):
                here = self.finder.current == (index, number)
                ranges.append((begin, end, current if here else found))
        inside = self.selection.within(index, len(joined.text)) if self.selection else None
        if inside is not None:
            ranges.append((*inside, selected))
        placed = ((joined.cells(line, begin, end), style) for begin, end, style in ranges)
        return [(*cells, style) for cells, style in placed if cells is not None]

    def _mark_style(self, name: str) -> Style:
        full = self.get_component_rich_style(name)  # no color of a role can be read on all of these grounds
        bold, underline, reverse = full.bold or None, full.underline or None, full.reverse or None
        return Style(color=full.color, bgcolor=full.bgcolor, bold=bold, underline=underline, reverse=reverse)


def _over(strip: Strip, left: int, right: int, style: Style) -> Strip:
    """The strip with a style laid over some of its cells."""
    middle = strip.crop(left, right)
    marked = Strip([Segment(s.text, (s.style or Style.null()) + style) for s in middle], middle.cell_length)
    return Strip.join([strip.crop(0, left), marked, strip.crop(right, strip.cell_length)])

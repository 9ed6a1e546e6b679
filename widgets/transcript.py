"""The transcript: one widget that paints the lines of all blocks, and only of those that are visible.

Heights of blocks that were not shown yet are guesses; they are put right as the blocks come into view, without the
visible lines moving. So the cost of a token, a key or a resize does not grow with the number of messages (U1).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import time
from typing import TypeAlias

from textual import events
from textual.geometry import Region, Size
from textual.message import Message

from tui_agent.view import (
    EndItem,
    Item,
    NoticeItem,
    ReplyItem,
    RequestItem,
    ShellItem,
    ToolItem,
    UserItem,
)
from widgets.blocks.base import Look
from widgets.blocks.notice import EndBlock, NoticeBlock, RequestBlock
from widgets.blocks.reply import ReplyBlock
from widgets.blocks.tool_card import ToolCard
from widgets.blocks.user import ShellBlock, UserBlock
from widgets.ink import Ink, Line
from widgets.line_view import LineView
from widgets.stack import Stack

AnyBlock: TypeAlias = UserBlock | ShellBlock | ReplyBlock | ToolCard | NoticeBlock | EndBlock | RequestBlock

KEPT = 300
"""Blocks whose painted lines are kept; the others are painted again when they are scrolled to."""

NEAR = 50
"""Blocks at the end that are painted as they come; older ones only when they are scrolled to."""

BLANK = Line([])


def make_block(item: Item, look: Look) -> AnyBlock:
    """The block that paints an item."""
    match item:
        case UserItem():
            return UserBlock(item, look)
        case ReplyItem():
            return ReplyBlock(item, look)
        case ToolItem():
            return ToolCard(item, look)
        case NoticeItem():
            return NoticeBlock(item, look)
        case ShellItem():
            return ShellBlock(item, look)
        case EndItem():
            return EndBlock(item, look)
        case RequestItem():
            return RequestBlock(item, look)


class Transcript(LineView):
    """All blocks of a session. Follows its end only while the end is visible (R8.1)."""

    @dataclass
    class Followed(Message):
        """Following began or stopped, or more arrived below the visible part."""

        following: bool
        unseen: int

    def __init__(
        self,
        *,
        now: Callable[[], float] = time,
        greeting: Callable[[int, Ink], Sequence[Line]] = lambda width, ink: (),
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.greeting = greeting
        """Lines that stand above all blocks."""
        self.look = Look(now)
        self.blocks: list[AnyBlock] = []
        self.following = True
        self.unseen = 0
        """Blocks that arrived below the visible part."""
        self._stack = Stack()
        self._gaps: list[int] = []
        self._painted: OrderedDict[int, None] = OrderedDict()
        self._width = 0
        self._anchor = (0, 0)
        """First visible block, and how many of its lines are above the view."""
        self._settling = False

    # --- what the router calls ---

    def show(self, items: list[Item], touched: Iterable[int]) -> None:
        """Items were added or changed."""
        near = len(items) - NEAR
        before, first = self.scroll_offset, self._stack.total
        for place in sorted(touched):
            while place >= len(self.blocks) and len(self.blocks) < len(items):
                self._append(items[len(self.blocks)])
            block = self.blocks[place]
            if place < near and not block.exact(self._width):
                self._guess(place)
                continue
            block.changed()
            self._measure(place)
            first = min(first, self._stack.top(place) + self._gaps[place] + block.kept)
        if self._settle() or self.scroll_offset != before:
            self.refresh()
        else:
            self._refresh_from(first)

    def _refresh_from(self, y: int) -> None:
        """Paint from line `y` on; what stands above it did not change."""
        width, height = self.size
        top = max(0, y - self.scroll_offset.y)
        if top < height:
            self.refresh(Region(0, top, width, height - top))

    def refresh_greeting(self) -> None:
        """Something in the greeting changed."""
        if self.scroll_offset.y < 8:
            self.refresh()

    def tick(self) -> bool:
        """A second went by: paint again what shows time. False when nothing does."""
        last = len(self.blocks)
        places = [place for place in range(max(0, last - 40), last) if self.blocks[place].live]
        for place in places:
            self.blocks[place].changed()
            self._measure(place)
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
        self.look.details = details
        for block in self.blocks:
            block.unfolded = None
            block.changed()
        self._relayout()

    def follow(self) -> None:
        """Jump to the end and stay there."""
        self._set_following(True)
        self._settle()
        self.refresh()

    # --- layout ---

    @property
    def columns(self) -> int:
        """Cells that a line may take; one stays free before the scroll bar."""
        return max(1, super().columns - 1)

    def _append(self, item: Item) -> None:
        self.blocks.append(make_block(item, self.look))
        self._gaps.append(0)
        self._stack.append(0)
        if not self.following:
            self.unseen += 1
            self.post_message(self.Followed(False, self.unseen))

    def _gap(self, place: int, height: int) -> int:
        """Lines above a block: the greeting above the first, none between one-line cards, else a blank one."""
        if not height:
            return 0
        above = place - 1
        while above >= 0 and not self._stack.heights[above]:
            above -= 1
        if above < 0:
            head = len(self.greeting(self._width, self.ink)) if self._width else 0
            return head + 1 if head else 0
        block, other = self.blocks[place], self.blocks[above]
        tight = block.compact and other.compact and type(block) is type(other)
        return 0 if tight and self._stack.heights[above] - self._gaps[above] == 1 else 1

    def _measure(self, place: int) -> int:
        """Exact height of a block, painting it; returns by how much the stack grew."""
        if not self._width:
            return 0
        height = len(self.blocks[place].lines(self._width, self.ink))
        self._painted[place] = None
        self._painted.move_to_end(place)
        while len(self._painted) > KEPT:
            old, _none = self._painted.popitem(last=False)
            self.blocks[old].forget()
        gap = self._gap(place, height)
        self._gaps[place] = gap
        grown = self._stack.set(place, height + gap)
        if place + 1 < len(self.blocks) and (below := self._stack.heights[place + 1]):
            bare = below - self._gaps[place + 1]
            self._gaps[place + 1] = self._gap(place + 1, bare)
            self._stack.set(place + 1, bare + self._gaps[place + 1])
        return grown

    def _guess(self, place: int) -> None:
        """A height without painting, for a block that is not visible."""
        block = self.blocks[place]
        block.forget()
        height = block.guess(max(1, self._width))
        self._gaps[place] = self._gap(place, height)
        self._stack.set(place, height + self._gaps[place])

    def on_resize(self) -> None:
        """A new width: guess all heights, paint the visible blocks."""
        if self.columns != self._width:
            self._relayout()
        else:
            self._settle()

    def _relayout(self) -> None:
        self._width = self.columns
        self._painted.clear()
        for place in range(len(self.blocks)):
            self._guess(place)
        self._settle()
        self.refresh()

    def repaint(self) -> None:
        """The theme changed; heights stay."""
        for block in self.blocks:
            block.changed()
        self.refresh()

    def _settle(self) -> bool:
        """Make the visible blocks exact and put the view where it belongs: at the end, or where it was.

        True when a guess was put right.
        """
        if not self._width or self._settling:
            return False
        self._settling, corrected = True, False
        try:
            for _round in range(4):
                top = self._wanted_top()
                if not self._measure_visible(top):
                    break
                corrected = True
            self.virtual_size = Size(self._width, self._stack.total)
            self.scroll_to(y=self._wanted_top(), animate=False, force=True)
            if self.following:
                self._anchor = self._stack.find(self.scroll_offset.y)
        finally:
            self._settling = False
        return corrected

    def _wanted_top(self) -> int:
        height = self.scrollable_content_region.height
        end = max(0, self._stack.total - height)
        if self.following:
            return end
        place, within = self._anchor
        return min(end, self._stack.top(min(place, len(self._stack))) + within)

    def _measure_visible(self, top: int) -> bool:
        """Paint what is visible from `top` on; True when that changed a height."""
        place, _within = self._stack.find(top)
        bottom = top + self.scrollable_content_region.height
        changed = False
        while place < len(self.blocks) and self._stack.top(place) < bottom:
            if not self.blocks[place].exact(self._width):
                changed = bool(self._measure(place)) or changed
            place += 1
        return changed

    # --- scrolling ---

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The user scrolled, or we did. Blocks above the view that turn out taller push nothing around."""
        super().watch_scroll_y(old_value, new_value)
        if self._settling or round(old_value) == round(new_value):
            return
        before = self._anchor
        target = round(new_value)
        self._set_following(target >= self.max_scroll_y)
        place, within = self._stack.find(target)
        while (
            place < before[0]
        ):  # scrolled up into guessed heights: what counts is the distance to the old place
            grown = 0 if self.blocks[place].exact(self._width) else self._measure(place)
            if not grown:
                break
            target += grown
            place, within = self._stack.find(max(0, target))
        self._anchor = (place, within)
        self._settle()

    def _set_following(self, following: bool) -> None:
        if following == self.following:
            return
        self.following = following
        if following:
            self.unseen = 0
        self.post_message(self.Followed(following, self.unseen))

    def line_at(self, y: int) -> Line | None:
        """A line of the block that covers `y`."""
        if not self._stack.total:
            return self._above(y)
        place, within = self._stack.find(y)
        if place >= len(self.blocks):
            return None
        within -= self._gaps[place]
        if within < 0:
            return self._above(y) if y < self._gaps[place] else BLANK
        lines = self.blocks[place].lines(self._width, self.ink)
        return lines[within] if within < len(lines) else BLANK

    def _above(self, y: int) -> Line:
        greeting = self.greeting(self._width, self.ink)
        return greeting[y] if y < len(greeting) else BLANK

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the block that was clicked."""
        place, _within = self._stack.find(self.scroll_offset.y + event.y)
        block = self.blocks[place] if place < len(self.blocks) else None
        if isinstance(block, ReplyBlock | ToolCard | ShellBlock):
            if self.following and not self._at_last(place):
                self._set_following(False)
            block.toggle()
            self._measure(place)
            self._settle()
            self.refresh()

    def _at_last(self, place: int) -> bool:
        return place == len(self.blocks) - 1

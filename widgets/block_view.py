"""A vertical list of blocks of which only the visible ones are laid out.

Heights of other blocks are estimates, corrected when they become visible, without moving the visible lines. The cost
of a token, key or resize therefore does not grow with the number of messages (U1).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from textual import events
from textual.geometry import Size
from textual.message import Message

from tui_agent.events import UserMessageAdded, UserShellCommand
from tui_agent.view.items import EndItem, Item, NoticeItem, ReplyItem, RequestItem, StepItem, ToolItem
from widgets.blocks.base import BlockOptions, TranscriptBlock
from widgets.blocks.notice import EndBlock, NoticeBlock, RequestBlock
from widgets.blocks.plan import PlanBlock, StepBlock, SummaryBlock
from widgets.blocks.reply import ReplyBlock
from widgets.blocks.tool_card import ToolCard
from widgets.blocks.user import ShellBlock, UserBlock
from widgets.line_view import LineHeights, LineView
from widgets.styled_text import Line, TextStyles

MAX_PAINTED_BLOCKS = 300
"""Number of blocks whose painted lines are cached."""

WHEEL_LINES = 3
"""Lines per step of the mouse wheel."""

BLANK = Line([])

BLOCKS: dict[type[Item], type[TranscriptBlock[Any]]] = {
    UserMessageAdded: UserBlock,
    ReplyItem: ReplyBlock,
    ToolItem: ToolCard,
    NoticeItem: NoticeBlock,
    UserShellCommand: ShellBlock,
    EndItem: EndBlock,
    StepItem: StepBlock,
    RequestItem: RequestBlock,
}


def make_block(item: Item, options: BlockOptions) -> TranscriptBlock[Any]:
    """Return the block for an item."""
    kind = BLOCKS[type(item)]
    if isinstance(item, RequestItem) and (item.proposal is not None or item.summary is not None):
        kind = PlanBlock if item.proposal is not None else SummaryBlock
    return kind(item, options)


class BlockView(LineView):
    """Follows the end while it is visible; otherwise the first visible line does not move."""

    class Followed(Message):
        """Following started or stopped, or the number of unseen blocks changed."""

    class OlderWanted(Message):
        """The user comes near the first block, and there are older items that are not loaded."""

    def __init__(
        self, *, now: Callable[[], float], greeting: Callable[[int, TextStyles], Sequence[Line]], id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.greeting = greeting
        """Returns the lines above all blocks."""
        self.options = BlockOptions(now)
        self.blocks: list[TranscriptBlock[Any]] = []
        self.following = True
        self._settled_size = Size(0, 0)
        """Size at the last `_settle`."""
        self.unseen = 0
        """Number of blocks added below the visible area."""
        self._stack = LineHeights()
        self._gaps: list[int] = []
        self._painted: OrderedDict[int, None] = OrderedDict()
        self._width = 0
        self._anchor = (0, 0)
        """First visible block, and the number of its lines above the visible area."""
        self._held_offset: int | None = None
        """Offset in the text of the anchor block at the top of the view when the user last scrolled."""
        self._settling = self._catching_up = False
        self.lacks_older = False
        """Whether there are older items that are not loaded."""
        self._wants_top = False
        """The user wants to see the first item, which is not loaded yet."""

    def on_mount(self) -> None:
        """Continue following when a dialog closes."""
        self.app.screen_change_signal.subscribe(self, lambda screen: self._on_screen_change())

    def _on_screen_change(self) -> None:
        if self.following and not self._frozen:
            self._settle()
            self.refresh()

    def catch_up(self) -> None:
        """Scroll to the end between two dialogs, to show what arrived under the first."""
        if self.following:
            self._catching_up = True
            self._settle()
            self._catching_up = False
            self.refresh()

    def follow(self) -> None:
        """Scroll to the end and follow it."""
        self._set_following(True)
        self.catch_up()
        self.refresh()

    def reveal(self, index: int, line: int) -> None:
        """Make a line of a block visible, a third from the top unless it already is."""
        height = self.scrollable_content_region.height
        self._set_following(False)
        if not self._is_measured(index):
            self._measure(index)
        at = self._stack.top(index) + self._gaps[index] + line
        top = self.scroll_offset.y
        if not top <= at < top + height - 1:
            top = self._line_above((index, self._gaps[index] + line), height // 3)
        self._hold(self._stack.find(top))
        self._settle()
        self.refresh()

    # --- bounded memory ---

    def drop_older(self, count: int) -> None:
        """Forget the first `count` items. The visible lines do not move."""
        del self.blocks[:count], self._gaps[:count]
        self._stack.drop(count)
        self._painted = OrderedDict((index - count, None) for index in self._painted if index >= count)
        index, within = self._anchor
        self._anchor = (index - count, within) if index >= count else (0, 0)
        self.lacks_older = True
        self._settle()
        self.refresh()

    def to_top(self) -> None:
        """Scroll to the first item."""
        self._wants_top = self.lacks_older
        self.scroll_home(animate=False)

    # --- layout ---

    @property
    def columns(self) -> int:
        """Available width of a line, with one free cell before the scroll bar."""
        return max(1, super().columns - 1)

    def _append(self, item: Item) -> None:
        self.blocks.append(make_block(item, self.options))
        self._gaps.append(0)
        self._stack.append(0)
        if not self.following and not self.blocks[-1].nested:
            self.unseen += 1
            self.post_message(self.Followed())

    def _gap(self, index: int, height: int) -> int:
        """Return the lines above a block: the greeting for the first, none between one-line cards, else one."""
        if not height:
            return 0
        above = index - 1
        while above >= 0 and not self._stack.heights[above]:
            above -= 1
        if above < 0:
            head = len(self.greeting(self._width, self.text_styles)) if self._width else 0
            return head + 1 if head else 0
        block, other = self.blocks[index], self.blocks[above]
        tight = block.compact and (type(block), block.nested) == (type(other), other.nested)
        return 0 if tight and self._stack.heights[above] - self._gaps[above] == 1 else 1

    def _is_measured(self, index: int) -> bool:
        """Return whether a block has its exact height. Painting alone does not measure: a frame of a taller view may
        come before `on_resize`."""
        block, height = self.blocks[index], self._stack.heights[index] - self._gaps[index]
        return block.exact(self._width) and len(block.lines(self._width, self.text_styles)) == height

    def _measure(self, index: int) -> int:
        """Set the exact height of a block by painting it; return the difference."""
        if not self._width:
            return 0
        height = len(self.blocks[index].lines(self._width, self.text_styles))
        self._painted[index] = None
        self._painted.move_to_end(index)
        while len(self._painted) > MAX_PAINTED_BLOCKS:
            old, _none = self._painted.popitem(last=False)
            self.blocks[old].forget()
        gap = self._gap(index, height)
        self._gaps[index] = gap
        grown = self._stack.set(index, height + gap)
        if index + 1 < len(self.blocks) and (below := self._stack.heights[index + 1]):
            content_height = below - self._gaps[index + 1]
            self._gaps[index + 1] = self._gap(index + 1, content_height)
            self._stack.set(index + 1, content_height + self._gaps[index + 1])
        return grown

    def _guess(self, index: int) -> None:
        """Set an estimated height of an invisible block without painting it."""
        block = self.blocks[index]
        block.forget()
        height = block.guess(max(1, self._width)) if block.is_visible else 0
        self._gaps[index] = self._gap(index, height)
        self._stack.set(index, height + self._gaps[index])

    def _remeasure(self, index: int) -> None:
        """Measure a changed block. If the top of the view is inside it, the same line stays there."""
        block = self.blocks[index]
        anchored = not self.following and index == self._anchor[0] and block.exact(self._width)
        line = self._anchor[1] - self._gaps[index]
        before = list(block.lines(self._width, self.text_styles)) if anchored and line >= 0 else []
        block.changed()
        self._measure(index)
        if 0 <= line < len(before):
            after = block.lines(self._width, self.text_styles)
            text = before[line].text
            same = [number for number, item_line in enumerate(after) if item_line.text == text]
            if same:
                line = min(same, key=lambda number: abs(number - line))
            self._anchor = (index, min(line, max(0, len(after) - 1)) + self._gaps[index])

    def on_resize(self) -> None:
        """Lay out for a new size. The end stays in view if it was followed, even under a dialog."""
        self._catching_up = self.following
        if self.columns != self._width:
            self._relayout()
        else:
            self._settle()
        self._catching_up = False

    def _hold_text(self) -> None:
        """Remember the text offset of the anchor block at the top of the view."""
        index, within = self._anchor
        if self._held_offset is None and index < len(self.blocks) and self.blocks[index].exact(self._width):
            line = within - self._gaps[index]
            joined = self.blocks[index].joined(self._width, self.text_styles)
            self._held_offset = joined.place_at(line, 0) if line >= 0 else -1

    def _relayout(self) -> None:
        self._hold_text()
        index, _within = self._anchor
        self._width = self.columns
        self._painted.clear()
        self._stack.clear()
        self._stack.heights = [0] * len(self.blocks)
        for number in range(len(self.blocks)):
            self._guess(number)
        if index < len(self.blocks):
            self._measure(index)
            held = -1 if self._held_offset is None else self._held_offset
            line = 0 if held < 0 else self.blocks[index].joined(self._width, self.text_styles).line_of(held)
            self._anchor = (index, line + self._gaps[index] if held >= 0 else 0)
        self._settle()
        self.refresh()

    def repaint(self) -> None:
        """Repaint in the colors of a changed theme; heights do not change."""
        for block in self.blocks:
            block.changed()
        self.refresh()

    def relink(self, found: AbstractSet[str]) -> None:
        """Paint the links to files again: the names in `found` lead elsewhere than before."""
        for block in self.blocks:
            block.relink(found)
        self._settle()
        self.refresh()

    def _settle(self) -> bool:
        """Measure the visible blocks and scroll to the end or to the anchor.

        Return whether an estimated height was corrected.
        """
        if not self._width or self._settling:
            return False
        self._settling, corrected = True, False
        try:
            for _round in range(4):
                if not self._measure_visible(self._wanted_top()):
                    break
                corrected = True
            self.resize_content(Size(self._width, self._stack.total))
            self.scroll_to(y=self._wanted_top(), animate=False, force=True, immediate=True)
            self._settled_size = self.size
            if self.following and not self._frozen:
                self._hold(self._stack.find(self.scroll_offset.y))
        finally:
            self._settling = False
        return corrected

    @property
    def _frozen(self) -> bool:
        """Whether the view must not move because it is under a dialog, after its first layout."""
        placed = bool(self._stack.total and self._settled_size) and not self._catching_up
        return self.is_attached and placed and self.app.screen_stack[-1:] != [self.screen]

    def _wanted_top(self) -> int:
        end = max(0, self._stack.total - self.scrollable_content_region.height)
        if self.following and not self._frozen:
            return end
        index, within = self._anchor
        return min(end, self._stack.top(min(index, len(self._stack))) + within)

    def _hold(self, anchor: tuple[int, int]) -> None:
        self._anchor, self._held_offset = anchor, None

    def _measure_visible(self, top: int) -> bool:
        """Measure the blocks visible from `top` on; return whether a height changed."""
        index, _within = self._stack.find(top)
        bottom = top + self.scrollable_content_region.height
        changed = False
        while index < len(self.blocks) and self._stack.top(index) < bottom:
            if not self._is_measured(index):
                changed = bool(self._measure(index)) or changed
            index += 1
        return changed

    # --- scrolling ---

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without animation."""
        self._wheel(event, -WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without animation."""
        self._wheel(event, WHEEL_LINES)

    def _wheel(self, event: events.MouseEvent, lines: int) -> None:
        event.stop()
        event.prevent_default()
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Update anchor and following. Corrected heights of blocks above the view do not move visible lines."""
        super().watch_scroll_y(old_value, new_value)
        if self._settling or round(old_value) == round(new_value):
            return
        if self.size != self._settled_size:
            return  # moved by a resize; handled by `on_resize`
        old_anchor = self._anchor
        target = round(new_value)
        self._set_following(target >= self.max_scroll_y and new_value > old_value)
        up = round(old_value) - target
        if 0 < up <= 2 * self.scrollable_content_region.height:
            target = self._line_above(old_anchor, up)
        index, within = self._stack.find(target)
        self._wants_top = self._wants_top and new_value < old_value
        # Scrolled up into estimated heights: keep the distance to the old anchor.
        while target > 0 and index < old_anchor[0]:
            grown = 0 if self._is_measured(index) else self._measure(index)
            if not grown:
                break
            target += grown
            index, within = self._stack.find(max(0, target))
        self._hold((index, within))
        self._settle()
        if self.lacks_older and not self.following and self.scroll_offset.y < 2 * self.size.height:
            self.post_message(self.OlderWanted())

    def _line_above(self, anchor: tuple[int, int], lines: int) -> int:
        """Return the line `lines` above an anchor, measuring the blocks between: a page up must not skip lines."""
        last, within = anchor
        index = last
        while index > 0 and self._stack.top(last) + within - self._stack.top(index) < lines:
            index -= 1
            if not self._is_measured(index):
                self._measure(index)
        return max(0, self._stack.top(last) + within - lines)

    def _set_following(self, following: bool) -> None:
        if following == self.following:
            return
        self.following = following
        if following:
            self.unseen = 0
        self.post_message(self.Followed())

    def line_at(self, y: int) -> Line | None:
        """Return the line at `y`."""
        if not self._stack.total:
            return self._greeting_line(y)
        index, line = self.spot(y)
        if index >= len(self.blocks):
            return None
        if line < 0:
            return self._greeting_line(y) if y < self._gaps[index] else BLANK
        lines = self.blocks[index].lines(self._width, self.text_styles)
        return lines[line] if line < len(lines) else BLANK

    def spot(self, y: int) -> tuple[int, int]:
        """Return the block at line `y` and the line's index in it, which is negative in the gap above the block."""
        index, within = self._stack.find(y)
        return index, within - (self._gaps[index] if index < len(self._gaps) else 0)

    def _greeting_line(self, y: int) -> Line:
        greeting = self.greeting(self._width, self.text_styles)
        return greeting[y] if y < len(greeting) else BLANK

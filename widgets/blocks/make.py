"""Which block paints which item."""

from __future__ import annotations

from typing import TypeAlias

from tui_agent.view import (
    EndItem,
    Item,
    NoticeItem,
    ReplyItem,
    RequestItem,
    ShellItem,
    StepItem,
    ToolItem,
    UserItem,
)
from widgets.blocks.base import Look
from widgets.blocks.nested import NestedCard, NestedReply
from widgets.blocks.notice import EndBlock, NoticeBlock, RequestBlock
from widgets.blocks.plan import PlanBlock, StepBlock
from widgets.blocks.reply import ReplyBlock
from widgets.blocks.summary import SummaryBlock
from widgets.blocks.tool_card import ToolCard
from widgets.blocks.user import ShellBlock, UserBlock

AnyBlock: TypeAlias = (
    UserBlock
    | ShellBlock
    | ReplyBlock
    | ToolCard
    | NoticeBlock
    | EndBlock
    | RequestBlock
    | PlanBlock
    | StepBlock
    | SummaryBlock
)


def make_block(item: Item, look: Look) -> AnyBlock:
    """The block that paints an item."""
    match item:
        case UserItem():
            return UserBlock(item, look)
        case ReplyItem():
            return NestedReply(item, look) if item.agent else ReplyBlock(item, look)
        case ToolItem():
            return NestedCard(item, look) if item.agent else ToolCard(item, look)
        case NoticeItem():
            return NoticeBlock(item, look)
        case ShellItem():
            return ShellBlock(item, look)
        case EndItem():
            return EndBlock(item, look)
        case StepItem():
            return StepBlock(item, look)
        case RequestItem(proposal=proposal) if proposal is not None:
            return PlanBlock(item, look)
        case RequestItem(offer=offer) if offer is not None:
            return SummaryBlock(item, look)
        case RequestItem():
            return RequestBlock(item, look)

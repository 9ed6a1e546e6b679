"""The fold of events into what a screen shows; read by every front end, knows none of them."""

from __future__ import annotations

from tui_agent.view.change import NOTHING, Change, Part, seconds
from tui_agent.view.fold import fold
from tui_agent.view.items import (
    EndItem,
    Growing,
    Item,
    NoticeItem,
    Queued,
    ReplyItem,
    RequestItem,
    Retry,
    SessionView,
    ShellItem,
    Status,
    Tail,
    ToolItem,
    UserItem,
)
from tui_agent.view.nodes import Node, Tree

__all__ = [
    "NOTHING",
    "Change",
    "EndItem",
    "Growing",
    "Item",
    "Node",
    "NoticeItem",
    "Part",
    "Queued",
    "ReplyItem",
    "RequestItem",
    "Retry",
    "SessionView",
    "ShellItem",
    "Status",
    "Tail",
    "ToolItem",
    "Tree",
    "UserItem",
    "fold",
    "seconds",
]

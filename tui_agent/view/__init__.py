"""The fold of events into what a screen shows; read by every front end, knows none of them."""

from __future__ import annotations

from tui_agent.view.change import NOTHING, Change, Part, seconds
from tui_agent.view.fold import fold
from tui_agent.view.items import (
    Dispute,
    EndItem,
    Item,
    NoticeItem,
    Offer,
    PlanSight,
    Proposal,
    Queued,
    Recovering,
    Rejected,
    ReplyItem,
    RequestItem,
    Retry,
    SessionView,
    ShellItem,
    Status,
    StepItem,
    ToolItem,
    UserItem,
    Verdict,
)
from tui_agent.view.nodes import Node, Tree
from tui_agent.view.texts import Growing, Tail
from tui_agent.view.veil import Veil

__all__ = [
    "NOTHING",
    "Change",
    "Dispute",
    "EndItem",
    "Growing",
    "Item",
    "Node",
    "NoticeItem",
    "Offer",
    "Part",
    "PlanSight",
    "Proposal",
    "Queued",
    "Recovering",
    "Rejected",
    "ReplyItem",
    "RequestItem",
    "Retry",
    "SessionView",
    "ShellItem",
    "Status",
    "StepItem",
    "Tail",
    "ToolItem",
    "Tree",
    "UserItem",
    "Veil",
    "Verdict",
    "fold",
    "seconds",
]

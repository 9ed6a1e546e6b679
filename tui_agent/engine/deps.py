"""What the parts of one session share."""

from __future__ import annotations

import msgspec

from tui_agent.engine.context.project import Project
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.loop.raw_replies import RawReplies
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.engine.plan_doc.memory import PlanMemory


class SessionDeps(msgspec.Struct, frozen=True, kw_only=True):
    """Put together as a session is opened."""

    stream: SessionStream
    approvals: Approvals
    environment: ToolEnvironment
    roles: ModelRoles
    project: Project
    memory: PlanMemory
    raw: RawReplies
    accept_plan: bool
    """Without a user: carry out plans that would ask (X3)."""
    accept_summary: bool
    """Without a user: take summaries as they are (X3)."""

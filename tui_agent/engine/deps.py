"""The objects shared by the parts of a session."""

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
    """Created once, when a session is opened."""

    stream: SessionStream
    approvals: Approvals
    environment: ToolEnvironment
    roles: ModelRoles
    project: Project
    memory: PlanMemory
    raw: RawReplies
    accept_plan: bool
    """Unattended: execute plans that need a review (X3)."""
    accept_summary: bool
    """Unattended: accept summaries unchanged (X3)."""

"""What the page lets the user choose from: the models of the server, and the sessions of the workspace."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.frontends.session_commands import SESSION_ROLE
from tui_agent.storage.catalog import list_sessions
from tui_agent.text import make_visible, one_line

if TYPE_CHECKING:
    from tui_agent.engine.session import Session

SESSIONS_MAX = 200
"""Newest sessions that are listed."""
NAME_MAX = 100
"""Characters of the name of a model."""


async def model_choices(session: Session) -> dict[str, Any]:
    """Return the server's models as `rows` with `id` and `label`, and the `current` one. Raises ValueError."""
    result = await session.models.listed()
    if isinstance(result, Fault):
        raise ValueError(result.full_message)
    current = (await session.models.current()).get(SESSION_ROLE, ("", False))[0]
    rows = [{"id": model.name, "label": _shown(model.name), "note": _shown(model.label)} for model in result]
    return {"rows": rows, "current": current, "endpoint": _shown(session.models.endpoint)}


async def session_choices(session: Session, can_open: bool) -> dict[str, Any]:
    """Return the sessions of the workspace as `rows`, newest first; see `can_open` of the page."""
    workspace = Path((await session.trust.states())[0].folder)

    def read() -> list[dict[str, Any]]:
        entries = [each for each in list_sessions(paths.data_dir(), workspace) if each.first_message or each.title]
        return [
            {
                "id": entry.id,
                "label": session.mask.mask(_shown(entry.title or entry.first_message)),
                "changed": datetime.fromtimestamp(entry.changed, UTC).isoformat(),
                "problem": make_visible(entry.problem),
                "command": f"tui-agent --resume {entry.id}",
            }
            for entry in entries[:SESSIONS_MAX]
        ]

    return {"rows": await asyncio.to_thread(read), "current": session.id, "can_open": can_open}


def _shown(text: str) -> str:
    return make_visible(one_line(text, NAME_MAX))

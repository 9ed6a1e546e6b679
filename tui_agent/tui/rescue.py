"""What `/export` reads: the session's own folder, or a copy while that can't be written or is gone (FAULTS A12)."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tui_agent.paths import sessions_dir
from tui_agent.storage.folder import JOURNAL
from widgets.status_line import ActivityLine

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.door import SessionDoor


@asynccontextmanager
async def readable(app: TuiAgentApp, session: SessionDoor) -> AsyncIterator[Path]:
    """The folder of the session, for a reader. Raises OSError."""
    if not app.query_one(ActivityLine).trouble:
        yield sessions_dir() / session.id
        return
    place = await to_thread(TemporaryDirectory, prefix="tui-agent-")
    try:
        folder = Path(place.name, session.id)
        folder.mkdir(0o700)
        await session.copy_journal(folder / JOURNAL)
        yield folder
    finally:
        await to_thread(place.cleanup)

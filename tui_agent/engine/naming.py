"""What a session is called."""

from __future__ import annotations

import asyncio

from tui_agent.engine.state import SessionStream
from tui_agent.events import SessionTitled
from tui_agent.storage.folder import SessionFolder
from tui_agent.text import one_line

TITLE_MAX = 100
"""Characters of a title."""


class Naming:
    """Gives a session that is open in this process another title (S3)."""

    def __init__(self, stream: SessionStream, folder: SessionFolder) -> None:
        self._stream = stream
        self._folder = folder

    async def rename(self, title: str) -> str:
        """Call the session so, from now on; returns the title as it is kept, empty when there was nothing in it and
        nothing changed. Raises JournalBroken."""
        title = one_line(title, TITLE_MAX)
        if title:
            self._stream.emit(SessionTitled(title=title))
            await self._stream.durable()
            await asyncio.to_thread(lambda: self._folder.save(title=title))
        return title

"""A copy of what a session told so far, also when its own file can't be written or found any more (FAULTS A12)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tui_agent.engine.stream import EventStream
from tui_agent.storage.lines import to_line

PIECE = 1 << 20
"""Bytes that are copied at a time."""


async def copy_journal(stream: EventStream, path: Path) -> None:
    """Write the journal of a running session to the new file `path`: what is in its file, wherever that is by now, and
    behind it what waits to be written. Raises OSError."""
    read, waiting = stream.kept()

    def copy() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            while data := read(file.tell(), PIECE):
                file.write(data)
            file.write(b"\n")  # the last line may be torn
            file.writelines(to_line(record, 0) for record in waiting)

    await asyncio.to_thread(copy)

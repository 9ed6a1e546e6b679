"""Notice within 200 ms that a file has changed, however an editor saves it (P4)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, TypeAlias

FileStamp: TypeAlias = tuple[int, int, int]
"""Inode, size and modification time."""

INTERVAL: Final = 0.15
"""Seconds between checks: not every file system reports changes, and a check takes microseconds."""


async def file_changes(path: Path, *since: FileStamp | None) -> AsyncGenerator[None, None]:
    """Yield whenever the file at `path` has been changed, replaced, created or removed.

    `since`: the stamp of the last known version, to include changes before the call. Ends only when it is closed.
    """
    last = since[0] if since else file_stamp(path)
    clock = asyncio.get_running_loop().time
    while True:
        if (now := file_stamp(path)) != last:
            last = now
            yield
        # All files are checked at one time, so that the process wakes up once.
        await asyncio.sleep(INTERVAL - clock() % INTERVAL)


def file_stamp(path: Path) -> FileStamp | None:
    """Return a stamp that changes when the file is written; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

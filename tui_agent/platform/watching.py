"""Notice within 200 ms that a file has changed, however an editor saves it (P4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypeAlias

from tui_agent.platform.lean_imports import import_without

FileStamp: TypeAlias = tuple[int, int, int]
"""Inode, size and modification time."""

_STEP_MS = 150
"""Interval at which reported changes are collected: the watching thread wakes up that often."""
_POLL_MS = 1_000
"""Interval of additional checks, as not every file system reports changes."""


async def file_changes(path: Path, *since: FileStamp | None) -> AsyncGenerator[None, None]:
    """Yield whenever the file at `path` has been changed, replaced, created or removed.

    `since`: the stamp of the last version, to include changes before the call. Ends only when it is closed.
    """
    last = since[0] if since else file_stamp(path)
    # Slow to import; its command runner imports `multiprocessing`, which nothing here needs.
    watchfiles = await asyncio.to_thread(import_without, "watchfiles", "run", "arun_process", "run_process")
    stop = asyncio.Event()
    try:
        while True:
            with contextlib.suppress(OSError):  # the folder does not exist yet, or no more watches are available
                # Watch the folder, as editors replace the file when they save.
                watch = watchfiles.awatch(
                    path.parent,
                    watch_filter=lambda _, name: os.path.basename(name) == path.name,
                    debounce=_STEP_MS,
                    step=_STEP_MS,
                    rust_timeout=_POLL_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                    recursive=False,
                )
                async with contextlib.aclosing(watch):
                    async for _ in watch:
                        if (now := file_stamp(path)) != last:
                            last = now
                            yield
            if (now := file_stamp(path)) != last:
                last = now
                yield
            await asyncio.sleep(_STEP_MS / 1000)
    finally:
        stop.set()


def file_stamp(path: Path) -> FileStamp | None:
    """Return a stamp that changes when the file is written; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

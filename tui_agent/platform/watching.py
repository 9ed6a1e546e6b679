"""Seeing within 200 ms that a file was changed, however its editor saves (P4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

Mark: TypeAlias = tuple[int, int, int]
"""Inode, size and time of a file."""

_LOOK_MS = 150
"""How often the file is looked at besides: not every file system reports changes."""


async def changes(path: Path, *since: Mark | None) -> AsyncGenerator[None, None]:
    """Yields whenever the file under the name `path` is another or has other bytes than at the last time.

    Also when it appears or goes. `since` is its mark at the last look, for what happened before this began. Ends only
    by being closed or cancelled.
    """
    known = since[0] if since else mark(path)
    watchfiles = await asyncio.to_thread(import_module, "watchfiles")  # slow to import
    stop = asyncio.Event()
    try:
        while True:
            with contextlib.suppress(OSError):  # no such folder yet, or no more watches to be had
                # The folder, not the file: an editor that saves puts another file in its place.
                watch = watchfiles.awatch(
                    path.parent,
                    watch_filter=lambda _, name: os.path.basename(name) == path.name,
                    debounce=_LOOK_MS,
                    step=20,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                    recursive=False,
                )
                async with contextlib.aclosing(watch):
                    async for _ in watch:
                        if (now := mark(path)) != known:
                            known = now
                            yield
            if (now := mark(path)) != known:
                known = now
                yield
            await asyncio.sleep(_LOOK_MS / 1000)
    finally:
        stop.set()


def mark(path: Path) -> Mark | None:
    """What tells whether the file was written since; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

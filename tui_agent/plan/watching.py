"""Seeing within 200 ms that a file was changed, however its editor saves (P4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeAlias

_LOOK_MS = 100
"""How often the name is looked at besides: a watch follows the file, so a replaced file needs a new one."""


Mark: TypeAlias = tuple[int, int, int]
"""Inode, size and time of a file."""


async def changes(path: Path, *since: Mark | None) -> AsyncGenerator[None, None]:
    """Yields whenever the file under the name `path` is another or has other bytes than at the last time.

    Also when it appears or goes. `since` is its mark at the last look, for what happened before this began. Ends only
    by being closed or cancelled.
    """
    known = since[0] if since else mark(path)
    awatch = await asyncio.to_thread(_awatch)
    while True:
        if (now := mark(path)) != known:
            known = now
            yield
        async with contextlib.AsyncExitStack() as stack:
            if known is None:
                await asyncio.sleep(_LOOK_MS / 1000)
            else:
                stop = asyncio.Event()
                stack.callback(stop.set)
                watch = awatch(
                    path,
                    watch_filter=None,
                    debounce=20,
                    step=10,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                    recursive=False,
                )
                await stack.enter_async_context(contextlib.aclosing(watch))
                with contextlib.suppress(OSError):
                    async for _ in watch:
                        if mark(path) != known:
                            break


def _awatch() -> Callable[..., AsyncGenerator[object, None]]:
    from watchfiles import awatch  # slow to import

    return awatch


def mark(path: Path) -> Mark | None:
    """What tells whether the file was written since; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

"""Work that is finished though whoever waits for it is stopped: a write and the event that tells of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def finished(work: Coroutine[Any, Any, _T], within: float | None = None) -> _T:
    """What `work` gives. It comes to its end though the waiting task is cancelled, which is raised afterwards.

    With `within` it is cancelled itself when it is not done so many seconds after that.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if within is not None:
            asyncio.get_running_loop().call_later(within, task.cancel)
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that it is not told as one that nobody saw
        raise

"""The end of tasks: work that is finished though whoever waits for it is stopped, and tasks that are stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def complete_shielded(work: Coroutine[Any, Any, _T], within: float | None = None) -> _T:
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


async def end_tasks(*tasks: asyncio.Task[Any] | None, seconds: float = 2.0) -> None:
    """Cancel tasks and wait until they have ended, also where the caller is stopped meanwhile, which is raised
    afterwards. One that did not heed it is cancelled again after so many `seconds`: `asyncio.wait_for` loses a
    cancellation when what it waits for ends just then."""
    going = {task for task in tasks if task is not None and not task.done()}
    for task in going:
        if not task.cancelling():
            task.cancel()
    stopped: asyncio.CancelledError | None = None
    while going:
        try:
            ended, going = await asyncio.wait(going, timeout=seconds)
        except asyncio.CancelledError as error:
            stopped = error
            continue
        for task in ended:
            if not task.cancelled():
                task.exception()  # what it ended with is nobody's any more
        for task in going:
            task.cancel()
    if stopped is not None:
        raise stopped

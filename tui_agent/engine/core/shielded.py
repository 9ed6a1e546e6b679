"""Cancellation: complete work despite it, and end tasks reliably."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def complete_shielded(work: Coroutine[Any, Any, _T], within: float | None = None) -> _T:
    """Return the result of `work`. If the caller is cancelled, `work` is completed before CancelledError is raised.

    With `within`, it is cancelled if it takes longer than these seconds after the cancellation.
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
            task.exception()  # retrieved, so that asyncio does not log it
        raise


async def end_tasks(*tasks: asyncio.Task[Any] | None, seconds: float = 2.0) -> None:
    """Cancel tasks and wait for their end, even if the caller is cancelled, which is raised afterwards.

    Tasks are cancelled again every `seconds`: `asyncio.wait_for` can lose a cancellation.
    """
    pending = {task for task in tasks if task is not None and not task.done()}
    for task in pending:
        if not task.cancelling():
            task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            done, pending = await asyncio.wait(pending, timeout=seconds)
        except asyncio.CancelledError as error:
            cancelled = error
            continue
        for task in done:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it
        for task in pending:
            task.cancel()
    if cancelled is not None:
        raise cancelled

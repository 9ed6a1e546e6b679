"""Waiting for conditions, with a limit far beyond what a busy machine needs. Tests assert what happens, not when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

LONG = 120.0
"""Seconds after which a condition counts as never met."""

T = TypeVar("T")


async def until(condition: Callable[[], object], missing: Callable[[], str] | str = "condition never met") -> None:
    """Wait for a condition while the event loop runs. `missing` is the message of the assertion on timeout."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, missing if isinstance(missing, str) else missing()
        await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object], missing: str = "condition never met") -> None:
    """Wait for a condition without an event loop."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, missing
        time.sleep(0.01)


async def in_time(awaitable: Awaitable[T]) -> T:
    """Return the result, or raise TimeoutError. To show that nothing waits for an operation, make it take longer."""
    return await asyncio.wait_for(awaitable, LONG)

"""Waiting for conditions, with a limit far beyond what a busy machine needs. Tests assert what happens, not when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

TIMEOUT = 120.0
"""Seconds after which a condition counts as never met."""

T = TypeVar("T")


async def wait_for(condition: Callable[[], object], message: Callable[[], str] | str = "condition never met") -> None:
    """Wait for a condition while the event loop runs. `missing` is the message of the assertion on timeout."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, message if isinstance(message, str) else message()
        await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object], message: str = "condition never met") -> None:
    """Wait for a condition without an event loop."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, message
        time.sleep(0.01)


async def within_timeout(awaitable: Awaitable[T]) -> T:
    """Return the result, or raise TimeoutError. To show that nothing waits for an operation, make it take longer."""
    return await asyncio.wait_for(awaitable, TIMEOUT)

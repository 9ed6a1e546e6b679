"""Waiting for what must come. How long something takes depends on what else the machine does, so a test waits up to a
limit far beyond that, and asserts what came, not when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

LONG = 120.0
"""Seconds after which what did not come never comes."""

T = TypeVar("T")


async def until(condition: Callable[[], object], missing: Callable[[], str] | str = "it never came to be") -> None:
    """Ask again and again, in between everything else in the event loop goes on. `missing` is said when it never holds."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, missing if isinstance(missing, str) else missing()
        await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object], missing: str = "it never came to be") -> None:
    """The same where no event loop runs."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, missing
        time.sleep(0.01)


async def in_time(awaitable: Awaitable[T]) -> T:
    """What it returns, or TimeoutError when it hangs. Whatever it must not wait for takes longer than `LONG`."""
    return await asyncio.wait_for(awaitable, LONG)

"""A request that is interrupted at any moment leaves no connection behind."""

from __future__ import annotations

import asyncio
import contextlib
import os

from tests.doubles.mock import serve
from tests.waiting import wait_for
from tui_agent.common.domain import UserMessage
from tui_agent.models.base import Model, ModelRequest
from tui_agent.models.connect import connect

STEPS = 40
"""Turns of the event loop, more than a new connection takes."""
TOGETHER = 8
"""Requests at once, more than there are idle connections, so that some need a new one."""
MOST = 2 * 4 + 6
"""Both ends of the idle connections that are kept, and what the test has open itself."""


def sockets() -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


async def read_reply(model: Model) -> None:
    request = ModelRequest(model="mock-model", messages=(UserMessage(text="hi"),))
    async for _part in model.stream(request):
        pass


async def test_an_interrupt_at_any_turn_of_the_loop_leaves_no_connection_open() -> None:
    async with serve() as server:
        model = connect("openai", f"{server.url}/v1", "token")
        for turns in range(STEPS):
            reading = [asyncio.create_task(read_reply(model)) for _ in range(TOGETHER)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        await wait_for(lambda: sockets() <= MOST)  # the server notices the ends a little later
        await model.aclose()

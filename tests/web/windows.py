"""Browser windows for tests of the page."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

PATIENCE = 60_000


IN_BROWSER = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
]
"""Marks of a test with `pages`: they are open in the browser that all tests share, and so is its event loop."""


def in_browser(test: Any) -> Any:
    """One such test among others."""
    for mark in IN_BROWSER:
        test = mark(test)
    return test


class Pages:
    """Browser windows, each as a browser of its own; whatever a page complains about fails the test."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self.said: list[str] = []
        self.asked: list[str] = []
        self._contexts: list[Any] = []

    async def close(self) -> None:
        """All windows."""
        for context in self._contexts:
            await context.close()

    async def open(self, link: str, *, size: tuple[int, int] = (1280, 800), look: Any = "dark") -> Any:
        page = await self.window(size=size, look=look)
        await enter(page, link)
        return page

    async def window(self, *, size: tuple[int, int] = (1280, 800), look: Any = "dark") -> Any:
        """An empty one."""
        width, height = size
        context = await self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=look, reduced_motion="reduce"
        )
        self._contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        await slowed(page)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        return page


async def slowed(page: Any) -> None:
    """With TUI_AGENT_SLOW_PAGES, milliseconds, each answer takes so long and each script six times as long as it would."""
    if slow := os.environ.get("TUI_AGENT_SLOW_PAGES"):
        told = await page.context.new_cdp_session(page)
        await told.send("Emulation.setCPUThrottlingRate", {"rate": 6})
        line = {"offline": False, "latency": int(slow), "downloadThroughput": -1, "uploadThroughput": -1}
        await told.send("Network.enable")
        await told.send("Network.emulateNetworkConditions", line)


async def enter(page: Any, link: str) -> None:
    """Through the door, until the last of the page's scripts has run."""
    await page.goto(link)
    await page.wait_for_selector("#mode option", state="attached")


async def still(page: Any) -> None:
    """Until what is asked stands long enough for an answer to be meant for it."""
    await page.wait_for_selector(".request")
    await when(page, "performance.now() - (document.querySelector('.request')?.dataset.since ?? Infinity) > 410")


async def shot(page: Any, name: str) -> None:
    if kept := os.environ.get("TUI_AGENT_TEST_PICTURES"):
        await page.wait_for_timeout(300)
        await page.screenshot(path=f"{kept}/{name}.png")


async def when(page: Any, expression: str) -> None:
    """Until it is true. Asked from outside: the page's own policy forbids code from strings, and stays in force."""
    async with asyncio.timeout(PATIENCE / 1000):
        while not await page.evaluate(expression):
            await page.wait_for_timeout(30)


async def say(page: Any, text: str) -> None:
    await page.fill("#say", text)
    await page.press("#say", "Enter")

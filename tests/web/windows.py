"""Browser windows for tests of the page."""

from __future__ import annotations

import asyncio
import os
from typing import Any

PATIENCE = 60_000


class Pages:
    """Browser windows, each as a browser of its own; whatever a page complains about fails the test."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self.said: list[str] = []
        self.asked: list[str] = []

    async def open(self, link: str, *, size: tuple[int, int] = (1280, 800), look: Any = "dark") -> Any:
        width, height = size
        context = await self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=look, reduced_motion="reduce"
        )
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        await page.goto(link)
        await page.wait_for_selector("#say")
        return page


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

"""Browser windows for tests of the page."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

TIMEOUT = 60_000


BROWSER_MARKS = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.needs("chromium"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="session"),
]
"""Marks of a test that uses `pages`; all share one browser and its event loop."""


def browser_test(test: Any) -> Any:
    """Mark a single test as a browser test."""
    for mark in BROWSER_MARKS:
        test = mark(test)
    return test


class BrowserPages:
    """Browser windows with separate profiles. Anything that a page writes to the console fails the test."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._contexts: list[Any] = []

    async def close(self) -> None:
        """Close all windows."""
        for context in self._contexts:
            await context.close()

    async def open(self, link: str, *, size: tuple[int, int] = (1280, 800), look: Any = "dark") -> Any:
        page = await self.window(size=size, look=look)
        await open_link(page, link)
        return page

    async def window(self, *, size: tuple[int, int] = (1280, 800), look: Any = "dark", touch: bool = False) -> Any:
        """Open an empty window; with `touch` it is one of a phone."""
        width, height = size
        context = await self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=look, reduced_motion="reduce", has_touch=touch,
            is_mobile=touch,
        )  # fmt: skip
        self._contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(TIMEOUT)
        await throttle(page)
        page.on("console", lambda message: self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        return page


async def throttle(page: Any) -> None:
    """With TUI_AGENT_SLOW_PAGES=MS, delay each response by that time and slow down scripts by a factor of six."""
    if slow := os.environ.get("TUI_AGENT_SLOW_PAGES"):
        devtools = await page.context.new_cdp_session(page)
        await devtools.send("Emulation.setCPUThrottlingRate", {"rate": 6})
        line = {"offline": False, "latency": int(slow), "downloadThroughput": -1, "uploadThroughput": -1}
        await devtools.send("Network.enable")
        await devtools.send("Network.emulateNetworkConditions", line)


async def open_link(page: Any, link: str) -> None:
    """Open a link and wait until the page's scripts have run."""
    await page.goto(link)
    await page.wait_for_selector("#mode option", state="attached")


async def wait_until_answerable(page: Any) -> None:
    """Wait until the request has been shown long enough to accept an answer, and read all of it."""
    await page.wait_for_selector(".request")
    await wait_for(page, "performance.now() - (document.querySelector('.request')?.dataset.since ?? Infinity) > 410")
    await page.evaluate(READ_ALL)


READ_ALL = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (const row of document.querySelectorAll('.request .row.plus, .request .row.minus, .request .seen-line')) {
    row.scrollIntoView({ block: 'nearest' });
    await frame();
  }
}"""


async def read_all(page: Any) -> None:
    """Scroll every changed line of the request into view, as a reader does."""
    await page.wait_for_selector(".request")
    await page.evaluate(READ_ALL)


async def screenshot(page: Any, name: str) -> None:
    if folder := os.environ.get("TUI_AGENT_TEST_PICTURES"):
        await page.wait_for_timeout(300)
        await page.screenshot(path=f"{folder}/{name}.png")


async def wait_for(page: Any, expression: str) -> None:
    """Wait until `expression` is true. It is polled from outside, since the page's policy forbids code from strings."""
    async with asyncio.timeout(TIMEOUT / 1000):
        while not await page.evaluate(expression):
            await page.wait_for_timeout(30)


async def send_message(page: Any, text: str) -> None:
    await page.fill("#message", text)
    await page.press("#message", "Enter")

"""The whole demonstration on the page: by keyboard alone, by finger on small phones, and again after a resume (X4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.nightly import sampled
from tests.web.test_accessibility import HIDDEN_CHOICES
from tests.web.test_following import LAST_IN_VIEW
from tests.web.test_running import printed_link, start
from tests.web.windows import (
    BROWSER_MARKS,
    TIMEOUT,
    BrowserPages,
    open_link,
    screenshot,
    wait_for,
    wait_until_answerable,
)

pytestmark = BROWSER_MARKS

WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HIDDEN_DECISIONS = HIDDEN_CHOICES.replace(".choices button", ".choices:not(.column) button")
"""Alternatives are part of the plan and scrolled with it."""
COMPOSER_IN_VIEW = "document.getElementById('composer').getBoundingClientRect().bottom <= innerHeight"
DRAFT = "document.getElementById('message')?.value.length > 10"


@asynccontextmanager
async def demonstration(folder: Path, pages: BrowserPages) -> AsyncIterator[str]:
    """Run `tui-agent web --demo` in agent mode; yield its link."""
    program = await start(folder / "home", "web", "--port", "0", "--demo", "--mode", "agent")
    try:
        async with asyncio.timeout(2 * TIMEOUT / 1000):
            yield await printed_link(program)
    finally:
        program.terminate()
        await program.communicate()
    pages.messages[:] = [message for message in pages.messages if "ERR_" not in message]


async def test_by_keyboard_alone(tmp_path: Path, pages: BrowserPages) -> None:
    async with demonstration(tmp_path, pages) as link:
        page = await pages.open(link)
        await wait_for(page, DRAFT)
        await page.keyboard.press("Enter")
        pressed: list[str] = []
        while await page.locator(".outcome").count() == 0:
            if await page.locator(".request").count():
                await wait_until_answerable(page)
                await screenshot(page, f"demo-{len(pressed)}-dark")
                keys = await page.locator(".request [data-key='a']").count()
                key = "a" if keys else "Control+Enter"
                if not keys:  # the summary has fields only: Tab reaches them
                    await page.keyboard.press("Tab")
                    await page.keyboard.press("Tab")
                title = await page.inner_text(".request h2")
                await page.keyboard.press(key)
                await wait_for(page, f"document.querySelector('.request h2')?.innerText !== {title!r}")
                pressed.append(key)
            await page.wait_for_timeout(50)
        assert pressed.count("a") >= 3
        await wait_for(page, "document.activeElement.id === 'message'")
        await page.keyboard.type("/undo")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Undone: 1 file")
        await wait_for(page, LAST_IN_VIEW)


@pytest.mark.parametrize("size", sampled([(390, 844), (320, 568)], [(320, 568)]), ids=["390", "320"])
async def test_by_finger_on_a_phone(size: tuple[int, int], tmp_path: Path, pages: BrowserPages) -> None:
    async with demonstration(tmp_path, pages) as link:
        page: Any = await pages.window(size=size, touch=True, look="light")
        await open_link(page, link)
        await wait_for(page, DRAFT)
        await page.tap("#send")
        count = 0
        while await page.locator(".outcome").count() == 0:
            if await page.locator(".request").count():
                await wait_until_answerable(page)
                await screenshot(page, f"demo-{size[0]}-{count}-light")
                assert await page.evaluate(WIDE) <= 0
                assert await page.evaluate(COMPOSER_IN_VIEW)
                assert await page.evaluate(HIDDEN_DECISIONS) == []
                choice = page.locator(".request button.approve:enabled, .request button.primary:enabled").first
                title = await page.inner_text(".request h2")
                if await choice.count():
                    await choice.tap()
                    await wait_for(page, f"document.querySelector('.request h2')?.innerText !== {title!r}")
                    count += 1
            await page.wait_for_timeout(50)
        assert count >= 3
        await wait_for(page, LAST_IN_VIEW)
        await page.reload()
        await page.wait_for_selector(".outcome.done")
        await screenshot(page, f"demo-{size[0]}-done-light")
        assert await page.evaluate(WIDE) <= 0

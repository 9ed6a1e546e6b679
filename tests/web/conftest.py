from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.web.windows import BrowserPages


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Any]:
    """Chromium, started once since that takes longer than most tests. They share its event loop (`BROWSER_MARKS`)."""
    playwright = pytest.importorskip("playwright.async_api")
    async with playwright.async_playwright() as driver:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="session")
async def pages(browser: Any) -> AsyncIterator[BrowserPages]:
    pages = BrowserPages(browser)
    yield pages
    await pages.close()
    assert pages.messages == []

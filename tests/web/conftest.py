from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.web.windows import Pages


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Any]:
    """One for all tests: to start it takes longer than most of them. They share its event loop, so each is marked
    `IN_BROWSER` (tests.web.windows)."""
    playwright = pytest.importorskip("playwright.async_api")
    async with playwright.async_playwright() as driver:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        one = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        yield one
        await one.close()


@pytest_asyncio.fixture(loop_scope="session")
async def pages(browser: Any) -> AsyncIterator[Pages]:
    one = Pages(browser)
    yield one
    await one.close()
    assert one.said == []

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator

import pytest

from tests.web.windows import Pages


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    playwright = pytest.importorskip("playwright.async_api")
    async with playwright.async_playwright() as driver:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        one = Pages(browser)
        yield one
        await browser.close()
    assert one.said == []

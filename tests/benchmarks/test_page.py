"""The page of a session of 2,000 messages can be used within a second (X4)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks.page import LIMIT, measure
from tests.web.windows import browser_test


@browser_test
@pytest.mark.skipif(sys.platform != "linux", reason="reads processor times from /proc")
async def test_two_thousand_messages_are_opened_with_little_work(tmp_path: Path) -> None:
    pytest.importorskip("playwright.async_api")
    found = await measure(tmp_path, 3)
    assert min(each.work for each in found) < LIMIT / 2, "the other half is for what the browser itself does"
    assert max(each.layouts for each in found) <= 150

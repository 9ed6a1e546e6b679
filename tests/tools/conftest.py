from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.fake_tool_context import FakeToolContext


@pytest.fixture
def ctx(tmp_path: Path) -> FakeToolContext:
    return FakeToolContext(tmp_path.resolve())

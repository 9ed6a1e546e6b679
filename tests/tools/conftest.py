from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.fake_bench import FakeBench


@pytest.fixture
def bench(tmp_path: Path) -> FakeBench:
    return FakeBench(tmp_path.resolve())

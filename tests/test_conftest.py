from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_runtest_setup


def item_that_needs(*programs: str) -> Any:
    return SimpleNamespace(iter_markers=lambda name: [pytest.mark.needs(*programs).mark])


def test_a_missing_program_skips_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUI_AGENT_CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program"):
        pytest_runtest_setup(item_that_needs("sh", "no-such-program"))


def test_in_ci_a_missing_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_CI", "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-program"):
        pytest_runtest_setup(item_that_needs("no-such-program"))


def test_a_program_that_is_there_is_no_matter() -> None:
    pytest_runtest_setup(item_that_needs("sh"))


def test_the_world_is_still_and_empty() -> None:
    assert "NO_COLOR" not in os.environ
    assert os.environ["TZ"] == "UTC"
    assert os.listdir(os.environ["HOME"]) in ([], ["tui-agent"])

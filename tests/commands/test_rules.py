from __future__ import annotations

from pathlib import Path

import pytest

from tui_agent.__main__ import main
from tui_agent.common import paths
from tui_agent.engine.context.project import offer_rules


def test_rules_are_written_once_and_never_over_the_users_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert "Never" in paths.agents_file().read_text()
    paths.agents_file().write_text("mine")
    assert main(["rules"]) == 0
    assert paths.agents_file().read_text() == "mine"
    assert "left unchanged" in capsys.readouterr().out


def test_a_home_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(Path("/proc/nowhere")))
    assert main(["rules"]) == 1
    assert "/proc/nowhere" in capsys.readouterr().err


def test_the_offer_is_made_once() -> None:
    assert offer_rules() is not None
    assert offer_rules() is None


def test_no_offer_to_one_who_has_rules() -> None:
    paths.agents_file().write_text("mine")
    assert offer_rules() is None

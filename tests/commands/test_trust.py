from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui_agent.__main__ import main
from tui_agent.safety import trust


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    (tmp_path / "home" / "app").mkdir(parents=True)
    return tmp_path / "home"


def test_a_folder_is_trusted_listed_and_revoked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = home / "app"
    (app / "AGENTS.md").write_text("x")
    assert main(["trust"]) == 0 and "No folder is trusted" in capsys.readouterr().err
    assert main(["trust", "add", str(app)]) == 0 and trust.is_trusted(app)
    assert "AGENTS.md: rules" in capsys.readouterr().out
    assert main(["trust", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(app)
    assert main(["trust", "list"]) == 0 and str(app) in capsys.readouterr().out
    assert main(["trust", "remove", str(app)]) == 0 and not trust.is_trusted(app)
    capsys.readouterr()
    assert main(["trust", "remove", str(app)]) == 1
    assert "is not trusted" in capsys.readouterr().err


def test_an_unsafe_folder_needs_a_word(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", "add", str(home)]) == 3 and not trust.is_trusted(home)
    assert "your home folder" in capsys.readouterr().err
    assert main(["trust", "add", str(home), "--yes"]) == 0
    assert trust.is_trusted(home) and not trust.is_trusted(home / "app")
    assert main(["trust", "add", str(home / "none")]) == 2

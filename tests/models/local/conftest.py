"""The local engine with a double of llama.cpp, and with llama.cpp itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ENGINE
from tui_agent.models.local import engine

DOUBLES = Path(__file__).parents[2] / "doubles" / "engine"


def _put_first(folder: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(folder))


@pytest.fixture
def engine_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's process imports a double of xllamacpp."""
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "home"))
    _put_first(DOUBLES, monkeypatch)


@pytest.fixture
def real_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's process imports xllamacpp from the folder for tests, if it is not installed."""
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "home"))
    if folder := os.environ.get(ENGINE):
        _put_first(folder, monkeypatch)


def processes(weights: Path) -> list[int]:
    """The processes of the engine that runs a file: watcher and engine."""
    folder = str(engine.engine_folder(weights)).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if folder in arguments and state != b"Z":
                found.append(int(entry.name))
    return sorted(found)

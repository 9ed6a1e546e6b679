"""The local engine with a double of llama.cpp, and with llama.cpp itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.doubles.local_engine import DOUBLES, ENGINE


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

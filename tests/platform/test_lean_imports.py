from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tui_agent.platform.lean_imports import import_without


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lean_example"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .heavy import tool\nfrom .light import VALUE\n")
    (folder / "heavy.py").write_text("tool = 'the real one'\n")
    (folder / "light.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lean_example", "lean_example.heavy", "lean_example.light"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder.name


def test_the_part_is_not_imported(package: str) -> None:
    module = import_without(package, "heavy", "tool")
    assert module.VALUE == 1
    assert f"{package}.heavy" not in sys.modules


def test_the_real_part_can_be_imported_later(package: str) -> None:
    import_without(package, "heavy", "tool")
    assert importlib.import_module(f"{package}.heavy").tool == "the real one"


def test_a_package_that_is_already_imported_stays_whole(package: str) -> None:
    whole = importlib.import_module(package)
    assert import_without(package, "heavy", "tool") is whole
    assert whole.tool == "the real one"

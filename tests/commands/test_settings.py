from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import yaml

from tui_agent.__main__ import main
from tui_agent.settings import load

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_printed_settings_are_a_file_that_loads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["settings"]) == 0
    text = capsys.readouterr().out
    whole = "\n".join(
        line.removeprefix("#") if line.startswith("#") and ": " in line else line
        for line in text.splitlines()
    )
    assert yaml.safe_load(text) is None
    assert "approval_mode" in whole
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert not load(file, environ={}).problems


def test_the_page_of_settings_is_up_to_date() -> None:
    pages = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    for name, text in pages.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text

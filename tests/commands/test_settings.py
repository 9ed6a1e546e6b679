from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from tui_agent.__main__ import main
from tui_agent.settings import load_settings
from tui_agent.settings.model import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_printed_settings_are_a_file_that_loads(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["settings"]) == 0
    text = capsys.readouterr().out
    uncommented = "\n".join(
        line.removeprefix("#") if line.startswith("#") and ": " in line else line for line in text.splitlines()
    )
    assert yaml.safe_load(text) is None
    assert "approval_mode" in uncommented
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert not load_settings(file, environ={}).problems


def test_the_page_of_settings_is_up_to_date() -> None:
    pages = runpy.run_path(str(DOCS / "generate.py"))["pages"]()
    for name, text in pages.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text


def names_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Return the dotted names of all settings."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            names |= names_of(inner, f"{prefix}{name}.")
        else:
            names.add(f"{prefix}{name}")
    return names


def test_the_page_lists_every_setting_with_type_default_and_meaning() -> None:
    page = (DOCS / "settings.md").read_text(encoding="utf-8")
    rows = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            rows[cells[0].strip("`")] = cells[1:4]
    assert set(rows) == names_of(Settings)
    assert [name for name, (kind, default, meaning) in rows.items() if not kind or default in ("", "``")] == []
    assert [name for name, (_, _, meaning) in rows.items() if len(meaning.split()) < 3] == []

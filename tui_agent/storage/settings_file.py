"""Writes the user's settings file (G1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui_agent.common import paths
from tui_agent.platform.files import read_file, replace_file
from tui_agent.settings import document
from tui_agent.settings.tree import MAX_FILE_SIZE


def write_settings(path: Path, values: Mapping[str, Any]) -> None:
    """Write values by name, None to remove one; the rest of the file, with its comments, stays. Blocks briefly.

    Raises SettingsEditError, UnicodeError, FileFault or OSError, such as when somebody else changes it now.
    """
    if not path.exists():
        paths.ensure_private_dir(path.parent)
        text, sha256 = "", None
    else:
        file = read_file(path, MAX_FILE_SIZE)
        text, sha256 = file.data.decode("utf-8-sig"), file.sha256
    new_text = text
    for name, value in values.items():
        where = tuple(name.split("."))
        new_text = (
            document.without_setting(new_text, where)
            if value is None
            else document.with_setting(new_text, where, value)
        )
    if new_text != text:
        replace_file(path, new_text.encode(), sha256, follow=True, mode=0o600)

"""`/settings`: shows every setting with its value and source, and edits the user's file (U4, G1)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from tui_agent.common import paths
from tui_agent.common.suggestions import did_you_mean
from tui_agent.settings import document
from tui_agent.settings.checking import setting_fields, setting_paths
from tui_agent.settings.tree import KeyPath
from tui_agent.text import one_line
from tui_agent.tui.commands import CommandApp
from tui_agent.tui.settings_file import SettingsFile
from widgets.settings_form import SettingRow, SettingsForm

SETTING_SIMILARITY: Final = 0.6
"""Similarity from which a setting is suggested."""
_URL_CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@")


def _unquoted(literal: str) -> str:
    """Remove the quotes of a YAML string."""
    is_quoted = literal.startswith('"') and literal.endswith('"') and len(literal) < 400
    return str(json.loads(literal)) if is_quoted else literal


def show_settings(app: CommandApp, arguments: str) -> None:
    """Open the settings screen, searching for a name if one is given; with `NAME VALUE`, change that setting."""
    if app.preferences.loaded is None:
        app.hints.show("settings are not available here")
        return
    name, separator, text = arguments.partition(" ")
    if not separator:
        name, _, text = arguments.partition("=")
    if not text.strip():
        app.push_screen(SettingsScreen(app, paths.config_file(), name))
        return
    where, names = tuple(name.split(".")), [".".join(where) for where in setting_paths()]
    if name not in names:
        suggestion = did_you_mean(name, names, SETTING_SIMILARITY)
        app.hints.show(f"there is no setting {one_line(name, 60)}{suggestion or '; /settings lists them'}")
        return
    value, problem = document.parse_value(where, text.strip())
    if problem:
        app.hints.show(one_line(f"{name}: {problem}", 300))
    else:
        file = SettingsFile(app, paths.config_file())
        app.work(file.change, {name: value}, lambda text: app.hints.show(f"{name}: {text}"))


class SettingsScreen(SettingsForm):
    """The settings form, reading and writing the user's settings file."""

    def __init__(self, app: CommandApp, path: Path, query: str = "") -> None:
        """`query` is the initial search."""
        self._base = app
        self.path = path
        self.file = SettingsFile(app, path)
        self._ends_editing = False
        """The next report ends the editing of the value that it is about."""
        super().__init__(self.read_rows(), file=one_line(str(path), 200), query=query)

    def read_rows(self) -> list[SettingRow]:
        """Return a row for every setting."""
        return [self._row(where, field) for where, field in setting_fields()]

    def _row(self, where: KeyPath, field: Any) -> SettingRow:
        name, kind = ".".join(where), document.describe_type(field)
        value: Any = self.file.loaded.settings
        for part in where:
            value = getattr(value, part)
        source = self.file.loaded.sources.get(name, "")
        default = field.get_default(call_default_factory=True)
        choices = tuple(choice.strip() for choice in kind.split("|")) if "|" in kind and ":" not in kind else ()
        literal = "" if value is None else document.yaml_literal(value)
        masked = self._masked(literal)
        return SettingRow(
            name=name,
            value=_unquoted(masked) or "not set",
            source=one_line(source.removeprefix(f"{self.path}, ").replace(str(self.path), "your file"), 200),
            description=field.description or "",
            kind=kind,
            default="not set" if default is None else _unquoted(document.yaml_literal(default)),
            choices=choices,
            text=_unquoted(literal) if masked == literal else "",
            in_user_file=source.startswith(str(self.path)),
            heading=document.heading_before(where),
        )

    def _masked(self, text: str) -> str:
        """Mask passwords and tokens (A7)."""
        session = self._base.session
        text = _URL_CREDENTIALS.sub(r"\1***@", one_line(text, 400))
        return session.mask.mask(text) if session is not None else text

    def save(self, name: str, text: str) -> None:
        """Set a setting to a YAML literal; an empty text resets it."""
        where = tuple(name.split("."))
        if not text.strip():
            self.reset(name)
            return
        value, problem = document.parse_value(where, text)
        if problem:
            self.show_message(one_line(problem, 300))
        else:
            self._change(name, value)

    def reset(self, name: str) -> None:
        """Remove a setting from the user's file."""
        self._change(name, None)

    def _change(self, name: str, value: Any) -> None:
        self._ends_editing = True
        self._base.work(self.file.change, {name: value}, self._report)

    def _report(self, text: str) -> None:
        """Show the settings with what came of a change; once the screen is closed, as a hint."""
        ends_editing, self._ends_editing = self._ends_editing, False
        if self.is_attached and self.editing is not None and not ends_editing:
            self.rows = self.read_rows()
            self.show_message(text)
        elif self.is_attached:
            self.show_rows(self.read_rows(), text)
        else:
            self._base.hints.show(text)

"""`/settings`: shows every setting with its value and source, and edits the user's file (U4, G1)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tui_agent.common import paths
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.settings import LoadedSettings, document
from tui_agent.settings.checking import setting_fields
from tui_agent.settings.source import load_settings
from tui_agent.settings.tree import MAX_FILE_SIZE, KeyPath
from tui_agent.text import one_line
from tui_agent.tui.commands import CommandApp
from widgets.settings_form import SettingRow, SettingsForm

IMMEDIATE: Final = ("theme", "themes", "keys", "vim", "animation", "notifications", "notify_of")
"""Settings that take effect immediately; the others do in the next session."""
_URL_CREDENTIALS = re.compile(r"(https?://)[^/@\s]+@")


def _unquoted(literal: str) -> str:
    """Remove the quotes of a YAML string."""
    is_quoted = literal.startswith('"') and literal.endswith('"') and len(literal) < 400
    return str(json.loads(literal)) if is_quoted else literal


def show_settings(app: CommandApp, _: str) -> None:
    """Open the settings screen."""
    loaded = app.preferences.loaded
    if loaded is None:
        app.hints.show("settings are not available here")
        return
    app.push_screen(SettingsScreen(app, loaded, paths.config_file()))


class SettingsScreen(SettingsForm):
    """The settings form, reading and writing the user's settings file."""

    def __init__(self, app: CommandApp, loaded: LoadedSettings, path: Path) -> None:
        self._base = app
        self.loaded = loaded
        self.path = path
        self._write_lock = asyncio.Lock()
        super().__init__(self.read_rows(), file=one_line(str(path), 200))

    def read_rows(self) -> list[SettingRow]:
        """Return a row for every setting."""
        return [self._row(where, field) for where, field in setting_fields()]

    def _row(self, where: KeyPath, field: Any) -> SettingRow:
        name, kind = ".".join(where), document.describe_type(field)
        value: Any = self.loaded.settings
        for part in where:
            value = getattr(value, part)
        source = self.loaded.sources.get(name, "")
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
            self._change(name, lambda text: document.with_setting(text, where, value))

    def reset(self, name: str) -> None:
        """Remove a setting from the user's file."""
        self._change(name, lambda text: document.without_setting(text, tuple(name.split("."))))

    def _change(self, name: str, edit: Callable[[str], str]) -> None:
        self._base.work(self._apply_change, name, edit)

    async def _apply_change(self, name: str, edit: Callable[[str], str]) -> None:
        async with self._write_lock:
            try:
                reloaded = await asyncio.to_thread(self._write, edit)
            except (FileFault, OSError, document.SettingsEditError, UnicodeError) as error:
                self.show_message(one_line(f"nothing changed: {error}", 400))
                return
        self.loaded = self._with_command_line(reloaded)
        if name in IMMEDIATE:
            self._base.preferences.apply(self.loaded)
        else:
            self._base.preferences.loaded = self.loaded
        if self.is_attached:
            self.show_rows(self.read_rows(), self._result_message(name))

    def _result_message(self, name: str) -> str:
        source = self.loaded.sources.get(name, "")
        problems = [problem for problem in self.loaded.problems if f"{problem.field}.".startswith(f"{name}.")]
        if problems:
            return one_line(f"saved; {problems[0].message}", 300)
        if source.startswith(("environment", "command line")):
            return one_line(f"saved, but {source} overrides it", 200)
        return "saved" if name in IMMEDIATE else "saved · takes effect in the next session"

    def _write(self, edit: Callable[[str], str]) -> LoadedSettings:
        """Edit the file, unless somebody else changes it at the same time, and reload all settings."""
        if not self.path.exists():
            paths.ensure_private_dir(self.path.parent)
            text, sha256 = "", None
        else:
            file = read_file(self.path, MAX_FILE_SIZE)
            text, sha256 = file.data.decode("utf-8-sig"), file.sha256
        new_text = edit(text)
        if new_text != text:
            replace_file(self.path, new_text.encode(), sha256, follow=True, mode=0o600)
        view = self._base.view
        workspace_file = (
            paths.workspace_settings_file(Path(view.workspace)) if view.workspace and view.trusted else None
        )
        return load_settings(self.path, workspace_file)

    def _with_command_line(self, reloaded: LoadedSettings) -> LoadedSettings:
        """Add the settings from the command line to reloaded ones."""
        from_flags = {name: source for name, source in self.loaded.sources.items() if source.startswith("command line")}
        values = reloaded.settings.model_dump(exclude_unset=True)
        for name in from_flags:
            target, current, parts = values, self.loaded.settings.model_dump(), name.split(".")
            for part in parts[:-1]:
                target, current = target.setdefault(part, {}), current[part]
            target[parts[-1]] = current[parts[-1]]
        settings = type(reloaded.settings).model_validate(values)
        return LoadedSettings(settings=settings, problems=reloaded.problems, sources=reloaded.sources | from_flags)

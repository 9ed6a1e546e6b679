"""`/settings`: every setting with its value and its source; changes go into the user's own file (U4, G1)."""

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
from tui_agent.settings import Loaded, document
from tui_agent.settings.checking import setting_fields
from tui_agent.settings.source import load_settings
from tui_agent.settings.tree import LIMIT, Where
from tui_agent.text import one_line
from tui_agent.tui.commands import CommandApp
from widgets.settings_form import SettingRow, SettingsForm

AT_ONCE: Final = ("theme", "themes", "keys", "vim", "animation", "notifications", "notify_of")
"""Settings of the screen: they hold from now on, the others from the next session on."""
_USER = re.compile(r"(https?://)[^/@\s]+@")
"""A name and a password in an address."""


def _bare(word: str) -> str:
    """A text without the quotes that YAML may need."""
    return str(json.loads(word)) if word.startswith('"') and word.endswith('"') and len(word) < 400 else word


def show_settings(app: CommandApp, _: str) -> None:
    """Open the screen."""
    loaded = app.preferences.loaded
    if loaded is None:
        app.hints.show("settings are not available here")
        return
    app.push_screen(SettingsScreen(app, loaded, paths.config_file()))


class SettingsScreen(SettingsForm):
    """The settings form on the user's own file."""

    def __init__(self, app: CommandApp, loaded: Loaded, path: Path) -> None:
        self._base = app
        self.loaded = loaded
        self.path = path
        self._writing = asyncio.Lock()
        super().__init__(self.read_rows(), file=one_line(str(path), 200))

    # --- what is shown ---

    def read_rows(self) -> list[SettingRow]:
        """Every setting as it is now."""
        return [self._row(where, field) for where, field in setting_fields()]

    def _row(self, where: Where, field: Any) -> SettingRow:
        name, kind = ".".join(where), document.describe_type(field)
        value: Any = self.loaded.settings
        for part in where:
            value = getattr(value, part)
        source = self.loaded.sources.get(name, "")
        default = field.get_default(call_default_factory=True)
        words = tuple(word.strip() for word in kind.split("|")) if "|" in kind and ":" not in kind else ()
        typed = "" if value is None else document.yaml_literal(value)
        shown = self._without_secrets(typed)
        return SettingRow(
            name=name,
            value=_bare(shown) or "not set",
            source=one_line(source.removeprefix(f"{self.path}, ").replace(str(self.path), "your file"), 200),
            says=field.description or "",
            kind=kind,
            default="not set" if default is None else _bare(document.yaml_literal(default)),
            words=words,
            typed=_bare(typed) if shown == typed else "",
            own=source.startswith(str(self.path)),
        )

    def _without_secrets(self, text: str) -> str:
        """Without passwords and tokens (A7)."""
        session = self._base.session
        text = _USER.sub(r"\1…@", one_line(text, 400))
        return session.mask.mask(text) if session is not None else text

    # --- what the user wants ---

    def save(self, name: str, text: str) -> None:
        """See SettingsForm."""
        where = tuple(name.split("."))
        if not text.strip():
            self.reset(name)
            return
        value, wrong = document.parse_value(where, text)
        if wrong:
            self.say(one_line(wrong, 300))
        else:
            self._change(name, lambda before: document.with_setting(before, where, value))

    def reset(self, name: str) -> None:
        """See SettingsForm."""
        self._change(name, lambda before: document.without_setting(before, tuple(name.split("."))))

    def _change(self, name: str, change: Callable[[str], str]) -> None:
        self._base.run_worker(self._apply_change(name, change), exit_on_error=False)

    async def _apply_change(self, name: str, change: Callable[[str], str]) -> None:
        async with self._writing:
            try:
                fresh = await asyncio.to_thread(self._write, change)
            except (FileFault, OSError, document.SettingsEditError, UnicodeError) as error:
                self.say(one_line(f"nothing changed: {error}", 400))
                return
        self.loaded = self._with_flags(fresh)
        if name in AT_ONCE:
            self._base.preferences.apply(self.loaded)
        else:
            self._base.preferences.loaded = self.loaded
        if self.is_attached:
            self.show_rows(self.read_rows(), self._result_message(name))

    def _result_message(self, name: str) -> str:
        source = self.loaded.sources.get(name, "")
        problems = [one for one in self.loaded.problems if (one.field + ".").startswith(f"{name}.")]
        if problems:
            return one_line(f"saved; {problems[0].message}", 300)
        if source.startswith(("environment", "command line")):
            return one_line(f"saved, but {source} overrides it", 200)
        return "saved" if name in AT_ONCE else "saved · takes effect in the next session"

    def _write(self, change: Callable[[str], str]) -> Loaded:
        """Change the file, unless it changes under our hands, and read all settings again."""
        if not self.path.exists():
            paths.ensure_private_dir(self.path.parent)
            text, sha256 = "", None
        else:
            found = read_file(self.path, LIMIT)
            text, sha256 = found.data.decode("utf-8-sig"), found.sha256
        new = change(text)
        if new != text:
            replace_file(self.path, new.encode(), sha256, follow=True, mode=0o600)
        view = self._base.view
        own = paths.workspace_settings_file(Path(view.workspace)) if view.workspace and view.trusted else None
        return load_settings(self.path, own)

    def _with_flags(self, fresh: Loaded) -> Loaded:
        """What the command line set is not read again, and stays."""
        kept = {name: by for name, by in self.loaded.sources.items() if by.startswith("command line")}
        values = fresh.settings.model_dump(exclude_unset=True)
        for name in kept:
            at, now, parts = values, self.loaded.settings.model_dump(), name.split(".")
            for part in parts[:-1]:
                at, now = at.setdefault(part, {}), now[part]
            at[parts[-1]] = now[parts[-1]]
        settings = type(fresh.settings).model_validate(values)
        return Loaded(settings=settings, problems=fresh.problems, sources=fresh.sources | kept)

"""`/settings`: every setting with its value and its source; changes go into the user's own file (U4, G1)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tui_agent import paths
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.settings import Loaded, document, editing
from tui_agent.settings.source import load
from tui_agent.settings.yaml_tree import LIMIT, Where
from tui_agent.text import one_line
from widgets.settings_form import SettingRow, SettingsForm

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

AT_ONCE: Final = ("theme", "themes", "keys", "vim", "animation", "notifications", "notify_of")
"""Settings of the screen: they hold from now on, the others from the next session on."""
_USER = re.compile(r"(https?://)[^/@\s]+@")
"""A name and a password in an address."""


def _bare(word: str) -> str:
    """A text without the quotes that YAML may need."""
    return str(json.loads(word)) if word.startswith('"') and word.endswith('"') and len(word) < 400 else word


def show(app: TuiAgentApp) -> None:
    """Open the screen."""
    loaded = app.preferences.loaded
    if loaded is None:
        app.hints.say("the settings are not known here")
        return
    SettingsScreen(app, loaded, paths.config_file()).begin()


class SettingsScreen:
    """What the form wants, done with the file."""

    def __init__(self, app: TuiAgentApp, loaded: Loaded, file: Path) -> None:
        self.app = app
        self.loaded = loaded
        self.file = file
        self.form = SettingsForm(self, self.rows(), file=one_line(str(file), 200))
        self._writing = asyncio.Lock()

    def begin(self) -> None:
        """Show the form."""
        self.app.push_screen(self.form)

    # --- what is shown ---

    def rows(self) -> list[SettingRow]:
        """Every setting as it is now."""
        return [self._row(where, field) for where, field in document.fields()]

    def _row(self, where: Where, field: Any) -> SettingRow:
        name, kind = ".".join(where), document.kind_of(field)
        value: Any = self.loaded.settings
        for part in where:
            value = getattr(value, part)
        source = self.loaded.sources.get(name, "")
        default = field.get_default(call_default_factory=True)
        words = tuple(word.strip() for word in kind.split("|")) if "|" in kind and ":" not in kind else ()
        typed = "" if value is None else editing.literal(value)
        shown = self._hidden(typed)
        return SettingRow(
            name=name,
            value=_bare(shown) or "not set",
            source=one_line(source.removeprefix(f"{self.file}, ").replace(str(self.file), "your file"), 200),
            says=field.description or "",
            kind=kind,
            default="not set" if default is None else _bare(editing.literal(default)),
            words=words,
            typed=_bare(typed) if shown == typed else "",
            own=source.startswith(str(self.file)),
        )

    def _hidden(self, text: str) -> str:
        """Without passwords and tokens (A7)."""
        session = self.app.session
        text = _USER.sub(r"\1…@", one_line(text, 400))
        return session.mask.mask(text) if session is not None else text

    # --- what is wanted ---

    def save(self, name: str, text: str) -> None:
        """See SettingsDoor."""
        where = tuple(name.split("."))
        if not text.strip():
            self.reset(name)
            return
        value, wrong = editing.value_of(where, text)
        if wrong:
            self.form.say(one_line(wrong, 300))
        else:
            self._change(name, lambda before: editing.edited(before, where, value))

    def reset(self, name: str) -> None:
        """See SettingsDoor."""
        self._change(name, lambda before: editing.without(before, tuple(name.split("."))))

    def _change(self, name: str, change: Callable[[str], str]) -> None:
        self.app.run_worker(self._changed(name, change), exit_on_error=False)

    async def _changed(self, name: str, change: Callable[[str], str]) -> None:
        async with self._writing:
            try:
                fresh = await asyncio.to_thread(self._write, change)
            except (FileFault, OSError, editing.CannotEdit, UnicodeError) as error:
                self.form.say(one_line(f"nothing was changed: {error}", 400))
                return
        self.loaded = self._with_flags(fresh)
        if name in AT_ONCE:
            self.app.preferences.take(self.loaded)
        else:
            self.app.preferences.loaded = self.loaded
        if self.form.is_attached:
            self.form.show_rows(self.rows(), self._told(name))

    def _told(self, name: str) -> str:
        source = self.loaded.sources.get(name, "")
        problems = [one for one in self.loaded.problems if (one.field + ".").startswith(f"{name}.")]
        if problems:
            return one_line(f"written; {problems[0].message}", 300)
        if source.startswith(("environment", "command line")):
            return one_line(f"written, but {source} counts more", 200)
        return "written" if name in AT_ONCE else "written · holds from the next session on"

    def _write(self, change: Callable[[str], str]) -> Loaded:
        """Change the file, unless it changes under our hands, and read all settings again."""
        if not self.file.exists():
            paths.ensure_private_dir(self.file.parent)
            text, sha256 = "", None
        else:
            found = read_file(self.file, LIMIT)
            text, sha256 = found.data.decode("utf-8-sig"), found.sha256
        new = change(text)
        if new != text:
            replace_file(self.file, new.encode(), sha256, follow=True, mode=0o600)
        view = self.app.view
        own = paths.workspace_settings_file(Path(view.workspace)) if view.workspace and view.trusted else None
        return load(self.file, own)

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

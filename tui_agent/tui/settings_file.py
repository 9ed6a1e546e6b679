"""Changes the user's settings file, and applies what changed to the session (U4, G1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tui_agent.common import paths
from tui_agent.common.errors import JournalBroken
from tui_agent.platform.file_faults import FileFault
from tui_agent.settings import LoadedSettings, document
from tui_agent.settings.model import settings_subject
from tui_agent.settings.source import load_settings
from tui_agent.storage.settings_file import write_settings
from tui_agent.text import one_line

if TYPE_CHECKING:
    from tui_agent.engine.models.choice import ModelChoice
    from tui_agent.tui.commands import CommandApp

IMMEDIATE: Final = ("theme", "themes", "keys", "vim", "animation", "notifications", "notify_of")
"""Settings of the screen, which take effect immediately."""
MODEL_LIMITS: Final = (
    *("caps.reply_tokens", "timeouts.connect", "timeouts.idle", "timeouts.first_byte_local"),
    *("timeouts.first_byte_remote", "timeouts.progress_local", "timeouts.progress_remote"),
)
"""Limits of requests to models: like the settings of models and their server, they hold from the next request on."""
THIS_SESSION: Final = "this session"
"""Source of a value that the environment or the command line overrides at the next start."""


def is_of_models(name: str) -> bool:
    """Return whether a setting is used from the next request on."""
    return name in MODEL_LIMITS or settings_subject(name) == "provider"


class SettingsFile:
    """The user's settings file, and the settings in effect."""

    def __init__(self, app: CommandApp, path: Path) -> None:
        self._app = app
        self.path = path

    @property
    def loaded(self) -> LoadedSettings:
        """The settings in effect."""
        loaded = self._app.preferences.loaded
        assert loaded is not None  # commands that change settings need them
        return loaded

    async def change(self, values: Mapping[str, Any], report: Callable[[str], object], *, apply: bool = True) -> None:
        """Write values by name, None to remove one, and use them. `report` is called with what came of it.

        `apply` False: the session uses the values already.
        """
        preferences = self._app.preferences
        async with preferences.write_lock:
            try:
                reloaded = await asyncio.to_thread(self._write, values)
            except (FileFault, OSError, document.SettingsEditError, UnicodeError) as error:
                report(one_line(f"nothing changed: {error}", 400))
                return
        if any(name in IMMEDIATE for name in values):
            preferences.apply(reloaded)
        else:
            preferences.loaded = reloaded
        name = next(iter(values))
        models: ModelChoice | None = getattr(self._app.session, "models", None)
        if problem := self._problem(name):
            report(one_line(f"saved; {problem}", 300))
        elif not apply or name in IMMEDIATE:
            report(self._saved(name))
        elif is_of_models(name) and models is not None:
            report(f"saved · asking {models.endpoint} …" if name != "base_url" else "saved · asking the server …")
            try:
                problem = await models.use_settings(reloaded.settings)
            except JournalBroken as error:
                problem = str(error)
            in_effect = "" if problem else " · in effect from the next message"
            report(one_line(f"saved; {problem}" if problem else self._saved(name) + in_effect, 400))
        else:
            overridden = self._overridden_by(name)
            report(self._saved(name) if overridden else "saved · takes effect in the next session")

    def _problem(self, name: str) -> str:
        problems = [problem for problem in self.loaded.problems if f"{problem.field}.".startswith(f"{name}.")]
        return problems[0].message if problems else ""

    def _overridden_by(self, name: str) -> str:
        source = self.loaded.sources.get(name, "")
        return source if source.startswith(("environment", "command line")) else ""

    def _saved(self, name: str) -> str:
        if source := self._overridden_by(name):
            return one_line(f"saved, but {source} overrides it", 200)
        if source := self._app.preferences.overridden.get(name, ""):
            return one_line(f"saved; {source} overrides it at the next start", 200)
        return "saved"

    def _write(self, values: Mapping[str, Any]) -> LoadedSettings:
        """Edit the file, unless somebody else changes it at the same time, and load all settings again."""
        write_settings(self.path, values)
        return self._reload(values)

    def _reload(self, values: Mapping[str, Any]) -> LoadedSettings:
        """Load all settings; what the user just changed holds in this session, whatever the environment says."""
        preferences, view = self._app.preferences, self._app.view
        workspace = Path(view.workspace) if view.workspace and view.trusted else None
        workspace_file = paths.workspace_settings_file(workspace) if workspace else None
        own, flags = preferences.session_values, preferences.flags
        for name, value in values.items():
            own.pop(name, None)
            preferences.overridden.pop(name, None)
            source = load_settings(self.path, workspace_file, None, flags).sources.get(name, "")
            if is_of_models(name) and value is not None and source.startswith(("environment", "command line")):
                own[name], preferences.overridden[name] = value, source
        loaded = load_settings(self.path, workspace_file, None, flags | own)
        return LoadedSettings(
            settings=loaded.settings,
            problems=loaded.problems,
            sources=loaded.sources | dict.fromkeys(own, THIS_SESSION),
        )

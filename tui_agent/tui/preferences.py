"""Applies the user's settings of the screen: keys, theme, vim mode, notifications."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from textual.theme import Theme

from tui_agent.common.suggestions import unknown_name
from tui_agent.keys import keymap
from tui_agent.keys.keymap import BUILT_IN, Keymap
from tui_agent.text import one_line
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.notifications import Notifier
from tui_agent.tui.themes import DEFAULT, NAMES, PREFIX, default_name, startup_theme, theme_for
from widgets.dialog_keys import textual_keymap

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi
    from tui_agent.settings import LoadedSettings


class Preferences:
    """Applies settings when the session opens and whenever they change."""

    def __init__(self, app: BaseApp, notifier: Notifier) -> None:
        self.app = app
        self.loaded: LoadedSettings | None = None
        """The settings and their sources; None before the session is open, or if it has none."""
        self.flags: dict[str, Any] = {}
        """Settings by name that the command line gave; they hold for the whole session."""
        self.session_values: dict[str, Any] = {}
        """Settings that the user changed and the environment or the command line overrides at the next start."""
        self.overridden: dict[str, str] = {}
        """Name of each of them → what overrides it."""
        self.write_lock = Lock()
        """Held while the settings file is edited."""
        self.notifier = notifier
        self._theme_name = ""
        """Name of the theme that the user chose; empty in a test, which sets a theme itself."""
        self._light: bool | None = None
        """Whether the terminal's background is light; None while unknown."""
        keymap.use(BUILT_IN)

    def open(self, session: SessionApi) -> None:
        """Apply the settings of the session."""
        self.notifier.open()
        loaded: LoadedSettings | None = getattr(session, "settings", None)
        if loaded is not None:
            self.flags = {
                name: reduce(getattr, name.split("."), loaded.settings)
                for name, source in loaded.sources.items()
                if source.startswith("command line")
            }
            self.apply(loaded)

    def apply(self, loaded: LoadedSettings) -> None:
        """Apply these settings from now on."""
        self.loaded = loaded
        settings = loaded.settings
        self.bind_keys(settings.keys, vim=settings.vim)
        self.notifier.method, self.notifier.kinds = settings.notifications, settings.notify_of
        self._theme_name = settings.theme
        theme = theme_for(settings.theme, settings.themes, self._light)
        self.use_theme(theme or theme_for(DEFAULT, {}, self._light))
        if not settings.animation:
            self.app.animation_level = "none"

    def start_with(self, name: str) -> None:
        """Use a theme until the settings are read, and ask the terminal for its background if that decides."""
        self._theme_name = name
        self.use_theme(startup_theme(name))
        if name == DEFAULT and default_name() != "ansi":
            self.app.on_background = self._use_background

    def _use_background(self, light: bool) -> None:
        """Use the default theme for a light or dark background, unless the user chose a theme in the meantime."""
        self._light = light
        if self._theme_name == DEFAULT:
            self.use_theme(theme_for(DEFAULT, {}, light))

    def use_theme(self, theme: Theme | None) -> None:
        """Switch to a theme, if it is another one."""
        if theme is None or theme.name == self.app.theme:
            return
        self.app.register_theme(theme)
        self.app.theme = theme.name

    def switch_theme(self, name: str) -> None:
        """Switch to the theme called `name`, or to the next one if that is empty; the settings don't change."""
        user_themes = self.loaded.settings.themes if self.loaded else {}
        names = (*NAMES, *user_themes)
        if not name:
            current = self.app.theme.removeprefix(PREFIX).removeprefix("own-")
            name = names[(names.index(current) + 1) % len(names)] if current in names else names[0]
        if (theme := theme_for(name, user_themes, self._light)) is None:
            self.app.hints.show(unknown_name("theme", one_line(name, 40), names))
        else:
            self._theme_name = name
            self.use_theme(theme)

    def bind_keys(self, user_keys: Mapping[str, Sequence[str]], *, vim: bool = False) -> None:
        """Apply the `keys` setting, and switch vim mode on or off."""
        if not (user_keys or vim) and keymap.current() is BUILT_IN:
            return
        keymap.use(Keymap(user_keys))
        self.app.set_keymap(textual_keymap(keymap.current()))
        prompt = self.app.prompt
        if vim and prompt.vim is None:
            from tui_agent.tui.vim import Vim

            prompt.vim = Vim(prompt)
        elif not vim and prompt.vim is not None:
            prompt.border_subtitle, prompt.vim = "", None
        self.app.key_line.relayout()
        self.app.transcript.repaint()

"""What the user set for the screen: keys, colors, vi's keys, notifications. Effective once a session is open,
and from every change in the settings on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.theme import Theme

from tui_agent.keys import keymap
from tui_agent.keys.keymap import BUILT_IN, Keymap
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.notifications import Notifier
from tui_agent.tui.themes import NAMES, PREFIX, theme_for
from widgets.dialog_keys import textual_keymap

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi
    from tui_agent.settings import Loaded


class Preferences:
    """One for a screen."""

    def __init__(self, app: BaseApp, notifier: Notifier) -> None:
        self.app = app
        self.loaded: Loaded | None = None
        """What was set and where; None before a session is open, or where it does not know."""
        self.notifier = notifier
        keymap.use(BUILT_IN)

    def open(self, session: SessionApi) -> None:
        """The session is open, and with it the settings are known."""
        self.notifier.open()
        loaded: Loaded | None = getattr(session, "settings", None)
        if loaded is not None:
            self.take(loaded)

    def take(self, loaded: Loaded) -> None:
        """These hold from now on."""
        self.loaded = loaded
        chosen = loaded.settings
        self.bind(chosen.keys, vim=chosen.vim)
        self.notifier.how, self.notifier.of = chosen.notifications, chosen.notify_of
        self.paint(theme_for(chosen.theme, chosen.themes) or theme_for("default", {}))
        if not chosen.animation:
            self.app.animation_level = "none"

    def paint(self, theme: Theme | None) -> None:
        """Use these colors."""
        if theme is None or theme.name == self.app.theme:
            return
        self.app.register_theme(theme)
        self.app.theme = theme.name

    def paint_with(self, name: str) -> None:
        """The theme of this name; the next one without a name. For this session; the settings stay."""
        own = self.loaded.settings.themes if self.loaded else {}
        names = (*NAMES, *own)
        if not name:
            now = self.app.theme.removeprefix(PREFIX).removeprefix("own-")
            name = names[(names.index(now) + 1) % len(names)] if now in names else names[0]
        if (theme := theme_for(name, own)) is None:
            self.app.hints.say(f"unknown theme; choose one of {', '.join(names)}")
        else:
            self.paint(theme)

    def bind(self, chosen: Mapping[str, Sequence[str]], *, vim: bool = False) -> None:
        """Give the actions these keys."""
        if not (chosen or vim) and keymap.current() is BUILT_IN:
            return
        keymap.use(Keymap(chosen))
        self.app.set_keymap(textual_keymap(keymap.current()))
        prompt = self.app.prompt
        if vim and prompt.vim is None:
            from tui_agent.tui.vim import Vim

            prompt.vim = Vim(prompt).take
        elif not vim and prompt.vim is not None:
            prompt.border_subtitle, prompt.vim = "", None
        self.app.key_line.relayout()
        self.app.transcript.repaint()

"""What the user set for the screen: keys, colours, vi's keys, announcements. Holds from the moment a session is open,
and from every change in the settings on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from textual.binding import BindingsMap
from textual.theme import Theme

from tui_agent import keymap
from tui_agent.keymap import Keymap
from tui_agent.tui import keys
from tui_agent.tui.notifying import Notifying
from tui_agent.tui.themes import NAMES, PREFIX, theme_for
from widgets.status_line import KeyLine
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from tui_agent.settings import Loaded
    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.door import SessionDoor

BUILT_IN = Keymap()


class Preferences:
    """One for a screen."""

    def __init__(self, app: TuiAgentApp) -> None:
        self.app = app
        self.loaded: Loaded | None = None
        """What was set and where; None before a session is open, or where it does not know."""
        self.notifying = Notifying(app)
        keymap.use(BUILT_IN)

    def open(self, session: SessionDoor) -> None:
        """The session is there, and with it the settings."""
        self.notifying.open()
        loaded: Loaded | None = getattr(session, "settings", None)
        if loaded is not None:
            self.take(loaded)

    def take(self, loaded: Loaded) -> None:
        """These hold from now on."""
        self.loaded = loaded
        chosen = loaded.settings
        self.bind(chosen.keys, vim=chosen.vim)
        self.notifying.how, self.notifying.of = chosen.notifications, chosen.notify_of
        self.paint(theme_for(chosen.theme, chosen.themes) or theme_for("default", {}))
        if not chosen.animation:
            self.app.animation_level = "none"

    def paint(self, theme: Theme | None) -> None:
        """Use these colours."""
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
            self.app.hints.say(f"there is no such theme; there are {', '.join(names)}")
        else:
            self.paint(theme)

    def bind(self, chosen: Mapping[str, Sequence[str]], *, vim: bool = False) -> None:
        """Give the actions these keys."""
        if not (chosen or vim) and keymap.current() is BUILT_IN:
            return
        keymap.use(Keymap(chosen))
        self.app._bindings = BindingsMap(list(keys.bindings()))
        from tui_agent.tui.composer_keys import hold

        hold(self.app, vim=vim)
        self.app.query_one(KeyLine).relayout()
        self.app.query_one(Transcript).repaint()

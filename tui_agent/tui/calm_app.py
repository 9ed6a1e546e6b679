"""Where our app differs from Textual's, whatever it shows: how it paints, its colours, how it fails."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from textual import events
from textual.app import App
from textual.filter import Monochrome, NoColor
from textual.screen import Screen

from tui_agent.tui.leaving import GoOn
from tui_agent.tui.terminal import log_failure
from tui_agent.tui.themes import ANSI, DARK, THEMES, fallbacks
from widgets.calm_screen import CalmScreen


class CalmApp(App[int], inherit_bindings=False):
    """Writes only what changed; ends in order."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__()
        self._early: list[events.Key] | None = []
        """Keys that came too early; None once they do not any more."""
        self.failure = ""
        """A sentence for the user when the screen ended by a failure."""
        self.following: GoOn | None = None
        """What the screen ended for, when it returns GO_ON."""
        if self.no_color:  # attributes stay, greys would be colours too
            self._filters = [NoColor() if isinstance(one, Monochrome) else one for one in self._filters]
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def validate_theme(self, name: str) -> str:
        """Without colours the one theme that needs none (R26.2)."""
        return ANSI.name if self.no_color and ANSI.name in self.available_themes else name

    async def on_event(self, event: events.Event) -> None:
        """Keys that come before anything can take them wait for that."""
        if self._early is not None and isinstance(event, events.Key) and not event.is_forwarded:
            self._early.append(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Comes after what the app itself does then, such as saying where keys go."""
        self.app_resume_signal.subscribe(self, self._hush)
        self.call_later(self.take_keys)

    def _hush(self, _: object) -> None:
        """Nobody saw the screen for a while: what is typed before one can read it answers nothing (R-17)."""
        from widgets.docked import Still
        from widgets.modal import StillModal

        for screen in self.screen_stack:
            for one in (screen, *screen.query(Still)):
                if isinstance(one, StillModal | Still):
                    one.hush()

    async def take_keys(self) -> None:
        """From now on there is something that takes keys; those that came before go first."""
        early, self._early = self._early or [], None
        for event in early:
            await self.on_event(event)

    def get_default_screen(self) -> Screen[None]:
        """The screen below all dialogs."""
        return CalmScreen(id="_default")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colour names, for themes that lack them."""
        return fallbacks(self.current_theme.dark)

    def refresh_css(self, animate: bool = True) -> None:
        """Work the styles out again; as long as nothing is shown, only the colours: the rest is read then anyway."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_resize(self, event: events.Resize) -> None:
        """Terminals move text about when their size changes, also when it is the old one again: paint all of it."""
        if event.size == self._size:
            self.screen.refresh(layout=True)

    def _work(self, job: Coroutine[Any, Any, Any], *, group: str = "default") -> None:
        """Do something with the session; a failure ends the screen in order."""

        async def guarded() -> None:
            try:
                await job
            except Exception as error:  # the last net: whatever it is, the user gets a sentence
                self.fail(error)

        self.run_worker(guarded(), group=group, exit_on_error=False)

    def fail(self, error: Exception) -> None:
        """End in order: a sentence for the user; the traceback of what nobody foresaw in the debug log."""
        from tui_agent.engine.wishes import CannotOpen

        if isinstance(error, CannotOpen):
            self.failure = str(error)
            self.exit(error.code)
        else:
            self.failure = log_failure(error)
            self.exit(1)

    def _fatal_error(self) -> None:
        """In the place of Textual's traceback with local variables (R21.2)."""
        if self._exception is not None:
            self.failure = log_failure(self._exception)
        self._close_messages_no_wait()

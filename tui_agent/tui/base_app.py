"""What the app does whatever it shows: painting, colors, hints, background jobs, failures. Its controllers see no more
of it than this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from textual import events
from textual.app import App
from textual.geometry import Size
from textual.screen import Screen

from tui_agent.engine.api import SessionApi
from tui_agent.tui.exit_codes import ContinueIn
from tui_agent.tui.terminal import log_failure
from tui_agent.tui.themes import ANSI, DARK, HAS_ANSI_FIELD, THEMES, fallback_variables
from tui_agent.view.items import SessionView
from widgets.columns import Columns
from widgets.line_view import LinesView
from widgets.prompt_input import PromptInput
from widgets.request_view import call_later_once
from widgets.status_line import ActivityLine
from widgets.textual_private import DiffingScreen, drop_colors
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from textual.worker import WorkType

QUIT_ARMED: Final = 2.0
"""Seconds that a hint stays, and in which a second Ctrl+C quits."""
READING_SPEED: Final = 12
"""Characters read in a second by somebody who looks elsewhere at first."""
RUN_MODULES: Final = (
    "tui_agent.engine.loop.loop",
    "tui_agent.engine.loop.calls",
    "tui_agent.tools.registry",
    "tui_agent.engine.loop.structured",
    "tui_agent.engine.workflow.workflow",
    "markdown_it",
    "markdown_it.tree",
)
"""Modules that no idle session needs, but every run, in the order in which a run needs them."""


def preload_run_modules() -> None:
    """Import them; for a thread. An idle screen stays small, and the first message does not wait for them (X1)."""
    for name in RUN_MODULES:
        import_module(name)


class TransientHints:
    """One hint at a time, above the composer."""

    def __init__(self, app: App[int], line: ActivityLine, *, clock: Callable[[], float]) -> None:
        self._app = app
        self._line = line
        self._clock = clock
        self._armed = float("-inf")
        self._count = 0

    def say(self, text: str) -> None:
        """A word for two seconds; a sentence for as long as reading it takes."""
        self._count += 1
        number = self._count
        self._line.say(hint=text)
        call_later_once(max(QUIT_ARMED, len(text) / READING_SPEED), self._app, lambda: self._drop(number))

    def _drop(self, number: int) -> None:
        if number == self._count:
            self._line.say(hint="")

    def quit_or_arm(self, key: str) -> None:
        """Quit on the second press in time; the first one says so."""
        if self._clock() - self._armed <= QUIT_ARMED:
            self._app.exit(0)
        else:
            self._armed = self._clock()
            self.say(f"{key} again quits")


class BaseApp(App[int], inherit_bindings=False):
    """Writes only what changed; ends in order."""

    ENABLE_COMMAND_PALETTE = False

    view: SessionView
    session: SessionApi | None
    """None until it is open."""
    hints: TransientHints
    prompt: PromptInput
    columns: Columns
    transcript: Transcript
    activity: ActivityLine
    title_line: LinesView
    key_line: LinesView

    def __init__(self) -> None:
        super().__init__()
        self._known_size: Size | None = None
        """Of the terminal, as it was told last."""
        self._early: list[events.Key] | None = []
        """Keys that came before anything could take them; None from then on."""
        self.failure = ""
        """A sentence for the user when the screen ended by a failure."""
        self.following: ContinueIn | None = None
        """The session to continue in, when the screen returns CONTINUE."""
        if self.no_color:
            drop_colors(self)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def validate_theme(self, name: str) -> str:
        """Without colors the one theme that needs none."""
        return ANSI.name if self.no_color and ANSI.name in self.available_themes else name

    def watch_theme(self, name: str) -> None:
        """Leave colors to the terminal where the theme cannot say so itself."""
        if not HAS_ANSI_FIELD:
            self.ansi_color = name == ANSI.name

    def on_mount(self) -> None:
        """Runs after the app's own handler, which sets the focus."""
        self.app_resume_signal.subscribe(self, self._rearm_requests)
        self.call_later(self.take_keys)

    def _rearm_requests(self, _: object) -> None:
        """Nobody saw the screen for a while: keys typed before one can read it answer nothing."""
        from widgets.request_view import KeyGuard, RequestPanel

        for screen in self.screen_stack:
            for one in (screen, *screen.query(RequestPanel)):
                if isinstance(one, KeyGuard):
                    one.hush()

    def waits(self, event: events.Key) -> bool:
        """True for a key that comes before anything can take it: it is stored until then."""
        if self._early is None or event.is_forwarded:
            return False
        self._early.append(event)
        return True

    async def take_keys(self) -> None:
        """Replay the early keys; from now on keys go to the focused widget."""
        early, self._early = self._early or [], None
        for event in early:
            await self.on_event(event)

    def get_default_screen(self) -> Screen[None]:
        """The screen below all dialogs."""
        return DiffingScreen(id="_default")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own color names, for themes that lack them."""
        return fallback_variables(self.current_theme.dark)

    def refresh_css(self, animate: bool = True) -> None:
        """Recompute the styles; as long as nothing is shown only the colors, as the rest is read then anyway."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_resize(self, event: events.Resize) -> None:
        """Terminals move text about when their size changes, also when it is the old one again: paint all of it."""
        if event.size == self._known_size:
            self.screen.refresh(layout=True)
        self._known_size = event.size

    def work(
        self,
        job: Callable[..., Awaitable[object]],
        *given: Any,
        group: str = "default",
        expected: tuple[type[Exception], ...] = (),
        say: Callable[[str], object] | None = None,
    ) -> None:
        """Run a job in the background. An `expected` exception is a sentence for `say`, a hint by default; any other
        one ends the screen in order. The worker calls `job` with what is `given`: a coroutine made before would never
        be awaited where the screen ends first."""

        async def guarded() -> None:
            try:
                await job(*given)
            except expected as error:
                (say or self.hints.say)(str(error))
            except Exception as error:  # the last net: whatever it is, the user gets a sentence
                self.fail(error)

        self.run_worker(cast("WorkType[None]", guarded), group=group, exit_on_error=False)

    async def copy_text(self, text: str, what: str = "") -> None:
        """Put a text on the clipboard and say what is known of that, after `what`."""
        from tui_agent.tui.clipboard import copy_to_clipboard

        self.hints.say(what + await copy_to_clipboard(text, self.copy_to_clipboard))

    def fail(self, error: Exception) -> None:
        """End in order: a sentence for the user; the traceback of an unforeseen error in the debug log."""
        from tui_agent.engine.options import SessionOpenError

        if isinstance(error, SessionOpenError):
            self.failure = str(error)
            self.exit(error.code)
        else:
            self.failure = log_failure(error)
            self.exit(1)

    def _fatal_error(self) -> None:
        """Instead of Textual's traceback with local variables."""
        if self._exception is not None:
            self.failure = log_failure(self._exception)
        self._close_messages_no_wait()

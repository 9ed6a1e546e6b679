"""The part of the app that its collaborators depend on: painting, colors, hints, background jobs, failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from textual import events
from textual.app import App
from textual.geometry import Size
from textual.screen import Screen

from tui_agent.engine.api import SessionApi
from tui_agent.text import one_line
from tui_agent.tui.exit_codes import ContinueIn
from tui_agent.tui.terminal import log_failure
from tui_agent.tui.themes import ANSI, DARK, HAS_ANSI_FIELD, THEMES, fallback_variables
from tui_agent.view.items import SessionView
from widgets.columns import LOW_SCREEN, Columns
from widgets.highlight import prepare
from widgets.inputs import LineInput
from widgets.line_view import LinesView
from widgets.lone_keys import LINE_BREAKS, LONE_SECONDS, TakesLetters, TypingFilter, Use
from widgets.overlay import KEYS_WHEN_TOO_SMALL, cover_if_too_small, is_too_small
from widgets.prompt_input import PromptInput
from widgets.request_view import call_later_once
from widgets.status_line import ActivityLine
from widgets.textual_private import DiffingScreen, drop_colors
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from textual.worker import WorkType

    from tui_agent.tui.file_locator import FileLocator
    from widgets.first_run import RunningDownload

QUIT_ARMED: Final = 2.0
"""Seconds for which a hint is shown, and in which a second Ctrl+C quits."""
READING_SPEED: Final = 12
"""Characters per second, for the duration of longer hints."""
RUN_MODULES: Final = (
    "tui_agent.engine.loop.loop",
    "tui_agent.engine.loop.calls",
    "tui_agent.tools.registry",
    "tui_agent.engine.loop.structured",
    "tui_agent.engine.workflow.workflow",
    "tui_agent.lsp.pool",
    "tui_agent.mentions.files",
    "markdown_it",
    "markdown_it.tree",
)
"""Modules that every run needs, in order, but an idle session does not."""


def preload_for_run() -> None:
    """Prepare what every run needs, in a thread, so that the first message does not wait for it (X1).

    Imports `RUN_MODULES` and the tools, builds the schemas of their arguments, reads the table of languages, and
    compiles the expressions that read a request and a reply, and those that highlight the most common code.
    """
    for name in RUN_MODULES:
        import_module(name)
    from tui_agent.engine.checks.request_reading import read_request
    from tui_agent.lsp.languages import languages
    from tui_agent.protocols.parser import ReplyParser
    from tui_agent.tools.registry import default_tools

    default_tools().specs()
    languages({})
    read_request("Can you fix the test of `a.py`? Name it `read_all`, but do not change b.py. Add one line.")
    parser = ReplyParser((), "native", accept_attempts=True, on_reasoning=lambda text: None)
    parser.feed("## One\n\nTwo *words*:\n\n```python\nx = 1\n```\n")
    parser.finish()
    prepare("python")


class TransientHints:
    """One hint at a time, above the composer."""

    def __init__(self, app: App[int], line: ActivityLine, *, clock: Callable[[], float]) -> None:
        self._app = app
        self._line = line
        self._clock = clock
        self._armed: tuple[str, float] = "", float("-inf")
        """Text of the hint that a second press confirms, and when it was shown."""
        self._last_key = ""
        """The key that was pressed last; empty for a paste."""
        self._count = 0

    def show(self, text: str) -> None:
        """Show `text` for two seconds, or longer if reading it takes longer."""
        self._count += 1
        number = self._count
        self._line.set_texts(hint=text)
        call_later_once(max(QUIT_ARMED, len(text) / READING_SPEED), self._app, lambda: self._hide(number))

    def _hide(self, number: int) -> None:
        if number == self._count:
            self._line.set_texts(hint="")

    def confirms(self, text: str) -> bool:
        """Return True on the second call with the same text within `QUIT_ARMED` seconds; the first one shows it."""
        armed, armed_at = self._armed
        if armed == text and self._clock() - armed_at <= QUIT_ARMED:
            self._armed = "", float("-inf")
            self._line.set_texts(hint="")
            return True
        self._armed = text, self._clock()
        self.show(text)
        return False

    def note_key(self, key: str) -> None:
        """Forget what a second press would confirm if another key was pressed, or text pasted (`key` empty)."""
        if key != self._last_key and self._armed[0]:
            self._armed = "", float("-inf")
            self._line.set_texts(hint="")
        self._last_key = key

    def quit_or_arm(self, key: str, jobs: Sequence[str] = ()) -> None:
        """Quit on the second call within `QUIT_ARMED` seconds; the first one shows a hint that names `key`, and the
        background `jobs` that end with the program."""
        more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        if self.confirms(f"{key} again quits" + (f" and stops {one_line(jobs[0], 60)}{more}" if jobs else "")):
            self._app.exit(0)


class LoneKeys:
    """Passes a letter on to a dialog only if it stands alone; typed text goes to the draft (A9)."""

    def __init__(
        self,
        app: App[int],
        deliver: Callable[[events.Key], Awaitable[None]],
        *,
        clock: Callable[[], float],
        quiet_seconds: float,
    ) -> None:
        """`deliver` passes a key on to the focused widget. `quiet_seconds` is that of `KeyGuard`."""
        self._app, self._deliver, self._clock = app, deliver, clock
        self._filter: TypingFilter[events.Key] = TypingFilter(min(LONE_SECONDS, quiet_seconds))
        self._shown_by: TakesLetters | None = None
        """What shows the held key."""

    def _target(self) -> TakesLetters | None:
        """Return what acts on letters now: a list or panel with the focus, or a dialog."""
        focused, screen = self._app.focused, self._app.screen
        if isinstance(focused, TakesLetters):
            return focused
        return screen if isinstance(screen, TakesLetters) else None

    async def process_key(self, event: events.Key) -> None:
        """Hold a key, or deliver it with the one that was held before it."""
        target = self._target()
        holds = target is not None and target.holds(event)
        character = event.character if event.character and event.is_printable else ""
        pressed_at = self._clock() - max(0.0, monotonic() - event.time)
        uses = self._filter.press(event, event.key, character, pressed_at, holds=holds)
        for use in uses:
            await self._apply(use)
        held = self._filter.held
        self._show(target if held is event else None, held)
        if held is event:
            call_later_once(self._filter.seconds, self._app, lambda: self._release(event))

    async def _apply(self, use: Use[events.Key]) -> None:
        target, focused = self._target(), self._app.focused
        if use.is_text and target is not None and isinstance(focused, LineInput) and use.key.key not in LINE_BREAKS:
            focused.call_later(focused.press, use.key)  # keeps its order among the keys that the field gets itself
        elif use.is_text and target is not None:
            target.post_message(TakesLetters.Typed(use.key))
        else:
            await self._deliver(use.key)

    async def _release(self, event: events.Key) -> None:
        """Deliver a key that stood alone. Keys that the app has received by now were handled before."""
        if self._filter.release(event):
            self._show(None, None)
            await self._deliver(event)

    async def end_hold(self) -> None:
        """Turn the held key into text: something else than a key followed it."""
        if (held := self._filter.held) is not None and self._filter.release(held):
            self._show(None, None)
            await self._apply(Use(held, is_text=True))

    def _show(self, target: TakesLetters | None, event: events.Key | None) -> None:
        if self._shown_by is not None and self._shown_by is not target and self._shown_by.is_attached:
            self._shown_by.show_held(None)
        self._shown_by = target
        if target is not None:
            target.show_held(event)


class BaseApp(App[int], inherit_bindings=False):
    """An app that repaints only changed cells and never shows a traceback."""

    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-low"), (LOW_SCREEN, "-high")]  # noqa: RUF012  # as in App
    """Height from which the screen has a class."""

    view: SessionView
    session: SessionApi | None
    """None until the session is open."""
    locate: FileLocator
    hints: TransientHints
    prompt: PromptInput
    columns: Columns
    transcript: Transcript
    activity: ActivityLine
    title_line: LinesView
    key_line: LinesView
    download: RunningDownload | None = None
    """The download of a model that is running."""
    shown_link: tuple[str, float] = "", float("-inf")
    """The URL whose target was shown by a click, so that a second one opens it, and when."""

    def __init__(self) -> None:
        super().__init__()
        self._last_size: Size | None = None
        """Size in the last resize event."""
        self._early_keys: list[events.Key] | None = []
        """Keys that arrived before the widgets were ready; None from then on."""
        self.on_background: Callable[[bool], object] | None = None
        """Called with whether the terminal's background is light; None if that doesn't matter."""
        self.warned_of_unsaved = False
        """Whether the user was told that the session can't be saved."""
        self.failure = ""
        """Message for the user if the app ended with an error."""
        self.is_exiting = False
        """Whether the app was told to exit."""
        self.resumable = True
        """Whether how to resume is printed at the end."""
        self.next_session: ContinueIn | None = None
        """The session to continue in if the app returns CONTINUE."""
        if self.no_color:
            drop_colors(self)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name

    def validate_theme(self, name: str) -> str:
        """Replace any theme by the ANSI theme if colors are off."""
        return ANSI.name if self.no_color and ANSI.name in self.available_themes else name

    def watch_theme(self, name: str) -> None:
        """Let the terminal choose the colors on Textual versions whose themes can't request that."""
        if not HAS_ANSI_FIELD:
            self.ansi_color = name == ANSI.name

    def on_mount(self) -> None:
        """Start accepting keys. Textual calls this after the handler of the subclass, which sets the focus."""
        self.app_resume_signal.subscribe(self, self._rearm_requests)
        self.screen_change_signal.subscribe(self, cover_if_too_small)
        self.call_later(self.replay_early_keys)

    def _rearm_requests(self, _: object) -> None:
        """Make requests ignore keys for a moment after the program was suspended."""
        from widgets.request_view import KeyGuard, RequestPanel

        for screen in self.screen_stack:
            for widget in (screen, *screen.query(RequestPanel)):
                if isinstance(widget, KeyGuard):
                    widget.disarm()

    def warns_of_unsaved(self) -> bool:
        """Warn once before quitting while the session can't be saved; return whether that was done now."""
        if not self.activity.trouble or self.warned_of_unsaved:
            return False
        self.warned_of_unsaved = True
        self.hints.show("this session is not saved: /export FILE saves it elsewhere · quitting again leaves anyway")
        return True

    def withholds_key(self, event: events.Key) -> bool:
        """Return whether a key is not for the widgets now: it comes before they are ready, which stores it, or nobody
        could see what it does, so that only its text goes to the draft."""
        if self._early_keys is not None and not event.is_forwarded:
            self._early_keys.append(event)
            return True
        if not is_too_small(self.size) or event.key in KEYS_WHEN_TOO_SMALL:
            return False
        text = (event.is_printable and event.character) or ""
        self.post_message(TakesLetters.TypedAhead(text, erases=event.key == "backspace"))
        return True

    async def replay_early_keys(self) -> None:
        """Deliver the buffered keys; from now on keys go to the focused widget."""
        keys, self._early_keys = self._early_keys or [], None
        while keys and keys[-1].key == "ctrl+j":  # Enter, as the terminal sends it before the screen is up
            keys.pop()
        for event in keys:
            await self.on_event(event)

    def get_default_screen(self) -> Screen[None]:
        """Use a screen that repaints only changed cells."""
        return DiffingScreen(id="_default")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return values of the app's own variables for themes that lack them."""
        return fallback_variables(self.current_theme.dark)

    def refresh_css(self, animate: bool = True) -> None:
        """Recompute the styles; before the first screen only the variables, as the style sheets are not read yet."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_resize(self, event: events.Resize) -> None:
        """Repaint everything even if the size is the same as before: terminals reflow text when they are resized."""
        if event.size == self._last_size:
            self.screen.refresh(layout=True)
        self._last_size = event.size
        cover_if_too_small(self.screen, event.size)

    async def on_event(self, event: events.Event) -> None:
        """Append pasted text to the draft while nobody could see where else it goes."""
        if isinstance(event, events.Paste) and is_too_small(self.size):
            self.post_message(TakesLetters.TypedAhead(event.text))
        else:
            await super().on_event(event)

    def on_block_view_followed(self) -> None:
        """Update the hint about what is below the visible part."""
        self.activity.relayout()

    def on_block_view_older_wanted(self) -> None:
        """Read older items."""
        self.work(self.transcript.read_older)

    def redraw(self) -> None:
        """Paint every cell again, whatever the terminal shows."""
        self.screen.refresh(layout=True)

    def work(
        self,
        job: Callable[..., Awaitable[object]],
        *args: Any,
        group: str = "default",
        expected: tuple[type[Exception], ...] = (),
        on_error: Callable[[str], object] | None = None,
    ) -> None:
        """Run `job(*args)` in a worker. The message of an `expected` exception goes to `on_error` (default: a hint);
        any other exception ends the app. The job is called by the worker, so that no coroutine is left unawaited if
        the app ends first."""

        async def guarded() -> None:
            try:
                await job(*args)
            except expected as error:
                (on_error or self.hints.show)(str(error))
            except Exception as error:  # last resort: show the user a message instead of a traceback
                self.fail(error)

        self.run_worker(cast("WorkType[None]", guarded), group=group, exit_on_error=False)

    async def copy_text(self, text: str, what: str = "") -> None:
        """Copy `text` to the clipboard and show the result as a hint, prefixed with `what`."""
        from tui_agent.tui.clipboard import copy_to_clipboard

        self.hints.show(what + await copy_to_clipboard(text, self.copy_to_clipboard))

    def fail(self, error: Exception) -> None:
        """End the app with a message for the user; the traceback of an unexpected error goes to the debug log. While
        the app exits, an error only goes there: widgets are gone that a worker may still need."""
        from tui_agent.engine.options import SessionOpenError

        if self.is_exiting:
            log_failure(error)
        elif isinstance(error, SessionOpenError):
            self.failure = str(error)
            self.exit(error.code)
        else:
            self.failure = log_failure(error)
            self.exit(1)

    def exit(self, *args: Any, **kwargs: Any) -> None:
        """See App."""
        self.is_exiting = True
        super().exit(*args, **kwargs)

    def _fatal_error(self) -> None:
        """Log the error instead of printing Textual's traceback with local variables."""
        if self._exception is not None:
            self.failure = log_failure(self._exception)
        self._close_messages_no_wait()

"""The app composes the screen, follows the session in one worker and turns keys into commands; nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import monotonic, time
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.types import CSSPathType

from tui_agent import ROOT
from tui_agent.domain import ApprovalMode
from tui_agent.tui.door import SessionDoor
from tui_agent.tui.routing import Router
from tui_agent.tui.terminal import log_failure
from tui_agent.tui.themes import DARK, THEMES, fallbacks
from tui_agent.view import Part, SessionView
from widgets.approval_modal import ApprovalModal
from widgets.modal import STILLNESS, RequestModal
from widgets.prompt_input import PromptInput
from widgets.question import QuestionModal
from widgets.status_line import ActivityLine, KeyLine, TitleLine, greeting
from widgets.transcript import Transcript

QUIT_ARMED = 2.0
"""Seconds in which a second Ctrl+C quits (R11.1)."""

BREATH = 0.012
"""Seconds of records after which the event loop gets a turn."""

STYLES = ("tokens", "app", "transcript", "prompt_input", "status_line", "modal")

OpenSession = Callable[[], Awaitable[SessionDoor]]


class TuiAgentApp(App[int], inherit_bindings=False):
    """One session on the screen. Its return value is the exit code."""

    TITLE = "tui-agent"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH: ClassVar[CSSPathType | None] = [ROOT / "styles" / f"{name}.tcss" for name in STYLES]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "interrupt", "Stop", show=False),
        Binding("ctrl+c", "cancel", "Stop, clear or quit", show=False, priority=True),
        Binding("shift+tab", "next_approval_mode", "Approvals", show=False, priority=True),
        Binding("ctrl+o", "details", "Details", show=False, priority=True),
        Binding("pageup", "page(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "page(1)", "Scroll down", show=False, priority=True),
        Binding("ctrl+home", "top", "To the beginning", show=False, priority=True),
        Binding("ctrl+end", "bottom", "To the end", show=False, priority=True),
    ]

    def __init__(
        self,
        open_session: OpenSession,
        *,
        now: Callable[[], float] = time,
        clock: Callable[[], float] = monotonic,
        stillness: float = STILLNESS,
    ) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DARK.name
        self.view = SessionView()
        self.session: SessionDoor | None = None
        self.failure = ""
        """A sentence for the user when the screen ended by a failure."""
        self._open_session = open_session
        self._clock = clock
        self._stillness = stillness
        self._router = Router(self.view, clock=clock)
        self._transcript = Transcript(now=now, greeting=partial(greeting, self.view), id="transcript")
        self._title_line = TitleLine(self.view, id="title")
        self._activity = ActivityLine(self.view, now=now, id="activity")
        self._prompt = PromptInput(id="prompt")
        self._key_line = KeyLine(self.view, id="keyline")
        self._frame: Timer | None = None
        self._second: Timer | None = None
        self._unsent: list[tuple[str, bool]] = []
        self._decided: set[str] = set()
        self._quit_armed = float("-inf")

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colour names, for themes that lack them."""
        return fallbacks(self.current_theme.dark)

    @property
    def unpainted(self) -> bool:
        """True while records wait for their paint."""
        return self._router.dirty

    def compose(self) -> ComposeResult:
        """Title, transcript, activity, composer, keys."""
        yield self._title_line
        yield self._transcript
        yield self._activity
        yield self._prompt
        yield self._key_line

    def on_mount(self) -> None:
        """The first paint waits for nobody: the session is opened behind it."""
        self._prompt.focus()
        self._second = self.set_interval(1.0, self._tick, pause=True)
        self.call_after_refresh(lambda: self._work(self._follow()))

    # --- the stream ---

    async def _follow(self) -> None:
        self.session = session = await self._open_session()
        session.tell_saving(self._tell_saving)
        self._activity.say(starting="")
        for text, steering in self._unsent:
            self._work(session.send(text, steering=steering))
        self._unsent.clear()
        from asyncio import sleep

        breath = self._clock()
        async for record in session.follow():
            self._router.take(record)
            self._paint_soon()
            if self._clock() - breath > BREATH:
                await sleep(0)
                breath = self._clock()
        if self._router.dirty:
            self._paint()

    def _tell_saving(self, trouble: str | None) -> None:
        """Called from any thread."""
        self.call_later(self._activity.say, trouble=trouble or "")

    def _paint_soon(self, at_least: float = 0.0) -> None:
        if self._frame is None:
            self._frame = self.set_timer(max(self._router.due, at_least, 0.001), self._paint)

    def _paint(self) -> None:
        self._frame = None
        with self.batch_update():
            parts = self._router.flush(self._transcript, self._title_line, self._activity, self._key_line)
            if Part.PENDING in parts:
                self._ask_next()
        if self._transcript.holding:
            self.set_timer(0.3, self._tick)
        if self._prompt.has_focus:
            self.cursor_position = self._prompt.cursor_screen_offset  # for input methods (R20.3)
        if self._second is not None:
            (self._second.resume if self.view.status.phase else self._second.pause)()

    def _tick(self) -> None:
        self._transcript.tick()
        self._activity.say()

    def _work(self, job: Coroutine[Any, Any, Any]) -> None:
        """Do something with the session; a failure ends the screen in order."""

        async def guarded() -> None:
            try:
                await job
            except Exception as error:  # the last net: whatever it is, the user gets a sentence
                self.fail(error)

        self.run_worker(guarded(), exit_on_error=False)

    # --- requests ---

    def _ask_next(self) -> None:
        """Show the oldest request that waits; close a dialog whose request was settled elsewhere."""
        if self.session is None or self.view.seq < self.session.begins:
            return  # what was open in a session's past is void
        if isinstance(self.screen, RequestModal):
            if self.screen.request.id in self.view.pending:
                return
            self.screen.dismiss()
        waiting = [one for key, one in self.view.pending.items() if key not in self._decided]
        if waiting:
            kind = QuestionModal if waiting[0].action is None else ApprovalModal
            self.push_screen(kind(waiting[0], clock=self._clock, stillness=self._stillness))

    def on_request_modal_answered(self, message: RequestModal.Answered) -> None:
        """The first answer wins; the record of it comes back on the stream."""
        self._decided.add(message.request)
        if isinstance(self.screen, RequestModal) and self.screen.request.id == message.request:
            self.screen.dismiss()
        if self.session is not None:
            self.session.answer(message.request, message.answer)
        self.call_later(self._ask_next)

    def on_request_modal_typed_ahead(self, message: RequestModal.TypedAhead) -> None:
        """What was typed into a dialog too early belongs to the draft."""
        self._prompt.take_typed(message.text)

    def on_request_modal_interrupted(self) -> None:
        """Esc in a dialog."""
        self.action_interrupt()

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a dialog is open only stopping is ours."""
        return action in ("cancel", "interrupt") or not isinstance(self.screen, RequestModal)

    def on_prompt_input_submitted(self, message: PromptInput.Submitted) -> None:
        """Send, run, or leave."""
        text = message.text
        if text.strip() in ("/quit", "/exit"):
            self.exit(0)
        elif self.session is None:
            self._unsent.append((text, message.steering))
        elif text.startswith("!") and text[1:].strip():
            self._work(self.session.run_shell(text[1:].strip()))
        else:
            self._work(self.session.send(text, steering=message.steering and self.view.busy))
        self._transcript.follow()

    def on_prompt_input_leave(self) -> None:
        """Ctrl+D in an empty composer."""
        self._quit_or_arm("ctrl+d") if self.view.busy else self.exit(0)

    def on_transcript_followed(self, message: Transcript.Followed) -> None:
        """Say what is further down."""
        self._activity.below(message.following, message.unseen)

    def action_interrupt(self) -> None:
        """Stop the run, if one goes on."""
        if self.session is not None and (self.view.busy or self.view.pending):
            self._work(self.session.interrupt())

    def action_cancel(self) -> None:
        """Ctrl+C: copy a selection, else stop the run, else set the draft aside, else quit on the second press."""
        if self._prompt.selected_text:
            self.copy_to_clipboard(self._prompt.selected_text)
            self._hint("sent to the terminal's clipboard")
        elif self.view.busy:
            self.action_interrupt()
        elif not isinstance(self.screen, RequestModal) and self._prompt.set_aside():
            self._hint("draft set aside · up brings it back")
        else:
            self._quit_or_arm("ctrl+c")

    def _quit_or_arm(self, key: str) -> None:
        if self._clock() - self._quit_armed <= QUIT_ARMED:
            self.exit(0)
        else:
            self._quit_armed = self._clock()
            self._hint(f"{key} again quits")

    def _hint(self, text: str) -> None:
        self._activity.say(hint=text)
        self.set_timer(QUIT_ARMED, self._drop_hint)

    def _drop_hint(self) -> None:
        if self._clock() - self._quit_armed >= QUIT_ARMED:
            self._activity.say(hint="")

    def action_next_approval_mode(self) -> None:
        """Switch to the next approval mode (A4)."""
        modes = [mode.value for mode in ApprovalMode]
        if self.session is not None and self.view.approval_mode in modes:
            following = modes[(modes.index(self.view.approval_mode) + 1) % len(modes)]
            self._work(self.session.set_modes(approval_mode=following))

    def action_details(self) -> None:
        """Unfold or fold thinking and output."""
        self._transcript.show_details(not self._transcript.look.details)

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        y = self._transcript.scroll_offset.y + direction * max(1, self._transcript.size.height - 2)
        self._transcript.scroll_to(y=y, animate=False)

    def action_top(self) -> None:
        """To the beginning."""
        self._transcript.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        """To the end, and follow."""
        self._transcript.follow()

    # --- the end ---

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

"""The app composes the screen, follows the session in one worker and turns keys into commands; nothing else."""

from __future__ import annotations

from asyncio import TimerHandle, to_thread
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic, time
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.types import CSSPathType

from tui_agent import ROOT, keymap
from tui_agent.tui import commands, keys
from tui_agent.tui.calm_app import CalmApp
from tui_agent.tui.composer import Composer
from tui_agent.tui.dialogs import Dialogs
from tui_agent.tui.door import SessionDoor
from tui_agent.tui.hints import Hints
from tui_agent.tui.leaving import RESTART_AS_DEMO
from tui_agent.tui.plans import Plans
from tui_agent.tui.preferences import Preferences
from tui_agent.tui.routing import Router
from tui_agent.view import Part, SessionView
from widgets.columns import Columns
from widgets.command_menu import CommandMenu
from widgets.first_run import FirstRun
from widgets.help_panel import HelpPanel
from widgets.later import after
from widgets.modal import STILLNESS, RequestModal, StillModal
from widgets.plan_panel import PlanPanel
from widgets.prompt_input import PromptInput
from widgets.search_bar import SearchBar
from widgets.status_line import ActivityLine, KeyLine, TitleLine, greeting
from widgets.tool_tree import ToolTree
from widgets.transcript import Transcript

BREATH = 0.012
"""Seconds of records after which the event loop gets a turn."""

CHROME = ("status_line", "modal", "panels")
DOCK = ("docked", "plan_review", "summary_editor")
PANELS = ("transcript", "tool_tree", "plan_panel", "search_bar", "prompt_input", *DOCK)
STYLES = ("tokens", "app", *PANELS, *CHROME, "ansi")

OpenSession = Callable[[], Awaitable[SessionDoor]]


class TuiAgentApp(CalmApp, inherit_bindings=False):
    """One session on the screen. Its return value is the exit code."""

    TITLE = "tui-agent"
    CSS_PATH: ClassVar[CSSPathType | None] = [ROOT / "styles" / f"{name}.tcss" for name in STYLES]
    BINDINGS: ClassVar[list[BindingType]] = list(keys.bindings())

    def __init__(
        self,
        open_session: OpenSession,
        *,
        now: Callable[[], float] = time,
        clock: Callable[[], float] = monotonic,
        stillness: float = STILLNESS,
        draft: str = "",
        hint: str = "",
    ) -> None:
        """Starts with `draft` in the composer and `hint` above it."""
        super().__init__()
        self.view = SessionView()
        self.session: SessionDoor | None = None
        self._open_session = open_session
        self._clock = clock
        self._draft, self._first_hint = draft, hint
        self.dialogs = Dialogs(self, clock=clock, stillness=stillness)
        self._router = Router(self.view, clock=clock)
        self._transcript = Transcript(now=now, greeting=partial(greeting, self.view), id="transcript")
        self._title_line = TitleLine(self.view, id="title")
        self._activity = ActivityLine(self.view, now=now, id="activity")
        self.hints = Hints(self, self._activity, clock=clock)
        tree = ToolTree(self.view, now=now, stop=partial(commands.stop_subagent, self), id="tree")
        self._columns = Columns(self._transcript, PlanPanel(id="plan"), tree, id="columns")
        self.plans = Plans(self)
        self._menu = CommandMenu(commands.entries(), id="menu")
        self._columns.home = self._prompt = PromptInput(self._menu, id="prompt")
        self.composer: Composer = Composer(self, self._prompt)
        self.preferences = Preferences(self)
        self._key_line = KeyLine(self.view, keys.footer, id="keyline")
        self._frame: TimerHandle | None = None
        self._second: Timer | None = None
        self._shells = 0
        """Commands of the user's own that go on."""

    @property
    def unpainted(self) -> bool:
        """True while records wait for their paint."""
        return self._router.dirty

    def compose(self) -> ComposeResult:
        """Title, transcript and progress, activity, composer, keys."""
        yield self._title_line
        yield self._columns
        yield SearchBar(self._transcript, id="search")
        yield self.dialogs.docking.place
        yield self._activity
        yield self._menu
        yield self._prompt
        yield self._key_line

    def on_mount(self) -> None:
        """The first paint waits for nobody: the session is opened behind it."""
        self._prompt.focus()
        self._prompt.take_typed(self._draft)
        self._draft = ""
        self._second = self.set_interval(1.0, self._tick, pause=True)
        self.call_after_refresh(lambda: self._work(self._follow(), group="stream"))

    # --- the stream ---

    async def _follow(self) -> None:
        self.session = session = await self._open_session()
        self._router.hide(session.mask)
        session.tell_saving(self._tell_saving)
        self._activity.say(starting="", hint=self._first_hint)
        self.composer.open(session)
        self.preferences.open(session)
        from asyncio import sleep

        await self._router.show_end(session, self._paint_soon)
        breath = self._clock()
        async for record in session.follow():
            self._router.take(record)
            self.dialogs.look_at(record)
            self.plans.look_at(record)
            self.composer.look_at(record)
            self.preferences.notifying.look_at(record)
            if record.seq >= session.begins:  # the past is painted when all of it is there
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
            cost = getattr(self.screen, "cost", 0.0)  # dialogs don't count
            self._frame = after(max(self._router.due(cost), at_least), self, self._paint)

    def _paint(self) -> None:
        self._frame = None
        with self.batch_update():
            parts = self._router.flush(self._columns, self._title_line, self._activity, self._key_line)
            if Part.PENDING in parts:
                self.dialogs.ask_next()
        if self._transcript.holding:
            after(0.3, self, self._tick)
        if self._prompt.has_focus:
            self.cursor_position = self._prompt.cursor_screen_offset  # for input methods (R20.3)
        if self._second is not None:
            (self._second.resume if self.view.status.phase else self._second.pause)()

    def _tick(self) -> None:
        self._transcript.tick()
        self._columns.progress.tick()
        self._activity.say()

    def on_request_modal_answered(self, message: RequestModal.Answered) -> None:
        """The first answer wins; the record of it comes back on the stream."""
        self.dialogs.answered(message)

    def on_still_modal_typed_ahead(self, message: StillModal.TypedAhead) -> None:
        """What was typed into a dialog too early belongs to the draft."""
        self._prompt.take_typed(message.text)

    def on_request_modal_interrupted(self) -> None:
        """Esc in a dialog."""
        self.action_interrupt()

    @on(FirstRun.Picked)
    def _picked(self, message: FirstRun.Picked) -> None:
        """The demonstration, another look for a model, or neither."""
        self.dialogs.close_first_run()
        if message.what == "demo":
            self.exit(RESTART_AS_DEMO)
        elif message.what == "retry" and self.session is not None:
            self.hints.say("looking for a model")
            self.session.look_for_model()

    def action_help(self) -> None:
        """Keys and commands."""
        if not isinstance(self.screen, HelpPanel):
            listed = [("/" + name, does) for name, does in commands.entries()]
            self.push_screen(HelpPanel([*keys.groups(), ("Commands", listed)]))

    on_prompt_input_help_wanted = action_help

    def on_prompt_input_begun(self) -> None:
        """Who types will send: read now what the first run needs, so that its request does not wait for it."""
        from tui_agent.tui.ahead import load_ahead

        self._work(to_thread(load_ahead), group="stream")

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a dialog is open only stopping and help are ours; in the fields of the dock Shift+Tab goes back."""
        docked = self.dialogs.docking.typing and parameters == ("approvals",)
        if docked or action in getattr(self.screen, "OWN_ACTIONS", ()):
            return False
        return action in ("cancel", "interrupt", "help") or not isinstance(self.screen, ModalScreen)

    def on_prompt_input_submitted(self, message: PromptInput.Submitted) -> None:
        """Send or run."""
        text = message.text
        if self.session is not None and text.startswith("!") and text[1:].strip():
            self.composer.done(message.message)
            self._work(self._run_shell(self.session, text[1:].strip()))
        else:
            self.composer.submit(message)
        self._activity.say(hint="")
        self._transcript.follow()

    async def _run_shell(self, session: SessionDoor, command: str) -> None:
        self._shells += 1
        try:
            await session.run_shell(command)
        finally:
            self._shells -= 1

    @on(PromptInput.Commanded)
    def _commanded(self, message: PromptInput.Commanded) -> None:
        """A command was chosen."""
        commands.run(self, message.name, message.rest)

    def on_prompt_input_leave(self) -> None:
        """Ctrl+D in an empty composer."""
        self.hints.quit_or_arm(keymap.key_of("leave")) if self.view.busy else self.exit(0)

    @on(Transcript.Followed)
    def _followed(self, message: Transcript.Followed) -> None:
        """Say what is further down."""
        self._activity.below(message.following, message.unseen)

    def action_interrupt(self) -> None:
        """Stop the run and the user's own commands, if any go on."""
        if self.session is not None and (self.view.busy or self.view.pending or self._shells):
            self._work(self.session.interrupt())

    def action_cancel(self) -> None:
        """Ctrl+C: copy a selection, else stop the run, else set the draft aside, else quit on the second press."""
        if selected := self._prompt.selected_text or self._transcript.selected_text:
            self._work(commands.copy(self, selected))
            self._transcript.select(None)
        elif self.view.busy or self._shells:
            self.action_interrupt()
        elif not isinstance(self.screen, ModalScreen) and self._prompt.set_aside():
            self.hints.say("draft set aside · up brings it back")
        else:
            self.hints.quit_or_arm(keymap.key_of("cancel"))

    def exit(self, *given: Any, **named: Any) -> None:
        """Also at the end by a signal what was edited last is kept."""
        try:
            self.dialogs.docking.keep_last()
        finally:
            super().exit(*given, **named)

    def set_modes(self, *, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Switch the mode (W11), the approval mode (A4), or both."""
        if self.session is not None:
            self._work(self.session.set_modes(mode=mode, approval_mode=approval_mode))

    def action_do(self, command: str) -> None:
        """What a key does that a command does too."""
        commands.run(self, command, "")

    def on_plan_panel_said(self, message: PlanPanel.Said) -> None:
        """An edit of the plan, or what becomes of a proposal."""
        self.plans.take(message)

    async def on_event(self, event: events.Event) -> None:
        """Keys come here first: what leads out of the progress does so before the next one."""
        if not (isinstance(event, events.Key) and self._columns.takes(event)):
            await super().on_event(event)

    @on(ToolTree.Chosen)
    def _chosen_in_tree(self, message: ToolTree.Chosen) -> None:
        """Show it in the transcript."""
        self._columns.close_over()
        self._columns.show_item(message.item)
        self._prompt.focus()

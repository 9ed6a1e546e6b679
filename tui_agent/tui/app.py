"""The app composes the screen, follows the session in one worker and turns keys into commands; nothing else."""

from __future__ import annotations

from asyncio import sleep, to_thread
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic, time
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.types import CSSPathType

from tui_agent import ROOT
from tui_agent import events as e
from tui_agent.engine.api import SessionApi
from tui_agent.keys import keymap
from tui_agent.tui import commands
from tui_agent.tui.base_app import TransientHints, preload_run_modules
from tui_agent.tui.composer import QUEUE_EVENTS, Composer
from tui_agent.tui.exit_codes import RESTART_AS_DEMO
from tui_agent.tui.notifications import ATTENTION_EVENTS, USER_EVENTS, Notifier
from tui_agent.tui.plans import PlanEdits
from tui_agent.tui.preferences import Preferences
from tui_agent.tui.request_dialogs import RequestDialogs
from tui_agent.tui.routing import Router
from tui_agent.view.items import SessionView
from widgets.columns import Columns
from widgets.completion import CommandMenu
from widgets.dialog_keys import bindings
from widgets.first_run import FirstRun
from widgets.info_panels import HelpPanel
from widgets.line_view import LinesView
from widgets.plan_panel import PlanPanel
from widgets.prompt_input import PromptInput
from widgets.request_view import STILLNESS, RequestView
from widgets.search_bar import SearchBar
from widgets.status_line import ActivityLine, greeting, key_line, title_line
from widgets.tool_tree import ToolTree
from widgets.transcript import Transcript

BREATH = 0.012
"""Seconds of records after which the event loop gets a turn."""

STYLES = (
    *("tokens", "app", "transcript", "tool_tree", "plan_panel", "search_bar", "prompt_input", "request_panel"),
    *("plan_review", "summary_editor", "status_line", "modal", "panels", "ansi"),
)


class TuiAgentApp(commands.CommandApp, inherit_bindings=False):
    """One session on the screen. Its return value is the exit code."""

    TITLE = "tui-agent"
    CSS_PATH: ClassVar[CSSPathType | None] = [ROOT / "styles" / f"{name}.tcss" for name in STYLES]
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]

    def __init__(
        self,
        open_session: Callable[[], Awaitable[SessionApi]],
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
        self.session = None
        self._open_session = open_session
        self._clock = clock
        self._first_hint = hint
        self.transcript = Transcript(now=now, greeting=partial(greeting, self.view), id="transcript")
        self.title_line = LinesView(partial(title_line, self.view), id="title")
        self.activity = ActivityLine(self.view, self.transcript, now=now, id="activity")
        self.hints = TransientHints(self, self.activity, clock=clock)
        tree = ToolTree(self.view, now=now, stop=partial(commands.stop_subagent, self), id="tree")
        self.columns = Columns(self.transcript, PlanPanel(id="plan"), tree, id="columns")
        self._menu = CommandMenu(commands.menu_entries(), id="menu")
        self.columns.home = self.prompt = PromptInput(self._menu, id="prompt")
        self.dialogs = RequestDialogs(self, clock=clock, stillness=stillness)
        self.plans = PlanEdits(self)
        self.composer = Composer(self, draft=draft)
        self.notifier = Notifier(self)
        self.preferences = Preferences(self, self.notifier)
        self.key_line = LinesView(partial(key_line, self.view), id="keyline")
        self._router = Router(self, ask_next=self.dialogs.ask_next, clock=clock)
        self._subscribe()
        self._shells = 0
        """Shell commands of the user that are running."""

    def _subscribe(self) -> None:
        """Which records go to which controller, besides the view."""
        on_record = self._router.subscribe
        on_record(self.dialogs.on_notice, e.Notice)
        on_record(self.plans.on_plan_doc, e.PlanDocChanged, e.PlanDocResolved)
        on_record(self.composer.on_session_opened, e.SessionOpened)
        on_record(self.composer.on_message, *QUEUE_EVENTS)
        on_record(self.notifier.on_user, *USER_EVENTS)
        on_record(self.notifier.on_attention, *ATTENTION_EVENTS)

    def compose(self) -> ComposeResult:
        """Title, transcript and progress, activity, composer, keys."""
        yield self.title_line
        yield self.columns
        yield SearchBar(self.transcript, id="search")
        yield self.dialogs.dock.container
        yield self.activity
        yield self._menu
        yield self.composer.completion.picker
        yield self.prompt
        yield self.key_line

    def on_mount(self) -> None:
        """The first paint waits for nobody: the session is opened behind it."""
        self.prompt.focus()
        self.composer.insert_initial_draft()
        self._router.begin()
        self.call_after_refresh(partial(self.work, self._follow, group="stream"))

    # --- the stream ---

    async def _follow(self) -> None:
        self.session = session = await self._open_session()

        def tell_saving(trouble: str | None) -> None:  # from any thread
            self.call_later(self.activity.say, trouble=trouble or "")

        session.tell_saving(tell_saving)
        self.activity.say(starting="", hint=self._first_hint)
        for message in self.composer.open(session):
            self.on_prompt_input_submitted(message)
        self.preferences.open(session)
        await self._router.open(session)
        breath = self._clock()
        async for record in session.follow():
            self._router.take(record)
            if record.seq >= session.begins:
                self.composer.past_is_read()
            if self._clock() - breath > BREATH:
                await sleep(0)
                breath = self._clock()
        if self._router.dirty:
            self._router.paint()

    def on_key_guard_typed_ahead(self, message: RequestView.TypedAhead) -> None:
        """What was typed into a dialog too early belongs to the draft."""
        self.prompt.take_typed(message.text)

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
            listed = [("/" + name, does) for name, does in commands.menu_entries()]
            keys = keymap.current()
            self.push_screen(HelpPanel([*keys.groups(), *keys.context_groups(), ("Commands", listed)]))

    def on_prompt_input_begun(self) -> None:
        """Who types will send: import now what the first run needs, so that its request does not wait for it."""
        self.work(to_thread, preload_run_modules, group="stream")

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a dialog is open only stopping and help are ours; in the fields of the dock Shift+Tab goes back."""
        in_panel_field = self.dialogs.dock.typing and parameters == ("approvals",)
        if in_panel_field or action in getattr(self.screen, "OWN_ACTIONS", ()):
            return False
        return action in ("cancel", "interrupt", "help") or not isinstance(self.screen, ModalScreen)

    def on_prompt_input_submitted(self, message: PromptInput.Submitted) -> None:
        """Send or run."""
        text = message.text
        if self.session is not None and text.startswith("!") and text[1:].strip():
            self.composer.done(message.message)
            self.work(self._run_shell, self.session, text[1:].strip())
        else:
            self.composer.submit(message)
        self.activity.say(hint="")
        self.transcript.follow()

    async def _run_shell(self, session: SessionApi, command: str) -> None:
        self._shells += 1
        try:
            await session.run_shell(command)
        finally:
            self._shells -= 1

    @on(PromptInput.Commanded)
    def _commanded(self, message: PromptInput.Commanded) -> None:
        """A command was chosen."""
        commands.execute_command(self, message.name, message.rest)

    def leave(self) -> None:
        """Quit; during a run on the second press."""
        self.hints.quit_or_arm(keymap.key_of("leave")) if self.view.busy else self.exit(0)

    def on_block_view_followed(self) -> None:
        """Say what is further down."""
        self.activity.relayout()

    def action_interrupt(self) -> None:
        """Stop the run and the user's shell commands, if any."""
        if self.session is not None and (self.view.busy or self.view.pending or self._shells):
            self.work(self.session.interrupt)

    on_request_view_interrupted = action_interrupt  # Esc in a dialog

    def action_cancel(self) -> None:
        """Ctrl+C: copy a selection, else stop the run, else set the draft aside, else quit on the second press."""
        if selected := self.prompt.selected_text or self.transcript.selected_text:
            self.work(self.copy_text, selected)
            self.transcript.select(None)
        elif self.view.busy or self._shells:
            self.action_interrupt()
        elif not isinstance(self.screen, ModalScreen) and self.prompt.set_aside():
            self.hints.say("draft stashed · up restores it")
        else:
            self.hints.quit_or_arm(keymap.key_of("cancel"))

    def exit(self, *given: Any, **named: Any) -> None:
        """Also at the end by a signal the last edit of a request is saved."""
        try:
            self.dialogs.dock.save_draft_now()
        finally:
            super().exit(*given, **named)

    def action_command(self, command: str) -> None:
        """What a key does that a command does too."""
        commands.execute_command(self, command, "")

    def on_plan_panel_said(self, message: PlanPanel.Said) -> None:
        """An edit of the plan, or what becomes of a proposal."""
        self.plans.take(message)

    async def on_event(self, event: events.Event) -> None:
        """Keys come here first: those that come before anything can take them wait, and what leads out of the
        progress does so before the next one."""
        if not (isinstance(event, events.Key) and (self.waits(event) or self.columns.takes(event))):
            await super().on_event(event)

    @on(ToolTree.Chosen)
    def _chosen_in_tree(self, message: ToolTree.Chosen) -> None:
        """Show it in the transcript."""
        self.columns.close_over()
        self.columns.show_item(message.item)
        self.prompt.focus()

"""The Textual app: composes the screen, follows the session in one worker, and turns keys into commands."""

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
from tui_agent.tui.base_app import LoneKeys, TransientHints, preload_for_run
from tui_agent.tui.composer import QUEUE_EVENTS, Composer
from tui_agent.tui.exit_codes import RESTART_AS_DEMO
from tui_agent.tui.file_locator import FileLocator
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
from widgets.line_view import LinesView
from widgets.lone_keys import TakesLetters
from widgets.plan_panel import PlanPanel
from widgets.prompt_input import PromptInput
from widgets.request_view import QUIET_SECONDS, RequestModal
from widgets.status_line import ActivityLine, KeyLine, greeting, key_line, title_line
from widgets.textual_private import forward_key
from widgets.tool_tree import ToolTree
from widgets.transcript import Transcript

MAX_BUSY_SECONDS = 0.012
"""Seconds of processing records after which the event loop gets a turn."""

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
        quiet_seconds: float = QUIET_SECONDS,
        draft: str = "",
        hint: str = "",
    ) -> None:
        """Start with `draft` in the composer and `hint` above it; `open_session` runs once the screen is up."""
        super().__init__()
        self.view = SessionView()
        self.session = None
        self._open_session = open_session
        self._clock = clock
        self._first_hint = hint
        self.transcript = Transcript(now=now, greeting=partial(greeting, self.view), id="transcript")
        self.locate = self.transcript.options.locate = FileLocator(
            lambda: self.view.workspace, partial(self.work, group="links"), self.transcript.relink
        )
        self.title_line = LinesView(partial(title_line, self.view), id="title")
        self.activity = ActivityLine(self.view, self.transcript, now=now, id="activity")
        self.hints = TransientHints(self, self.activity, clock=clock)
        tree = ToolTree(self.view, now=now, stop=partial(commands.stop_subagent, self), id="tree")
        self.columns = Columns(self.transcript, PlanPanel(now=now, id="plan"), tree, id="columns")
        self._menu = CommandMenu(commands.menu_entries(), id="menu")
        self.columns.home = self.prompt = PromptInput(self._menu, id="prompt")
        self.dialogs = RequestDialogs(
            self, clock=clock, quiet_seconds=quiet_seconds, show_server_dialog=self._show_server_dialog
        )
        self._lone_keys = LoneKeys(self, self._deliver_key, clock=clock, quiet_seconds=quiet_seconds)
        self.plans = PlanEdits(self)
        self.composer = Composer(self, draft=draft)
        self.notifier = Notifier(self)
        self.preferences = Preferences(self, self.notifier)
        self.key_line = KeyLine(partial(key_line, self.view, lambda: self.columns.focused_keys), id="keyline")
        self._router = Router(self, on_requests_changed=self.dialogs.show_next, clock=clock)
        self.transcript.read_older = self._router.read_older
        self._running_shells = 0
        """Number of running `!` commands."""
        subscribe = self._router.subscribe
        subscribe(self.dialogs.on_notice, e.Notice)
        subscribe(self.plans.on_plan_doc, e.PlanDocChanged, e.PlanDocResolved)
        subscribe(self.composer.on_session_opened, e.SessionOpened)
        subscribe(self.composer.on_message, *QUEUE_EVENTS)
        subscribe(self.notifier.on_user_activity, *USER_EVENTS)
        subscribe(self.notifier.on_attention, *ATTENTION_EVENTS)

    def compose(self) -> ComposeResult:
        """Lay out what the first paint shows: title, transcript, activity, composer and key line."""
        yield self.title_line
        yield self.columns
        yield self.activity
        yield self._menu
        yield self.composer.completion.picker
        yield self.prompt
        yield self.key_line

    def on_mount(self) -> None:
        """Paint first, then open the session in the background."""
        self.prompt.focus()
        self.composer.insert_initial_draft()
        self._router.start()
        self.watch(self.screen, "focused", self.dialogs.follow_focus, init=False)
        self.call_after_refresh(partial(self.work, self._follow, group="stream"))

    # --- the stream ---

    async def _follow(self) -> None:
        self.session = session = await self._open_session()
        if self.is_exiting:
            return
        await self.columns.mount_side()
        await self.mount(self.dialogs.dock.container, after=self.columns)

        def on_save_failure(problem: str | None) -> None:  # called from any thread
            self.warned_of_unsaved = self.warned_of_unsaved and bool(problem)
            self.call_later(self.activity.set_texts, trouble=problem or "")

        session.watch_saving(on_save_failure)
        self.activity.set_texts(starting="")
        if self._first_hint:
            self.activity.set_texts(hint=self._first_hint)
        for message in self.composer.open(session):
            self.on_prompt_input_submitted(message)
        self.preferences.open(session)
        await self._router.open(session)
        turn_started = self._clock()
        async for record in session.follow():
            self._router.route(record)
            if record.seq >= session.replay_end:
                self.composer.on_history_replayed()
            if self._clock() - turn_started > MAX_BUSY_SECONDS:
                await sleep(0)
                turn_started = self._clock()
        self._router.paint()

    def on_takes_letters_typed_ahead(self, message: TakesLetters.TypedAhead) -> None:
        """Append what was typed into a dialog to the draft."""
        self.prompt.append_text(message.text, erases=message.erases)
        self.dialogs.show_draft()

    def _show_server_dialog(self, explanation: str, **guard: Any) -> None:
        from tui_agent.tui.server_dialog import ServerDialog  # only at a start without a model

        self.push_screen(ServerDialog(self, explanation, **guard))

    @on(FirstRun.Picked)
    def _on_first_run_choice(self, message: FirstRun.Picked) -> None:
        """Start the demo, or just close the screen."""
        self.dialogs.close_first_run()
        if message.choice == "demo":
            self.exit(RESTART_AS_DEMO)

    def on_prompt_input_started(self) -> None:
        """Prepare what the first run needs as soon as the user starts typing."""
        self.work(to_thread, preload_for_run, group="stream")

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only some actions while a dialog is open, and leave Shift+Tab to the fields of the dock."""
        leaves_field = self.dialogs.dock.has_field_focus and parameters == ("approvals",)
        if leaves_field or action in getattr(self.screen, "OWN_ACTIONS", ()):
            return False
        if isinstance(self.screen, RequestModal):
            return commands.works_beside_request(str(parameters[0]) if action == "command" else action)
        always = action in ("cancel", "interrupt", "help") or parameters in (("redraw",), ("suspend",))
        return always or not isinstance(self.screen, ModalScreen)

    def on_prompt_input_submitted(self, message: PromptInput.Submitted) -> None:
        """Send a message, or run a `!` command."""
        text = message.text
        if self.session is not None and text.startswith("!") and text[1:].strip():
            self.composer.discard_message(message.message)
            self.work(self._run_shell, self.session, text[1:].strip())
        else:
            self.composer.submit(message)
        self.activity.set_texts(hint="")
        self.transcript.follow()

    async def _run_shell(self, session: SessionApi, command: str) -> None:
        self._running_shells += 1
        try:
            await session.run_shell(command)
        finally:
            self._running_shells -= 1

    @on(PromptInput.CommandChosen)
    def _on_command(self, message: PromptInput.CommandChosen) -> None:
        self.activity.set_texts(hint="")
        commands.execute_command(self, message.name, message.argument)

    def leave(self) -> None:
        """Quit; during a run, or while a background job runs, only on the second press."""
        jobs = self._jobs
        self.hints.quit_or_arm(keymap.key_of("leave"), jobs) if self.view.busy or jobs else self.exit(0)

    @property
    def _jobs(self) -> tuple[str, ...]:
        """Command lines of what runs in the background."""
        return () if self.session is None else self.session.background_jobs()

    def on_transcript_link_clicked(self, message: Transcript.LinkClicked) -> None:
        """Open the link."""
        from tui_agent.tui.link_opener import LinkOpener

        LinkOpener(self).click(message.target)

    @property
    def _can_interrupt(self) -> bool:
        return bool(self.view.busy or self.view.pending or self._running_shells)

    def interrupt(self) -> None:
        """Stop the run, pending requests and `!` commands."""
        if self.session is not None and self._can_interrupt:
            self.work(self.session.interrupt)

    def action_interrupt(self) -> None:
        """Handle Esc: stop what runs; otherwise offer an earlier message for editing on the second press."""
        if self.dialogs.is_aside and not isinstance(self.screen, ModalScreen):
            self.dialogs.bring_back()
        elif self._can_interrupt or isinstance(self.screen, ModalScreen):
            self.interrupt()
        elif self.hints.confirms("esc again edits an earlier message"):
            commands.execute_command(self, "rewind", "")

    on_request_view_interrupted = interrupt

    def action_cancel(self) -> None:
        """Handle Ctrl+C: copy the selection, else interrupt, else stash the draft, else quit on the second press."""
        if selected := self.prompt.selected_text or self.transcript.selected_text:
            self.work(self.copy_text, selected)
            self.transcript.select(None)
        elif self.view.busy or self._running_shells:
            self.interrupt()
        elif not isinstance(self.screen, ModalScreen) and self.prompt.move_to_history():
            self.hints.show("draft stashed · up restores it")
        else:
            self.hints.quit_or_arm(keymap.key_of("cancel"), self._jobs)

    def exit(self, *args: Any, **kwargs: Any) -> None:
        """Save the edits of the open request first, also when a signal ends the program."""
        if args == (0,) and self.warns_of_unsaved():
            return
        try:
            self.dialogs.dock.save_draft_now()
        finally:
            super().exit(*args, **kwargs)

    def action_command(self, command: str) -> None:
        """Run a slash command by its key."""
        commands.execute_command(self, command, "")

    async def on_event(self, event: events.Event) -> None:
        """Buffer keys until widgets can take them, and hold those that act in a dialog if they stand alone."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif isinstance(event, events.Paste):
            self.hints.note_key("")
            await self._lone_keys.end_hold()
            await super().on_event(event)
        elif not self.withholds_key(event):
            self.hints.note_key(event.key)
            await self._lone_keys.process_key(event)

    async def _deliver_key(self, event: events.Key) -> None:
        if self.prompt.claims(event.key):
            forward_key(self.prompt, event)
        elif not self.columns.handle_key_in_tree(event):
            await super().on_event(event)

    @on(ToolTree.Chosen)
    def _on_tree_selection(self, message: ToolTree.Chosen) -> None:
        """Show the selected call in the transcript."""
        self.columns.close_over()
        self.columns.show_item(message.item)
        self.prompt.focus()

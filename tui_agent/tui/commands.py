"""What slash commands and action keys do. Their names and texts are in `tui_agent/keys/actions.json`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from textual import on

from tui_agent.common.domain import ApprovalMode, EditAction, Mode, RunAction
from tui_agent.common.errors import JournalBroken
from tui_agent.common.suggestions import unknown_name
from tui_agent.keys import keymap
from tui_agent.text import one_line
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.composer import Composer
from tui_agent.tui.plans import PlanEdits
from tui_agent.tui.preferences import Preferences
from tui_agent.tui.request_dialogs import RequestDialogs
from widgets.info_panels import HelpPanel
from widgets.plan_panel import PlanPanel
from widgets.request_view import NOT_BEFORE_DECISION, GuardedModal, KeyGuard, RequestModal
from widgets.status_line import READ_ONLY_MODES
from widgets.textual_private import driver_of

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi
    from tui_agent.engine.models.effort import EffortChoice
    from widgets.composer_history import DraftText
    from widgets.palette import PaletteRow


class CommandApp(BaseApp, inherit_bindings=False):
    """The app as commands see it."""

    composer: Composer
    dialogs: RequestDialogs
    plans: PlanEdits
    preferences: Preferences

    def action_clear(self) -> None:
        """Stop the run and clear the conversation on the second press."""
        stops = "stops the run and " if self.session is not None and self.session.busy else ""
        if self.hints.confirms(f"{keymap.key_of('clear')} again {stops}clears the conversation"):
            execute_command(self, "clear", "")

    def action_help(self) -> None:
        """Show keys and commands."""
        if not isinstance(self.screen, HelpPanel):
            keys = keymap.current()
            self.push_screen(HelpPanel([*keys.groups(), *help_groups(), *keys.context_groups()]))

    @on(KeyGuard.Scrolled)
    def _scroll_below_dialog(self, message: KeyGuard.Scrolled) -> None:
        execute_command(self, message.name, "")

    @on(RequestModal.Placed)
    def _on_dialog_placed(self, message: RequestModal.Placed) -> None:
        self.dialogs.cover(message.height)

    def on_plan_panel_update(self, message: PlanPanel.Update) -> None:
        """Forward an edit of the plan, or a decision on a proposal."""
        self.plans.on_panel_message(message)

    @abstractmethod
    def interrupt(self) -> None:
        """Stop the run, pending requests and `!` commands."""

    @abstractmethod
    def leave(self) -> None:
        """Quit; during a run only on the second press."""


CommandFunction: TypeAlias = Callable[[CommandApp, str], object]
"""Takes the app and the text after the command's name."""


def lazily(module: str, function: str) -> CommandFunction:
    """Return a command that imports its module of this package on first use."""

    def run_lazily(app: CommandApp, arguments: str) -> None:
        getattr(import_module(f"tui_agent.tui.{module}"), function)(app, arguments)

    return run_lazily


MODES = tuple(sorted(Mode, key=lambda mode: mode not in (Mode.AGENT, Mode.PLAN)))
"""Modes in the order of their key: planning is next to working."""
STATUSES = ("planning", "in_progress", "blocked", "completed", "failed")
APPROVALS = tuple(mode.value for mode in ApprovalMode)


def _switch(app: CommandApp, command: str, current: str, choices: tuple[str, ...], name: str) -> None:
    """Switch the mode (W11) or the approval mode (A4) to `name`, or to the next one if that is empty.

    The next one never leaves read-only in a folder that is not trusted (A8).
    """
    is_restricted = command == "approvals" and not app.view.trusted and current == ApprovalMode.READ_ONLY
    if is_restricted and not name:
        _say(app, "read-only: this folder is not trusted · /trust trusts it · /approvals ask works without trust")
        return
    name = name or (choices[(choices.index(current) + 1) % len(choices)] if current in choices else current)
    if name not in choices:
        noun = "work mode" if command == "mode" else "approval mode"
        app.hints.show(unknown_name(noun, one_line(name, 40), choices))
    elif app.session is not None:
        app.work(partial(app.session.set_modes, **{"mode" if command == "mode" else "approval_mode": name}))
        if any(isinstance(request.action, EditAction | RunAction) for request in app.view.pending.values()):
            refuses = name in READ_ONLY_MODES or name == ApprovalMode.READ_ONLY
            _say(app, f"{name} {REFUSES_PENDING if refuses else KEEPS_PENDING}")
        elif is_restricted and name != ApprovalMode.READ_ONLY:
            _say(app, f"{name}: this folder is still not trusted, so nothing in it is followed · /trust trusts it")


def _effort(app: CommandApp, argument: str) -> None:
    """Set the reasoning effort (L5), or switch to the next level."""
    choice: EffortChoice | None = getattr(app.session, "efforts", None)
    if choice is None:
        app.hints.show("the effort can't be changed here")
        return
    try:
        problem = choice.choose(argument or choice.next_level)
    except JournalBroken as error:
        problem = str(error)
    _say(app, problem or choice.described(argument))


REFUSES_PENDING: Final = "refuses what waits here, even if you approve it"
KEEPS_PENDING: Final = "counts from the next action; this one still waits for you"


def _say(app: CommandApp, text: str) -> None:
    """Show what became of a key, in the open dialog or above the composer."""
    screen = app.screen
    screen.tell(text) if isinstance(screen, GuardedModal) else app.hints.show(text)


def _details(app: CommandApp, _: str) -> None:
    transcript = app.transcript
    transcript.show_details(not transcript.options.details)


def _page(app: CommandApp, direction: int) -> None:
    if app.columns.plan.scroll_pages(direction):
        return
    transcript = app.transcript
    y = transcript.scroll_offset.y + direction * max(1, transcript.size.height - 2)
    transcript.scroll_to(y=y, animate=False)


def _keys(app: CommandApp, _: str) -> None:
    from widgets.info_panels import KeyName

    app.push_screen(KeyName(lambda key: keymap.current().describe(key)))


def _menu(app: CommandApp, _: str) -> None:
    app.screen_stack[0].set_focus(app.prompt)
    app.prompt.open_menu()


def _plan(app: CommandApp, argument: str) -> None:
    if argument in ("accept", "discard"):
        app.plans.enqueue("accept" if argument == "accept" else "discard")
    elif argument in STATUSES:
        app.plans.set_status(argument)
    elif argument:
        app.hints.show(unknown_name("command for the plan", one_line(argument, 40), ("accept", "discard", *STATUSES)))
    else:
        app.dialogs.set_aside()
        if not app.columns.visit_plan():
            app.hints.show("this session has no plan")


def _search(app: CommandApp, _: str) -> None:
    from widgets.search_bar import SearchBar

    app.dialogs.set_aside()
    if bars := app.query(SearchBar):
        bars.first().open()
    else:
        app.mount(SearchBar(app.columns.transcript, id="search"), after=app.columns)


def _progress(app: CommandApp, _: str) -> None:
    app.dialogs.set_aside()
    app.columns.visit()


def _suspend(app: CommandApp, _: str) -> None:
    from tui_agent.tui.terminal import suspend_job

    if problem := suspend_job(driver_of(app)):
        app.hints.show(problem)


def _history(app: CommandApp, _: str) -> None:
    from widgets.history_search import HistorySearch

    app.screen_stack[0].set_focus(app.prompt)

    def use(draft: DraftText, typed: str) -> None:
        app.prompt.replace_draft(draft, typed)
        app.call_after_refresh(app.dialogs.show_draft)  # a dialog is open again then

    app.push_screen(HistorySearch(app.prompt.load_history(), use))


def _compact(app: CommandApp, _: str) -> None:
    if app.session is not None:
        app.session.compact()


def _context(app: CommandApp, _: str) -> None:
    from widgets.context_meter import ContextPanel

    app.push_screen(ContextPanel(app.view))


def _grants(app: CommandApp, _: str) -> None:
    from widgets.grants_panel import GrantsPanel

    if app.session is None:
        return
    grants = app.session.grants
    app.push_screen(GrantsPanel(grants.listed(), partial(app.work, grants.revoke, expected=(JournalBroken,))))


async def _show_trust(app: CommandApp, session: SessionApi) -> None:
    from widgets.trust_panel import TrustPanel

    states = await session.trust.states()
    jobs = {"give": session.trust.ask, "revoke": session.trust.revoke}
    app.push_screen(
        TrustPanel(states, lambda action, state: app.work(jobs[action], state.folder, expected=(JournalBroken,)))
    )


def _trust(app: CommandApp, _: str) -> None:
    if app.session is not None:
        app.work(_show_trust, app, app.session)


def stop_subagent(app: CommandApp, node: str) -> None:
    """Stop the sub-agent that the call with the id `node` started."""
    if app.session is not None and not app.session.subagents.interrupt(node):
        app.hints.show("this sub-agent has ended")


def works_beside_request(name: str) -> bool:
    """Return whether an action, or a command with its argument, may run while the dialog of a request is open."""
    return name.partition(" ")[0] in ("interrupt", "stop", *(keymap.CONTEXTS["approval"].app_actions or ()))


def palette_rows(*, beside_request: bool = False) -> list[PaletteRow]:
    """List by subject: the commands, each followed by its arguments, then the actions that only have a key.

    `beside_request`: only those that may run while the dialog of a request is open.
    """
    from widgets.palette import PaletteRow

    keys = keymap.current()
    rows: dict[str, PaletteRow] = {}
    for command in keymap.COMMANDS:
        rows[command.name] = PaletteRow(
            command.name, command.name, command.description.rstrip(":;"), keys.first_label(command.name), command.group
        )
        for argument, description in command.arguments.items():
            if description:
                name = f"{command.name} {argument}"
                rows[name] = PaletteRow(name, name, description, group=command.group)
    for action in keymap.SESSION_ACTIONS.values():
        if action.name != "palette" and action.name not in rows:
            title = action.name.replace("-", " ")
            rows[action.name] = PaletteRow(
                action.name, title, action.description, keys.first_label(action.name), keymap.subject_of(action.name)
            )
    listed = [row for row in rows.values() if not beside_request or works_beside_request(row.name)]
    return sorted(listed, key=lambda row: keymap.SUBJECTS.index(row.group))


def _run_palette_row(app: CommandApp, name: str) -> None:
    if isinstance(app.screen, RequestModal) and not works_beside_request(name):
        _say(app, f"{name} {NOT_BEFORE_DECISION}")  # the request came while the palette was open
        return
    action = keymap.SESSION_ACTIONS.get(name)
    in_composer = action is not None and action.scope == "composer"
    if in_composer:
        app.screen_stack[0].set_focus(app.prompt)
    if action is not None and action.action and name not in COMMANDS:
        app.work(app.run_action, action.action, app.prompt if in_composer else app)
    else:
        command, _, arguments = name.partition(" ")
        execute_command(app, command, arguments)


def _palette(app: CommandApp, _: str) -> None:
    from widgets.palette import Palette

    rows = palette_rows(beside_request=isinstance(app.screen, RequestModal))
    app.push_screen(Palette(rows, partial(_run_palette_row, app), closing=keymap.current().keys["palette"]))


COMMANDS: Final[dict[str, CommandFunction]] = {
    "help": lambda app, _: app.action_help(),
    "approvals": lambda app, mode: _switch(app, "approvals", app.view.approval_mode, APPROVALS, mode),
    "mode": lambda app, mode: _switch(app, "mode", app.view.mode, MODES, mode),
    "model": lazily("model_dialog", "show_models"),
    "effort": _effort,
    "plan": _plan,
    "tree": lambda app, _: app.columns.toggle(),
    "compact": _compact,
    "context": _context,
    "clear": lazily("undo_commands", "clear"),
    "stats": lazily("dashboard", "show_statistics"),
    "undo": lazily("undo_commands", "undo_run"),
    "redo": lazily("undo_commands", "redo_run"),
    "rewind": lazily("undo_commands", "rewind_to_run"),
    "diff": lazily("undo_commands", "show_run_diff"),
    "checkpoints": lazily("undo_commands", "show_checkpoints"),
    "sessions": lazily("session_browser", "show_sessions"),
    "resume": lazily("session_browser", "show_sessions"),
    "rename": lazily("session_browser", "rename_current_session"),
    "fork": lazily("session_browser", "fork_current_session"),
    "grants": _grants,
    "trust": _trust,
    "editor": lambda app, _: app.composer.open_editor(),
    "copy": lazily("copy_export", "copy_part"),
    "export": lazily("copy_export", "export_to_file"),
    "web": lazily("web", "serve_session"),
    "search": _search,
    "details": _details,
    "output": lazily("pager", "show_output"),
    "links": lazily("link_opener", "show_links"),
    "top": lambda app, _: app.transcript.to_top(),
    "end": lambda app, _: app.transcript.follow(),
    "redraw": lambda app, _: app.redraw(),
    "suspend": _suspend,
    "stop": lambda app, _: app.interrupt(),
    "settings": lazily("settings_screen", "show_settings"),
    "theme": lambda app, name: app.preferences.switch_theme(name),
    "keys": _keys,
    "quit": lambda app, _: app.exit(0),
    "exit": lambda app, _: app.exit(0),
    "queue": lambda app, _: app.composer.show_queue(),
    "history": _history,
    "page-up": lambda app, _: _page(app, -1),
    "page-down": lambda app, _: _page(app, 1),
    "progress": _progress,
    "palette": _palette,
    "send": lambda app, _: app.prompt.action_submit(False),
    "leave": lambda app, _: app.leave(),
    "commands": _menu,
}
"""Commands and actions of keys by name."""


def menu_entries() -> list[tuple[str, str]]:
    """Return names and descriptions for the menu that `/` opens."""
    return [(command.name, _with_arguments(command)) for command in keymap.COMMANDS]


def help_groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the commands by subject, for the help."""
    return [
        (f"Commands · {subject}", [(f"/{command.name}", _with_arguments(command)) for command in commands])
        for subject, commands in keymap.commands_by_subject().items()
    ]


def _with_arguments(command: keymap.Command) -> str:
    return f"{command.description}  {' · '.join(command.arguments)}".rstrip()


def execute_command(app: CommandApp, name: str, arguments: str) -> None:
    """Run a command or an action by name; an unknown name does nothing."""
    if (command := COMMANDS.get(name)) is not None:
        command(app, arguments.strip())

"""What each command does to the app. Their names and words are in `actions.json`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

from tui_agent.common.domain import ApprovalMode, Mode
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.keys import keymap
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.composer import Composer
from tui_agent.tui.plans import PlanEdits
from tui_agent.tui.preferences import Preferences
from widgets.search_bar import SearchBar

if TYPE_CHECKING:
    from widgets.palette import PaletteRow


class CommandApp(BaseApp, inherit_bindings=False):
    """The app, as far as commands need more of it than the controllers do."""

    composer: Composer
    plans: PlanEdits
    preferences: Preferences

    @abstractmethod
    def action_help(self) -> None:
        """Keys and commands."""

    @abstractmethod
    def action_interrupt(self) -> None:
        """Stop the run and the user's own shell commands."""

    @abstractmethod
    def leave(self) -> None:
        """Quit; during a run on the second press."""


Run: TypeAlias = Callable[[CommandApp, str], object]
"""Takes the app and what was typed after the name."""


def lazily(module: str, function: str) -> Run:
    """A function of a module of this package that is loaded when it is needed first."""

    def run_lazily(app: CommandApp, words: str) -> None:
        getattr(import_module(f"tui_agent.tui.{module}"), function)(app, words)

    return run_lazily


MODES = tuple(mode.value for mode in Mode)
STATUSES = ("planning", "in_progress", "blocked", "completed", "failed")
APPROVALS = tuple(mode.value for mode in ApprovalMode)


def _switch(app: CommandApp, kind: str, now: str, words: tuple[str, ...], word: str) -> None:
    """Switch the mode (W11) or the approval mode (A4): to `word`, to the next one without."""
    wanted = word or (words[(words.index(now) + 1) % len(words)] if now in words else now)
    if wanted not in words:
        app.hints.say(f"use /{kind} with {', '.join(words)}")
    elif app.session is not None:
        app.work(partial(app.session.set_modes, **{"mode" if kind == "mode" else "approval_mode": wanted}))


def _details(app: CommandApp, _: str) -> None:
    transcript = app.transcript
    transcript.show_details(not transcript.look.details)


def _page(app: CommandApp, direction: int) -> None:
    if app.columns.plan.page(direction):
        return
    transcript = app.transcript
    y = transcript.scroll_offset.y + direction * max(1, transcript.size.height - 2)
    transcript.scroll_to(y=y, animate=False)


def _keys(app: CommandApp, _: str) -> None:
    from widgets.info_panels import KeyName

    app.push_screen(KeyName(lambda key: keymap.current().describe(key)))


def _menu(app: CommandApp, _: str) -> None:
    app.set_focus(app.prompt)
    app.prompt.open_menu()


def _plan(app: CommandApp, word: str) -> None:
    if word in ("accept", "discard"):
        app.plans.do("accept" if word == "accept" else "discard")
    elif word in STATUSES:
        app.plans.set_status(word)
    elif word:
        app.hints.say(f"use /plan with accept, discard, {', '.join(STATUSES)}")
    elif not app.columns.visit_plan():
        app.hints.say("this session has no plan")


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


def stop_subagent(app: CommandApp, node: str) -> None:
    """Stop the sub-agent that the call `node` started; the others continue."""
    if app.session is not None and not app.session.subagents.interrupt(node):
        app.hints.say("this sub-agent has ended")


def palette_rows() -> list[PaletteRow]:
    """Everything: the commands first, each with the words that it takes, then what only has a key."""
    from widgets.palette import PaletteRow

    effective = keymap.current()
    listed: dict[str, PaletteRow] = {}
    for one in keymap.COMMANDS:
        listed[one.name] = PaletteRow(one.name, one.name, one.does.rstrip(":;"), effective.first(one.name))
        for word, does in one.takes.items():
            if does:
                name = f"{one.name} {word}"
                listed[name] = PaletteRow(name, name, does)
    for action in keymap.NAMED.values():
        if action.name != "palette" and action.name not in listed:
            title = action.name.replace("-", " ")
            listed[action.name] = PaletteRow(action.name, title, action.does, effective.first(action.name))
    return list(listed.values())


def _run_row(app: CommandApp, name: str) -> None:
    """Do the action of a row of the palette."""
    action = keymap.NAMED.get(name)
    composed = action is not None and action.scope == "composer"
    if composed:
        app.set_focus(app.prompt)
    if action is not None and action.action and name not in RUN:
        app.work(app.run_action, action.action, app.prompt if composed else app)
    else:
        first, _, rest = name.partition(" ")
        execute_command(app, first, rest)


def _palette(app: CommandApp, _: str) -> None:
    """Its own keys close it, but for those that choose there."""
    from widgets.palette import Palette

    app.push_screen(Palette(palette_rows(), partial(_run_row, app), closing=keymap.current().keys["palette"]))


RUN: Final[dict[str, Run]] = {
    "help": lambda app, _: app.action_help(),
    "approvals": lambda app, word: _switch(app, "approvals", app.view.approval_mode, APPROVALS, word),
    "mode": lambda app, word: _switch(app, "mode", app.view.mode, MODES, word),
    "model": lazily("model_dialog", "show_models"),
    "plan": _plan,
    "tree": lambda app, _: app.columns.toggle(),
    "compact": _compact,
    "context": _context,
    "clear": lazily("undo_commands", "clear_conversation"),
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
    "editor": lambda app, _: app.composer.open_editor(),
    "copy": lazily("copy_export", "copy_part"),
    "export": lazily("copy_export", "export_to_file"),
    "web": lazily("web", "serve_session"),
    "search": lambda app, _: app.query_one(SearchBar).open(),
    "details": _details,
    "output": lazily("pager", "show_output"),
    "top": lambda app, _: app.transcript.scroll_home(animate=False),
    "end": lambda app, _: app.transcript.follow(),
    "stop": lambda app, _: app.action_interrupt(),
    "settings": lazily("settings_screen", "show_settings"),
    "theme": lambda app, word: app.preferences.paint_with(word),
    "keys": _keys,
    "quit": lambda app, _: app.exit(0),
    "exit": lambda app, _: app.exit(0),
    "queue": lambda app, _: app.composer.show_queue(),
    "page-up": lambda app, _: _page(app, -1),
    "page-down": lambda app, _: _page(app, 1),
    "progress": lambda app, _: app.columns.visit(),
    "palette": _palette,
    "send": lambda app, _: app.prompt.action_submit(False),
    "leave": lambda app, _: app.leave(),
    "commands": _menu,
}
"""Command or action of a key → what it does."""


def menu_entries() -> list[tuple[str, str]]:
    """Names with what they do, for the list that `/` opens."""
    return [(one.name, f"{one.does}  {' · '.join(one.takes)}".rstrip()) for one in keymap.COMMANDS]


def execute_command(app: CommandApp, name: str, rest: str) -> None:
    """Do it."""
    if (do := RUN.get(name)) is not None:
        do(app, rest.strip())

"""The commands behind `/`: each has a name, a sentence and what it does to the app."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tui_agent import keymap
from tui_agent.domain import ApprovalMode, Grant, Mode
from tui_agent.tui.themes import NAMES
from widgets.columns import Columns
from widgets.search_bar import SearchBar
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp


class Command(NamedTuple):
    """`run` takes the app and what was typed behind the name."""

    name: str
    does: str
    run: Callable[[TuiAgentApp, str], None]
    takes: tuple[str, ...] = ()
    """Words that may follow the name."""


MODES = tuple(mode.value for mode in Mode)
STATUSES = ("planning", "in_progress", "blocked", "completed", "failed")
APPROVALS = tuple(mode.value for mode in ApprovalMode)


def _following(now: str, all_of_them: tuple[str, ...]) -> str:
    return all_of_them[(all_of_them.index(now) + 1) % len(all_of_them)] if now in all_of_them else now


def _approvals(app: TuiAgentApp, word: str) -> None:
    wanted = word or _following(app.view.approval_mode, APPROVALS)
    if wanted in APPROVALS:
        app.set_modes(approval_mode=wanted)
    else:
        app.hints.say(f"approvals are {', '.join(APPROVALS)}")


def _mode(app: TuiAgentApp, word: str) -> None:
    wanted = word or _following(app.view.mode, MODES)
    if wanted in MODES:
        app.set_modes(mode=wanted)
    else:
        app.hints.say(f"modes are {', '.join(MODES)}")


def _details(app: TuiAgentApp, _: str) -> None:
    transcript = app.query_one(Transcript)
    transcript.show_details(not transcript.look.details)


def _page(app: TuiAgentApp, direction: int) -> None:
    if app.query_one(Columns).plan.page(direction):
        return
    transcript = app.query_one(Transcript)
    y = transcript.scroll_offset.y + direction * max(1, transcript.size.height - 2)
    transcript.scroll_to(y=y, animate=False)


def _theme(app: TuiAgentApp, word: str) -> None:
    app.preferences.paint_with(word)


def _palette(app: TuiAgentApp, _: str) -> None:
    from tui_agent.tui import palette

    palette.show(app)


def _keys(app: TuiAgentApp, _: str) -> None:
    from widgets.key_name import KeyName

    app.push_screen(KeyName(lambda key: keymap.current().said_of(key)))


def _settings(app: TuiAgentApp, _: str) -> None:
    from tui_agent.tui import settings_screen

    settings_screen.show(app)


def _menu(app: TuiAgentApp, _: str) -> None:
    app.set_focus(app.composer.prompt)
    app.composer.prompt.open_menu()


async def copy(app: TuiAgentApp, text: str, what: str = "") -> None:
    """Put a text on the clipboard and say what is known of that, behind `what`."""
    from tui_agent.tui.clipboard import copy as put

    app.hints.say(what + await put(text, app.copy_to_clipboard))


def _taking(what: str, app: TuiAgentApp, words: str) -> None:
    from tui_agent.tui import taking

    getattr(taking, what)(app, words)


def _plan(app: TuiAgentApp, word: str) -> None:
    if word in ("accept", "discard"):
        app.plans.do("accept" if word == "accept" else "discard")
    elif word in STATUSES:
        app.plans.set_status(word)
    elif word:
        app.hints.say(f"/plan takes accept, discard, {', '.join(STATUSES)}")
    elif not app.query_one(Columns).visit_plan():
        app.hints.say("this session has no plan")


def _compact(app: TuiAgentApp, _: str) -> None:
    if app.session is not None:
        app.session.compact()


def _context(app: TuiAgentApp, _: str) -> None:
    from widgets.context_meter import ContextPanel

    app.push_screen(ContextPanel(app.view))


def _undoing(what: str, app: TuiAgentApp, word: str) -> None:
    from tui_agent.tui import undoing

    getattr(undoing, what)(app, word)


def _sessions(what: str, app: TuiAgentApp, word: str) -> None:
    from tui_agent.tui import sessions

    getattr(sessions, what)(app, word)


def _grants(app: TuiAgentApp, _: str) -> None:
    from widgets.grants_panel import GrantsPanel

    if app.session is None:
        return
    grants = app.session.grants

    def revoke(grant: Grant) -> None:
        app.run_worker(grants.revoke(grant), exit_on_error=False)

    app.push_screen(GrantsPanel(grants.listed(), revoke))


def _stats(app: TuiAgentApp, _: str) -> None:
    from tui_agent.tui import dashboard

    dashboard.show(app, _)


def _clear(app: TuiAgentApp, _: str) -> None:
    from tui_agent.tui import undoing

    undoing.clear(app)


def _model(app: TuiAgentApp, words: str) -> None:
    from tui_agent.tui import models

    models.show(app, words)


def _output(app: TuiAgentApp, words: str) -> None:
    from tui_agent.tui import pager

    pager.show(app, words)


def _web(app: TuiAgentApp, word: str) -> None:
    from tui_agent.tui import web

    web.show(app, word)


def stop_subagent(app: TuiAgentApp, node: str) -> None:
    """Stop the sub-agent that the call `node` sent; the others go on."""
    if app.session is not None and not app.session.subagents.interrupt(node):
        app.hints.say("this one has ended")


COMMANDS = (
    Command("help", "all keys and commands", lambda app, _: app.action_help()),
    Command("approvals", "who is asked when:", _approvals, APPROVALS),
    Command("mode", "how messages are worked on:", _mode, MODES),
    Command("model", "which model answers, here or in one role; /model NAME at once", _model),
    Command("plan", "to the plan and back; decide a proposal, set its status", _plan),
    Command("tree", "show or hide the progress", lambda app, _: app.query_one(Columns).toggle()),
    Command("compact", "make room in the model's context", _compact),
    Command("context", "what the model's window holds", _context),
    Command("clear", "forget the conversation; plan and files stay", _clear),
    Command("stats", "how well it goes, over all sessions", _stats),
    Command(
        "undo", "take back what the last run did to files", lambda app, word: _undoing("undo", app, word)
    ),
    Command("redo", "make the last undo undone", lambda app, word: _undoing("redo", app, word)),
    Command(
        "rewind",
        "files and conversation back to before a run",
        lambda app, word: _undoing("rewind", app, word),
    ),
    Command("diff", "what the last run did to files", lambda app, word: _undoing("diff", app, word)),
    Command(
        "checkpoints", "all runs and what they did to files", lambda app, word: _undoing("show", app, word)
    ),
    Command("sessions", "find, reopen, rename, delete", lambda app, word: _sessions("show", app, word)),
    Command("resume", "find a session and go on with it", lambda app, word: _sessions("show", app, word)),
    Command("rename", "give this session a title", lambda app, word: _sessions("rename", app, word)),
    Command("fork", "go on in a copy of this session", lambda app, word: _sessions("fork", app, word)),
    Command("grants", "what you allowed for longer than once; take it back", _grants),
    Command("editor", "the draft in your own editor", lambda app, _: app.composer.open_editor()),
    Command(
        "copy",
        "the last reply, again: its code;",
        lambda app, words: _taking("copy", app, words),
        ("code N", "plan", "all"),
    ),
    Command(
        "export",
        "write the session to a file:",
        lambda app, words: _taking("export", app, words),
        ("html", "markdown", "FILE"),
    ),
    Command("web", "this session in a browser on this machine;", _web, ("stop",)),
    Command("search", "search the session", lambda app, _: app.query_one(SearchBar).open()),
    Command("details", "show or hide thinking and output", _details),
    Command("output", "all that a call printed", _output),
    Command(
        "top",
        "to the beginning of the transcript",
        lambda app, _: app.query_one(Transcript).scroll_home(animate=False),
    ),
    Command(
        "end", "to the end of the transcript, and follow", lambda app, _: app.query_one(Transcript).follow()
    ),
    Command("stop", "stop the run", lambda app, _: app.action_interrupt()),
    Command("settings", "all of them: look, search, change", _settings),
    Command("theme", "the next one, or by its name:", _theme, NAMES),
    Command("keys", "what a key that you press is called and does", _keys),
    Command("quit", "leave; the session can be resumed", lambda app, _: app.exit(0)),
    Command(
        "queue", "messages that wait: edit, move, withdraw, guide", lambda app, _: app.composer.show_queue()
    ),
)
KEYS_ONLY = (
    Command("page-up", "", lambda app, _: _page(app, -1)),
    Command("page-down", "", lambda app, _: _page(app, 1)),
    Command("progress", "", lambda app, _: app.query_one(Columns).visit()),
    Command("palette", "", _palette),
    Command("commands", "the list of commands, over the composer", _menu),
)
"""What a key does and no name is listed for."""
BY_NAME = {one.name: one for one in (*COMMANDS, *KEYS_ONLY)}
BY_NAME["exit"] = BY_NAME["quit"]


def entries() -> list[tuple[str, str]]:
    """Names with what they do, for the list that `/` opens."""
    return [(one.name, f"{one.does}  {' · '.join(one.takes)}".rstrip()) for one in COMMANDS]


def run(app: TuiAgentApp, name: str, rest: str) -> None:
    """Do it."""
    if (command := BY_NAME.get(name)) is not None:
        command.run(app, rest.strip())

"""`/undo`, `/redo`, `/rewind`, `/diff`, `/checkpoints` and `/clear` (K1)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from tui_agent.common.errors import JournalBroken
from tui_agent.engine.undo import CannotUndo
from tui_agent.frontends.session_commands import clear_conversation, run_id, undo
from tui_agent.tui.base_app import BaseApp

if TYPE_CHECKING:
    from tui_agent.engine.undo import Checkpoints, RewindScope, UndoReport

MAX_DIFFS = 100
"""Files of a run that `/diff` shows."""
SCOPES: tuple[RewindScope, ...] = ("code", "conversation", "both")


def undo_command(
    function: Callable[[BaseApp, Checkpoints, str], Coroutine[Any, Any, None]],
) -> Callable[[BaseApp, str], None]:
    """Make a command of a function that uses the session's checkpoints; expected errors become hints."""

    def command(app: BaseApp, arguments: str) -> None:
        if app.session is not None:
            checkpoints = cast("Checkpoints", app.session.checkpoints)
            app.work(function, app, checkpoints, arguments, expected=(CannotUndo, JournalBroken))

    return command


@undo_command
async def undo_run(app: BaseApp, checkpoints: Checkpoints, target: str) -> None:
    """Carry out `/undo`."""
    _report(app, await undo(checkpoints, target))


@undo_command
async def redo_run(app: BaseApp, checkpoints: Checkpoints, _: str) -> None:
    """Redo the last undo."""
    _report(app, await checkpoints.redo())


@undo_command
async def rewind_to_run(app: BaseApp, checkpoints: Checkpoints, arguments: str) -> None:
    """Go back to before run `N`, in `code`, `conversation` or `both`; without a number, list the messages."""
    words = arguments.split()
    scope: RewindScope = next((scope for scope in reversed(SCOPES) if scope in words), "both")
    words = [word for word in words if word not in SCOPES]
    if not words:
        _choose_message(app, checkpoints)
    elif run := run_id(words[0]):
        _report(app, await checkpoints.rewind(run, scope))
    else:
        app.hints.show("/rewind needs the number of a run, then code, conversation or both")


@undo_command
async def keep_run(app: BaseApp, checkpoints: Checkpoints, run: str) -> None:
    """Accept the changes of a run, or of all runs, so that undo skips them."""
    if not checkpoints.keep(run_id(run)):
        app.hints.show("nothing to keep")


def clear(app: BaseApp, _: str) -> None:
    """Carry out `/clear`."""
    if app.session is not None:
        app.work(clear_conversation, app.session, expected=(CannotUndo, JournalBroken))


@undo_command
async def show_run_diff(app: BaseApp, checkpoints: Checkpoints, run: str) -> None:
    """Show the file changes of run `N`, or of the last run."""
    from widgets.checkpoints import CheckpointDiffs

    matching = [entry for entry in checkpoints.listed() if run in ("", entry.run, entry.run.removeprefix("run-"))]
    if not matching:
        app.hints.show("no file changes")
        return
    checkpoint, diffs, problems = matching[-1], [], []
    for file in checkpoint.files[:MAX_DIFFS]:
        try:
            diffs.append(await checkpoints.diff(checkpoint.run, file.path))
        except CannotUndo as error:
            problems.append(str(error))
    if len(checkpoint.files) > MAX_DIFFS:
        problems.append(f"{len(checkpoint.files) - MAX_DIFFS} more files are not shown.")
    app.push_screen(CheckpointDiffs(checkpoint.title or checkpoint.run, diffs, problems))


@undo_command
async def show_checkpoints(app: BaseApp, checkpoints: Checkpoints, _: str) -> None:
    """List the runs with their file changes, newest first."""
    from widgets.checkpoints import CheckpointsPanel

    app.push_screen(CheckpointsPanel(checkpoints.listed()[::-1], _actions_on_runs(app)))


def _choose_message(app: BaseApp, checkpoints: Checkpoints) -> None:
    """List the messages of the conversation, newest first, for going back to before one."""
    from widgets.checkpoints import RewindPanel

    if messages := checkpoints.conversation()[::-1]:
        app.push_screen(RewindPanel(messages, _actions_on_runs(app)))
    else:
        app.hints.show("no earlier message to edit")


def _actions_on_runs(app: BaseApp) -> Callable[[str, str], None]:
    """Return what the panels call with an action and a run."""
    actions = {"undo": undo_run, "keep": keep_run, "diff": show_run_diff}

    def act_on_run(action: str, run: str) -> None:
        if action in actions:
            actions[action](app, run)
        else:
            rewind_to_run(app, f"{run} {action}")

    return act_on_run


def _report(app: BaseApp, report: UndoReport) -> None:
    app.transcript.follow()  # what was undone stands at its end
    if report.text:
        stashed = app.prompt.move_to_history()
        app.prompt.append_text(report.text)
        app.hints.show("draft stashed · up restores it" if stashed else "edit and send it again · /redo goes back")
    elif not report.items and report.kind != "redo":  # a conversation that is back shows it itself
        app.hints.show("nothing to do")

"""`/undo`, `/redo`, `/rewind` and `/checkpoints`: what the user types, handed to the session's checkpoints (K1)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from tui_agent.engine.core.stream import JournalBroken
from tui_agent.engine.undo import CannotUndo
from tui_agent.tui.base_app import BaseApp

if TYPE_CHECKING:
    from tui_agent.engine.undo import Checkpoints, UndoReport, What

COMPARED = 100
"""Files of a run that are compared at once."""
WHAT = ("code", "conversation", "both")


def undo_command(
    do: Callable[[BaseApp, Checkpoints, str], Coroutine[Any, Any, None]],
) -> Callable[[BaseApp, str], None]:
    """A command of the session's checkpoints. Its effect is on the stream; why nothing was done is a hint."""

    def command(app: BaseApp, words: str) -> None:
        if app.session is not None:
            app.work(do, app, cast("Checkpoints", app.session.checkpoints), words, expected=(CannotUndo, JournalBroken))

    return command


@undo_command
async def undo_run(app: BaseApp, checkpoints: Checkpoints, word: str) -> None:
    """The last run, `run-N` or `N`, or files by name; `finish` and `back` for an undo that was cut off."""
    if word == "finish":
        done = await checkpoints.finish()
    elif word == "back":
        done = await checkpoints.roll_back()
    elif _is_run(word):
        done = await checkpoints.undo(run=_run(word))
    else:
        done = await checkpoints.undo(files=(word,) if word else ())
    _report(app, done)


@undo_command
async def redo_run(app: BaseApp, checkpoints: Checkpoints, _: str) -> None:
    """What was undone last."""
    _report(app, await checkpoints.redo())


@undo_command
async def rewind_to_run(app: BaseApp, checkpoints: Checkpoints, rest: str) -> None:
    """To before a run: its number, then `code`, `conversation` or `both`; without a number a list to choose from."""
    words = rest.split()
    what: What = "both"
    for one in WHAT:
        if one in words:
            what = one  # type: ignore[assignment]  # one of the three
            words.remove(one)
    if not words:
        show_checkpoints(app, "")
    elif _is_run(words[0]):
        _report(app, await checkpoints.rewind(_run(words[0]), what))
    else:
        app.hints.show("/rewind needs the number of a run, then code, conversation or both")


@undo_command
async def keep_run(app: BaseApp, checkpoints: Checkpoints, word: str) -> None:
    """Be content with a run, or with all."""
    if not checkpoints.keep(_run(word) if word else ""):
        app.hints.show("nothing to keep")


@undo_command
async def clear_conversation(app: BaseApp, checkpoints: Checkpoints, _: str) -> None:
    """Forget the conversation; the record of it stays, and so do plan and files (U5)."""
    checkpoints.clear()


@undo_command
async def show_run_diff(app: BaseApp, checkpoints: Checkpoints, word: str) -> None:
    """What a run did to files, line by line; the last one without a number."""
    from widgets.checkpoints import CheckpointDiffs

    listed = [one for one in checkpoints.listed() if word in ("", one.run, one.run.removeprefix("run-"))]
    if not listed:
        app.hints.show("no file changes")
        return
    chosen, diffs, problems = listed[-1], [], []
    for file in chosen.files[:COMPARED]:
        try:
            diffs.append(await checkpoints.diff(chosen.run, file.path))
        except CannotUndo as error:
            problems.append(str(error))
    if len(chosen.files) > COMPARED:
        problems.append(f"{len(chosen.files) - COMPARED} more files are not shown.")
    app.push_screen(CheckpointDiffs(chosen.title or chosen.run, diffs, problems))


@undo_command
async def show_checkpoints(app: BaseApp, checkpoints: Checkpoints, _: str) -> None:
    """The runs with what they did to files, to choose one from."""
    from widgets.checkpoints import CheckpointsPanel

    rows = checkpoints.listed()[::-1]
    app.push_screen(CheckpointsPanel(rows, lambda act, run: _act_on_run(app, act, run)))


def _act_on_run(app: BaseApp, act: str, run: str) -> None:
    acts = {"undo": undo_run, "keep": keep_run, "diff": show_run_diff}
    if act in acts:
        acts[act](app, run)
    else:
        rewind_to_run(app, f"{run} {act}")


def _is_run(word: str) -> bool:
    return word.removeprefix("run-").isdecimal()


def _run(word: str) -> str:
    return f"run-{word.removeprefix('run-')}"


def _report(app: BaseApp, done: UndoReport) -> None:
    if done.text:
        app.prompt.take_typed(done.text)
    elif not done.items:
        app.hints.show("nothing to do")

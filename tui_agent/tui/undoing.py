"""`/undo`, `/redo`, `/rewind` and `/checkpoints`: what the user types, handed to the session's checkpoints (K1)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from widgets.prompt_input import PromptInput

if TYPE_CHECKING:
    from tui_agent.checkpoints.ledger import Checkpoint
    from tui_agent.engine.undoing import Checkpoints, Report, What
    from tui_agent.tui.app import TuiAgentApp

COMPARED = 100
"""Files of a run that are compared at once."""
WHAT = ("code", "conversation", "both")


def undo(app: TuiAgentApp, word: str) -> None:
    """The last run, `run-N` or `N`, or files by name; `finish` and `back` for an undo that was cut off."""
    checkpoints = _checkpoints(app)
    if checkpoints is None:
        return
    if word == "finish":
        _do(app, checkpoints.finish())
    elif word == "back":
        _do(app, checkpoints.roll_back())
    elif _is_run(word):
        _do(app, checkpoints.undo(run=_run(word)))
    else:
        _do(app, checkpoints.undo(files=(word,) if word else ()))


def redo(app: TuiAgentApp, _: str) -> None:
    """What was undone last."""
    if (checkpoints := _checkpoints(app)) is not None:
        _do(app, checkpoints.redo())


def rewind(app: TuiAgentApp, rest: str) -> None:
    """To before a run: its number, then `code`, `conversation` or `both`; without a number a list to choose from."""
    words = rest.split()
    checkpoints = _checkpoints(app)
    if checkpoints is None:
        return
    what: What = "both"
    for one in WHAT:
        if one in words:
            what = one  # type: ignore[assignment]  # one of the three
            words.remove(one)
    if not words:
        show(app, "")
    elif _is_run(words[0]):
        _do(app, checkpoints.rewind(_run(words[0]), what))
    else:
        app.hints.say("/rewind takes the number of a run, then code, conversation or both")


def keep(app: TuiAgentApp, word: str) -> None:
    """Be content with a run, or with all."""
    checkpoints = _checkpoints(app)
    if checkpoints is None:
        return
    from tui_agent.engine.undoing import CannotUndo

    try:
        if not checkpoints.keep(_run(word) if word else ""):
            app.hints.say("there is nothing to keep")
    except CannotUndo as error:
        app.hints.say(str(error))


def clear(app: TuiAgentApp) -> None:
    """Forget the conversation; the record of it stays, and so do plan and files (U5)."""
    checkpoints = _checkpoints(app)
    if checkpoints is None:
        return
    from tui_agent.engine.undoing import CannotUndo

    try:
        checkpoints.clear()
    except CannotUndo as error:
        app.hints.say(str(error))


def diff(app: TuiAgentApp, word: str) -> None:
    """What a run did to files, line by line; the last one without a number."""
    checkpoints = _checkpoints(app)
    if checkpoints is None:
        return
    listed = [one for one in checkpoints.listed() if word in ("", one.run, one.run.removeprefix("run-"))]
    if not listed:
        app.hints.say("nothing was done to files")
    else:
        app.run_worker(_compare(app, checkpoints, listed[-1]), exit_on_error=False)


async def _compare(app: TuiAgentApp, checkpoints: Checkpoints, chosen: Checkpoint) -> None:
    from tui_agent.engine.undoing import CannotUndo
    from widgets.checkpoint_diffs import CheckpointDiffs

    diffs, problems = [], []
    for file in chosen.files[:COMPARED]:
        try:
            diffs.append(await checkpoints.diff(chosen.run, file.path))
        except CannotUndo as error:
            problems.append(str(error))
    if len(chosen.files) > COMPARED:
        problems.append(f"{len(chosen.files) - COMPARED} more files are not shown.")
    app.push_screen(CheckpointDiffs(chosen.title or chosen.run, diffs, problems))


def show(app: TuiAgentApp, _: str) -> None:
    """The runs with what they did to files, to choose one from."""
    checkpoints = _checkpoints(app)
    if checkpoints is None:
        return
    from widgets.checkpoints import CheckpointsPanel, File, Row

    rows = [
        Row(
            run=one.run,
            title=one.title,
            files=[
                File(file.display, file.kind == "create", file.added, file.removed, file.undone, file.unkept)
                for file in one.files
            ],
            commands=[command.command for command in one.commands],
            kept=one.kept,
        )
        for one in reversed(checkpoints.listed())
    ]
    app.push_screen(CheckpointsPanel(rows, lambda act, run: _chosen(app, act, run)))


def _chosen(app: TuiAgentApp, act: str, run: str) -> None:
    if act == "undo":
        undo(app, run)
    elif act == "keep":
        keep(app, run)
    elif act == "diff":
        diff(app, run)
    else:
        rewind(app, f"{run} {act}")


def _checkpoints(app: TuiAgentApp) -> Checkpoints | None:
    found: Checkpoints | None = getattr(app.session, "checkpoints", None)
    return found


def _is_run(word: str) -> bool:
    return word.removeprefix("run-").isdecimal()


def _run(word: str) -> str:
    return f"run-{word.removeprefix('run-')}"


def _do(app: TuiAgentApp, job: Coroutine[Any, Any, Report]) -> None:
    """Do it behind the screen. What came of it is on the stream; why nothing did is a hint."""

    async def guarded() -> None:
        from tui_agent.engine.stream import JournalBroken
        from tui_agent.engine.undoing import CannotUndo

        try:
            report = await job
        except (CannotUndo, JournalBroken) as error:
            app.hints.say(str(error))
        except Exception as error:  # the last net: whatever it is, the user gets a sentence
            app.fail(error)
        else:
            if report.text:
                app.query_one(PromptInput).take_typed(report.text)
            elif not report.items:
                app.hints.say("there was nothing to do")

    app.run_worker(guarded(), exit_on_error=False)

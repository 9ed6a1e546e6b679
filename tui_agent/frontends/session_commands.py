"""Slash commands that need no screen, for the page and line mode: each takes a session and an argument, and says what
it found or why it did nothing. What it changes is on the stream. `clear_conversation` and `undo` are the screen's, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tui_agent import events as e
from tui_agent.common.domain import ApprovalMode, Fault, Mode
from tui_agent.common.suggestions import unknown_name
from tui_agent.engine.models.effort import EFFORT_USAGE
from tui_agent.engine.undo import CannotUndo, Checkpoints, RewindScope, UndoReport
from tui_agent.events.grant_texts import DURATIONS, grant_text
from tui_agent.events.narration import trust_state
from tui_agent.frontends.plain_diffs import diff_lines
from tui_agent.text import clean, make_visible, one_line

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi
    from tui_agent.engine.session import Session
    from tui_agent.export.session import Format

SESSION_ROLE: Final = "execution"
"""The role of the session's model."""
DIFFS_MAX = 100
"""Files of a run that `/diff` shows."""
STOP_SECONDS = 10.0
"""Time limit for a run to stop before the conversation is cleared."""
REWIND_USAGE = "/rewind N goes back to before run N; add code or conversation for only one of them"
RECENT_RECORDS = 500
"""Records that a search reads first, from the end of the session; then twice as many before these, and so on."""
SEARCH_SECONDS = 5.0
"""Time limit of a search for a record."""

E = TypeVar("E", bound=e.Event)


class CommandReply(NamedTuple):
    """What a command tells the user."""

    text: str = ""
    """Not yet masked; empty if the stream tells everything."""
    draft: str = ""
    """The text of a message that was rewound, to be edited and sent again."""
    is_diff: bool = False
    """The text is a diff: its lines begin with +, -, @ or a blank, and those that name a file with a letter."""


CommandFunction = Callable[["Session", str], Awaitable[CommandReply]]


async def run_session_command(session: Session, name: str, argument: str) -> CommandReply:
    """Carry out one of `SESSION_COMMANDS`. What can't be done is told in the reply."""
    try:
        return await SESSION_COMMANDS[name](session, argument)
    except CannotUndo as error:
        return CommandReply(str(error))


def run_id(text: str) -> str:
    """`run-3` for `3` or `run-3`; "" for anything else."""
    number = text.removeprefix("run-")
    return f"run-{number}" if number.isdecimal() else ""


def parse_choice(reply: str, count: int) -> int | None:
    """The index for a number from 1 to `count`; None for anything else."""
    return int(reply) - 1 if reply.isdecimal() and len(reply) < 7 and 0 < int(reply) <= count else None


def _mode_command(name: str, noun: str, field: str, modes: type[Mode | ApprovalMode]) -> CommandFunction:
    """A command that sets one of the two modes, or lists the values."""

    async def set_mode(session: Session, value: str) -> CommandReply:
        values = [mode.value for mode in modes]
        if value not in values:
            text = (
                unknown_name(noun, one_line(clean(value), 40), values) if value else f"{name} takes {', '.join(values)}"
            )
            return CommandReply(text)
        await session.set_modes(**{field: value})
        return CommandReply()

    return set_mode


async def clear_conversation(session: SessionApi) -> None:
    """Withdraw queued messages, stop the run and clear the model's conversation (U5).

    Raises CannotUndo if the run can't be stopped, or an undo is in progress.
    """
    for message, _steering in session.queue.order():
        session.withdraw_message(message)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            while session.busy:  # the first interrupt may only end the planning
                await session.interrupt()
                await asyncio.sleep(0)
    except TimeoutError as error:
        raise CannotUndo("the run could not be stopped; nothing was cleared") from error
    session.checkpoints.clear()


async def _clear(session: Session, _: str) -> CommandReply:
    await clear_conversation(session)
    return CommandReply()


async def _model(session: Session, name: str) -> CommandReply:
    if name:
        return CommandReply(await session.models.choose(SESSION_ROLE, name))
    result = await session.models.listed()
    if isinstance(result, Fault):
        return CommandReply(result.full_message)
    names = "\n".join(f"  {one_line(clean(model.name), 100)}" for model in result)
    return CommandReply(f"{names or '  none'}\n/model NAME switches, from the next message")


async def _effort(session: Session, argument: str) -> CommandReply:
    if not argument:
        return CommandReply(f"{session.efforts.listed()}\n{EFFORT_USAGE}")
    return CommandReply(session.efforts.choose(argument))


async def _plan(session: Session, decision: str) -> CommandReply:
    if decision in ("accept", "discard"):
        was_pending = await session.settle_plan(decision == "accept")
        return CommandReply("" if was_pending else "no proposal is pending")
    if decision:
        return CommandReply("use /plan accept or /plan discard; /plan alone shows the plan")
    return CommandReply(session.memory.proposals() or session.memory.text() or "this session has no plan")


async def undo(checkpoints: Checkpoints, target: str) -> UndoReport:
    """Undo the last run, run `N`, or a file; `finish` or `back` resolves an undo that was interrupted.

    Raises CannotUndo and JournalBroken.
    """
    if target == "finish":
        return await checkpoints.finish()
    if target == "back":
        return await checkpoints.roll_back()
    if run := run_id(target):
        return await checkpoints.undo(run=run)
    return await checkpoints.undo(files=(target,) if target else ())


async def _undo(session: Session, target: str) -> CommandReply:
    await undo(session.checkpoints, target)
    return CommandReply()


async def _redo(session: Session, _: str) -> CommandReply:
    await session.checkpoints.redo()
    return CommandReply()


async def _rewind(session: Session, arguments: str) -> CommandReply:
    number, _, what = arguments.partition(" ")
    run = run_id(number)
    if not arguments:
        rows = [f"  {one.run} {one_line(clean(one.title), 80)}" for one in session.checkpoints.conversation()]
        return CommandReply("\n".join([*rows, REWIND_USAGE]) if rows else "no earlier message to edit")
    targets: dict[str, RewindScope] = {"": "both", "both": "both", "code": "code", "conversation": "conversation"}
    if not run or what.strip() not in targets:
        return CommandReply(f"{REWIND_USAGE}; /rewind alone lists them")
    report = await session.checkpoints.rewind(run, targets[what.strip()])
    return CommandReply(draft=clean(report.text))


async def _checkpoints(session: Session, _: str) -> CommandReply:
    rows = []
    for checkpoint in session.checkpoints.listed():
        files = [f"{clean(file.display)} +{file.added} −{file.removed}" for file in checkpoint.files]
        undone = " (undone)" if checkpoint.undone else ""
        rows.append(f"{checkpoint.run}{undone} {one_line(clean(checkpoint.title), 80)}")
        rows.append(f"  {', '.join(files) or 'no files'}")
    return CommandReply("\n".join(rows) or "no file changes")


async def _diff(session: Session, run: str) -> CommandReply:
    matching = [each for each in session.checkpoints.listed() if run in ("", each.run, each.run.removeprefix("run-"))]
    if not matching:
        return CommandReply("no file changes")
    checkpoint, lines = matching[-1], []
    for file in checkpoint.files[:DIFFS_MAX]:
        try:
            diff = await session.checkpoints.diff(checkpoint.run, file.path)
        except CannotUndo as error:
            lines.append(str(error))
            continue
        lines.append(f"{make_visible(diff.path)}  +{diff.added} −{diff.removed}")
        lines += [text for text, _style in diff_lines(diff)]
    if more := len(checkpoint.files) - DIFFS_MAX:
        lines += [f"{more} more files are not shown"] if more > 0 else []
    return CommandReply("\n".join(lines), is_diff=True)


async def _grants(session: Session, number: str) -> CommandReply:
    grants = session.grants.listed()
    if (index := parse_choice(number, len(grants))) is not None:
        await session.grants.revoke(grants[index])
        return CommandReply("revoked: it needs approval again")
    if not grants:
        return CommandReply("no saved permissions")
    rows = [f"  {number} {DURATIONS[grant.scope]}: {grant_text(grant)}" for number, grant in enumerate(grants, 1)]
    return CommandReply("\n".join([*rows, "/grants N revokes one"]))


async def _export(session: Session, name: str) -> CommandReply:
    from tui_agent.export.session import ExportError, export_format, export_target, write_export

    first, _, rest = name.partition(" ")
    chosen = {"html": "html", "markdown": "markdown", "md": "markdown"}.get(first)
    name = rest.strip() if chosen else name
    workspace = Path((await session.trust.states())[0].folder)

    def write() -> Path:
        form: Format = "html" if (chosen or export_format(name)) == "html" else "markdown"
        path = export_target(name, workspace, session.id, form)
        write_export(session.folder, form, session.mask, path)
        return path

    try:
        return CommandReply(f"Written to {await asyncio.to_thread(write)}.")
    except (ExportError, OSError, ValueError, RuntimeError) as error:  # an invalid file name, an unknown home
        return CommandReply(f"Not written: {one_line(str(error), 300)}")


async def _newest(session: Session, kind: type[E]) -> E | None:
    """Return the newest event of a kind; None if there is none. Raises TimeoutError."""
    end, size = session.last, RECENT_RECORDS
    async with asyncio.timeout(SEARCH_SECONDS):
        while end > 0:
            start, newest = max(0, end - size), None
            async with contextlib.aclosing(session.follow(start)) as records:
                async for record in records:
                    newest = record.event if isinstance(record.event, kind) else newest
                    if record.seq >= end:
                        break
            if newest is not None:
                return newest
            end, size = start, 2 * size
    return None


async def _output(session: Session, _: str) -> CommandReply:
    try:
        finished = await _newest(session, e.ToolFinished)
    except TimeoutError:
        return CommandReply(f"no output was found within {SEARCH_SECONDS:g} s; it is further up in the session")
    return CommandReply((finished.text if finished else "").rstrip("\n") or "no call has printed anything yet")


async def _status(session: Session, _: str) -> CommandReply:
    model = (await session.models.current()).get(SESSION_ROLE, ("", False))[0]
    window = await session.models.window() if model else None
    try:
        usage = _context_usage(await _newest(session, e.ContextMeasured), window)
    except TimeoutError:
        usage = f"not found within {SEARCH_SECONDS:g} s"
    return CommandReply(
        f"session {session.id}  {one_line(session.title, 80)}\n"
        f"model {one_line(model, 100) or 'not known yet'} · {session.models.endpoint}\n"
        f"context {usage}"
    )


def _context_usage(measured: e.ContextMeasured | None, window: int | None) -> str:
    """How full the context window is, in words."""
    used, limit = (measured.used, measured.limit or window) if measured else (None, window)
    if used is None:
        return f"empty, of {limit:,} tokens" if limit else "empty"
    return f"{used:,} of {limit:,} tokens ({used / limit:.0%})" if limit else f"{used:,} tokens"


async def _compact(session: Session, _: str) -> CommandReply:
    session.compact()
    return CommandReply()


async def _stop(session: Session, _: str) -> CommandReply:
    await session.interrupt()
    return CommandReply()


async def _trust(session: Session, argument: str) -> CommandReply:
    action, _, number = argument.partition(" ")
    states = await session.trust.states()
    index = parse_choice(number or "1", len(states))
    if action in ("add", "revoke") and index is not None:
        folder = states[index].folder
        await (session.trust.ask(folder) if action == "add" else session.trust.revoke(folder))
        return CommandReply()
    rows = []
    for position, state in enumerate(states, 1):
        rows.append(f"  {position} {make_visible(state.folder)}: {make_visible(trust_state(state))}")
        rows += [f"    ! {risk}" for risk in state.risks] + [f"    • {item}" for item in state.contents]
    rows.append("/trust add trusts the first one, /trust revoke revokes that; /trust revoke N for another one")
    return CommandReply("\n".join(rows))


async def _rename(session: Session, title: str) -> CommandReply:
    if not title:
        return CommandReply("/rename needs a title")
    renamed = await session.naming.rename(title)
    return CommandReply(f"This session is now called “{one_line(title, 100)}”." if renamed else "")


SESSION_COMMANDS: Final[dict[str, CommandFunction]] = {
    "clear": _clear,
    "mode": _mode_command("/mode", "work mode", "mode", Mode),
    "approvals": _mode_command("/approvals", "approval mode", "approval_mode", ApprovalMode),
    "model": _model,
    "effort": _effort,
    "plan": _plan,
    "undo": _undo,
    "redo": _redo,
    "rewind": _rewind,
    "checkpoints": _checkpoints,
    "diff": _diff,
    "grants": _grants,
    "export": _export,
    "output": _output,
    "status": _status,
    "compact": _compact,
    "stop": _stop,
    "trust": _trust,
    "rename": _rename,
}

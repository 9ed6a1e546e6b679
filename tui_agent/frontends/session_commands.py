"""Slash commands that need no screen, for the page and line mode: each takes a session and an argument, and says what
it found or why it did nothing. What it changes is on the stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from tui_agent.common.domain import ApprovalMode, Fault, Mode
from tui_agent.engine.undo import CannotUndo, RewindScope
from tui_agent.events.narration import trust_state
from tui_agent.text import clean, make_visible, one_line

if TYPE_CHECKING:
    from tui_agent.engine.session import Session

SESSION_ROLE: Final = "execution"
"""The role of the session's model."""


class CommandReply(NamedTuple):
    """What a command tells the user."""

    text: str = ""
    """Not yet masked; empty if the stream tells everything."""
    draft: str = ""
    """The text of a message that was rewound, to be edited and sent again."""


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


def _mode_command(name: str, field: str, modes: type[Mode | ApprovalMode]) -> CommandFunction:
    """A command that sets one of the two modes, or lists the values."""

    async def set_mode(session: Session, value: str) -> CommandReply:
        values = [mode.value for mode in modes]
        if value not in values:
            return CommandReply(f"{name} takes {', '.join(values)}")
        await session.set_modes(**{field: value})
        return CommandReply()

    return set_mode


async def _clear(session: Session, _: str) -> CommandReply:
    session.checkpoints.clear()
    return CommandReply()


async def _model(session: Session, name: str) -> CommandReply:
    if name:
        return CommandReply(await session.models.choose(SESSION_ROLE, name))
    result = await session.models.listed()
    if isinstance(result, Fault):
        return CommandReply(result.full_message)
    names = "\n".join(f"  {one_line(clean(model.name), 100)}" for model in result)
    return CommandReply(f"{names or '  none'}\n/model NAME switches, from the next message")


async def _plan(session: Session, decision: str) -> CommandReply:
    if decision in ("accept", "discard"):
        was_pending = await session.settle_plan(decision == "accept")
        return CommandReply("" if was_pending else "no proposal is pending")
    if decision:
        return CommandReply("use /plan accept or /plan discard; /plan alone shows the plan")
    return CommandReply(session.memory.proposals() or session.memory.text() or "this session has no plan")


async def _undo(session: Session, target: str) -> CommandReply:
    if run := run_id(target):
        await session.checkpoints.undo(run=run)
    else:
        await session.checkpoints.undo(files=(target,) if target else ())
    return CommandReply()


async def _redo(session: Session, _: str) -> CommandReply:
    await session.checkpoints.redo()
    return CommandReply()


async def _rewind(session: Session, arguments: str) -> CommandReply:
    number, _, what = arguments.partition(" ")
    run = run_id(number)
    targets: dict[str, RewindScope] = {"": "both", "both": "both", "code": "code", "conversation": "conversation"}
    if not run or what.strip() not in targets:
        return CommandReply("/rewind needs a run number, then code, conversation or both; /checkpoints lists the runs")
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


async def _compact(session: Session, _: str) -> CommandReply:
    session.compact()
    return CommandReply()


async def _stop(session: Session, _: str) -> CommandReply:
    await session.interrupt()
    return CommandReply()


async def _trust(session: Session, argument: str) -> CommandReply:
    action, _, number = argument.partition(" ")
    states = await session.trust.states()
    index = int(number or "1") - 1 if (number or "1").isdecimal() else -1
    if action in ("add", "revoke") and 0 <= index < len(states):
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
    "mode": _mode_command("/mode", "mode", Mode),
    "approvals": _mode_command("/approvals", "approval_mode", ApprovalMode),
    "model": _model,
    "plan": _plan,
    "undo": _undo,
    "redo": _redo,
    "rewind": _rewind,
    "checkpoints": _checkpoints,
    "compact": _compact,
    "stop": _stop,
    "trust": _trust,
    "rename": _rename,
}

"""One visit to a session as the engine makes it: opened, written to, kept, closed; and what must be true of it after."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.stream import EventStream
from tui_agent.plan.store import PlanStore, SaveResult, Unreadable
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.locks import InUse
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.folder import SessionError, SessionFolder, session_folders
from tui_agent.storage.journal import read_records
from tui_agent.storage.recovery import RecoveryReport
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

NOW = datetime(2026, 1, 7, 10, 23, 21, 45_000, tzinfo=UTC)
CALL = ToolCall(id="c", name="edit_file", arguments={"path": "a.py", "old_string": "[a]\nb"})
TURNS = 3
UNSET_GOAL = "[Goal to be defined]"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Visit(msgspec.Struct):
    """What was promised to whoever watched, and what they were told."""

    promises: list[str] = []
    """`durable ID`, `blob HASH`, `plan GOAL`: each survives whatever happens afterwards."""
    emitted: list[str] = []
    goals: list[str] = msgspec.field(default_factory=lambda: [UNSET_GOAL])
    """What the plan may say, in order."""
    refused: str = ""
    """Why the session could not be opened."""
    broken: int = 0
    """Barriers that said that nothing can be saved."""
    failures: list[str] = []
    """What the screen was told of it."""
    complete: bool = False
    """It was closed in order: all that was emitted is on disk."""


async def visit(
    sessions: Path,
    name: str,
    promise: Callable[[str], None] = lambda what: None,
    mend: Callable[[], None] = lambda: None,
) -> Visit:
    """Go to the one session in `sessions`, or begin it. `mend` is called when all is written but the end."""
    seen = Visit()

    def promised(what: str) -> None:
        seen.promises.append(what)
        promise(what)

    try:
        folder = _folder(sessions)
    except (OSError, SessionError, InUse) as error:
        seen.refused = str(error)
        return seen
    try:
        stream, recovered = await EventStream.open(folder)
    except OSError as error:
        seen.refused = str(error)
        folder.close("crashed")
        return seen
    stream.on_failure = lambda failure: seen.failures.append(failure or "")
    try:
        await _work(folder, stream, recovered, name, seen, promised)
        mend()
    finally:
        await _leave(folder, stream, seen, promised)
    return seen


def _folder(sessions: Path) -> SessionFolder:
    there = list(session_folders(sessions))
    if there:
        return SessionFolder.open(there[0])
    return SessionFolder.create(sessions, workspace=sessions.parent, model="m", mode="agent", now=NOW)


async def _work(
    folder: SessionFolder,
    stream: EventStream,
    recovered: RecoveryReport,
    name: str,
    seen: Visit,
    promised: Callable[[str], None],
) -> None:
    if (event := recovered.event()) is not None:
        stream.emit(event)
    for turn in range(TURNS):
        key = f"{name}{turn}"
        stream.emit(e.UserMessageAdded(id=key, text=f"say {key} ü\n[no header]"))
        seen.emitted.append(key)
        await _barrier(stream, key, seen, promised)
        stream.emit(e.TextDelta(text=f"word of {key} " * 40), node=f"r{key}")
        stream.emit(e.ToolStarted(call=CALL, title="a.py", reads_only=False), node=f"c{key}")
        if turn == 1:
            _keep(folder, key, promised)
            stream.emit(e.StateSaved(state={"turn": turn}))
        if turn == 2:
            _plan(folder, key, seen, promised)
            folder.save(title=f"title {key}")
        done = e.ToolFinished(call_id="c", name="edit_file", result=ToolResult(success=True), text="Edited.", ms=3)
        stream.emit(done, node=f"c{key}")


async def _barrier(stream: EventStream, key: str, seen: Visit, promised: Callable[[str], None]) -> None:
    try:
        await stream.written()
        promised(f"written {key}")
        await stream.durable()
    except JournalBroken:
        seen.broken += 1
    else:
        promised(f"durable {key}")


def _keep(folder: SessionFolder, key: str, promised: Callable[[str], None]) -> None:
    store = BlobStore(folder.path)
    for number in range(2):
        data = f"content {key} {number}\n".encode() * 200
        try:
            promised(f"blob {store.put(data)}")
        except StoreError:
            continue


def _plan(folder: SessionFolder, key: str, seen: Visit, promised: Callable[[str], None]) -> None:
    store = PlanStore(folder.plan)
    try:
        os.utime(folder.plan, (0, 0))  # nobody is in the middle of writing it
        store.load()
        seen.goals.append(f"goal {key}")
        wanted = msgspec.structs.replace(store.plan, goal=f"goal {key}")
        if isinstance(store.save(wanted, store.plan), SaveResult):
            promised(f"plan goal {key}")
    except FileFault:
        return
    finally:
        with contextlib.suppress(FileFault):
            store.close()


async def _leave(folder: SessionFolder, stream: EventStream, seen: Visit, promised: Callable[[str], None]) -> None:
    try:
        await stream.close()
        seen.complete = True
        for key in seen.emitted:
            promised(f"durable {key}")
    except JournalBroken:
        seen.broken += 1
    folder.close()


# --- afterwards -------------------------------------------------------------------------------


class After(msgspec.Struct):
    """A session as it was found."""

    said: list[str]
    goal: str
    recovered: RecoveryReport
    records: list[e.Record]


async def reopened(sessions: Path, promises: list[str], goals: list[str], *, exact: bool = True) -> After | None:
    """Open the session as after any crash and hold it against what was promised; None when there is none.

    `exact` when the log must be the very projection of the journal.
    """
    there = list(session_folders(sessions))
    if not there:
        assert not promises, promises
        return None
    folder = SessionFolder.open(there[0])
    stream, recovered = await EventStream.open(folder)
    if (event := recovered.event()) is not None:
        stream.emit(event)
    await stream.close()
    found = list(read_records(folder.journal))
    said = [record.event.id for record in found if isinstance(record.event, e.UserMessageAdded)]
    numbers = [record.seq for record in found]
    assert numbers == sorted(set(numbers))
    assert len(said) == len(set(said)), "a message is there twice"
    kept = {what.split()[1] for what in promises if what.startswith(("durable", "written"))}
    assert kept <= set(said), f"lost: {kept - set(said)}"
    view = SessionView()
    for record in found:
        fold_record(view, record)
    _check_log(folder, found, exact)
    goal = _check_plan(folder, promises, goals)
    store = BlobStore(folder.path)
    for what in promises:
        if what.startswith("blob "):
            store.get(what.split()[1])
    json.loads((folder.path / "session.json").read_bytes())
    assert not [name for name in os.listdir(folder.path) if name.endswith(".tua-tmp")]
    folder.close()
    return After(said, goal, recovered, found)


def _check_log(folder: SessionFolder, found: list[e.Record], exact: bool) -> None:
    text = folder.log.read_bytes().decode("utf-8", "strict" if exact else "replace")
    if exact:
        assert text == told(found)
        assert not CONTROLS.search(text)


def told(found: list[e.Record]) -> str:
    log = ChatLog()
    return "".join(log.project(record) for record in found)


def _check_plan(folder: SessionFolder, promises: list[str], goals: list[str]) -> str:
    if not folder.plan.exists():
        assert not promises
        return ""
    os.utime(folder.plan, (0, 0))
    store = PlanStore(folder.plan)
    assert not isinstance(store.load(), Unreadable)
    store.close()
    goal = store.plan.goal or goals[0]
    last = max([goals.index(what[5:]) for what in promises if what.startswith("plan ")], default=0)
    assert goal in goals[last:], f"the plan says {goal!r}, promised was {goals[last]!r}"
    return goal

from __future__ import annotations

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from tests.faults.counts import numbers
from tests.faults.mutations import JOURNAL, mutate
from tests.faults.syscalls import Machine
from tests.faults.visit import visit
from tests.storage.samples import OPENED, STORY
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.engine.core.state import open_stream
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOpenError, SessionOptions
from tui_agent.engine.session import Session
from tui_agent.storage.folder import SessionFolder, session_folders
from tui_agent.storage.journal import DAMAGED, DELTA_TYPES, GAP
from tui_agent.storage.lines import parse_line
from tui_agent.text import SecretMask
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

NUMBERS = numbers("TUI_AGENT_MUTATIONS", 120)


async def made(sessions: Path, workspace: Path) -> Path:
    """A session of some length: three visits, a whole story, a saved state, contents, a plan."""
    for name in "ab":
        assert (await visit(sessions, name)).complete
    (path,) = session_folders(sessions)
    folder = SessionFolder.open(path)
    folder.save(workspace=str(workspace))
    stream, _ = await EventStream.open(folder)
    stream.emit(structs.replace(OPENED, workspace=str(workspace)))
    for event, node in STORY[1:]:
        stream.emit(event, run="run1", node=node)
    await stream.close()
    folder.close()
    return folder.path


def intact(journal: Path) -> dict[int, bytes]:
    """Number → line of what is whole in a journal; of several with one number the first counts. A line that somebody
    put before a saved state that is older than it does not: an opening reads from the last state on."""
    found: dict[int, bytes] = {}
    for raw in journal.read_bytes().split(b"\n"):
        line = parse_line(raw)
        if line is None:
            continue
        if line.type == e.StateSaved.type:
            found = {seq: raw for seq, raw in found.items() if seq < line.seq}
        found.setdefault(line.seq, raw)
    return found


async def seen_by_a_reader(path: Path) -> list[e.Record]:
    """All that a resumed session shows, without the rest of the engine."""
    folder = SessionFolder.open(path)
    stream, recovered = await open_stream(folder, SecretMask({}))
    if (event := recovered.event()) is not None:
        stream.emit(event)
    last = stream.emit(e.Notice(level="info", text="open"))
    shown: list[e.Record] = []
    async for record in stream.follow():
        shown.append(record)
        if record.seq >= last:
            break
    await stream.close()
    shown += list(stream.records(last))
    folder.close()
    return shown


def told_as_whole(left: dict[int, bytes], shown: list[e.Record]) -> set[int]:
    """Pieces of texts that a look back leaves out, since the reply's end holds all of them."""
    ended = {record.node for record in shown if isinstance(record.event, e.ReplyEnded)}
    lines = {seq: parse_line(raw) for seq, raw in left.items()}
    return {seq for seq, line in lines.items() if line and line.type in DELTA_TYPES and line.node in ended}


async def opened(name: str, workspace: Path) -> Session:
    """The session, with its workspace named where it asks for that: journal and info may both have lost it."""
    wishes = SessionOptions(resume=name, trust=True, flags={"provider": "scripted", "mode": "direct", "sandbox": "off"})
    try:
        return await open_session(wishes)
    except SessionOpenError as error:
        if "with --workspace" not in str(error):
            raise
    return await open_session(structs.replace(wishes, workspace=workspace))


async def resumed(name: str, workspace: Path) -> list[e.Record]:
    """All that a resumed session shows, up to its being open."""
    session = await opened(name, workspace)
    shown: list[e.Record] = []
    there = asyncio.Event()

    async def look() -> None:
        async for record in session.follow(0):
            shown.append(record)
            if record.seq > session.replay_end:
                there.set()

    follower = asyncio.create_task(look())
    await asyncio.wait_for(there.wait(), 60)
    await session.close()
    await follower
    return shown


def tells(event: e.Event) -> bool:
    """Whether it tells of damage."""
    if isinstance(event, e.SessionRecovered):
        return event.damaged > 0
    return isinstance(event, e.Notice) and event.code in (DAMAGED, GAP)


@pytest.mark.timeout(3600)
async def test_a04_a09_mutated_sessions_open_and_keep_every_intact_record(tmp_path: Path) -> None:
    sessions = paths.sessions_dir()
    workspace = tmp_path / "work"
    workspace.mkdir()
    whole = tmp_path / "whole"
    said = 0
    with Machine(tmp_path), Machine(sessions.parent):
        sessions.mkdir(parents=True)
        path = await made(sessions, workspace)
        shutil.copytree(path, whole)
        lines = intact(whole / JOURNAL)
        for number in NUMBERS:
            shutil.rmtree(path)
            shutil.copytree(whole, path)
            done = mutate(path, random.Random(number))
            left = intact(path / JOURNAL)
            try:
                records = await (resumed(path.name, workspace) if number % 10 == 0 else seen_by_a_reader(path))
            except BaseException as error:
                raise AssertionError(f"number {number}: {done}") from error
            read = (
                record for record in records if not (isinstance(record.event, e.Notice) and record.event.code == GAP)
            )
            found = {record.seq for record in read} | told_as_whole(lines, records)
            lost = {seq for seq in left if lines.get(seq) == left[seq]} - found
            assert not lost, f"number {number}: {done} cost {sorted(lost)}"
            gaps = {seq for seq in lines if seq < max(found & lines.keys(), default=0)} - found
            if gaps and not any("shuffled" in one for one in done):  # without any order no end can be told
                assert any(tells(record.event) for record in records), f"number {number}: {done}, nothing said"
                said += 1
            view = SessionView()
            for record in records:
                fold_record(view, record)
    assert said > len(NUMBERS) // 10


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
async def test_a_journal_that_is_no_file_is_no_session_and_that_is_said(tmp_path: Path, kind: str) -> None:
    sessions = paths.sessions_dir()
    sessions.mkdir(parents=True)
    path = await made(sessions, tmp_path)
    journal = path / JOURNAL
    journal.rename(tmp_path / "aside")
    if kind == "folder":
        journal.mkdir()
    elif kind == "link":
        journal.symlink_to(tmp_path / "aside")
    else:
        os.mkfifo(journal)
    with pytest.raises(SessionOpenError, match="can't be resumed"):
        await resumed(path.name, tmp_path)

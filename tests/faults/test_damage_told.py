"""Damage in a session before its last saved state is told on every surface, at the gap (L1)."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from tests.doubles.job import environment
from tests.doubles.mock import scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tui_agent import events as e
from tui_agent.commands.doctor_files import FindingList, _check_sessions
from tui_agent.common import paths
from tui_agent.engine.session import Session
from tui_agent.storage.folder import JOURNAL
from tui_agent.storage.journal import DAMAGED, GAP, JournalReader
from tui_agent.storage.lines import Damage, JournalLine
from tui_agent.view.fold import fold_record
from tui_agent.view.items import NoticeItem, SessionView


async def five_runs(workspace: Path) -> Path:
    async with serve(*(scenario("", "answer") for _ in range(5)), strict=False) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            for number in range(5):
                await session.send(f"message {number}")
                await watch.ended()
            return session.folder


def flip(journal: Path, text: bytes) -> None:
    data = bytearray(journal.read_bytes())
    lines = [line for line in JournalReader(journal) if isinstance(line, JournalLine)]
    said = next(line for line in lines if line.type == e.UserMessageAdded.type and text in line.raw)
    data[data.index(text, said.offset)] ^= 0x04
    journal.write_bytes(data)


async def shown(session: Session) -> list[e.Record]:
    records = []
    await session.wait()
    last = session.last
    async for record in session.follow(0):
        records.append(record)
        if record.seq >= last:
            break
    return records


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def test_a_flipped_bit_in_a_message_is_told_once_and_marked_where_it_was(workspace: Path) -> None:
    folder = await five_runs(workspace)
    flip(folder / JOURNAL, b"message 1")
    async with serve(scenario("", "answer"), strict=False) as server:
        for attempt in range(2):
            async with run_session(server, None, resume=folder.name) as session:
                watch = SessionDriver(session)
                await session.send("message 5")
                await watch.ended()
                await session.wait()
                told = [record for record in watch.records if getattr(record.event, "code", "") == DAMAGED]
                records = await shown(session)
                assert len(told) <= 1
                everything = [one for one in records if getattr(one.event, "code", "") == DAMAGED]
                assert len(everything) == 1, f"attempt {attempt}"
            view = SessionView()
            for record in records:
                fold_record(view, record)
            texts = [
                item.text if isinstance(item, e.UserMessageAdded) else "GAP"
                for item in view.items
                if isinstance(item, e.UserMessageAdded) or (isinstance(item, NoticeItem) and item.code == GAP)
            ]
            assert texts[:5] == ["message 0", "GAP", "message 2", "message 3", "message 4"]


async def test_exec_and_the_line_mode_tell_of_it(workspace: Path, tmp_path: Path) -> None:
    folder = await five_runs(workspace)
    flip(folder / JOURNAL, b"message 1")
    home = environment(tmp_path / "other") | {"TUI_AGENT_HOME": str(paths.data_dir())}
    for arguments, typed in ((("exec", "message 5"), b""), (("repl",), b"message 5\n")):
        whole = (folder / JOURNAL).read_bytes()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", *arguments, "--resume", folder.name, "--provider", "scripted", "--trust",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=home,
        )  # fmt: skip
        out, _ = await process.communicate(typed)
        assert b"1 place in events.jsonl can't be read" in out, (arguments, out)
        (folder / JOURNAL).write_bytes(whole)


async def test_any_damage_in_the_past_is_told(workspace: Path) -> None:
    folder = await five_runs(workspace)
    journal = folder / JOURNAL
    whole = journal.read_bytes()
    lines = [item for item in JournalReader(journal) if isinstance(item, JournalLine)]
    state = max(line.offset for line in lines if line.type == e.StateSaved.type)
    rng = random.Random(17)
    async with serve(scenario("", "answer"), strict=False) as server:
        for number in range(12):
            data, line = bytearray(whole), rng.choice([line for line in lines if line.offset < state])
            if number % 3 == 0:
                data[line.offset + rng.randrange(line.size - 2)] ^= 1 << rng.randrange(8)
            elif number % 3 == 1:
                del data[line.offset : line.offset + line.size]
            else:
                data[line.offset : line.offset + line.size - 1] = bytes(line.size - 1)
            journal.write_bytes(data)
            async with run_session(server, None, resume=folder.name) as session:
                codes = [getattr(record.event, "code", "") for record in await shown(session)]
            assert DAMAGED in codes, (number, line.type)
            assert sum(isinstance(item, Damage) and item.why != "retried" for item in JournalReader(journal))
            findings = FindingList("Files")
            _check_sessions(findings)
            assert [finding.state for finding in findings] == ["warn"] and folder.name in findings[0].text


async def test_doctor_says_nothing_of_intact_and_of_crashed_sessions(workspace: Path) -> None:
    folder = await five_runs(workspace)
    findings = FindingList("Files")
    _check_sessions(findings)
    assert findings == []
    with (folder / JOURNAL).open("ab") as file:
        file.write(b'{"v":1,"seq":99')
    _check_sessions(findings)
    assert findings == []
    (folder / JOURNAL).unlink()
    _check_sessions(findings)
    assert "no journal" in findings[0].text

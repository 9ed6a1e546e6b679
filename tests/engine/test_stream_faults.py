from __future__ import annotations

import asyncio
import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from tests.doubles.fake_disk import FakeDisk
from tests.engine.test_stream import gather, said, told
from tui_agent import events as e
from tui_agent.common.domain import Answer, ReadAction
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.approvals import Approvals, approval_events
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.session_copy import copy_journal
from tui_agent.events import ApprovalRequested
from tui_agent.platform.append import AppendError
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import GAP, read_records


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder.create(tmp_path / "sessions", workspace=tmp_path, model="m", mode="agent")


class Told:
    """Notes what `on_failure` is called with, and lets a test wait for the next call."""

    def __init__(self, stream: EventStream) -> None:
        self.said: list[str | None] = []
        self.changed = asyncio.Event()
        stream.on_failure = self

    def __call__(self, failure: str | None) -> None:
        self.said.append(failure)
        self.changed.set()


async def test_a_full_disk_stops_side_effects_and_loses_nothing(folder: SessionFolder) -> None:  # A10
    disk = FakeDisk()
    stream, _ = await EventStream.open(folder, calls=disk)
    told_of = Told(stream)
    follower = asyncio.create_task(gather(stream))
    stream.emit(said(1))
    await stream.durable()
    disk.room = 50
    stream.emit(said(2))
    with pytest.raises(JournalBroken, match=r"Writing events\.jsonl failed: No space left on device"):
        await stream.durable()
    assert stream.failure is not None
    assert told_of.said == [stream.failure]
    for number in range(3, 100):
        stream.emit(said(number))
    with pytest.raises(JournalBroken):
        await stream.written()
    assert disk.fired >= 2
    disk.room = None
    await stream.durable()
    assert stream.failure is None
    assert told_of.said[-1] is None
    stream.emit(said(100))
    await stream.close()
    got = await follower
    assert [record.event for record in got] == [said(number) for number in range(1, 101)]
    assert list(read_records(folder.journal)) == got
    assert folder.log.read_text("utf-8") == told(got)


async def test_it_recovers_by_itself_when_there_is_room_again(folder: SessionFolder) -> None:
    disk = FakeDisk()
    stream, _ = await EventStream.open(folder, calls=disk)
    told_of = Told(stream)
    disk.room = 0
    stream.emit(said(1))
    await asyncio.wait_for(told_of.changed.wait(), 60)
    told_of.changed.clear()
    disk.room = None
    await asyncio.wait_for(told_of.changed.wait(), 60)
    assert told_of.said[1:] == [None]
    await stream.close()
    assert disk.fired
    assert [record.event for record in read_records(folder.journal)] == [said(1)]


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_failing_sync_is_made_good_on_a_new_descriptor(folder: SessionFolder, number: int) -> None:
    disk = FakeDisk()
    disk.only = "events.jsonl"
    stream, _ = await EventStream.open(folder, calls=disk)
    disk.sync_error = lambda n: errno.EIO if n == number else None
    for index in range(1, 6):
        stream.emit(said(index))
        await stream.durable()
    await stream.close()
    assert disk.fired == 1
    assert [record.event for record in read_records(folder.journal)] == [said(index) for index in range(1, 6)]
    assert folder.journal.read_bytes().count(f'"text":"message {number}"'.encode()) == 2


async def test_when_saving_fails_for_good_the_barrier_says_so_each_time(folder: SessionFolder) -> None:
    disk = FakeDisk()
    disk.only = "events.jsonl"
    stream, _ = await EventStream.open(folder, calls=disk)
    told_of = Told(stream)
    follower = asyncio.create_task(gather(stream))
    disk.sync_error = lambda n: errno.EIO
    stream.emit(said(1))
    for _ in range(3):
        with pytest.raises(JournalBroken, match=r"Saving events\.jsonl failed: Input/output error"):
            await stream.durable()
    await stream.written()
    assert told_of.said == ["Saving events.jsonl failed: Input/output error"]
    with pytest.raises(JournalBroken):
        await stream.close()
    assert disk.fired >= 6
    assert len(await follower) == 1


async def test_closing_on_a_full_disk_ends_and_says_so(folder: SessionFolder) -> None:
    disk = FakeDisk()
    stream, _ = await EventStream.open(folder, calls=disk)
    follower = asyncio.create_task(gather(stream))
    stream.emit(said(1))
    await stream.written()
    disk.room = 0
    stream.emit(said(2))
    with pytest.raises(JournalBroken):
        await asyncio.wait_for(stream.close(), 60)
    assert disk.fired
    assert [record.seq for record in await follower] == [1], "what is not written is not shown"


async def test_short_writes_cost_nothing(folder: SessionFolder) -> None:
    disk = FakeDisk()
    disk.short = lambda number, data: max(1, len(data) // 3)
    stream, _ = await EventStream.open(folder, calls=disk)
    for number in range(1, 50):
        stream.emit(said(number))
        if number % 10 == 0:
            await stream.durable()
    await stream.close()
    assert disk.fired > 20
    got = list(read_records(folder.journal))
    assert len(got) == 49
    assert folder.journal.read_bytes().count(b"\n") == 49
    assert folder.log.read_text("utf-8") == told(got)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS])
async def test_any_write_may_fail_and_neither_file_is_torn_for_good(folder: SessionFolder, code: int) -> None:
    for failing in range(1, 25):
        disk = FakeDisk()
        disk.short = lambda number, data: max(1, len(data) // 2)
        disk.write_error = lambda number, failing=failing: code if number == failing else None  # type: ignore[misc]  # a default binds the loop's value
        stream, found = await EventStream.open(folder, calls=disk)
        assert found.event() is None
        for number in range(3):
            stream.emit(said(failing * 10 + number))
            try:
                await stream.durable()
            except JournalBroken as error:
                assert os.strerror(code) in str(error)
        await stream.close()
        assert disk.fired
    got = list(read_records(folder.journal))
    assert [r.event for r in got if isinstance(r.event, e.UserMessageAdded)] == [
        said(failing * 10 + number) for failing in range(1, 25) for number in range(3)
    ]
    log = folder.log.read_text("utf-8")
    assert log == told(got)


async def test_a_moved_folder_is_noticed_and_welcome_back(folder: SessionFolder) -> None:
    stream, _ = await EventStream.open(folder)
    stream.emit(said(1))
    await stream.durable()
    away = folder.path.with_name("away")
    folder.path.rename(away)
    stream.emit(said(2))
    with pytest.raises(JournalBroken, match="No such file"):
        await stream.durable()
    away.rename(folder.path)
    await stream.durable()
    await stream.close()
    assert [record.seq for record in read_records(folder.journal)][:2] == [1, 2]


@pytest.mark.parametrize("fault", ["gone", "full"])
async def test_all_that_was_said_can_be_copied_elsewhere_meanwhile(
    folder: SessionFolder, tmp_path: Path, fault: str
) -> None:
    disk = FakeDisk()
    stream, _ = await EventStream.open(folder, calls=disk)
    for number in range(20):
        stream.emit(said(number))
    await stream.durable()
    if fault == "gone":
        shutil.rmtree(folder.path)
    else:
        disk.room = 50
    for number in range(20, 40):
        stream.emit(said(number))
    with pytest.raises(JournalBroken):
        await stream.durable()
    copy = tmp_path / "copy.jsonl"
    await copy_journal(stream, copy)
    assert [one.event for one in read_records(copy)] == [said(number) for number in range(40)]
    assert copy.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        await copy_journal(stream, copy)
    disk.room = None
    with suppress(JournalBroken):
        await stream.close()


async def test_it_is_known_when_an_approval_is_on_disk(folder: SessionFolder) -> None:
    disk = FakeDisk()
    stream, _ = await EventStream.open(folder, calls=disk)
    approvals = Approvals(stream)
    asked, answered = approval_events(ReadAction(path="/x", display="x"), "")
    opened: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def ask(request: str) -> ApprovalRequested:
        opened.set_result(request)
        return asked(request)

    asking = asyncio.create_task(approvals.decide(ask, answered, run="", node=""))
    request = await opened
    await stream.durable()
    disk.gate.clear()
    disk.syncing.clear()
    assert approvals.answer(request, Answer(verdict="approve"))
    saved = asyncio.create_task(approvals.saved(request))
    await asyncio.to_thread(disk.syncing.wait)
    assert not saved.done() and not asking.done()
    disk.gate.set()
    await saved
    assert (await asking).verdict == "approve"
    await approvals.saved(request)  # long ago: nothing to wait for
    await stream.close()


# --- the log in other hands ---------------------------------------------------------------


async def test_a_deleted_log_goes_on_in_a_new_file_and_that_is_said(folder: SessionFolder) -> None:
    stream, _ = await EventStream.open(folder)
    stream.emit(e.TextDelta(text="before "), node="r")
    await stream.durable()
    folder.log.unlink()
    seq = stream.emit(e.TextDelta(text="after "), node="r")
    await stream.written(seq)
    notice = await notice_after(stream, seq)
    assert notice.text.startswith("chat_history.log was deleted or replaced")
    await stream.close()
    lines = folder.log.read_text("utf-8").splitlines()
    assert lines[0].rstrip().endswith("AGENT: after")
    assert "Warning: chat_history.log was deleted or replaced" in lines[1]
    stream, found = await EventStream.open(folder)
    assert (found.caught_up, found.log_changed) == (0, False)
    await stream.close()


async def test_a_log_cut_or_written_to_by_others_goes_on_behind_that(folder: SessionFolder) -> None:
    for spoil, left in (
        (lambda: os.truncate(folder.log, 0), b""),
        (lambda: folder.log.write_bytes(b"my note"), b"my note"),
    ):
        stream, _ = await EventStream.open(folder)
        stream.emit(said(1))
        await stream.durable()
        spoil()
        seq = stream.emit(said(2))
        notice = await notice_after(stream, seq)
        assert notice.code == "log.changed"
        await stream.close()
        content = folder.log.read_bytes()
        assert content.startswith(left + b"\n[" if left else b"[")
        assert content.count(b"USER: message 2\n") == 1


async def notice_after(stream: EventStream, seq: int) -> e.Notice:
    async for record in stream.follow(after=seq):
        assert isinstance(record.event, e.Notice)
        return record.event
    raise AssertionError


async def test_a_log_that_alone_can_not_be_written_stops_nothing_and_is_completed(folder: SessionFolder) -> None:
    disk = FakeDisk()
    disk.only = "chat_history.log"
    stream, _ = await EventStream.open(folder, calls=disk)
    disk.room = 10
    seq = stream.emit(said(1))
    await stream.durable()
    notice = await notice_after(stream, seq)
    assert "can't be written at the moment" in notice.text
    assert disk.fired
    disk.room = None
    stream.emit(said(2))
    await stream.close()
    assert folder.log.read_text("utf-8") == told(list(read_records(folder.journal)))


async def test_a_log_that_is_a_link_is_not_followed(folder: SessionFolder, tmp_path: Path) -> None:
    folder.log.unlink()
    folder.log.symlink_to(tmp_path / "victim")
    with pytest.raises(AppendError, match=r"Opening chat_history\.log failed"):
        await EventStream.open(folder)
    assert not (tmp_path / "victim").exists()


async def test_damage_in_the_past_is_told_to_who_reads_it_and_only_once(folder: SessionFolder) -> None:
    stream, _ = await EventStream.open(folder)
    for number in range(1, 6):
        stream.emit(said(number))
    stream.emit(e.StateSaved(state={}))
    await stream.close()
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join((lines[0], b"x" + lines[1][1:], *lines[2:4], *lines[5:])))
    for times in (1, 1, 1):
        stream, found = await EventStream.open(folder)
        assert found.damaged == 0, "it lies before the saved state"
        stream.emit(said(7))
        for _ in range(2):
            await stream.report_damage()
            codes: list[str] = []
            async for record in stream.follow():
                codes.append(getattr(record.event, "code", ""))
                if record.seq > found.last:
                    break
            assert codes[1] == GAP and codes.count(GAP) == 2
        await stream.close()
        told_of = [r.event for r in read_records(folder.journal) if isinstance(r.event, e.Notice)]
        assert len(told_of) == times
    assert f"2 places in events.jsonl can't be read, the first at byte {len(lines[0])}." in told_of[0].text

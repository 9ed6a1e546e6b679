from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.doubles.fake_disk import FakeDisk
from tests.storage.samples import OPENED, STORY
from tui_agent import events as e
from tui_agent.engine.core.stream import STATE_RECORDS, EventStream
from tui_agent.platform.syscalls import OS, OsCalls
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import GAP, read_records
from tui_agent.storage.lines import RecordTooBig, to_line
from tui_agent.storage.recovery import RecoveryReport
from tui_agent.text import SecretMask


@pytest.fixture
def folder(tmp_path: Path) -> SessionFolder:
    return SessionFolder.create(tmp_path / "sessions", workspace=tmp_path, model="m", mode="agent")


@asynccontextmanager
async def opened(folder: SessionFolder, calls: OsCalls = OS) -> AsyncIterator[EventStream]:
    stream, _ = await EventStream.open(folder, calls=calls)
    try:
        yield stream
    finally:
        await stream.close()


def said(number: int = 0) -> e.UserMessageAdded:
    return e.UserMessageAdded(id=str(number), text=f"message {number}")


async def gather(stream: EventStream, after: int = 0) -> list[e.Record]:
    return [record async for record in stream.follow(after)]


async def test_a_story_is_on_disk_as_records_and_as_text(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        follower = asyncio.create_task(gather(stream))
        for number, (event, node) in enumerate(STORY, 1):
            assert stream.emit(event, run="run1", node=node, parent="p") == number
        await stream.durable()
    got = await follower
    assert [(record.seq, record.event, record.node) for record in got] == [
        (number, event, node) for number, (event, node) in enumerate(STORY, 1)
    ]
    assert all((record.run, record.parent) == ("run1", "p") for record in got)
    assert list(read_records(folder.journal)) == got
    assert folder.log.read_text(encoding="utf-8") == told(got)


def told(got: list[e.Record]) -> str:
    chat = ChatLog()
    return "".join(map(chat.project, got))


async def test_nobody_sees_a_record_that_is_not_in_journal_and_log(folder: SessionFolder) -> None:
    seen = 0
    async with opened(folder) as stream:

        async def look() -> None:
            nonlocal seen
            async for record in stream.follow():
                assert f'"seq":{record.seq},'.encode() in folder.journal.read_bytes()
                assert f"USER: message {record.seq}\n" in folder.log.read_text("utf-8")
                seen = record.seq

        follower = asyncio.create_task(look())
        for number in range(1, 200):
            stream.emit(said(number))
            if number % 7 == 0:
                await asyncio.sleep(0)
    await follower
    assert seen == 199


async def test_while_the_write_hangs_nothing_is_shown_and_the_event_loop_lives(folder: SessionFolder) -> None:
    disk = FakeDisk()
    async with opened(folder, disk) as stream:
        got: list[int] = []

        async def look() -> None:
            async for record in stream.follow():
                got.append(record.seq)

        follower = asyncio.create_task(look())
        disk.write_gate.clear()
        stream.emit(said(1))
        await asyncio.to_thread(disk.writing.wait)
        for _ in range(50):
            stream.emit(said(2))
            await asyncio.sleep(0)
        assert got == []
        disk.write_gate.set()
        await stream.written()
    await follower
    assert got == list(range(1, 52))


async def test_a_write_never_waits_for_a_sync(folder: SessionFolder) -> None:
    disk = FakeDisk()
    async with opened(folder, disk) as stream:
        disk.gate.clear()
        disk.syncing.clear()
        first = stream.emit(said(1))
        barrier = asyncio.create_task(stream.durable(first))
        await asyncio.to_thread(disk.syncing.wait)
        second = stream.emit(said(2))
        await stream.written(second)
        assert not barrier.done()
        disk.gate.set()
        await barrier


async def test_what_is_durable_was_synced_after_it_was_written(folder: SessionFolder) -> None:
    disk = FakeDisk()
    disk.only = "events.jsonl"
    async with opened(folder, disk) as stream:
        for number in range(5):
            stream.emit(said(number))
            before = len(disk.syncs)
            await stream.durable()
            assert len(disk.syncs) > before


async def test_barriers_asked_for_together_share_a_sync(folder: SessionFolder) -> None:
    disk = FakeDisk()
    disk.only = "events.jsonl"
    async with opened(folder, disk) as stream:
        disk.gate.clear()
        barriers = []
        for number in range(100):
            barriers.append(asyncio.create_task(stream.durable(stream.emit(said(number)))))
        await asyncio.to_thread(disk.syncing.wait)
        await stream.written()
        disk.gate.set()
        await asyncio.gather(*barriers)
        assert len(disk.syncs) <= 3


async def test_without_a_barrier_it_becomes_durable_by_itself(folder: SessionFolder) -> None:
    disk = FakeDisk()
    disk.only = "events.jsonl"
    async with opened(folder, disk) as stream:
        disk.syncing.clear()
        stream.emit(said(1))
        assert await asyncio.to_thread(disk.syncing.wait, 5)


async def test_waiting_for_what_is_done_or_for_nothing_returns_at_once(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        await stream.written()
        await stream.durable()
        await stream.durable(999)
        stream.emit(said(1))
        await stream.durable()
        await asyncio.wait_for(stream.durable(1), 60)


# --- followers ---------------------------------------------------------------------------------


async def test_late_and_early_followers_get_the_same(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        early = asyncio.create_task(gather(stream))
        for number in range(10):
            stream.emit(said(number))
        await stream.written()
        late = asyncio.create_task(gather(stream))
        some = asyncio.create_task(gather(stream, after=7))
        stream.emit(said(10))
    assert [record.seq for record in await early] == list(range(1, 12))
    assert await late == await early
    assert [record.seq for record in await some] == [8, 9, 10, 11]


async def test_a_follower_may_be_as_slow_as_it_likes(folder: SessionFolder) -> None:
    total = 25_000
    got: list[int] = []
    go_on = asyncio.Event()
    async with opened(folder) as stream:

        async def dawdle() -> None:
            async for record in stream.follow():
                got.append(record.seq)
                if record.seq == 5:
                    await go_on.wait()

        follower = asyncio.create_task(dawdle())
        for number in range(total):
            stream.emit(e.TextDelta(text="word "), node="r")
            if number % 1000 == 0:
                await stream.written()
        await stream.written()
        late = asyncio.create_task(gather(stream, after=100))
        go_on.set()
    await follower
    assert got == list(range(1, total + 1))
    assert [record.seq for record in await late] == list(range(101, total + 1))


async def test_the_past_of_an_earlier_process_is_followed_too_also_over_damage(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        for number in range(1, 1001):
            stream.emit(said(number))
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    lines[499] = b"x" + lines[499][1:]
    lines[999] = b"x" + lines[999][1:]
    folder.journal.write_bytes(b"".join(lines))
    async with opened(folder) as stream:
        followers = [asyncio.create_task(gather(stream, after)) for after in (0, 498, 499, 500, 998, 999, 1000)]
        assert stream.emit(said(1001)) == 1001
    for follower, after in zip(followers, (0, 498, 499, 500, 998, 999, 1000), strict=True):
        records = await follower
        assert [record.seq for record in records] == list(range(after + 1, 1002))
        gaps = [record.seq for record in records if isinstance(record.event, e.Notice) and record.event.code == GAP]
        assert gaps == [seq for seq in (500, 1000) if seq > after]


async def test_a_follower_that_leaves_disturbs_nobody(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        stays = asyncio.create_task(gather(stream))
        leaves = asyncio.create_task(gather(stream))
        stream.emit(said(1))
        await stream.written()
        leaves.cancel()
        stream.emit(said(2))
        async for record in stream.follow():
            if record.seq == 2:
                break
    assert [record.seq for record in await stays] == [1, 2]


async def test_a_waiter_that_is_cancelled_disturbs_nobody(folder: SessionFolder) -> None:
    disk = FakeDisk()
    async with opened(folder, disk) as stream:
        disk.gate.clear()
        stream.emit(said(1))
        first, second = asyncio.create_task(stream.durable()), asyncio.create_task(stream.durable())
        await asyncio.to_thread(disk.syncing.wait)
        first.cancel()
        disk.gate.set()
        await second


async def test_closing_delivers_everything_and_ends_the_followers(folder: SessionFolder) -> None:
    stream, _ = await EventStream.open(folder)
    follower = asyncio.create_task(gather(stream))
    await asyncio.sleep(0)
    for number in range(3000):
        stream.emit(said(number))
    await stream.close()
    await stream.close()
    assert len(await follower) == 3000
    assert len(list(read_records(folder.journal))) == 3000
    assert await gather(stream, after=2998) == (await follower)[-2:]
    with pytest.raises(RuntimeError):
        stream.emit(said())


# --- what may be emitted -----------------------------------------------------------------------


async def test_what_can_not_be_written_is_refused_without_a_number(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        with pytest.raises(TypeError):
            stream.emit(e.StateSaved(state={"live": object()}))
        with pytest.raises(RecordTooBig):
            stream.emit(e.UserMessageAdded(id="1", text="x" * (17 << 20)))
        assert stream.emit(said(1)) == 1


async def test_what_changes_after_it_was_emitted_does_not_change_the_record(folder: SessionFolder) -> None:
    state = {"n": 1}
    async with opened(folder) as stream:
        stream.emit(e.StateSaved(state=state))
        state["n"] = 2
        await stream.durable()
        (record,) = stream.records()
        assert record.event == e.StateSaved(state={"n": 1})


async def test_secrets_are_exact_in_the_journal_and_masked_in_the_log(folder: SessionFolder) -> None:
    stream, _ = await EventStream.open(folder, SecretMask({"LLM_AUTH_TOKEN": "tok-4f7c1b2a9d8e"}))
    stream.emit(e.UserMessageAdded(id="1", text="use tok-4f7c1b2a9d8e \ud800"))
    await stream.close()
    assert b"tok-4f7c1b2a9d8e" in folder.journal.read_bytes()
    assert "tok-4f7c1b2a9d8e" not in folder.log.read_text(encoding="utf-8")


async def test_order_is_by_number_whatever_the_clock_does(folder: SessionFolder) -> None:
    hours = iter((10, 9, 11))
    start = datetime(2026, 1, 7, tzinfo=UTC)
    stream, _ = await EventStream.open(folder, clock=lambda: start + timedelta(hours=next(hours)))
    for number in range(3):
        stream.emit(said(number))
    await stream.close()
    got = list(read_records(folder.journal))
    assert [record.seq for record in got] == [1, 2, 3]
    assert [record.at for record in got] == [f"2026-01-07T{hour}:00:00.000+00:00" for hour in ("10", "09", "11")]
    assert "The clock was set back by 3600 s." in folder.log.read_text("utf-8")


# --- resuming ----------------------------------------------------------------------------------


async def test_a_resumed_session_goes_on_with_the_next_number(folder: SessionFolder) -> None:
    stream, found = await EventStream.open(folder)
    assert found == RecoveryReport()
    stream.emit(OPENED)
    stream.emit(e.TextDelta(text="half a "), node="r")
    await stream.close()
    stream, found = await EventStream.open(folder)
    assert (found.last, stream.last, found.caught_up, found.log_changed) == (2, 2, 0, False)
    assert stream.emit(said(3)) == 3
    await stream.close()
    got = list(read_records(folder.journal))
    assert [record.seq for record in got] == [1, 2, 3]
    assert folder.log.read_text("utf-8") == told(got)


async def test_a_saved_state_is_where_a_resume_starts(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        assert stream.last_state() is None
        for number in range(STATE_RECORDS):
            assert not stream.state_due
            stream.emit(said(number))
        assert stream.state_due
        place = stream.emit(e.StateSaved(state={"history": ["ü"]}))
        assert not stream.state_due
        assert stream.last_state() == (place, {"history": ["ü"]})
        stream.emit(said(7))
    async with opened(folder) as stream:
        assert stream.last_state() == (place, {"history": ["ü"]})
        assert [record.event for record in stream.records(after=place)] == [said(7)]
        assert len(list(stream.records())) == STATE_RECORDS + 2
        assert not stream.state_due


async def test_a_torn_end_is_healed_told_and_not_told_again(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        for number in range(1, 6):
            stream.emit(said(number))
    whole = folder.journal.read_bytes()
    folder.journal.write_bytes(whole[:-20])
    stream, found = await EventStream.open(folder)
    assert (found.last, found.damaged, found.healed) == (4, 1, True)
    event = found.event()
    assert event is not None
    assert folder.journal.read_bytes() == whole[:-20] + b"\n"
    assert stream.emit(event) == 5
    await stream.close()
    async with opened(folder) as stream:
        follower = asyncio.create_task(gather(stream))
    assert [record.seq for record in await follower] == [1, 2, 3, 4, 5]
    stream, found = await EventStream.open(folder)
    assert found.event() is None
    await stream.close()


async def test_an_event_that_never_reached_the_log_is_told_at_the_next_start(folder: SessionFolder) -> None:
    async with opened(folder) as stream:
        stream.emit(said(1))
    size = folder.log.stat().st_size
    with folder.journal.open("ab") as file:
        file.write(to_line(e.Record(seq=2, at="2099-01-07T10:00:00.000+00:00", event=said(2)), size))
    for expected in (len("[2099-01-07T10:00:00.000+00:00] USER: message 2\n"), 0):
        stream, found = await EventStream.open(folder)
        assert found.caught_up == expected
        await stream.close()
    assert folder.log.read_text("utf-8").count("message 2") == 1


async def test_ten_thousand_records_take_seconds_at_most(folder: SessionFolder) -> None:
    async with asyncio.timeout(30), opened(folder) as stream:
        follower = asyncio.create_task(gather(stream))
        for _ in range(10_000):
            stream.emit(e.TextDelta(text="word "), node="r")
        await stream.durable()
    assert len(await follower) == 10_000

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.engine.kit import SessionDriver, run_session, session_options
from tui_agent.common.domain import Answer
from tui_agent.engine.opening import open_session
from tui_agent.engine.session import Session
from tui_agent.events import (
    ApprovalRequested,
    MessageQueued,
    ModeChanged,
    Notice,
    ReplyEnded,
    RunEnded,
    SessionClosed,
    StateSaved,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    UserMessageAdded,
    UserShellCommand,
)
from tui_agent.storage.journal import read_records

DEADLINE = 10.0


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


@pytest.fixture
async def complaints() -> AsyncIterator[list[dict[str, Any]]]:
    """What the event loop had to say of tasks that nobody looked after."""
    heard: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context))
    yield heard
    loop.set_exception_handler(None)


async def begun(workspace: Path) -> None:
    while not (workspace / "begun").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)


@contextmanager
def unsaved(session: Session) -> Iterator[None]:
    """While it lasts nothing of the session can be saved: its folder is elsewhere."""
    away = session.folder.with_name("away")
    session.folder.rename(away)
    try:
        yield
    finally:
        away.rename(session.folder)


async def test_a_stop_before_the_run_has_begun_ends_it(workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("hi")
        await session.interrupt()
        ended = await asyncio.wait_for(watch.ended(), DEADLINE)
    assert ended.outcome == "interrupted"


async def test_a_call_stopped_before_its_first_act_is_finished(workspace: Path) -> None:
    write = scenario("write", step("", call("write_file", path="new.py", content="x = 1\n")), "done")
    async with serve(write, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("write")
        started = await watch.until_event(ToolStarted)
        await session.interrupt()
        await asyncio.wait_for(watch.ended(), DEADLINE)
    assert [finished.call_id for finished in watch.of(ToolFinished)] == [started.call.id]
    assert not (workspace / "new.py").exists()


async def test_what_can_not_be_saved_ends_the_run_and_says_so(workspace: Path) -> None:
    calls = [call("read_file", path=".env"), call("read_file", path="adder.py")]
    reads = scenario("read", step("", *calls, delay=0.3), "done")
    (workspace / ".env").write_text("TOKEN=1\n")
    async with serve(reads, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("read")
        await server.wait_for_request(1)
        with unsaved(session):
            await asyncio.wait_for(session.wait(), DEADLINE)
        ended = await asyncio.wait_for(watch.ended(), DEADLINE)
    assert ended.outcome == "failed"
    assert "nothing can be saved" in ended.text
    assert ". The files changed so far are on disk. The latest part of the session is only in memory" in ended.text
    assert not watch.of(ApprovalRequested)


async def test_what_can_not_be_saved_is_named_where_reading_calls_run_side_by_side(workspace: Path) -> None:
    (workspace / ".env").write_text("TOKEN=1\n")
    reads = scenario("read", step("", call("read_file", path=".env"), call("read_file", path="adder.py")), "done")
    async with serve(reads, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.send("read")
        asked = await watch.until_event(ApprovalRequested)
        with unsaved(session):
            session.answer(asked.id, Answer(verdict="approve"))
            await asyncio.wait_for(session.wait(), DEADLINE)
        ended = await asyncio.wait_for(watch.ended(), DEADLINE)
    assert "nothing can be saved" in ended.text
    results = {finished.call_id: finished.result for finished in watch.of(ToolFinished)}
    assert len(results) == 2
    assert "inside" not in " ".join(result.error or "" for result in results.values())


async def test_trust_that_can_not_be_asked_does_no_harm(workspace: Path, complaints: list[dict[str, Any]]) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            with unsaved(session):
                await session.send("hi")
                await asyncio.wait_for(session.wait(), DEADLINE)
            watch = SessionDriver(session)
            await asyncio.wait_for(watch.until_event(ModeChanged, approval_mode="read-only"), DEADLINE)
            await watch.ended()
    assert complaints == []


async def test_what_is_said_to_a_closing_session_is_kept_for_the_next_start(
    workspace: Path, complaints: list[dict[str, Any]]
) -> None:
    talk = [scenario("first", "one"), scenario("second", "two")]
    async with serve(*talk, strict=True) as server:
        session = await open_session(session_options(server, workspace))
        await session.send("first")
        await session.wait()
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        assert await session.send("second", message="m-given") == "m-given"
        await closing
        await session.send("too late")
        events = [record.event for record in read_records(session.folder / "events.jsonl")]
        assert isinstance(events[-1], SessionClosed)
        assert [event.text for event in events if isinstance(event, UserMessageAdded)] == ["first"]
        queued = [event for event in events if isinstance(event, MessageQueued)]
        assert [(event.id, event.text) for event in queued] == [("m-given", "second")]
        async with run_session(server, workspace, resume=session.id) as again:
            watch = SessionDriver(again)
            await again.send("first")
            assert (await watch.until_event(UserMessageAdded)).text == "second"
    assert complaints == []


async def test_closing_twice_is_closed_both_times(workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server:
        session = await open_session(session_options(server, workspace))
        first = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        await session.close()
        async with run_session(server, workspace, resume=session.id):
            await first


async def test_a_command_of_the_users_own_ends_with_the_session(
    workspace: Path, complaints: list[dict[str, Any]]
) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server:
        session = await open_session(session_options(server, workspace))
        own = asyncio.create_task(session.run_shell("echo begun > begun; sleep 60"))
        await begun(workspace)
        await asyncio.wait_for(session.close(), DEADLINE)
        await asyncio.wait_for(own, DEADLINE)
        events = [record.event for record in read_records(session.folder / "events.jsonl")]
    assert isinstance(events[-1], SessionClosed)
    assert complaints == []


async def test_a_stop_ends_a_command_of_the_users_own(workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        own = asyncio.create_task(session.run_shell("echo begun > begun; sleep 60"))
        await begun(workspace)
        await asyncio.wait_for(session.interrupt(), DEADLINE)
        assert (await watch.until_event(UserShellCommand)).exit_code is None
        await own
        await session.run_shell("echo again")
        assert (await watch.until_event(UserShellCommand)).output.strip() == "again"


async def test_two_stops_at_once_cost_no_word_of_what_was_written(workspace: Path) -> None:
    long = scenario("long", step("word " * 2_000))
    async with serve(long, pace=0.005, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("long")
        await watch.until_event(TextDelta)
        await asyncio.gather(session.interrupt(), session.interrupt(), session.interrupt())
        assert (await watch.ended()).outcome == "interrupted"
        await session.close()
    info = (session.folder / "session.json").read_text("utf-8")
    assert '"ended"' in info


async def test_a_state_too_large_to_save_costs_nothing_else(workspace: Path, complaints: list[dict[str, Any]]) -> None:
    huge = "\N{GRINNING FACE}" * 400_000
    async with serve(scenario("", step("ok", delay=60)), strict=True) as server:
        async with run_session(server, workspace, flags={"context_window": 4_000_000}) as session:
            for _ in range(12):
                await session.send(huge)
            folder = session.folder
        events = [record.event for record in read_records(folder / "events.jsonl")]
        assert not any(isinstance(event, StateSaved) for event in events)
        assert isinstance(events[-1], SessionClosed)
        async with run_session(server, workspace, resume=session.id) as again:
            assert len([m for m in events if isinstance(m, MessageQueued)]) == 11
            watch = SessionDriver(again)
            await again.send("x")
            assert (await watch.until_event(UserMessageAdded)).text == huge
    assert complaints == []


async def test_a_message_too_large_to_keep_is_refused_in_words(workspace: Path) -> None:
    async with serve(scenario("x", "ok"), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("x" * (17 << 20))
        notice = await watch.until_event(Notice, code="message.too_big")
        assert "file" in notice.text
        await session.send("x")
        assert (await watch.ended()).outcome == "done"


async def test_a_reply_without_end_is_cut(workspace: Path) -> None:
    async def endless(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        while True:
            await connection.events({"choices": [{"delta": {"content": "word " * 10_000}}]})

    async with FakeRawServer({"/v1/chat/completions": endless}) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("endless")
        assert (await watch.ended()).outcome == "failed"
        await asyncio.wait_for(server.left.wait(), DEADLINE)
    (reply,) = watch.of(ReplyEnded)
    assert reply.fault is not None and reply.fault.kind == "too_large"
    assert 1_000_000 < len(reply.text) < 1_500_000


async def test_a_change_too_large_to_be_shown_is_not_made(workspace: Path) -> None:
    (workspace / "large.txt").write_text("line\n" * 600_000)
    write = scenario(
        "write",
        step("", call("read_file", path="large.txt", end_line=3)),
        step("", call("write_file", path="large.txt", content="x\n")),
        "done",
    )
    auto = {"approval_mode": "auto"}
    async with serve(write, strict=True) as server, run_session(server, workspace, flags=auto) as session:
        watch = SessionDriver(session)
        await session.send("write x to large.txt")
        ended = await watch.ended()
    assert ended.outcome == "failed" and "nothing changed" in ended.text
    assert "too_large" in [one.result.code for one in watch.of(ToolFinished)]
    assert (workspace / "large.txt").read_text("utf-8").startswith("line\n")


async def test_output_never_comes_after_the_end_of_its_call(workspace: Path) -> None:
    noise = scenario("noise", step("", call("run_terminal_command", command="yes | head -c 3000000")), "done")
    async with serve(noise, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("noise")
        assert (await watch.ended()).outcome == "done"
    kinds = [type(record.event) for record in watch.records]
    last_output = max(index for index, kind in enumerate(kinds) if kind is ToolOutput)
    assert last_output < kinds.index(ToolFinished) < kinds.index(RunEnded)

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.doubles.job import TASK, job_scenario, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.nightly import sampled
from tests.waiting import within_timeout
from tui_agent.common.domain import Answer
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Record,
    ReplyEnded,
    ReplyPhase,
    RunEnded,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from tui_agent.models.scenario_matching import user_text

TALK = scenario("how are you", "well, thank you")
STRIDE = 8
"""Every such record is a point at which a run of the test interrupts; all of them in the nightly ones."""


async def gone(pid: int) -> None:
    dead = asyncio.Event()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, dead.set)
    await dead.wait()
    loop.remove_reader(handle)
    os.close(handle)


def refused(server: MockServer) -> list[str]:
    return [repr(exchange) for exchange in server.requests if exchange.status == 400]


async def records_of_the_job(workspace: Path, provider: str) -> int:
    async with (
        serve(job_scenario(), strict=True) as server,
        run_session(server, workspace, provider=provider) as session,
    ):
        watch = SessionDriver(session)
        await session.send(TASK)
        await watch.ended()
        assert not refused(server)
        return len(watch.records)


def reached(record: Record, seq: int) -> bool:
    """Whether the stream is that far, or the run has ended before: a reply may come in fewer pieces than the last time."""
    return record.seq >= seq or isinstance(record.event, RunEnded)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("provider", ["openai", "ollama"])
@pytest.mark.parametrize("first", sampled(range(1, STRIDE + 1), (2,)))
async def test_after_an_interrupt_anywhere_a_strict_server_accepts_the_next_request(
    tmp_path: Path, provider: str, first: int
) -> None:
    total = await records_of_the_job(make_workspace(tmp_path / "whole"), provider)
    assert total > 20
    for point in range(first, total, STRIDE):
        workspace = make_workspace(tmp_path / f"{point}")
        async with serve(job_scenario(), TALK, strict=True) as server:
            async with run_session(server, workspace, provider=provider) as session:
                watch = SessionDriver(session)
                await session.send(TASK)
                await watch.until(lambda record, last=point: reached(record, session.replay_end + last))  # type: ignore[misc]
                await session.interrupt()
                await session.send("how are you")
                await watch.until_event(RunEnded, text="well, thank you")
                resume = session.id
            async with run_session(server, workspace, provider=provider, resume=resume) as session:
                watch = SessionDriver(session)
                await session.send("how are you")
                assert (await watch.ended()).outcome == "done", point
            assert not refused(server), point


async def test_stopping_a_reply_closes_the_connection_and_keeps_the_text(tmp_path: Path) -> None:
    long = scenario("long", step("word " * 50_000))
    async with serve(long, pace=0.005, strict=True) as server, run_session(server, make_workspace(tmp_path)) as session:
        watch = SessionDriver(session)
        await session.send("long")
        await watch.until_event(TextDelta)
        await within_timeout(session.interrupt())
        await within_timeout(server.requests[0].finished.wait())
        assert server.requests[0].outcome == "disconnected"
        await watch.ended()
        (reply,) = watch.of(ReplyEnded)
        assert reply.interrupted
        assert reply.text.startswith("word ")
        assert reply.text == "".join(event.text for event in watch.of(TextDelta))


async def test_stopping_while_the_server_is_silent(tmp_path: Path) -> None:
    slow = scenario("slow", step("late", delay=600))
    async with serve(slow, strict=True) as server, run_session(server, make_workspace(tmp_path)) as session:
        watch = SessionDriver(session)
        await session.send("slow")
        await server.wait_for_request(1)
        await within_timeout(session.interrupt())
        assert (await watch.ended()).outcome == "interrupted"
        await within_timeout(server.requests[0].finished.wait())


async def test_stopping_a_command_kills_it_and_tells_the_model(tmp_path: Path) -> None:
    sleeping = scenario(
        "sleep", step("", call("run_terminal_command", command="echo $$; trap '' TERM; sleep 999 & wait"))
    )
    async with serve(sleeping, TALK, strict=True) as server, run_session(server, make_workspace(tmp_path)) as session:
        watch = SessionDriver(session)
        await session.send("sleep")
        output = await watch.until_event(ToolOutput)
        pid = int(output.text.split()[0])
        assert Path(f"/proc/{pid}").exists()
        await within_timeout(session.interrupt())
        await within_timeout(gone(pid))
        await watch.ended()
        (done,) = watch.of(ToolFinished)
        assert done.result.code == "interrupted"
        await session.send("how are you")
        assert (await watch.ended()).outcome == "done"


async def test_stopping_an_open_approval_withdraws_it(tmp_path: Path) -> None:
    async with serve(job_scenario(), strict=True) as server, run_session(server, make_workspace(tmp_path)) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.send(TASK)
        asked = await watch.until_event(ApprovalRequested)
        await session.interrupt()
        answered = await watch.until_event(ApprovalAnswered, id=asked.id)
        assert answered.answer.verdict == "withdrawn"
        assert not session.answer(asked.id, Answer(verdict="approve"))
        assert (tmp_path / "adder.py").read_text("utf-8").count("a - b") == 1


async def test_stopping_the_wait_before_a_retry(tmp_path: Path) -> None:
    async with serve(TALK, strict=True, faults=["503"] * 6) as server:
        async with run_session(server, make_workspace(tmp_path)) as session:
            watch = SessionDriver(session)
            await session.send("how are you")
            await watch.until(lambda record: record.event.type == "retry.waiting")
            await within_timeout(session.interrupt())
            assert (await watch.ended()).outcome == "interrupted"


async def test_nothing_is_started_or_shown_after_a_stop(tmp_path: Path) -> None:
    many = scenario("many", step("", *[call("run_terminal_command", command=f"sleep {n}.5") for n in (9, 8, 7)]))
    async with serve(many, strict=True) as server, run_session(server, make_workspace(tmp_path)) as session:
        watch = SessionDriver(session)
        await session.send("many")
        await watch.until_event(ToolStarted)
        await session.interrupt()
        await watch.ended()
        assert len(watch.of(ToolStarted)) == 1


async def test_a_message_during_a_run_waits_and_is_delivered_once(tmp_path: Path) -> None:
    async with serve(job_scenario(), TALK, pace=0.002, strict=True) as server:
        async with run_session(server, make_workspace(tmp_path)) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.until_event(ReplyPhase)
            await session.send("how are you")
            first, second = await watch.ended(), await watch.ended()
    assert (first.outcome, second.outcome) == ("done", "done")
    assert second.text == "well, thank you"
    asked = [str(exchange.messages[-1]["content"]) for exchange in server.requests]
    assert sum(user_text(one) == "how are you" for one in asked) == 1


async def test_steering_reaches_the_run_that_goes_on(tmp_path: Path) -> None:
    async with serve(job_scenario(), pace=0.002, strict=True) as server:
        async with run_session(server, make_workspace(tmp_path)) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.until_event(ToolStarted)
            await session.send("and be quick", steering=True)
            await watch.ended()
    later = [[message["content"] for message in request.messages] for request in server.requests[1:]]
    assert any("and be quick" in texts for texts in later)  # the tool may have ended before

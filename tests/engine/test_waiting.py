from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.doubles.job import TASK, job_scenario, make_workspace
from tests.doubles.mock import scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.session import MessageQueue, Session
from tui_agent.events import Event, MessageMoved, MessageQueued, ReplyPhase, StateSaved, UserMessageAdded
from tui_agent.storage.journal import read_records


def queue(*ids: str) -> tuple[EngineState, MessageQueue]:
    state = EngineState()
    waiting = MessageQueue(state, state.fold, lambda: None)
    for id in ids:
        state.fold(MessageQueued(id=id, text=id))
    return state, waiting


def order(waiting: MessageQueue) -> str:
    return "".join(id.upper() if steering else id for id, steering in waiting.order())


@pytest.mark.parametrize(
    ("message", "before", "then"),
    [("c", "a", "cab"), ("a", "", "bca"), ("a", "c", "bac"), ("b", "a", "bac"), ("c", "b", "acb")],
)
def test_a_message_goes_to_its_place(message: str, before: str, then: str) -> None:
    _, waiting = queue("a", "b", "c")
    assert waiting.move(message, before)
    assert order(waiting) == then


@pytest.mark.parametrize(("message", "before"), [("c", ""), ("a", "b"), ("a", "a"), ("x", "a"), ("a", "x"), ("b", "c")])
def test_a_move_that_changes_nothing_is_no_event(message: str, before: str) -> None:
    state = EngineState()
    told: list[Event] = []
    for id in "abc":
        state.fold(MessageQueued(id=id, text=id))
    assert not MessageQueue(state, told.append, lambda: None).move(message, before)
    assert told == []


def test_a_move_of_what_is_gone_leaves_the_queue_as_it_is() -> None:
    state, waiting = queue("a", "b", "c")
    state.fold(MessageMoved(id="x", before="a"))
    assert order(waiting) == "abc"
    state.fold(MessageMoved(id="a", before="x"))
    assert order(waiting) == "bca"


def test_what_a_message_is_meant_for_can_be_changed() -> None:
    state, waiting = queue("a", "b")
    assert waiting.set_steering("b", True)
    assert not waiting.set_steering("b", True)
    assert not waiting.set_steering("x", True)
    assert order(waiting) == "aB"
    assert EngineState.restore(state.export()).queue == state.queue


async def test_the_order_of_the_queue_is_kept_and_is_the_order_of_the_runs(tmp_path: Path) -> None:
    talk = [scenario(one, f"answer to {one}") for one in ("first", "second", "third", "edited")]
    workspace = make_workspace(tmp_path)
    async with serve(job_scenario(), *talk, pace=0.002, strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.until_event(ReplyPhase)
            for id in ("first", "second", "third"):
                await session.send(id, message=id)
            session.queue.move("third", "first")
            assert session.withdraw_message("first")
            await session.send("edited", message="edited", before="second")
            assert ids(session) == ["third", "edited", "second"]
            await session.interrupt()
            await watch.ended()
            assert not session.busy
            folder = session.folder
        replayed = EngineState()
        for record in read_records(folder / "events.jsonl"):
            if not isinstance(record.event, StateSaved):
                replayed.fold(record.event, record.run)
        assert [one.id for one in replayed.queue] == ["third", "edited", "second"]
        async with run_session(server, workspace, resume=session.id) as again:
            assert ids(again) == ["third", "edited", "second"]
            watch = SessionDriver(again)
            assert again.queue.send()
            assert not again.queue.send()
            for _ in range(3):
                await watch.ended()
            assert [event.text for event in watch.of(UserMessageAdded)] == ["third", "edited", "second"]
            assert not again.queue.send()


async def test_what_is_said_after_a_stop_is_heard_although_that_run_is_not_over_yet(tmp_path: Path) -> None:
    talk = [scenario(one, f"answer to {one}") for one in ("before", "after")]
    async with serve(job_scenario(), *talk, pace=0.002, strict=True) as server:
        async with run_session(server, make_workspace(tmp_path)) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.until_event(ReplyPhase)
            stopping = asyncio.create_task(session.interrupt())
            await asyncio.sleep(0)
            await session.send("after", message="after")
            assert session.busy
            assert ids(session) == ["after"]
            await stopping
            assert (await watch.ended()).outcome == "interrupted"
            await watch.until_event(UserMessageAdded, text="after")
            await watch.until_event(ReplyPhase)
            await session.send("before", message="before")
            stopping = asyncio.create_task(session.interrupt())
            await asyncio.sleep(0)
            await session.send("withdrawn", message="withdrawn")
            assert session.withdraw_message("withdrawn")
            await stopping
            await watch.ended()
            await session.wait()
            assert ids(session) == ["before"]


def ids(session: Session) -> list[str]:
    return [id for id, _ in session.queue.order()]

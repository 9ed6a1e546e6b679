from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer
from tui_agent.engine.loop.calls import LoopDetector
from tui_agent.events import ApprovalRequested, Event, FileChanged, Notice, QuestionAsked, ReplyRejected, ToolFinished


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def results(server: MockServer, request: int = -1) -> list[str]:
    return [str(m["content"]) for m in server.requests[request].messages if m["role"] == "tool"]


def read(path: str = "adder.py") -> dict[str, Any]:
    return call("read_file", path=path)


def edit(old: str, new: str) -> dict[str, Any]:
    return call("edit_file", path="adder.py", old_string=old, new_string=new)


def run(command: str) -> dict[str, Any]:
    return call("run_terminal_command", command=command)


def no(event: Event) -> Answer:
    return Answer(verdict="reply", text="Stop") if isinstance(event, QuestionAsked) else Answer(verdict="approve")


async def test_exact_duplicates_in_one_reply_run_once_and_each_has_its_result(workspace: Path) -> None:
    writes = [call("write_file", path="new.txt", content="one\n")] * 2
    same = scenario("same", step("", read(), read(), *writes), *["-"] * 3, "done")
    (workspace / "test_adder.py").unlink()
    async with serve(same, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("same")
        ended = await watch.ended()
    assert ended.tool_calls == 2
    assert len(watch.of(FileChanged)) == 1
    first, second, wrote, again = results(server)
    assert "def add" in first and "def add" in second
    assert "not run again" in second and "not run again" in again
    assert "not run again" not in first + wrote
    assert [event.kind for event in watch.of(ReplyRejected)] == ["duplicate"]


async def test_a_call_repeated_in_the_same_world_gets_its_earlier_result(workspace: Path) -> None:
    steps = [step("", run("touch ran; echo once >> log")), step("", run("touch ran; echo once >> log"))]
    async with serve(scenario("twice", *steps, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("twice")
            ended = await watch.ended()
    assert (workspace / "log").read_text("utf-8") == "once\n"
    assert ended.tool_calls == 1
    assert len(watch.of(ApprovalRequested)) == 1
    assert "not run again" in results(server)[1]
    said = str(server.requests[-1].messages)
    assert "Change your approach" in said


async def test_edit_and_test_in_turn_are_never_refused(workspace: Path) -> None:
    test = run("cat adder.py; touch tested")
    steps = [edit("a - b", "a * b"), test, edit("a * b", "a / b"), test, edit("a / b", "a + b"), test]
    async with serve(scenario("mend", *[step("", one) for one in steps], "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("mend")
            ended = await watch.ended()
    assert ended.outcome == "done"
    assert ended.tool_calls == 6
    assert not watch.of(ReplyRejected)
    for sign, text in zip("*/+", results(server)[1::2], strict=True):
        assert f"a {sign} b" in text


async def test_edit_and_test_in_turn_within_one_reply_are_run_too(workspace: Path) -> None:
    test = run("cat adder.py; touch tested")
    calls = [edit("a - b", "a * b"), test, edit("a * b", "a + b"), test]
    async with serve(scenario("mend", step("", *calls), *["-"] * 3, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("mend")
            ended = await watch.ended()
    assert ended.tool_calls == 4
    assert "a + b" in results(server)[3]


async def test_a_file_that_changed_outside_is_read_again(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        (workspace / "adder.py").write_text("# changed outside\n")
        return Answer(verdict="reply", text="yes")

    question = call("ask_user", question="may I?")
    steps = [step("", read()), step("", question), step("", read())]
    async with serve(scenario("look", *steps, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, answer)
            await session.send("look")
            await watch.ended()
    assert "changed outside" in results(server)[2]


async def test_a_signature_expires(workspace: Path) -> None:
    steps = [step("", read()), step("", call("list_files")), step("", read("test_adder.py")), step("", read())]
    async with serve(scenario("look", *steps, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("look")
            ended = await watch.ended()
    assert ended.tool_calls == 4
    assert "not run again" not in results(server)[3]


async def test_a_reply_with_too_many_calls_is_cut_with_a_notice(workspace: Path) -> None:
    calls = [call("read_file", path="adder.py", start_line=number) for number in range(1, 13)]
    many = scenario("many", step("", *calls), *["-"] * 11, "done")
    async with serve(many, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("many")
        ended = await watch.ended()
    assert ended.tool_calls == 10
    assert ["Not run" in text for text in results(server)] == [False] * 10 + [True] * 2
    assert any(event.code == "reply.too_many" for event in watch.of(Notice))
    assert "at most 8 calls" in str(server.requests[-1].messages)


async def test_five_identical_results_ask_the_user_who_may_stop(workspace: Path) -> None:
    async with serve(scenario("poll", step("", run("touch x; echo busy"))), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, no)
            await session.send("poll")
            ended = await watch.ended()
    assert ended.outcome == "limit"
    (asked,) = watch.of(QuestionAsked)
    assert "run_terminal_command" in asked.question or "nothing new" in asked.question
    assert len(server.requests) <= 13
    assert "round in circles" in str(server.requests[-1].messages)


async def test_two_calls_in_turn_with_the_same_results_stop_where_no_user_is(workspace: Path) -> None:
    turns = [step("", run(f"touch x; echo {number % 2}")) for number in range(30)]
    async with serve(scenario("turns", *turns), strict=True) as server:
        async with run_session(server, workspace, attended=False, flags={"approval_mode": "auto"}) as session:
            watch = SessionDriver(session)
            await session.send("turns")
            ended = await watch.ended()
    assert ended.outcome == "limit"
    assert "take turns" in ended.text
    assert len(server.requests) == 6
    assert not watch.of(QuestionAsked)


async def test_the_user_can_let_it_go_on_with_advice(workspace: Path) -> None:
    asked: list[Event] = []

    def answer(event: Event) -> Answer:
        if isinstance(event, QuestionAsked):
            asked.append(event)
            return Answer(verdict="reply", text="Look into the log instead")
        return Answer(verdict="approve")

    turns = [step("", run(f"touch x; echo {number % 2}")) for number in range(6)]
    advice = scenario("Look into the log", "I did, it is empty.")
    async with serve(scenario("turns", *turns), advice, strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, answer)
            await session.send("turns")
            ended = await watch.ended()
    assert len(asked) == 1
    assert ended.text == "I did, it is empty."


async def test_at_the_limit_of_rounds_the_user_is_asked(workspace: Path) -> None:
    looks = [step("", call("read_file", path="adder.py", start_line=number)) for number in range(1, 9)]
    answers = iter(["Continue", "Stop"])

    def answer(event: Event) -> Answer:
        return Answer(verdict="reply", text=next(answers))

    async with serve(scenario("look", *looks), strict=True) as server:
        async with run_session(server, workspace, flags={"iterations": {"direct": 3}}) as session:
            watch = SessionDriver(session, answer)
            await session.send("look")
            ended = await watch.ended()
    assert ended.outcome == "limit"
    assert len(server.requests) == 6


async def test_a_refused_call_is_not_asked_for_twice_in_a_row(workspace: Path) -> None:
    write = step("", call("write_file", path="new.txt", content="x"))
    async with serve(scenario("write", write, write, "sorry"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session, lambda event: Answer(verdict="reject", text="not there"))
            await session.send("write")
            await watch.ended()
    assert len(watch.of(ApprovalRequested)) == 1
    assert [event.result.success for event in watch.of(ToolFinished)] == [False, False]
    assert "not there" in results(server)[1]


def test_news_between_identical_calls_are_no_loop() -> None:
    repeats = LoopDetector()
    for number in range(20):
        repeats.add(("edit_file", str(number)), "ok")
        repeats.add(("run_terminal_command", "test"), "failed")
        assert repeats.end_batch() == ("", "")


def test_a_loop_is_told_before_it_stops_and_forgotten_when_the_user_speaks() -> None:
    repeats = LoopDetector()
    said = []
    for _ in range(5):
        repeats.add(("a", "{}"), "same")
        said.append(repeats.end_batch())
    assert [bool(note) for note, _ in said] == [False, False, True, False, False] or said[2][0]
    assert said[4][1] and not said[3][1]
    repeats.reset()
    repeats.add(("a", "{}"), "same")
    assert repeats.end_batch() == ("", "")


async def test_the_user_sees_the_result_of_a_repeated_call_and_no_words_for_the_model(workspace: Path) -> None:
    twice = scenario("look", step("", read()), step("", read()), "seen")
    async with serve(twice, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("look")
        await watch.ended()
    first, second = watch.of(ToolFinished)
    assert second.result.data == first.result.data and second.result.code == "duplicate"
    assert "not run again" in second.text and "not run again" not in str(second.result)

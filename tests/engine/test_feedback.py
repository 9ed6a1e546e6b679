from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.engine.loop.feedback import RejectionCounter, announces_step, is_torn_tail
from tui_agent.engine.loop.reply import RepetitionDetector
from tui_agent.events import (
    FileChanged,
    Notice,
    ProgramMessageAdded,
    ReplyEnded,
    ReplyRejected,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from tui_agent.mock_server.replies import ServedModel
from tui_agent.protocols.parser import Protocol, ReplyParser
from tui_agent.tools.registry import default_tools

PLAIN = ServedModel(name="mock-model", capabilities=("completion",))
TOOLS = default_tools().specs()
CUT = '<tool_call>{"name": "read_file", "arguments": {"pa'


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work", tests=False)


def said(server: MockServer, request: int = -1) -> str:
    """What the program told the model in the user's role, the control packet left out."""
    texts = [str(m["content"]) for m in server.requests[request].messages if m["role"] == "user"]
    return "\n".join(texts).partition("<agent_control>")[0]


def told(watch: SessionDriver) -> list[str]:
    return [event.kind for event in watch.of(ReplyRejected)]


def temperatures(server: MockServer) -> list[float]:
    return [one.body["temperature"] for one in server.requests]


async def test_an_unreadable_reply_goes_back_with_tools_and_shape_and_is_kept(workspace: Path) -> None:
    bad = scenario("go", step(CUT, finish_reason="stop"))
    async with serve(bad, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        ended = await watch.ended()
        (first, *_) = [event for event in watch.of(ReplyRejected) if event.raw]
        kept = (session.folder / first.raw).read_text("utf-8")
    assert ended.outcome == "failed"
    assert "in a row" in ended.text
    assert len(server.requests) <= 8
    assert '"pa' in kept
    assert "run_terminal_command" in json.dumps(server.requests[1].messages)
    assert '"path"' in str([m["content"] for m in server.requests[1].messages])
    assert not any("tool_call" in event.text for event in watch.of(TextDelta))
    assert any(event.level == "warning" or event.level == "info" for event in watch.of(Notice))


async def test_a_secret_in_a_kept_reply_is_masked(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_AUTH_TOKEN", "sk-verysecret-0123456789abcdef")
    text = '<tool_call>{"name": "read_file", "arguments": {"path": "sk-verysecret-0123456789abcdef'
    async with serve(scenario("go", step(text)), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            event = await watch.until_event(ReplyRejected)
            await watch.ended()
            kept = (session.folder / event.raw).read_text("utf-8")
    assert "verysecret" not in kept


async def test_the_temperature_falls_with_bad_replies_and_recovers_after_a_good_one(workspace: Path) -> None:
    unknown = call("reed_the_thing", path="adder.py")
    steps = [step("", unknown), step("", unknown), step("", call("read_file", path="adder.py")), step("fine")]
    async with serve(scenario("go", *steps), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert ended.outcome == "done"
    assert temperatures(server) == [0.2, 0.1, 0.0, 0.2]
    assert told(watch) == ["unknown_tool", "unknown_tool"]


async def test_bad_arguments_are_taught_with_field_shape_and_tools(workspace: Path) -> None:
    wrong = step("", call("edit_file", document="adder.py", old_string="a - b", new_string="a + b"))
    async with serve(scenario("go", wrong, "sorry"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            await watch.ended()
    result = next(str(m["content"]) for m in server.requests[1].messages if m["role"] == "tool")
    assert "has no argument document" in result
    assert "needs the argument path" in result
    assert 'Example: edit_file {"path": "src/app.py"' in result
    assert "The tools are: read_file" in result
    assert told(watch) == ["bad_arguments"]


async def test_the_same_bad_call_for_ever_ends_as_failed(workspace: Path) -> None:
    bad = [step("", call("read_file"))] * 20
    async with serve(scenario("go", *bad), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert "wrong arguments" in ended.text
    assert len(server.requests) == 7


async def test_an_empty_reply_is_asked_for_again_with_the_tools(workspace: Path) -> None:
    empty = scenario("go", step(""))
    async with serve(empty, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert len(server.requests) == 3
    assert "Your last reply was empty" in said(server, 1)
    assert "read_file" in said(server, 1)
    assert server.requests[1].body["tools"]
    assert told(watch) == ["empty"] * 3
    assert "empty" in ended.text


async def test_thinking_without_a_word_that_used_up_the_limit_is_said(workspace: Path) -> None:
    mute = scenario("go", step("", thinking="hm, " + "let me see; " * 9, finish_reason="length"))
    async with serve(mute, strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert ended.outcome == "failed"
    assert "reply_tokens" in ended.text
    assert set(told(watch)) == {"thinking_only"}


async def test_a_recovered_call_is_labelled_asked_for_and_run(workspace: Path) -> None:
    text = 'I write it.\n```json\n{"name": "write_file", "arguments": {"path": "n.txt", "content": "x\\n"}}\n```\n'
    async with serve(scenario("go", step(text), "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    (started,) = watch.of(ToolStarted)
    assert started.call.recovered
    assert (workspace / "n.txt").read_text("utf-8") == "x\n"
    assert ended.outcome == "done"
    shown = "".join(event.text for event in watch.of(TextDelta))
    assert "I write it." in shown and "write_file" not in shown
    assert watch.of(ReplyEnded)[0].text.strip() == "I write it."


async def test_json_of_an_unknown_tool_never_runs(workspace: Path) -> None:
    text = '```json\n{"name": "delete_all", "arguments": {"path": "."}}\n```\nThat is how it would look.'
    async with serve(scenario("go", text), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        await watch.ended()
    assert not watch.of(ToolStarted)
    assert "delete_all" in watch.of(ReplyEnded)[0].text


async def test_thinking_in_the_text_is_thought_and_signals_are_gone(workspace: Path) -> None:
    text = "<think>The user greets.</think>Hello to you.[TASK_COMPLETE]"
    async with serve(scenario("hi", text), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("hi")
        ended = await watch.ended()
    (reply,) = watch.of(ReplyEnded)
    assert (reply.text, reply.thought.strip()) == ("Hello to you.", "The user greets.")
    assert ended.text == "Hello to you."
    assert not any("[TASK" in event.text or "think" in event.text for event in watch.of(TextDelta))


async def test_an_announcement_without_a_call_is_not_done(workspace: Path) -> None:
    async with serve(scenario("go", "I will now call read_file to get on."), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert ended.outcome == "failed"
    assert "announced" in told(watch)
    assert "called no tool" in said(server, 1)


async def test_endless_repetition_is_cut_and_said(workspace: Path) -> None:
    babble = scenario("go", step("I begin.\n" + "I have to look again.\n" * 3_000))
    async with serve(babble, pace=0.0005, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        ended = await watch.ended()
        assert server.requests[0].outcome == "disconnected"
    assert ended.outcome == "failed"
    assert set(told(watch)) == {"degenerate"}
    reply = watch.of(ReplyEnded)[0]
    assert reply.text.count("I have to look again.") == 1
    assert "over and over" in said(server, 1)


async def test_a_broken_connection_is_tried_again_and_no_call_of_it_is_run(workspace: Path) -> None:
    write = step("Now I write.", call("write_file", path="n.txt", content="x\n"))
    write["fault"] = {"kind": "no_end", "times": 1}
    async with serve(scenario("go", write, "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert server.requests[0].fired
    assert ended.outcome == "done"
    assert len(watch.of(FileChanged)) == 1
    assert told(watch) == ["broken"]
    texts = json.dumps(server.requests[1].messages)
    assert "outcome is unknown" not in texts
    assert "Interrupted" not in texts


async def test_a_connection_that_always_breaks_is_given_up(workspace: Path) -> None:
    text = step("Now I write and write and write.", fault={"kind": "cut", "after": 300})
    async with serve(scenario("go", text), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert told(watch) == ["broken"] * 3


async def test_replies_that_break_in_the_middle_are_asked_for_five_times_more(workspace: Path) -> None:
    text = step("Now I write and write and write. " * 40, fault={"kind": "cut", "after": 3_000})
    async with serve(scenario("go", text), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert all(request.fired for request in server.requests)
    assert all(reply.text for reply in watch.of(ReplyEnded))
    assert told(watch) == ["broken"] * 6


async def test_the_tail_of_a_call_is_no_answer(workspace: Path) -> None:
    tail = 'adder.py", "old_string": "a - b", "new_string": "a + b"}}]}'
    async with serve(scenario("go", tail), strict=True, models=[PLAIN]) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert ended.outcome == "failed"
    assert set(told(watch)) == {"unreadable"}
    assert "only the end of an object came" in said(server, 1)


@pytest.mark.parametrize(
    ("text", "protocol", "is_torn"),
    [
        ('mended and checked."}', "json", True),
        ('margin.py", "content": "x"}}\n</tool_call>', "xml", True),
        ("Use it so:\n\nif (x) { y(); }", "xml", False),
        ('The settings are {"a": [1]}', "json", False),
        ('{"a": "}"}', "json", False),
        ('mended."}', "native", False),
        ("All is well.", "json", False),
    ],
)
def test_torn_replies_are_seen(text: str, protocol: Protocol, is_torn: bool) -> None:
    assert is_torn_tail(text, protocol) is is_torn


async def test_feedback_never_counts_as_the_users_words(workspace: Path) -> None:
    async with serve(scenario("go", step("")), strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("go")
        await watch.ended()
    assert all(event.kind == "feedback" for event in watch.of(ProgramMessageAdded))
    assert not watch.of(ToolFinished)


@pytest.mark.parametrize(
    "text",
    [
        "I will now call read_file to get on with this.",
        "Let me use the edit_file tool next:",
        "First I'll look at the situation. Then I'll do read_file.",
        "Sure! Here is what I am going to do: run_terminal_command on pytest.",
        "The bug is in adder.py. Let me fix it.",
        "To go on I need to run read_file with these arguments: adder.py",
    ],
)
def test_announcements_are_seen(text: str) -> None:
    assert announces_step(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "Mended: add() adds now, and its test passes.",
        "I read the file and ran the test with run_terminal_command; it passes.",
        "Hello! How can I help you?",
        "Done. Let me know if you want more.",
        "Shall I fix it? I will change one line.\nIs that all right?",
        "",
    ],
)
def test_answers_are_no_announcements(text: str) -> None:
    assert not announces_step(text, TOOLS)


def test_tries_count_kinds_and_all() -> None:
    tries = RejectionCounter(0.7)
    for _ in range(3):
        assert not tries.is_exhausted("unreadable")
        tries.add("unreadable")
    assert tries.temperature == 0
    tries.reset()
    assert tries.temperature == 0.7
    for _ in range(3):
        tries.add("server")
    assert tries.is_exhausted("server")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("again\n" * 60, True),
        ("and then the next one, " * 150, True),
        ("\n".join(f"line {number}" for number in range(3_000)), False),
        ("word " * 5_000, False),
        ("}\n" * 40, False),
        ("-" * 5_000, False),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_repetition_is_told_from_text(text: str, found: bool, size: int) -> None:
    detector = RepetitionDetector()
    for start in range(0, len(text), size):
        detector.feed(text[start : start + size])
    assert bool(detector.phrase) is found


@pytest.mark.parametrize("again", ["", "stopped in the middle of", "the middle of"])
def test_a_continuation_is_joined_without_a_seam(again: str) -> None:
    reply = ReplyParser(TOOLS)
    shown = reply.feed("The reply stopped in the middle of")
    reply.resume()
    for letter in again + " a sentence.":
        shown += reply.feed(letter)
    rest, parsed = reply.finish()
    assert shown + rest == parsed.text == "The reply stopped in the middle of a sentence."

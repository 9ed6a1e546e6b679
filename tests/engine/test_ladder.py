from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import BROKEN, FIXED, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common import paths
from tui_agent.common.domain import ModelInfo, SystemMessage, ToolSpec, UserMessage
from tui_agent.engine.models.protocol_fallback import ProtocolFallback, initial_strategy
from tui_agent.events import Notice, ProtocolChanged, ReplyEnded, ReplyRejected, ToolFinished, ToolStarted
from tui_agent.mock_server.replies import ServedModel
from tui_agent.models.catalog import Calibration
from tui_agent.protocols.parser import Protocol

PLAIN = ServedModel(name="mock-model", capabilities=("completion",))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def as_json(name: str, **arguments: Any) -> str:
    return json.dumps({"tool_calls": [{"name": name, "parameters": arguments}]})


def as_xml(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'parameters': arguments})}</tool_call>"


def system(server: MockServer, request: int = -1) -> str:
    return str(server.requests[request].messages[0]["content"])


async def test_a_model_without_tools_is_asked_for_json(workspace: Path) -> None:
    mend = scenario(
        "mend",
        as_json("read_file", path="adder.py"),
        as_json("edit_file", path="adder.py", old_string="a - b", new_string="a + b"),
        json.dumps({"response": "Mended."}),
    )
    async with serve(mend, strict=True, models=[PLAIN]) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("mend")
            ended = await watch.ended()
    assert (ended.outcome, ended.text) == ("done", "Mended.")
    assert (workspace / "adder.py").read_text("utf-8") == FIXED
    assert [event.protocol for event in watch.of(ProtocolChanged)] == ["json"]
    assert any(event.code == "protocol.changed" for event in watch.of(Notice))
    for request in server.requests:
        assert "tools" not in request.body
        assert request.body["format"]
        assert "read_file" in str(request.messages[0]["content"])
        assert all("tool_calls" not in message for message in request.messages)
    assert len({system(server, number) for number in range(3)}) == 1
    assert not any(event.call.recovered for event in watch.of(ToolStarted))


async def test_a_server_that_refuses_tools_moves_the_model_at_once(workspace: Path) -> None:
    refusal = {"kind": "status", "status": 400, "body": {"error": "mock-model does not support tools"}, "times": 1}
    hello = step(json.dumps({"response": "Hello."}), fault=refusal)
    async with serve(scenario("hi", hello), strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("hi")
            ended = await watch.ended()
    assert server.requests[0].fired
    assert (ended.outcome, ended.text) == ("done", "Hello.")
    assert "tools" in server.requests[0].body and "tools" not in server.requests[1].body
    assert [event.protocol for event in watch.of(ProtocolChanged)] == ["json"]


async def test_a_model_that_writes_its_calls_as_text_is_moved_down_and_stays_there(workspace: Path) -> None:
    texts = [as_xml("read_file", path="adder.py"), as_xml("list_files", path=".")]
    look = scenario("look", *texts, json.dumps({"response": "Seen."}))
    again = scenario("again", json.dumps({"response": "Still here."}))
    async with serve(look, again, strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
            folder = session.folder.name
        async with run_session(server, workspace, provider="ollama", resume=folder) as session:
            later = SessionDriver(session)
            await session.send("again")
            ended = await later.ended()
    assert [event.call.recovered for event in watch.of(ToolStarted)] == [True, True]
    assert [event.protocol for event in watch.of(ProtocolChanged)] == ["json"]
    assert ["tools" in request.body for request in server.requests] == [True, True, False, False]
    assert ended.text == "Still here."
    assert not later.of(ProtocolChanged)


async def test_one_call_as_text_changes_nothing(workspace: Path) -> None:
    steps = [step(as_xml("read_file", path="adder.py")), step("", call("list_files")), step("done")]
    async with serve(scenario("look", *steps), strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
    assert not watch.of(ProtocolChanged)
    assert all("tools" in request.body for request in server.requests)


async def test_a_model_that_does_not_keep_to_json_is_asked_for_xml(workspace: Path) -> None:
    bad = scenario("go", '{"tool_calls": [{"name": "read_file", "parameters": {"pa', when={"system": '{"tool_calls"'})
    good = scenario("go", as_xml("read_file", path="adder.py"), "Seen.")
    async with serve(bad, good, strict=True, models=[PLAIN]) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert [event.protocol for event in watch.of(ProtocolChanged)] == ["json", "xml"]
    assert ended.text == "Seen."
    assert "format" not in server.requests[-1].body
    assert not any(event.call.recovered for event in watch.of(ToolStarted))


@pytest.mark.parametrize("protocol", ["json", "xml"])
def test_the_tools_stand_behind_the_rules_and_not_behind_the_plan_too(protocol: Protocol) -> None:
    tool = ToolSpec(name="read_file", description="Reads a file.", parameters={"type": "object"})
    ladder = ProtocolFallback("m", fixed=protocol, emit=lambda event: None)
    neutral = (SystemMessage(text="RULES"), SystemMessage(text="PLAN"), UserMessage(text="go"))
    rules, plan, _ = ladder.messages(neutral, (tool,))
    assert rules.text.startswith("RULES") and "read_file" in rules.text
    assert plan.text == "PLAN"


async def test_a_protocol_of_models_json_is_never_left(workspace: Path) -> None:
    models = {"models": {"mock-model": {"options": {"protocol": "xml"}}}}
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text(json.dumps(models))
    texts = [
        as_xml("read_file", path="adder.py"),
        as_xml("list_files", path="."),
        as_xml("read_file", path="test_adder.py"),
    ]
    async with serve(scenario("look", *texts, "Seen."), strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("look")
            ended = await watch.ended()
    assert ended.text == "Seen."
    assert [(one.protocol, one.fixed) for one in watch.of(ProtocolChanged)] == [("xml", True)]
    assert not any("tools" in request.body or "format" in request.body for request in server.requests)
    assert "<tool_call>" in system(server, 0)


async def test_a_calibrated_model_begins_with_what_was_best_and_may_leave_it(workspace: Path) -> None:
    measured = {"strategy": "json", "date": "2026-01-31", "scores": {"native": 0.5, "json": 1.0}}
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text(json.dumps({"models": {"mock-model": {"calibration": measured}}}))
    bad = scenario("go", '{"tool_calls": [{"name": "read_file", "parameters": {"pa', when={"system": '{"tool_calls"'})
    good = scenario("go", as_xml("read_file", path="adder.py"), "Seen.")
    async with serve(bad, good, strict=True) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    assert ended.text == "Seen."
    first, second = watch.of(ProtocolChanged)
    assert (first.protocol, first.why, first.fixed) == ("json", "calibrated on 2026-01-31", False)
    assert second.protocol == "xml"


@pytest.mark.parametrize(
    ("info", "fixed", "measured", "strategy", "why"),
    [
        (ModelInfo(name="m"), None, Calibration(), "native", ""),
        (ModelInfo(name="m", parameters=1.5), None, Calibration(), "files", "small model with 1.5 B parameters"),
        (ModelInfo(name="m", capabilities=("completion",)), None, Calibration(), "json", "no native tool calls"),
        (ModelInfo(name="m", parameters=1.5), None, Calibration(strategy="native"), "native", "calibrated"),
        (ModelInfo(name="m"), "xml", Calibration(strategy="json"), "xml", "set in models.json"),
    ],
)
def test_the_first_strategy_has_a_reason(
    info: ModelInfo, fixed: Protocol | None, measured: Calibration, strategy: str, why: str
) -> None:
    first = initial_strategy(info, fixed, measured)
    assert first.strategy == strategy and why in first.reason


async def test_an_answer_beside_calls_is_an_error_that_is_told(workspace: Path) -> None:
    both = {"response": "Done.", "tool_calls": [{"name": "read_file", "parameters": {"path": "adder.py"}}]}
    async with serve(scenario("go", json.dumps(both)), strict=True, models=[PLAIN]) as server:
        async with run_session(server, workspace, provider="ollama") as session:
            watch = SessionDriver(session)
            await session.send("go")
            event = await watch.until_event(ReplyRejected)
            ended = await watch.ended()
    assert event.kind == "unreadable"
    assert "not both" in event.detail
    assert not watch.of(ToolFinished)
    assert ended.outcome == "failed"


# --- replies that reach their limit (W14) -----------------------------------------------------


async def test_a_reply_that_reached_its_limit_is_continued_without_a_seam(workspace: Path) -> None:
    first = step("The answer begins here and goes on until", finish_reason="length")
    long = scenario("tell", first)
    async with serve(long, strict=True) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("tell")
        ended = await watch.ended()
    assert ended.outcome == "failed"
    assert len(watch.of(ReplyEnded)) * 4 == len(server.requests)
    assert "exactly where it stopped" in str(server.requests[1].messages[-1]["content"])
    assert server.requests[1].messages[-2]["content"] == "The answer begins here and goes on until"
    (reply, *_) = watch.of(ReplyEnded)
    assert reply.text.startswith("The answer begins here and goes on until")
    assert any(event.code == "reply.continued" for event in watch.of(Notice))


async def test_a_write_that_was_cut_off_is_never_run(workspace: Path) -> None:
    cut = step("", call("write_file", path="adder.py", content="def add("), finish_reason="length")
    async with serve(scenario("write", cut, "I send less."), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("write")
            await watch.ended()
    assert (workspace / "adder.py").read_text("utf-8") == BROKEN
    assert [event.kind for event in watch.of(ReplyRejected)] == ["truncated"]
    assert "limit of its length" in str(server.requests[1].messages)


async def test_a_call_in_text_that_was_cut_off_is_never_run(workspace: Path) -> None:
    text = '<tool_call>{"name": "write_file", "arguments": {"path": "adder.py", "content": "def add('
    async with serve(scenario("write", step(text, finish_reason="length")), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("write")
            ended = await watch.ended()
    assert (workspace / "adder.py").read_text("utf-8") == BROKEN
    assert ended.outcome == "failed"
    assert not watch.of(ToolFinished)

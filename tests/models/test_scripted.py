from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, call, scenario, scenarios, step
from tui_agent.common.domain import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from tui_agent.frontends.demo_workspace import DEMO_TASK, create_demo_workspace, demo_files
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    Model,
    ModelRequest,
    ReasoningFragment,
    ReplyPart,
    Stop,
    TextFragment,
    UsageReport,
)
from tui_agent.models.scenarios import convert_scenarios
from tui_agent.models.scripted import DEMO_FILE, ScriptedModel, load_scripted_model

TOOL = ToolSpec(name="read_file", description="Read.", parameters={"type": "object"})


def request(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(model="scripted", messages=messages, tools=(TOOL,), **more)


async def pieces(model: Model, asked: ModelRequest) -> list[ReplyPart]:
    return [piece async for piece in model.stream(asked)]


def text(given: list[ReplyPart]) -> str:
    return "".join(piece.text for piece in given if isinstance(piece, TextFragment))


def calls(given: list[ReplyPart]) -> list[ToolCall]:
    return [piece.call for piece in given if isinstance(piece, CallReady)]


def model(*given: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(convert_scenarios(scenarios(*given)), pace=0)


async def test_reply_comes_in_fragments_and_ends_with_one_stop():
    scripted = model(
        scenario(
            "go", step("I will do it now.", call("write", path="a.py", content="x = 1"), thinking="Hm, let me see.")
        )
    )
    given = await pieces(scripted, request(UserMessage(text="go")))
    assert text(given) == "I will do it now."
    assert len([piece for piece in given if isinstance(piece, TextFragment)]) > 3
    assert "".join(piece.text for piece in given if isinstance(piece, ReasoningFragment)) == "Hm, let me see."
    assert calls(given) == [ToolCall(id="call_mock_1", name="write", arguments={"path": "a.py", "content": "x = 1"})]
    begun = [piece.arguments for piece in given if isinstance(piece, CallProgress)]
    assert begun == [{}, {"path": "a.py"}, {"path": "a.py", "content": "x = 1"}]
    counted = [piece.usage for piece in given if isinstance(piece, UsageReport)]
    assert len(counted) == 1
    assert counted[0].prompt_tokens
    assert counted[0].completion_tokens
    assert given[-1] == Stop(reason="tool_calls")
    assert sum(isinstance(piece, Stop | Failed) for piece in given) == 1


async def test_no_thinking_where_it_is_switched_off():
    scripted = model(scenario("go", step("x", thinking="hm")))
    given = await pieces(scripted, request(UserMessage(text="go"), think=False))
    assert not [piece for piece in given if isinstance(piece, ReasoningFragment)]


@pytest.mark.parametrize("raw", ['{"path": "a', "[1]", "nonsense"])
async def test_unreadable_arguments_become_a_fault_of_the_call(raw: str):
    scripted = model(scenario("go", step(None, {"name": "write", "arguments": raw})))
    (made,) = calls(await pieces(scripted, request(UserMessage(text="go"))))
    assert made.arguments == {}
    assert made.fault
    assert made.raw == raw


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        ({"kind": "429", "retry_after": 2}, "status", True),
        ({"kind": "status", "status": 400}, "status", False),
        ({"kind": "drop", "after": 6}, "broken", False),
        ({"kind": "drop"}, "broken", True),
        ({"kind": "no_end", "after": 10_000}, "broken", False),
        ({"kind": "error", "after": 6, "body": "runner died"}, "protocol", False),
        ({"kind": "stall", "seconds": 0}, "broken", True),
    ],
)
async def test_faults_end_the_reply_as_failed(fault: dict[str, Any], kind: str, retryable: bool):
    scripted = model(scenario("go", step("one two three four", fault=fault)))
    given = await pieces(scripted, request(UserMessage(text="go")))
    end = given[-1]
    assert isinstance(end, Failed)
    assert (end.fault.kind, end.fault.retryable, end.fault.retry_after) == (kind, retryable, fault.get("retry_after"))
    assert not [piece for piece in given if isinstance(piece, Stop)]
    assert "one two three four".startswith(text(given))


async def test_fault_with_times_strikes_only_so_often():
    scripted = model(scenario("go", step("fine", fault={"kind": "503", "times": 1})))
    first = await pieces(scripted, request(UserMessage(text="go")))
    second = await pieces(scripted, request(UserMessage(text="go")))
    assert isinstance(first[-1], Failed)
    assert text(second) == "fine"
    assert second[-1] == Stop(reason="stop")


async def test_stalled_reply_can_be_cancelled():
    scripted = model(scenario("go", step("one two three", fault={"kind": "stall", "after": 4})))
    stalled = asyncio.Event()

    async def read() -> None:
        async for piece in scripted.stream(request(UserMessage(text="go"))):
            if isinstance(piece, TextFragment):
                stalled.set()

    task = asyncio.create_task(read())
    await stalled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("task", [DEMO_TASK, "hello", "what can you do?", "list the files", "something else"])
async def test_scripted_and_served_model_say_and_call_the_same(task: str):
    import ollama

    given = await pieces(load_scripted_model(pace=0), request(UserMessage(text=task)))
    async with MockServer(DEMO_FILE) as server:
        said: list[str] = []
        thought: list[str] = []
        made: list[tuple[str, object]] = []
        async for part in await ollama.AsyncClient(host=server.url).chat(
            model="scripted", messages=[{"role": "user", "content": task}], tools=[{"type": "function"}], stream=True
        ):
            said += [part.message.content] if part.message.content else []
            thought += [part.message.thinking] if part.message.thinking else []
            made += [(one.function.name, one.function.arguments) for one in part.message.tool_calls or []]
    assert said == [piece.text for piece in given if isinstance(piece, TextFragment)]
    assert thought == [piece.text for piece in given if isinstance(piece, ReasoningFragment)]
    assert made == [(one.name, one.arguments) for one in calls(given)]


# --- the demo ---


def python_in(workspace: Path, *argv: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *argv], cwd=workspace, input=said, capture_output=True, text=True, check=False
    )


def unittest_in(workspace: Path, command: str) -> subprocess.CompletedProcess[str]:
    program, *argv = command.split()
    assert program == "python3"
    return python_in(workspace, *argv)


class Hands:
    """Carries the scripted calls out with plain Python."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.done: list[str] = []

    def carry_out(self, made: ToolCall, *, edits: bool = True) -> str:
        self.done.append(made.name)
        given: dict[str, str] = made.arguments
        match made.name:
            case "read_file":
                return (self.workspace / given["path"]).read_text(encoding="utf-8")
            case "edit_file" if edits:
                path = self.workspace / given["path"]
                old = path.read_text(encoding="utf-8")
                assert old.count(given["old_string"]) == 1
                path.write_text(old.replace(given["old_string"], given["new_string"]), encoding="utf-8")
                return f"Edited {given['path']}"
            case "edit_file":
                return "refused by the user"
            case "run_terminal_command":
                run = unittest_in(self.workspace, given["command"])
                return run.stdout + run.stderr
            case "list_files":
                return "\n".join(demo_files())
        raise AssertionError(made)


async def converse(task: str, hands: Hands, *, edits: bool = True) -> str:
    scripted = load_scripted_model(pace=0)
    messages: list[Message] = [SystemMessage(text="rules"), UserMessage(text=task)]
    for _ in range(10):
        given = await pieces(scripted, request(*messages))
        assert isinstance(given[-1], Stop)
        messages.append(AssistantMessage(text=text(given), calls=tuple(calls(given))))
        if not calls(given):
            return text(given)
        for made in calls(given):
            result = hands.carry_out(made, edits=edits)
            messages.append(ToolMessage(call_id=made.id, name=made.name, text=result))
    raise AssertionError("never done")


async def test_demo_job_turns_failing_tests_green(tmp_path: Path):
    hands = Hands(create_demo_workspace(tmp_path / "project"))
    before = unittest_in(hands.workspace, "python3 -m unittest")
    assert before.returncode == 1
    assert "failures=" in before.stderr
    report = await converse(DEMO_TASK, hands)
    after = unittest_in(hands.workspace, "python3 -m unittest")
    assert (after.returncode, "OK" in after.stderr) == (0, True)
    assert hands.done == ["read_file", "edit_file", "run_terminal_command"]
    assert "all tests pass" in report
    shown = python_in(hands.workspace, "-m", "wordcount", said="The cat saw the dog.")
    assert all(f"    {line}\n" in demo_files()["README.md"] for line in shown.stdout.splitlines())
    assert shown.stdout


async def test_demo_says_so_when_the_edit_was_declined(tmp_path: Path):
    hands = Hands(create_demo_workspace(tmp_path))
    report = await converse(DEMO_TASK, hands, edits=False)
    assert "The edit was not applied" in report
    assert hands.done == ["read_file", "edit_file"]


async def test_demo_knows_how_to_list_and_to_help(tmp_path: Path):
    hands = Hands(tmp_path)
    assert "whole project" in await converse("What files are here?", hands)
    assert "fix the word counter" in (await converse("Write me a poem", hands)).lower()
    assert "fix the word counter" in (await converse("Hello!", hands)).lower()


async def test_demo_without_tools_calls_none():
    asked = ModelRequest(model="scripted", messages=(UserMessage(text=DEMO_TASK),))
    given = await pieces(load_scripted_model(pace=0), asked)
    assert not calls(given)
    assert text(given)


def test_scratch_workspace_overwrites_nothing(tmp_path: Path):
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        create_demo_workspace(tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"

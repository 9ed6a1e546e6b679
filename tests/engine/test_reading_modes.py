from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.nightly import sampled
from tui_agent.common.domain import Answer, Mode
from tui_agent.events import (
    ApprovalRequested,
    Event,
    FileChanged,
    PlanDocChanged,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
)
from tui_agent.tools.registry import default_tools

READING_MODES = [mode for mode in Mode if mode.reads_only]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "write_file": {"path": "new{}.py", "content": "x"},
    "edit_file": {"path": "adder.py", "old_string": "a - b", "new_string": "a + b{}"},
    "search_workspace": {"query": "def{}"},
    "run_terminal_command": {"command": "touch made{}"},
    "ask_user": {"question": "Well {}?"},
    "initialize_plan": {"goal": "Mine {}", "acceptance_criteria": ["All of it"]},
    "update_plan": {"goal": "Mine as well {}"},
    "run_subagent": {"task": "Write {}.", "title": "Sneak {}"},
}
"""Where guessing would not do what a tool is for; `{}` makes each call another one."""
COMMANDS = [
    "rm adder.py",
    "echo x > adder.py",
    "sed -i s/-/+/ adder.py",
    'python3 -c \'open("made", "w")\'',
    "git init",
    "ls; touch made",
    "find . -delete",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def fingerprint(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)}|{path.stat().st_mode}|".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def every_call() -> list[dict[str, Any]]:
    """Each tool by its name and by each of its other names."""
    calls = []
    for name in default_tools().names:
        tool = default_tools().find(name)
        assert tool is not None
        given = ARGUMENTS.get(name) or {
            field: "adder.py" if field == "path" else "adder"
            for field, info in tool.args.model_fields.items()
            if info.is_required()
        }
        for number, alias in enumerate((name, *tool.aliases)):
            arguments = {key: _numbered(value, number) for key, value in given.items()}
            calls.append(call(alias, **arguments))
    return calls


def _numbered(value: Any, number: int) -> Any:
    return value.replace("{}", str(number) if number else "") if isinstance(value, str) else value


@pytest.mark.parametrize("mode", READING_MODES)
@pytest.mark.parametrize("approval", sampled(["ask", "auto"], ["auto"]))
async def test_a_model_that_calls_every_tool_by_every_name_changes_nothing(
    workspace: Path, mode: Mode, approval: str
) -> None:
    calls = [*every_call(), *[call("run_terminal_command", command=command) for command in COMMANDS]]
    every: list[dict[str, Any] | str] = []
    for at in range(0, len(calls), 15):  # a step is found by the number of results before it
        chunk = calls[at : at + 15]
        every += [step("", *chunk), *["not reached"] * (len(chunk) - 1)]
    before = fingerprint(workspace)
    tries = [call("write_file", path="sneaked.py", content="x"), call("run_subagent", task="Write", title="T")]
    sneaking = scenario("Write", step("", *tries), "Nothing.")
    async with serve(sneaking, scenario("go", *every, "That is all.")) as server:
        flags = {"mode": mode, "approval_mode": approval, "iterations": {mode.replace("-", "_"): 30}}
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session, yes)
            doc = (session.folder / "plan_doc.md").read_bytes()
            await session.send("go")
            assert (await watch.ended()).text == "That is all."
            assert (session.folder / "plan_doc.md").read_bytes() == doc
    assert fingerprint(workspace) == before
    assert not watch.of(FileChanged) and not watch.of(ApprovalRequested)
    tools = {one.call.id: default_tools().find(one.call.name) for one in watch.of(ToolStarted)}
    done = [(tools[one.call_id], one) for one in watch.of(ToolFinished)]
    assert len([one for _, one in done if not one.agent]) == len(calls)
    for tool, one in done:
        assert tool is not None
        if not tool.reads_only:
            assert one.result.code == "refused" and not one.result.success
            assert f"{mode} mode" in str(one.result.error) or one.agent
            assert any(word in str(one.result.error) for word in ("use ", "Use ", "describe", "propose", "report"))
    _only_where_they_belong(watch, mode)


def yes(event: Event) -> Answer:
    return Answer(verdict="reply" if isinstance(event, QuestionAsked) else "approve", text="Continue")


def _only_where_they_belong(watch: SessionDriver, mode: Mode) -> None:
    """Proposals in plan mode, sub-agents in deep-explore."""
    done = {one.name: one.result for one in watch.of(ToolFinished) if not one.agent}
    pending = [one for one in watch.of(PlanDocChanged) if one.pending]
    if mode is Mode.PLAN:
        assert done["update_plan"].success and "Mine as well" in pending[-1].text
        assert "propose the change" in str(done["write_file"].error)
    else:
        assert done["update_plan"].code == "refused" and not pending
    assert done["run_subagent"].success is (mode is Mode.DEEP_EXPLORE)
    sneaked = [one.result for one in watch.of(ToolFinished) if one.agent]
    assert len(sneaked) == (16 if mode is Mode.DEEP_EXPLORE else 0)
    assert all("a sub-agent only reads" in str(one.error) for one in sneaked)


@pytest.mark.parametrize("mode", READING_MODES)
async def test_what_only_reads_is_allowed_and_what_writes_is_not_offered(workspace: Path, mode: Mode) -> None:
    commands = step("", call("run_terminal_command", command="git log -p"), call("read_file", path="adder.py"))
    async with serve(scenario("go", commands, "seen"), strict=True) as server:
        async with run_session(server, workspace, flags={"mode": mode}) as session:
            watch = SessionDriver(session)
            await session.send("go")
            ended = await watch.ended()
    done = {one.name: one.result for one in watch.of(ToolFinished)}
    assert done["read_file"].success
    assert (done["run_terminal_command"].code == "refused") is (mode is not Mode.REVIEW)
    offered = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
    assert not {"write_file", "edit_file"} & offered
    assert ("update_plan" in offered) is (mode is Mode.PLAN)
    assert ("run_subagent" in offered) is (mode is Mode.DEEP_EXPLORE)
    assert ("run_terminal_command" in offered) is (mode is Mode.REVIEW)
    rules = server.requests[0].messages[0]["content"]
    assert f"Mode {mode}:" in rules and ended.prompts[f"mode_{mode.replace('-', '_')}"]

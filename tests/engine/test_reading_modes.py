from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import Watch, opened
from tui_agent.domain import Answer, Mode
from tui_agent.events import ApprovalAsked, FileChanged, PlanDocChanged, ToolFinished
from tui_agent.tools.registry import default_tools

READING_MODES = [mode for mode in Mode if mode.reads_only]
CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "adder.py"},
    "write_file": {"path": "new.py", "content": "x"},
    "edit_file": {"path": "adder.py", "old_string": "a - b", "new_string": "a + b"},
    "list_files": {},
    "search_workspace": {"query": "def"},
    "run_terminal_command": {"command": "touch made"},
    "ask_user": {"question": "Well?"},
    "initialize_plan": {"goal": "Mine", "acceptance_criteria": ["All of it"]},
    "update_plan": {"goal": "Mine as well"},
}
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


@pytest.mark.parametrize("mode", READING_MODES)
@pytest.mark.parametrize("approval", ["ask", "auto"])
async def test_a_model_that_calls_every_tool_changes_nothing(
    workspace: Path, mode: Mode, approval: str
) -> None:
    assert set(CALLS) == set(default_tools().names)
    every = [step("", call(name, **arguments)) for name, arguments in CALLS.items()]
    rest = [step("", *[call("run_terminal_command", command=command) for command in COMMANDS])]
    before = fingerprint(workspace)
    async with serve(scenario("go", *every, *rest, "That is all.")) as server:
        flags = {"mode": mode, "approval_mode": approval, "iterations": {mode.replace("-", "_"): 30}}
        async with opened(server, workspace, flags=flags) as session:
            watch = Watch(session, lambda event: Answer(verdict="approve", text="yes"))
            doc = (session.folder / "plan_doc.md").read_bytes()
            await session.send("go")
            await watch.ended()
            assert (session.folder / "plan_doc.md").read_bytes() == doc
    assert fingerprint(workspace) == before
    assert not watch.of(FileChanged) and not watch.of(ApprovalAsked)
    done = {one.name: one.result for one in watch.of(ToolFinished)}
    for name in ("write_file", "edit_file", "run_terminal_command"):
        assert done[name].code == "refused" and f"{mode} mode" in str(done[name].error)
    refused = [one for one in watch.of(ToolFinished) if one.name == "run_terminal_command"]
    assert len(refused) == len(COMMANDS) + 1 and not any(one.result.success for one in refused)
    pending = [one for one in watch.of(PlanDocChanged) if one.pending]
    if mode is Mode.PLAN:
        assert done["update_plan"].success and "Mine as well" in pending[-1].text
        assert "propose the change" in str(done["write_file"].error)
    else:
        assert done["update_plan"].code == "refused" and not pending


@pytest.mark.parametrize("mode", READING_MODES)
async def test_what_only_reads_is_allowed_and_what_writes_is_not_offered(workspace: Path, mode: Mode) -> None:
    commands = step("", call("run_terminal_command", command="ls"), call("read_file", path="adder.py"))
    async with serve(scenario("go", commands, "seen"), strict=True) as server:
        async with opened(server, workspace, flags={"mode": mode}) as session:
            watch = Watch(session)
            await session.send("go")
            await watch.ended()
    assert all(one.result.success for one in watch.of(ToolFinished))
    offered = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
    assert not {"write_file", "edit_file"} & offered
    assert ("update_plan" in offered) is (mode is Mode.PLAN)

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from benchmarks.planning.__main__ import main
from benchmarks.planning.figures import ROWS
from benchmarks.planning.tasks import fault_plan, suite
from tests.benchmarks.planning_model import PlanningModel, traits
from tests.commands.asking import CommandResult
from tests.doubles.mock import MockServer
from tui_agent.common import paths

CAPSYS = pytest.CaptureFixture[str]


async def run(capsys: CAPSYS, *argv: str) -> CommandResult:
    code = await asyncio.to_thread(main, argv)
    captured = capsys.readouterr()
    return CommandResult(code, captured.out, captured.err)


async def measure(capsys: CAPSYS, server: MockServer, *argv: str) -> CommandResult:
    flags = ("--provider", "openai", "--base-url", server.url + "/v1", "-n", "3")
    return await run(capsys, "mock-model", *flags, *argv)


def model() -> PlanningModel:
    return PlanningModel(suite(3), traits(), fault_plan().seed)


async def test_the_suite_runs_on_the_model_in_both_modes_and_leaves_nothing_behind(capsys: CAPSYS):
    previous = os.environ["TUI_AGENT_HOME"]
    async with MockServer(model(), strict=True) as server:
        result = await measure(capsys, server, "--json")
    figures, tasks = result.data["figures"], result.data["tasks"]
    assert set(figures) == {"agent", "direct"}
    assert set(figures["agent"]) == {row.name for row in ROWS}
    assert [task["number"] for task in tasks["agent"]] == [1, 2, 3]
    assert all(task["right"] for task in tasks["agent"])
    assert result.data["faults"]["seed"] == fault_plan().seed
    assert os.environ["TUI_AGENT_HOME"] == previous
    assert not paths.sessions_dir().exists()
    assert not (paths.data_dir() / "plans.json").exists()


async def test_the_table_names_figures_and_targets(capsys: CAPSYS):
    async with MockServer(model(), strict=True) as server:
        result = await measure(capsys, server)
    assert "first-attempt success" in result.out and "≥ 80%" in result.out
    assert "with planning and without" in result.out
    assert result.code in (0, 1)


async def test_a_server_that_is_not_there_is_told_at_once(capsys: CAPSYS, tmp_path: Path):
    argv = ("--provider", "openai", "--base-url", "http://127.0.0.1:9/v1", "-n", "3")
    result = await run(capsys, "mock-model", *argv)
    assert result.code == 4
    assert "tui-agent: " in result.err

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.doubles.job import COMMAND, environment, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import (
    DIAGNOSE,
    DISPATCHER,
    PLANNING,
    classified_as,
    plan_json,
    plan_reply,
    plan_step,
    request_roles,
    requests_of_role,
    run_agent,
    side_reply,
    step_reply,
    summarized,
)
from tui_agent.common import paths
from tui_agent.common.domain import Answer
from tui_agent.engine.core.prompts import version
from tui_agent.engine.runs import PLAN_CACHE
from tui_agent.engine.workflow.planning import request_pattern
from tui_agent.events import (
    Event,
    PlanProposed,
    RequestClassified,
    StepFinished,
    StepRecoveryStarted,
    StepVerified,
    SummaryProposed,
    SummaryReviewed,
)

TASK = "mend the adder"
LOOK = "look at the adder"
EDIT = call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")
MEND = step_reply("Mend", step("", call("read_file", path="adder.py")), step("", EDIT), "Mended.")
DIAGNOSIS = side_reply(DIAGNOSE, {"cause": "it is broken", "prerequisite": "", "strategy": "another way"})

NO_OTHER_WAY = side_reply(
    PLANNING, "I know no other way.", trigger=["What failed, and why", "That plan can't be carried out"]
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


async def test_a_check_that_fails_is_mended_by_a_recovery_plan_and_run_again(workspace: Path) -> None:
    async with serve(
        classified_as(),
        side_reply(PLANNING, plan_json(plan_step("Mend it after all", "edit_file")), trigger="What failed, and why"),
        plan_reply(plan_step("Look", "read_file"), check=COMMAND),
        DIAGNOSIS,
        summarized(),
        step_reply("Look", step("", call("read_file", path="adder.py")), "It looks right."),
        MEND,
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert ended.outcome == "done"
    assert [one.met for one in watch.of(StepVerified) if one.command] == [False, True]
    assert watch.of(StepRecoveryStarted)[0].error_class == "test_failure"


async def test_a_critical_step_that_nothing_mends_stops_the_run_and_is_told(workspace: Path) -> None:
    async with serve(
        classified_as(),
        NO_OTHER_WAY,
        plan_reply(plan_step("Call it", "run_terminal_command", critical=True), plan_step("Never reached")),
        DIAGNOSIS,
        summarized("Tried"),
        step_reply("Call it", step("", call("run_terminal_command", command="false")), "It fails."),
    ) as server:
        watch, ended, doc = await run_agent(server, workspace, TASK)
    assert ended.outcome == "failed" and "Stopped at step 1 (Call it)" in ended.text
    assert [one.outcome for one in watch.of(StepFinished)] == ["failed"]
    assert "Tried" in doc


async def test_a_step_that_is_not_critical_may_fail_and_the_rest_goes_on(workspace: Path) -> None:
    async with serve(
        classified_as(),
        NO_OTHER_WAY,
        plan_reply(plan_step("Call it", "run_terminal_command", critical=False), plan_step("Mend it", "edit_file")),
        DIAGNOSIS,
        summarized(),
        step_reply("Call it", step("", call("run_terminal_command", command="false")), "It fails."),
        MEND,
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert ended.outcome == "done"
    assert [one.outcome for one in watch.of(StepFinished)] == ["failed", "done"]


async def test_a_recovery_plan_that_begins_with_what_failed_is_none(workspace: Path) -> None:
    async with serve(
        classified_as(),
        plan_reply(plan_step("Call it", "run_terminal_command", critical=True)),
        DIAGNOSIS,
        step_reply("Call it", step("", call("run_terminal_command", command="false")), "It fails."),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert ended.outcome == "failed" and request_roles(server).count("planning") == 2
    assert len(watch.of(PlanProposed)) == 1 and len(watch.of(StepFinished)) == 1


async def test_a_refused_step_is_not_tried_by_another_way(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        asks = isinstance(event, PlanProposed | SummaryProposed)
        return Answer(verdict="approve") if asks else Answer(verdict="reject", text="leave it")

    async with serve(
        classified_as(),
        plan_reply(plan_step("Mend it", "edit_file", error_handling="write it anew")),
        summarized(),
        MEND,
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK, answer)
    assert ended.outcome == "refused" and not watch.of(StepRecoveryStarted)
    assert "diagnose" not in request_roles(server)


async def test_a_plan_that_worked_is_taken_from_the_cache_and_shown_as_such(workspace: Path) -> None:
    async with serve(
        classified_as(needs_write=False), plan_reply(plan_step("Say it")), summarized(), step_reply("Say it", "said")
    ) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            watch = SessionDriver(session)
            for _ in range(2):
                await session.send(LOOK)
                await watch.ended()
    assert [one.cached for one in watch.of(PlanProposed)] == [False, True]
    (asked,) = requests_of_role(server, "planning")
    tools = [one["function"]["name"] for one in asked.body["tools"]]
    pattern = request_pattern("coding", LOOK, tools, version("plan_steps"))
    assert list(json.loads((paths.data_dir() / PLAN_CACHE).read_text("utf-8"))["plans"]) == [pattern.key]
    assert request_roles(server).count("planning") == 1


async def test_an_interrupt_at_the_summary_leaves_it_pending_and_writes_nothing(workspace: Path) -> None:
    async with serve(
        classified_as(), plan_reply(plan_step("Mend it", "edit_file")), summarized("Mended it"), MEND
    ) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            watch = SessionDriver(
                session, lambda event: None if isinstance(event, SummaryProposed) else Answer(verdict="approve")
            )
            await session.send(TASK)
            await watch.until_event(SummaryProposed)
            await session.interrupt()
            settled = await watch.until_event(SummaryReviewed)
            ended = await watch.ended()
            doc = (session.folder / "plan_doc.md").read_text("utf-8")
    assert settled.outcome == "pending" and ended.outcome == "interrupted" and "Mended it" not in doc
    assert ended.ms > 0, "the run took time"


@pytest.mark.slow
async def test_the_demo_shows_the_whole_cycle(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    child = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "tui_agent",
            "exec",
            "--demo",
            "-C",
            str(tmp_path / "demo"),
            "--mode",
            "agent",
            "--approve",
            "all",
        ),
        "--accept-summary",
        env=environment(home),
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(child.communicate(), 100)
    assert child.returncode == 0, output.decode()
    for words in (b"Fix the splitting of words", b"+2", b"Done: all tests pass", b"Fixed the word counter"):
        assert words in output
    (folder,) = (home / "tui-agent" / "sessions").iterdir()
    assert "Fixed the word counter" in (folder / "plan_doc.md").read_text("utf-8")


async def test_a_model_that_only_talks_where_an_object_is_asked_for_is_not_heard_out(workspace: Path) -> None:
    """Heard out, each of the two would talk for minutes."""
    endless = step("I think about it. " * 20_000, pace=0.003)
    async with serve(
        {**scenario("", endless, when={"system": DISPATCHER}), "name": "sorting"},
        {**scenario("", endless, when={"system": PLANNING}), "name": "planning"},
        scenario(LOOK, "There is nothing to mend."),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, LOOK)
    assert ended.outcome == "done" and ended.text == "There is nothing to mend."
    assert request_roles(server) == ["dispatcher", "planning", "planning", "execution"]
    assert watch.of(RequestClassified)[0].classified.guessed

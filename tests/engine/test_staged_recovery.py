from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import (
    DIAGNOSE,
    PLANNING,
    VERIFY,
    classified_as,
    plan_json,
    plan_reply,
    plan_step,
    requests_of_role,
    run_agent,
    side_reply,
    step_reply,
    summarized,
)
from tui_agent.events import CompletionRefused, PlanProposed, ReplyStarted, StageEnded, StageStarted, StepVerified
from tui_agent.view.fold import fold_record
from tui_agent.view.items import ReplyItem, SessionView

TASK = "mend the adder"
EDIT = call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")
DIAGNOSIS = side_reply(DIAGNOSE, {"cause": "it is broken", "prerequisite": "", "strategy": "another way"})
FAILING = call("run_terminal_command", command="echo tried >> tries; false")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


async def test_a_recovery_has_a_node_of_its_own_below_the_step_that_failed(workspace: Path) -> None:
    async with serve(
        classified_as(),
        side_reply(
            PLANNING, plan_json(plan_step("Mend it", expected_outcome="it adds")), trigger="What failed, and why"
        ),
        plan_reply(plan_step("Call it", "run_terminal_command", critical=True)),
        DIAGNOSIS,
        side_reply(VERIFY, {"met": True, "evidence": "it adds"}),
        summarized(),
        step_reply("Call it", step("", FAILING), "It fails."),
        step_reply("Mend it", step("", call("read_file", path="adder.py")), step("", EDIT), "Mended."),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert ended.outcome == "done"
    records = watch.records
    (entered,) = [r for r in records if isinstance(r.event, StageStarted) and r.event.stage == "recovery"]
    assert entered.parent == "run-1.s1"
    inside = [r.event.role for r in records if isinstance(r.event, ReplyStarted) and r.parent == entered.node]
    assert inside == ["planning", "planning"]  # the diagnosis and the plan
    assert [r.node for r in records if isinstance(r.event, PlanProposed)][1] == entered.node
    (left,) = [r.event for r in records if isinstance(r.event, StageEnded) and r.node == entered.node]
    assert left.outcome == "done"
    view = SessionView()
    stages = {}
    for record in records:
        fold_record(view, record)
        stages[record.seq] = view.stage
        if record.node == "run-1.planning" and isinstance(record.event, StageEnded):
            closed = record.seq
    assert [one.purpose for one in view.items if isinstance(one, ReplyItem) and one.role] == [
        "classifying the request",
        "planning",
        "diagnosing the failure",
        "replanning",
        "checking the outcome",
        "writing the summary",
    ]
    tree = view.tree
    place = tree.indexes[entered.node]
    assert tree.nodes[tree.nodes[place].parent].id == "run-1.s1"
    assert len(tree.nodes[place].children) == 2
    assert not [r for r in records if r.parent == "run-1.planning" and r.seq > closed]
    after = next(r.seq for r in records if r.event is left)
    assert (stages[entered.seq], stages[after]) == ("Recovery planning", "Execution")


@pytest.mark.parametrize(("words", "tries"), [("Connection timed out", 2), ("syntax is wrong", 1)])
async def test_a_command_that_failed_for_a_passing_reason_is_run_again(workspace: Path, words: str, tries: int) -> None:
    command = call("run_terminal_command", command=f"echo tried >> tries; echo '{words}'; exit 3")
    async with serve(scenario("go", step("", command), step("", command), "done"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            await watch.ended()
    assert (workspace / "tries").read_text("utf-8") == "tried\n" * tries


async def test_a_verdict_quotes_the_earlier_result_and_not_that_it_is_one(workspace: Path) -> None:
    async with serve(
        classified_as(),
        plan_reply(plan_step("Call it", "run_terminal_command", critical=True)),
        side_reply(PLANNING, "I know no other way.", trigger="What failed, and why"),
        DIAGNOSIS,
        summarized(),
        step_reply("Call it", step("", FAILING), step("", FAILING), "It fails."),
    ) as server:
        watch, _, _ = await run_agent(server, workspace, TASK)
    assert (workspace / "tries").read_text("utf-8") == "tried\n"
    (verified,) = watch.of(StepVerified)
    assert verified.actual.startswith("exit code 1") and "before" not in verified.actual
    told = [str(one.messages) for role in ("diagnose", "planning", "summary") for one in requests_of_role(server, role)]
    assert len(told) == 4 and not [one for one in told if "very call before" in one]


async def test_claims_without_a_change_are_never_done_whatever_the_plans_criteria_say(workspace: Path) -> None:
    async with serve(
        classified_as(),
        plan_reply(plan_step("Mend it")),
        step_reply("Mend it", "Done, it is mended."),
        scenario("", "No change is needed."),
    ) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            await session.edit_plan("# Plan: Sums\n\n## Acceptance Criteria\n- [x] It adds\n")
            watch = SessionDriver(session)
            await session.send(TASK)
            ended = await watch.ended()
    assert ended.outcome == "failed" and "Not done" in ended.text
    why = [one.why for one in watch.of(CompletionRefused)]
    assert why[:2] == ["the request needs a change, and nothing was changed"] * 2


async def test_a_run_that_stops_says_how_many_steps_were_not_begun(workspace: Path) -> None:
    async with serve(
        classified_as(),
        plan_reply(plan_step("Call it", "run_terminal_command", critical=True), plan_step("Two"), plan_step("Three")),
        side_reply(PLANNING, "I know no other way.", trigger="What failed, and why"),
        DIAGNOSIS,
        summarized(),
        step_reply("Call it", step("", FAILING), "It fails."),
    ) as server:
        _, ended, _ = await run_agent(server, workspace, TASK)
    assert ended.outcome == "failed" and "2 more steps were not started" in ended.text

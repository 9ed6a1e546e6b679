from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.doubles.job import BROKEN, COMMAND, TASK
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.staging import classified_as, plan_reply, plan_step, run_agent, step_reply, summarized
from tests.frontends.test_exec import ExecRunner, server_flags
from tui_agent.common.domain import Answer
from tui_agent.common.workplan import PlanStep
from tui_agent.events import Event, PlanProposed, StepFinished, StepVerified

CLAIM = "All tests pass."
LOOK = step("", call("read_file", path="adder.py"))
WORSE = step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a * b"))
TESTS = step("", call("run_terminal_command", command=COMMAND))


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[ExecRunner]:
    program = ExecRunner(tmp_path)
    yield program
    await program.close()


async def test_tests_that_failed_after_the_edit_outweigh_words_and_mark(run: ExecRunner) -> None:
    scenarios = (
        classified_as(),
        plan_reply(plan_step("Mend it")),
        summarized("Mended it"),
        step_reply("Mend it", LOOK, WORSE, TESTS, CLAIM),
        scenario("", CLAIM),
    )
    flags = ["--json", "--approve", "all", "--accept-plan", "--accept-summary"]
    async with serve(*scenarios) as server:
        result = await run(TASK, *flags, *server_flags(server, "openai"), TUI_AGENT_MODE="agent")
    assert result.of("run.ended")[-1]["outcome"] == "failed"
    assert result.code == 1, result.out + result.err
    doc = (run.session() / "plan_doc.md").read_text(encoding="utf-8")
    assert "Mended it" in doc and "❌" in doc and "✓" not in doc


async def test_a_change_that_is_asked_for_in_direct_mode_is_not_done_by_words(run: ExecRunner) -> None:
    async with serve(scenario(TASK, "I changed a - b to a + b. The adder works now.")) as server:
        result = await run(TASK, "--json", "--approve", "all", *server_flags(server, "openai"))
    ended = result.of("run.ended")[-1]
    assert ended["outcome"] == "failed" and "Not done" in ended["text"]
    assert result.code == 1, result.out + result.err
    refused = [refusal["why"] for refusal in result.of("completion.refused")]
    assert refused[:2] == ["the request needs a change, and nothing was changed"] * 2
    assert (run.workspace / "adder.py").read_text(encoding="utf-8") == BROKEN


async def test_a_step_that_the_user_adds_without_what_to_expect_is_not_done_by_words(run: ExecRunner) -> None:
    def answer(event: Event) -> Answer:
        if not isinstance(event, PlanProposed):
            return Answer(verdict="approve")
        added = PlanStep(number=2, description="Rename add to plus", critical=True)
        plan = msgspec.structs.replace(event.plan, steps=(*event.plan.steps, added))
        return Answer(verdict="approve", data={"plan": msgspec.to_builtins(plan), "edited": True})

    scenarios = (
        classified_as(),
        plan_reply(plan_step("Look at it", "read_file", args={"path": "adder.py"})),
        summarized(),
        step_reply("Look at it", LOOK, "It subtracts."),
        step_reply("Rename add to plus", "Renamed it."),
        scenario("", "Renamed it."),
    )
    async with serve(*scenarios) as server:
        watch, ended, _ = await run_agent(server, run.workspace, TASK, answer)
    assert [step.met for step in watch.of(StepVerified)][:2] == [True, False]
    assert [step.outcome for step in watch.of(StepFinished)][:2] == ["done", "failed"]
    assert ended.outcome == "failed" and "(Rename add to plus): nothing was done for it" in ended.text

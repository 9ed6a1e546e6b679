from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doubles.job import COMMAND, make_workspace
from tests.doubles.mock import FeedbackResponder, MockServer, call, scenario, serve, step
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
from tui_agent.common.domain import Answer
from tui_agent.events import (
    CompletionRefused,
    Event,
    PlanProposed,
    PlanReviewed,
    RequestClassified,
    StepFinished,
    StepRecoveryStarted,
    StepStarted,
    StepVerified,
    SummaryProposed,
    SummaryReviewed,
    ToolStarted,
)
from tui_agent.mock_server.replies import ServedModel

APPROVE = Answer(verdict="approve")
TASK = "add multiplication to the adder"
LOOK = "look at the adder"
"""Asks for no change, so that words are enough."""
MULTIPLY = "def multiply(a, b):\n    return a * b\n"
MENDED = "def add(a, b):\n    return a + b\n"
UNCHANGED = "the request needs a change, and nothing was changed"
MODELS = ("mock-model", "big-planner", "short-writer")
ROLES = {"planning": "big-planner", "summary": "short-writer"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def story() -> list[dict[str, Any]]:
    """A feature: the second step fails and has a fallback, the third fails with its fallback and is planned anew."""
    first = plan_json(
        plan_step("Look at the module", "read_file", args={"path": "adder.py"}),
        plan_step(
            "Copy the template", "run_terminal_command", error_handling="write multiply.py by hand", critical=True
        ),
        plan_step("Format the code", "run_terminal_command", error_handling="use the other formatter", critical=True),
        check=COMMAND,
    )
    second = plan_json(plan_step("Mend the addition too", "edit_file", critical=True), check=COMMAND)
    diagnosis = {
        "cause": "no formatter is installed",
        "prerequisite": "a formatter",
        "strategy": "leave formatting out and mend the addition",
    }
    return [
        classified_as("create", "complex"),
        side_reply(PLANNING, second, trigger="What failed, and why"),
        side_reply(PLANNING, first, model="big-planner"),
        side_reply(DIAGNOSE, diagnosis),
        summarized("Added multiplication", decisions_made=[{"title": "No formatter", "rationale": "none is there"}]),
        step_reply("Look at the module", step("", call("read_file", path="adder.py")), "It only adds."),
        step_reply(
            "Copy the template",
            step("", call("run_terminal_command", command="cp template.py multiply.py")),
            "There is no template.",
        ),
        step_reply(
            "write multiply.py by hand",
            step("", call("write_file", path="multiply.py", content=MULTIPLY)),
            "Written by hand.",
        ),
        step_reply(
            "Format the code", step("", call("run_terminal_command", command="no-such-formatter .")), "It is missing."
        ),
        step_reply(
            "use the other formatter",
            step("", call("run_terminal_command", command="no-such-formatter-either .")),
            "Missing as well.",
        ),
        step_reply(
            "Mend the addition too",
            step("", call("read_file", path="adder.py")),
            step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")),
            "Mended.",
        ),
    ]


def job_with_tools() -> dict[str, Any]:
    return scenario(
        TASK,
        step("", call("read_file", path="adder.py")),
        step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")),
        "Mended.",
        when={"tools": True},
    )


async def test_a_feature_is_planned_reviewed_recovered_verified_and_summed_up(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        if isinstance(event, SummaryProposed):
            mine = msgspec.structs.replace(event.summary, details="As I tell it.")
            return Answer(verdict="approve", data={"summary": msgspec.to_builtins(mine)})
        return APPROVE

    async with serve(*story(), strict=True, models=MODELS) as server:
        async with run_session(server, workspace, flags={"mode": "agent", "roles": ROLES}) as session:
            watch = SessionDriver(session, answer)
            await session.send(TASK)
            ended = await watch.ended()
            doc = (session.folder / "plan_doc.md").read_text("utf-8")
            folder = session.folder
    assert ended.outcome == "done", ended.text
    assert (workspace / "multiply.py").read_text("utf-8") == MULTIPLY
    assert (workspace / "adder.py").read_text("utf-8") == MENDED
    first, again = watch.of(PlanProposed)
    assert first.asks and again.recovery
    assert [one.answer.verdict for one in watch.of(PlanReviewed)] == ["approve", "approve"]
    assert [one.by for one in watch.of(StepRecoveryStarted)] == ["fallback", "fallback", "recovery"]
    assert watch.of(StepRecoveryStarted)[-1].error_class == "missing_program"
    outcomes = [one.outcome for one in watch.of(StepFinished)]
    assert outcomes == ["done", "done", "failed", "done", "done"]
    check = watch.of(StepVerified)[-1]
    assert check.met and check.by == "command" and check.command == COMMAND
    (settled,) = watch.of(SummaryReviewed)
    assert settled.outcome == "edited"
    assert "As I tell it." in doc and "Added multiplication" in doc and "No formatter" in doc
    log = (folder / "chat_history.log").read_text("utf-8")
    assert doc.strip().replace("\n[", "\n [") in log
    models = {
        role: {one.body["model"] for one in requests_of_role(server, role)} for role in set(request_roles(server))
    }
    assert models["planning"] == {"big-planner"}
    assert models["summary"] == {"short-writer"}
    assert models["execution"] == {"mock-model"}


async def test_the_requests_hold_their_parts_in_order_and_the_steps_as_they_came_out(workspace: Path) -> None:
    async with serve(*story(), strict=True, models=MODELS) as server:
        async with run_session(server, workspace, flags={"mode": "agent", "roles": ROLES}) as session:
            await session.edit_plan("# Plan: Sums\n\n## Goal\nSums that can be trusted\n")
            watch = SessionDriver(session)
            await session.send(TASK)
            await watch.ended()
    for request in server.requests:
        roles = [message["role"] for message in request.messages]
        assert roles == sorted(roles, key=lambda role: role != "system")
    execution = [[str(message["content"]) for message in one.messages] for one in requests_of_role(server, "execution")]
    for texts in execution:
        assert texts[0].startswith("You are a coding agent")
        assert "Sums that can be trusted" in texts[0].partition("# The plan document")[2]
        assert texts[1].startswith(TASK)
    last = "\n".join(execution[-1])
    assert "Look at the module: done\nTools used: read_file" in last
    assert "Format the code: failed" in last
    assert "no-such-formatter ." not in last  # the step shrank: its calls are gone
    assert last.index("Look at the module: done") < last.index("Copy the template: done")
    (planning, again) = requests_of_role(server, "planning")
    assert "Sums that can be trusted" in planning.messages[0]["content"]
    assert "missing_program" in str(again.messages) and "Needed first: a formatter" in str(again.messages)
    assert "tools" not in planning.body


async def test_a_rejected_plan_runs_nothing_and_changes_nothing(workspace: Path) -> None:
    no = Answer(verdict="reject", text="not like that")
    async with serve(*story(), strict=True, models=MODELS) as server:
        watch, ended, doc = await run_agent(server, workspace, TASK, lambda event: no, flags={"roles": ROLES})
    assert ended.outcome == "refused" and "not like that" in ended.text
    assert not watch.of(ToolStarted) and not watch.of(SummaryProposed)
    assert request_roles(server) == ["dispatcher", *["planning"] * 4]  # with the reason, three times anew
    assert "not like that" in str(requests_of_role(server, "planning")[-1].messages)
    assert "[No actions taken yet]" in doc


async def test_an_edited_plan_is_what_is_carried_out(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        if isinstance(event, PlanProposed):
            steps = [event.plan.steps[1], msgspec.structs.replace(event.plan.steps[0], description="Look around")]
            mine = msgspec.structs.replace(event.plan, steps=tuple(steps))
            return Answer(verdict="approve", data={"plan": msgspec.to_builtins(mine), "edited": True})
        return APPROVE

    async with serve(
        classified_as(needs_write=False),
        plan_reply(plan_step("One"), plan_step("Two"), plan_step("Three")),
        summarized(),
        step_reply("Two", "two is done"),
        step_reply("Look around", "looked"),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, LOOK, answer)
    assert ended.text == "looked"
    assert [(one.step.number, one.step.description) for one in watch.of(StepStarted)] == [
        (1, "Two"),
        (2, "Look around"),
    ]
    assert watch.of(PlanReviewed)[0].edited


async def test_an_alternative_that_is_picked_is_planned_and_shown_again(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        if isinstance(event, PlanProposed) and event.plan.alternatives:
            return Answer(verdict="approve", data={"alternative": 0})
        return APPROVE

    others = [{"approach": "use a library", "when_to_use": "always", "confidence": 0.9}]
    async with serve(
        classified_as(needs_write=False),
        plan_reply(plan_step("Fetch the library"), trigger="Do it this way: use a library"),
        plan_reply(plan_step("By hand"), alternatives=others),
        step_reply("Fetch the library", "fetched"),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, LOOK, answer)
    assert [one.plan.steps[0].description for one in watch.of(PlanProposed)] == ["By hand", "Fetch the library"]
    assert [one.alternative for one in watch.of(PlanReviewed)] == [0, None]
    assert ended.text == "fetched"


@pytest.mark.parametrize(("confidence", "asks"), [(0.55, True), (0.9, False)])
async def test_an_unsure_plan_asks_though_plans_are_approved_by_setting(
    workspace: Path, confidence: float, asks: bool
) -> None:
    steps = plan_reply(plan_step("Guess", confidence=confidence))
    async with serve(classified_as(needs_write=False), steps, step_reply("Guess", "guessed")) as server:
        watch, ended, _ = await run_agent(server, workspace, LOOK, flags={"plan_auto_approve": True})
    (proposed,) = watch.of(PlanProposed)
    assert proposed.asks is asks and ended.outcome == "done"
    assert bool(watch.of(PlanReviewed)[0].answer.by == "user") is asks


async def test_an_invalid_plan_goes_back_once_with_its_faults_and_then_a_single_step_is_done(workspace: Path) -> None:
    bad = plan_reply(plan_step("Fly", "fly_away"), plan_step("Doubt", confidence=0.2))
    async with serve(classified_as(), bad, summarized(), job_with_tools()) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert request_roles(server)[:4] == ["dispatcher", "planning", "planning", "execution"]
    told = requests_of_role(server, "planning")[1].messages[-1]["content"]
    assert "fly_away" in told and "read_file" in told and "0.2" in told
    (proposed,) = watch.of(PlanProposed)
    assert proposed.fallback and len(proposed.faults) == 4 and proposed.prompt_version
    assert ended.outcome == "done" and (workspace / "adder.py").read_text("utf-8") == MENDED
    assert not watch.of(StepStarted)


async def test_a_simple_request_is_not_planned(workspace: Path) -> None:
    async with serve(classified_as(complexity="simple"), summarized(), job_with_tools()) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert "planning" not in request_roles(server) and not watch.of(PlanProposed)
    assert ended.outcome == "done" and watch.of(SummaryReviewed)[0].outcome == "accepted"


async def test_a_question_is_answered_with_reading_tools_only_and_leaves_no_entry(workspace: Path) -> None:
    reading = scenario(LOOK, step("", call("read_file", path="adder.py")), "It subtracts.", when={"tools": True})
    async with serve(classified_as("analyze", needs_write=False), reading) as server:
        watch, ended, doc = await run_agent(server, workspace, LOOK)
    assert ended.text == "It subtracts."
    offered = {tool["function"]["name"] for tool in requests_of_role(server, "execution")[0].body["tools"]}
    assert "read_file" in offered and not {"write_file", "edit_file", "run_terminal_command"} & offered
    assert not watch.of(SummaryProposed) and "[No actions taken yet]" in doc


async def test_a_dispatcher_that_talks_is_taken_as_mixed_with_writing(workspace: Path) -> None:
    async with serve(
        side_reply(DISPATCHER, "I would say that it is a change."),
        plan_reply(plan_step("Mend")),
        step_reply("Mend", "mended"),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, LOOK)
    (found,) = watch.of(RequestClassified)
    assert found.classified.guessed and found.classified.intent == "mixed" and found.classified.needs_write
    assert ended.text == "mended"


async def test_an_interrupt_while_planning_takes_a_single_step_and_shows_it(workspace: Path) -> None:
    slow = plan_reply(plan_step("Never"))
    slow["steps"][0]["delay"] = 30.0
    async with serve(classified_as(), slow, summarized(), job_with_tools()) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            watch = SessionDriver(session)
            await session.send(TASK)
            await server.wait_for_request(2)
            await session.interrupt()
            proposed = await watch.until_event(PlanProposed)
            ended = await watch.ended()
    assert proposed.asks and proposed.fallback and "interrupted" in proposed.why
    assert ended.outcome == "done" and (workspace / "adder.py").read_text("utf-8") == MENDED


async def test_a_claim_without_the_change_goes_back_twice_and_is_never_believed(workspace: Path) -> None:
    async with serve(
        classified_as(),
        plan_reply(plan_step("Mend it")),
        step_reply("Mend it", "Done, it is mended."),
        scenario("", "Really done."),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert [one.why for one in watch.of(CompletionRefused)].count(UNCHANGED) == 2
    assert any("nothing has changed" in str(one.messages) for one in server.requests)
    assert ended.outcome == "failed" and "Not done" in ended.text


async def test_a_subtask_is_planned_when_it_is_reached(workspace: Path) -> None:
    (workspace / "test_adder.py").unlink()
    async with serve(
        classified_as("modify", "complex"),
        plan_reply(plan_step("Part one"), plan_step("Part two"), trigger="This is a part of the request"),
        plan_reply(plan_step("The large part", subtask=True), plan_step("Show it", "show_diff")),
        step_reply("Part one", step("", call("write_file", path="one.txt", content="1\n")), "one"),
        step_reply("Part two", "two"),
        summarized(),
    ) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    assert [one.step.description for one in watch.of(StepStarted)] == ["Part one", "Part two", "Show it"]
    assert ended.text == "create one.txt +1 −0"


async def test_another_model_is_asked_with_a_window_of_its_own(workspace: Path) -> None:
    served = [ServedModel(name="mock-model"), ServedModel(name="big-planner", context_length=20_000)]
    async with serve(classified_as(), plan_reply(plan_step("Go")), step_reply("Go", "gone"), models=served) as server:
        flags = {"roles": {"planning": "big-planner"}, "context_window": 30_000}
        await run_agent(server, workspace, TASK, provider="ollama", flags=flags)
    windows = {(one.body["model"], one.body["options"]["num_ctx"]) for one in server.requests}
    assert windows == {("mock-model", 30_000), ("big-planner", 20_000)}


async def test_a_step_sees_what_the_step_before_read(workspace: Path) -> None:
    steps = plan_reply(plan_step("Read adder.py", tool="read_file"), plan_step("Mend it", tool="edit_file"))
    reading = step_reply("Read adder.py", step("", call("read_file", path="adder.py")), "Seen.")
    mending = step_reply(
        "Mend it", step("", call("edit_file", path="adder.py", old_text="a - b", new_text="a + b")), "Mended."
    )
    async with serve(classified_as(), steps, reading, mending, summarized()) as server:
        await run_agent(server, workspace, "Mend what is wrong here, then look whether it is right everywhere.")
    sent = next(one for one in requests_of_role(server, "execution") if "Step 2: Mend it" in str(one.messages))
    assert "return a - b" in str(sent.messages)


async def test_a_plan_rejected_with_a_reason_is_made_anew_with_it(workspace: Path) -> None:
    answers = iter([Answer(verdict="reject", text="use the shell instead")])

    def answer(event: Event) -> Answer:
        asked = isinstance(event, PlanProposed)
        return next(answers, Answer(verdict="approve")) if asked else Answer(verdict="approve")

    async with serve(
        classified_as(), plan_reply(plan_step("Say it")), step_reply("Say it", "said"), summarized()
    ) as server:
        watch, _, _ = await run_agent(server, workspace, LOOK, answer)
    assert len(watch.of(PlanProposed)) == 2 and watch.of(StepStarted)
    first, second = requests_of_role(server, "planning")
    assert "use the shell instead" not in str(first.messages) and "use the shell instead" in str(second.messages)


async def test_a_request_taken_for_a_question_gets_all_tools_when_the_model_goes_about_a_change(
    workspace: Path,
) -> None:
    mending = scenario(
        LOOK,
        step("", call("edit_file", path="adder.py", old_text="a - b", new_text="a + b")),
        step("", call("read_file", path="adder.py")),
        "I can't change it.",
        step("", call("edit_file", path="adder.py", old_text="a - b", new_text="a + b")),
        "Mended.",
    )
    sorting = classified_as("analyze", needs_write=False)
    async with MockServer(FeedbackResponder(sorting, summarized(), mending)) as server:
        watch, ended, _ = await run_agent(server, workspace, LOOK)
    found = [one.classified.needs_write for one in watch.of(RequestClassified)]
    assert found == [False, True] and ended.outcome == "done"
    assert "a + b" in (workspace / "adder.py").read_text()

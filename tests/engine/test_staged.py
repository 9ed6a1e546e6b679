from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doubles.job import COMMAND, make_workspace
from tests.doubles.mock import call, serve, step
from tests.engine.kit import Watch, opened
from tests.engine.staging import (
    DIAGNOSE,
    PLANNING,
    do,
    in_step,
    plan,
    roles_of,
    sent_as,
    side,
    sorted_as,
    summed_up,
)
from tui_agent.domain import Answer
from tui_agent.events import (
    Event,
    PlanProposed,
    PlanReviewed,
    StepFinished,
    StepRecovering,
    StepVerified,
    SummaryOffered,
    SummarySettled,
)

APPROVE = Answer(verdict="approve")
TASK = "add multiplication to the adder"
MULTIPLY = "def multiply(a, b):\n    return a * b\n"
MENDED = "def add(a, b):\n    return a + b\n"
MODELS = ("mock-model", "big-planner", "short-writer")
ROLES = {"planning": "big-planner", "summary": "short-writer"}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TUI_AGENT_HOME", str(home / "tui-agent"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def agent(**more: Any) -> dict[str, Any]:
    return {"mode": "agent", **more}


def story() -> list[dict[str, Any]]:
    """A feature: the second step fails and has a fallback, the third fails with its fallback and is planned anew."""
    first = plan(
        do("Look at the module", "read_file", args={"path": "adder.py"}),
        do(
            "Copy the template",
            "run_terminal_command",
            error_handling="write multiply.py by hand",
            critical=True,
        ),
        do(
            "Format the code", "run_terminal_command", error_handling="use the other formatter", critical=True
        ),
        check=COMMAND,
    )
    second = plan(do("Mend the addition too", "edit_file", critical=True), check=COMMAND)
    diagnosis = {
        "cause": "no formatter is installed",
        "prerequisite": "a formatter",
        "strategy": "leave formatting out and mend the addition",
    }
    return [
        sorted_as("create", "complex"),
        side(PLANNING, second, trigger="What failed, and why"),
        side(PLANNING, first, model="big-planner"),
        side(DIAGNOSE, diagnosis),
        summed_up(
            "Added multiplication", decisions_made=[{"title": "No formatter", "rationale": "none is there"}]
        ),
        in_step("Look at the module", step("", call("read_file", path="adder.py")), "It only adds."),
        in_step(
            "Copy the template",
            step("", call("run_terminal_command", command="cp template.py multiply.py")),
            "There is no template.",
        ),
        in_step(
            "write multiply.py by hand",
            step("", call("write_file", path="multiply.py", content=MULTIPLY)),
            "Written by hand.",
        ),
        in_step(
            "Format the code",
            step("", call("run_terminal_command", command="no-such-formatter .")),
            "It is missing.",
        ),
        in_step(
            "use the other formatter",
            step("", call("run_terminal_command", command="no-such-formatter-either .")),
            "Missing as well.",
        ),
        in_step(
            "Mend the addition too",
            step("", call("read_file", path="adder.py")),
            step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")),
            "Mended.",
        ),
    ]


async def test_a_feature_is_planned_reviewed_recovered_verified_and_summed_up(workspace: Path) -> None:
    def answer(event: Event) -> Answer:
        if isinstance(event, SummaryOffered):
            mine = msgspec.structs.replace(event.summary, details="As I tell it.")
            return Answer(verdict="approve", data={"summary": msgspec.to_builtins(mine)})
        return APPROVE

    async with serve(*story(), strict=True, models=MODELS) as server:
        async with opened(server, workspace, flags=agent(roles=ROLES)) as session:
            watch = Watch(session, answer)
            await session.send(TASK)
            ended = await watch.ended()
            doc = (session.folder / "plan_doc.md").read_text()
            folder = session.folder
    assert ended.outcome == "done", ended.text
    assert (workspace / "multiply.py").read_text() == MULTIPLY
    assert (workspace / "adder.py").read_text() == MENDED
    first, again = watch.of(PlanProposed)
    assert first.asks and again.recovery
    assert [one.answer.verdict for one in watch.of(PlanReviewed)] == ["approve", "approve"]
    assert [one.by for one in watch.of(StepRecovering)] == ["fallback", "fallback", "recovery"]
    assert watch.of(StepRecovering)[-1].error_class == "missing_program"
    outcomes = [one.outcome for one in watch.of(StepFinished)]
    assert outcomes == ["done", "done", "failed", "done", "done"]
    check = watch.of(StepVerified)[-1]
    assert check.met and check.by == "command" and check.command == COMMAND
    (settled,) = watch.of(SummarySettled)
    assert settled.outcome == "edited"
    assert "As I tell it." in doc and "Added multiplication" in doc and "No formatter" in doc
    log = (folder / "chat_history.log").read_text()
    assert doc.strip().replace("\n[", "\n [") in log
    models = {role: {one.body["model"] for one in sent_as(server, role)} for role in set(roles_of(server))}
    assert models["planning"] == {"big-planner"}
    assert models["summary"] == {"short-writer"}
    assert models["execution"] == {"mock-model"}

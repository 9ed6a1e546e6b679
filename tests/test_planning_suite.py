from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from benchmarks.planning.figures import figures, table_rows
from benchmarks.planning.running import Outcome
from benchmarks.planning.tasks import CHECK, Task, fault_plan, suite
from tests.benchmarks.planning import describe, measure
from tests.benchmarks.planning_model import PlanningModel, Traits

TASKS = 10
LASTING_FAULTS = ("authentication", "permission", "already_exists", "missing_program")
"""Faults that do not pass without a remedy."""


def passive_traits() -> Traits:
    """A model without abilities."""
    return Traits(**dict.fromkeys(Traits.__struct_fields__, 0.0))


def multi_call_tasks() -> list[Task]:
    """The first ten tasks that need several calls."""
    return [task for task in suite(14) if not task.simple][:TASKS]


@pytest.mark.nightly
async def test_ten_tasks_with_planning_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tasks, outcomes = multi_call_tasks(), dict[str, list[Outcome]]()
    for configuration in ("planning", "without"):
        monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / configuration))
        outcomes[configuration] = await measure(
            tasks, configuration, tmp_path / "work", provider="ollama", seed=fault_plan().seed
        )
    report = "\n".join(map(describe, outcomes.values()))
    planned, direct = figures(outcomes["planning"]), figures(outcomes["without"])
    assert sum(bool(task.fault) for task in tasks) >= 5, "too few faults"
    assert any(outcome.stumbled for outcome in outcomes["without"]), report
    assert _value(planned, "first-attempt success") > _value(direct, "first-attempt success"), report
    assert _value(planned, "stuck") < _value(direct, "stuck"), report
    assert all(outcome.planned and outcome.sorted for outcome in outcomes["planning"]), report
    assert not any(outcome.planned for outcome in outcomes["without"]), report
    assert all(outcome.checks for outcome in outcomes["planning"] if outcome.done and not outcome.plan_fallback), report
    assert len(table_rows(outcomes)) >= 10


@pytest.mark.parametrize(
    ("model_traits", "done", "by"),
    [
        ({"fallback": 1.0}, True, "fallbacks"),
        pytest.param({"insight": 1.0}, True, "recoveries", marks=pytest.mark.nightly),
        pytest.param({"foresight_asked": 1.0}, True, "", marks=pytest.mark.nightly),
        ({}, False, "recoveries"),
    ],
)
async def test_what_gets_past_a_fault_is_what_the_engine_passes_on(
    model_traits: dict[str, float], done: bool, by: str, tmp_path: Path
):
    tasks = [task for task in suite() if task.fault in LASTING_FAULTS and not task.telling][:3]
    assert len(tasks) == 3
    outcomes = await measure(
        tasks, "no cache", tmp_path, model_traits=msgspec.structs.replace(passive_traits(), **model_traits)
    )
    report = f"{describe(outcomes)}\n{[task.number for task in tasks]}"
    assert all(outcome.done is done for outcome in outcomes), report
    assert all(outcome.stumbled is bool(by) for outcome in outcomes), report
    assert all(getattr(outcome, by) for outcome in outcomes if by), report


def _value(values: dict[str, float | None], name: str) -> float:
    value = values[name]
    assert value is not None
    return value


def test_the_suite_is_the_same_for_ever_and_most_of_it_meets_a_fault():
    tasks = suite()
    assert tasks == suite()
    assert len(tasks) >= 100
    assert len({task.family for task in tasks}) >= 10
    kinds = {task.fault for task in tasks if task.fault}
    assert kinds >= {fault.kind for fault in fault_plan().faults if fault.rate > 0.2}
    assert len(tasks) * 0.3 < sum(bool(task.fault) for task in tasks) < len(tasks) * 0.7


@pytest.mark.parametrize("number", range(1, 25))
def test_what_is_right_is_not_there_from_the_beginning(number: int, tmp_path: Path):
    task = suite(number)[-1]
    assert not task.is_solved(task.set_up(tmp_path))
    assert CHECK in task.request
    for name, text in task.expected.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert task.is_solved(tmp_path)


# --- the scripted model: feedback decides, not the mode --------------------------------------


def model_reply(task: Task, *results: str, extra: Sequence[str] = ()) -> str:
    """The model's reply after its main call had these results, followed by the program messages `extra`."""
    call = {"function": {"name": task.solution[-1].tool, "arguments": task.solution[-1].arguments}}
    messages: list[dict[str, object]] = [{"role": "user", "content": task.request}]
    for number, text in enumerate(results):
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{number}", **call}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    messages += [{"role": "user", "content": text} for text in extra]
    choice = PlanningModel([task], passive_traits()).answer({"messages": messages}).choice
    return choice.calls[0].raw if choice.calls else choice.step.response.content or ""


def script_task() -> Task:
    return next(task for task in suite() if task.fault == "authentication")


def test_without_help_the_call_is_repeated_once_and_then_given_up():
    task = script_task()
    main = str(task.solution[-1].arguments["command"])
    failed = "Error: exit code 1\nHTTP 401"
    assert main in model_reply(task)
    assert main in model_reply(task, failed)
    assert "could not" in model_reply(task, failed, failed)


@pytest.mark.parametrize(
    ("message", "helps"),
    [
        ("(authentication) needed first: {need}", True),
        ("needed first: {need}", False),
        ("(authentication)", False),
        ("", False),
    ],
)
def test_it_recovers_only_by_class_and_prerequisite_of_what_failed(message: str, helps: bool):
    task = script_task()
    text = message.format(need=task.remedy_text)
    answer = model_reply(task, "Error: exit code 1\nHTTP 401", f"Error: exit code 1\n{text}")
    assert (task.remedy_text in answer and "could not" not in answer) is helps


def test_help_before_anything_failed_is_no_help():
    task = script_task()
    hint = f"<agent_plan>\n(authentication) needed first: {task.remedy_text}\n</agent_plan>"
    assert task.remedy_text not in model_reply(task, extra=[hint])

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from benchmarks.planning.figures import figures, rows
from benchmarks.planning.running import Outcome
from benchmarks.planning.tasks import CHECK, Task, fault_plan, suite
from tests.benchmarks.planning import measure, told
from tests.benchmarks.planning_model import PlanningModel, Traits

TASKS = 10
LASTING = ("authentication", "permission", "already_exists", "missing_program")
"""Faults that never pass by themselves."""


def dull() -> Traits:
    """A model that thinks of nothing by itself."""
    return Traits(**dict.fromkeys(Traits.__struct_fields__, 0.0))


def some() -> list[Task]:
    """The first ten that are no single call."""
    return [task for task in suite(14) if not task.simple][:TASKS]


@pytest.mark.nightly
async def test_ten_tasks_with_planning_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tasks, found = some(), dict[str, list[Outcome]]()
    for way in ("planning", "without"):
        monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / way))
        found[way] = await measure(tasks, way, tmp_path / "work", provider="ollama", seed=fault_plan().seed)
    why = "\n".join(told(outcomes) for outcomes in found.values())
    planned, direct = figures(found["planning"]), figures(found["without"])
    assert sum(bool(task.fault) for task in tasks) >= 5, "the faults are not there"
    assert any(one.stumbled for one in found["without"]), why
    assert _of(planned, "first-attempt success") > _of(direct, "first-attempt success"), why
    assert _of(planned, "stuck") < _of(direct, "stuck"), why
    assert all(one.planned and one.sorted for one in found["planning"]), why
    assert not any(one.planned for one in found["without"]), why
    assert all(one.checks for one in found["planning"] if one.done and not one.plan_fallback), why
    assert len(rows(found)) >= 10


@pytest.mark.parametrize(
    ("wit", "done", "by"),
    [
        ({"fallback": 1.0}, True, "fallbacks"),
        pytest.param({"insight": 1.0}, True, "recoveries", marks=pytest.mark.nightly),
        pytest.param({"foresight_asked": 1.0}, True, "", marks=pytest.mark.nightly),
        ({}, False, "recoveries"),
    ],
)
async def test_what_gets_past_a_fault_is_what_the_engine_passes_on(
    wit: dict[str, float], done: bool, by: str, tmp_path: Path
):
    tasks = [task for task in suite() if task.fault in LASTING and not task.telling][:3]
    assert len(tasks) == 3
    found = await measure(tasks, "no cache", tmp_path, wit=msgspec.structs.replace(dull(), **wit))
    why = f"{told(found)}\n{[task.number for task in tasks]}"
    assert all(one.done is done for one in found), why
    assert all(one.stumbled is bool(by) for one in found), why
    assert all(getattr(one, by) for one in found if by), why


def _of(found: dict[str, float | None], name: str) -> float:
    value = found[name]
    assert value is not None
    return value


def test_the_suite_is_the_same_for_ever_and_most_of_it_meets_a_fault():
    tasks = suite()
    assert tasks == suite()
    assert len(tasks) >= 100
    assert len({task.family for task in tasks}) >= 10
    kinds = {task.fault for task in tasks if task.fault}
    assert kinds >= {one.kind for one in fault_plan().faults if one.rate > 0.2}
    assert len(tasks) * 0.3 < sum(bool(task.fault) for task in tasks) < len(tasks) * 0.7


@pytest.mark.parametrize("number", range(1, 25))
def test_what_is_right_is_not_there_from_the_beginning(number: int, tmp_path: Path):
    task = suite(number)[-1]
    assert not task.right(task.set_up(tmp_path))
    assert CHECK in task.request
    for name, text in task.goal.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert task.right(tmp_path)


# --- the scripted model: feedback decides, not the mode --------------------------------------


def asked(task: Task, *results: str, extra: Sequence[str] = ()) -> str:
    """What the model does after its main call had these results and the program said `extra`."""
    call = {"function": {"name": task.moves[-1].tool, "arguments": task.moves[-1].arguments}}
    messages: list[dict[str, object]] = [{"role": "user", "content": task.request}]
    for number, text in enumerate(results):
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{number}", **call}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    messages += [{"role": "user", "content": one} for one in extra]
    choice = PlanningModel([task], dull()).answer({"messages": messages}).choice
    return choice.calls[0].raw if choice.calls else choice.step.response.content or ""


def errand() -> Task:
    return next(task for task in suite() if task.fault == "authentication")


def test_without_help_the_call_is_repeated_once_and_then_given_up():
    task = errand()
    main = str(task.moves[-1].arguments["command"])
    failed = "Error: exit code 1\nHTTP 401"
    assert main in asked(task)
    assert main in asked(task, failed)
    assert "could not" in asked(task, failed, failed)


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("(authentication) needed first: {need}", True),
        ("needed first: {need}", False),
        ("(authentication)", False),
        ("", False),
    ],
)
def test_it_recovers_only_by_class_and_prerequisite_of_what_failed(said: str, helps: bool):
    task = errand()
    told_ = said.format(need=task.needed)
    answer = asked(task, "Error: exit code 1\nHTTP 401", f"Error: exit code 1\n{told_}")
    assert (task.needed in answer and "could not" not in answer) is helps


def test_help_before_anything_failed_is_no_help():
    task = errand()
    hint = f"<agent_plan>\n(authentication) needed first: {task.needed}\n</agent_plan>"
    assert task.needed not in asked(task, extra=[hint])

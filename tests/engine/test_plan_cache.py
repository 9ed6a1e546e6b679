from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tui_agent.common.workplan import InstructionPlan, PlanStep
from tui_agent.engine.workflow.planning import Kind, PlanCache, plan_kind

DAY = 86_400.0
PLAN = InstructionPlan(
    approach="read src/app.py, then fix it",
    steps=(PlanStep(number=1, description="Read src/app.py", tool="read_file", arguments={"path": "src/app.py"}),),
)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> PlanCache:
    return PlanCache(tmp_path / "plans.json", clock=clock)


def kind(
    request: str = "Fix the bug in src/app.py",
    task: str = "coding",
    tools: tuple[str, ...] = ("a", "b"),
    prompt: str = "1",
) -> Kind:
    return plan_kind(task, request, tools, prompt)


def test_a_plan_that_worked_is_found_with_the_names_of_the_new_request(cache: PlanCache) -> None:
    cache.settle(kind(), PLAN, True)
    hit = cache.find(kind("fix the bug in lib/other.py!", tools=("b", "a")))
    assert hit is not None
    assert hit.steps[0].arguments == {"path": "lib/other.py"}
    assert "src/app.py" not in str(msgspec.to_builtins(hit))


@pytest.mark.parametrize(
    "other",
    [
        kind(task="documentation"),
        kind(tools=("a",)),
        kind(prompt="2"),
        kind("Remove the bug in src/app.py"),
        kind("Fix the bug in src/app.py and in src/b.py"),
    ],
)
def test_another_task_tool_set_prompt_or_wording_is_another_plan(cache: PlanCache, other: Kind) -> None:
    cache.settle(kind(), PLAN, True)
    assert cache.find(other) is None


def test_a_plan_that_failed_is_not_kept(cache: PlanCache) -> None:
    cache.settle(kind(), PLAN, False)
    assert cache.find(kind()) is None


def test_a_plan_is_dropped_when_its_success_rate_is_no_longer_over_70_percent(cache: PlanCache) -> None:
    for success in (True, True, True, False):
        cache.settle(kind(), PLAN, success)
    assert cache.find(kind()) is not None
    cache.settle(kind(), PLAN, False)
    assert cache.find(kind()) is None


def test_seven_days_or_fifty_uses_end_it(cache: PlanCache, clock: Clock) -> None:
    cache.settle(kind(), PLAN, True)
    clock.now += 7 * DAY - 1
    assert cache.find(kind()) is not None
    clock.now += 2
    assert cache.find(kind()) is None
    for _ in range(50):
        cache.settle(kind("again", tools=()), PLAN, True)
    assert cache.find(kind("again", tools=())) is None


def test_plans_of_the_same_shape_gain_and_lose_confidence(cache: PlanCache) -> None:
    for _ in range(5):
        cache.settle(kind(), PLAN, True)
    assert cache.adjusted(PLAN).confidence == pytest.approx(0.9)
    for _ in range(20):
        cache.settle(kind(), PLAN, False)
    assert cache.adjusted(PLAN).confidence < 0.8


def test_a_damaged_file_is_no_cache_and_no_crash(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    for text in ("{", "[]", '{"plans": 7}', '{"plans": {"k": {"made": "x"}}, "shapes": []}'):
        file.write_text(text)
        cache = PlanCache(file)
        assert cache.find(kind()) is None
        assert cache.adjusted(PLAN) == PLAN

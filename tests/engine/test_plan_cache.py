from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tui_agent.common.workplan import InstructionPlan, PlanStep
from tui_agent.engine.workflow.planning import PlanCache, RequestPattern, request_pattern

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


def pattern(
    request: str = "Fix the bug in src/app.py",
    task: str = "coding",
    tools: tuple[str, ...] = ("a", "b"),
    prompt: str = "1",
) -> RequestPattern:
    return request_pattern(task, request, tools, prompt)


def test_a_plan_that_worked_is_found_with_the_names_of_the_new_request(cache: PlanCache) -> None:
    cache.record_outcome(pattern(), PLAN, True)
    hit = cache.find(pattern("fix the bug in lib/other.py!", tools=("b", "a")))
    assert hit is not None
    assert hit.steps[0].arguments == {"path": "lib/other.py"}
    assert "src/app.py" not in str(msgspec.to_builtins(hit))


@pytest.mark.parametrize(
    "other",
    [
        pattern(task="documentation"),
        pattern(tools=("a",)),
        pattern(prompt="2"),
        pattern("Remove the bug in src/app.py"),
        pattern("Fix the bug in src/app.py and in src/b.py"),
    ],
)
def test_another_task_tool_set_prompt_or_wording_is_another_plan(cache: PlanCache, other: RequestPattern) -> None:
    cache.record_outcome(pattern(), PLAN, True)
    assert cache.find(other) is None


def test_a_plan_that_failed_is_not_kept(cache: PlanCache) -> None:
    cache.record_outcome(pattern(), PLAN, False)
    assert cache.find(pattern()) is None


def test_a_plan_is_dropped_when_its_success_rate_is_no_longer_over_70_percent(cache: PlanCache) -> None:
    for success in (True, True, True, False):
        cache.record_outcome(pattern(), PLAN, success)
    assert cache.find(pattern()) is not None
    cache.record_outcome(pattern(), PLAN, False)
    assert cache.find(pattern()) is None


def test_seven_days_or_fifty_uses_end_it(cache: PlanCache, clock: Clock) -> None:
    cache.record_outcome(pattern(), PLAN, True)
    clock.now += 7 * DAY - 1
    assert cache.find(pattern()) is not None
    clock.now += 2
    assert cache.find(pattern()) is None
    for _ in range(50):
        cache.record_outcome(pattern("again", tools=()), PLAN, True)
    assert cache.find(pattern("again", tools=())) is None


def test_plans_of_the_same_shape_gain_and_lose_confidence(cache: PlanCache) -> None:
    for _ in range(5):
        cache.record_outcome(pattern(), PLAN, True)
    assert cache.adjust_confidence(PLAN).confidence == pytest.approx(0.9)
    for _ in range(20):
        cache.record_outcome(pattern(), PLAN, False)
    assert cache.adjust_confidence(PLAN).confidence < 0.8


def test_a_damaged_file_is_no_cache_and_no_crash(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    for text in ("{", "[]", '{"plans": 7}', '{"plans": {"k": {"made": "x"}}, "shapes": []}'):
        file.write_text(text)
        cache = PlanCache(file)
        assert cache.find(pattern()) is None
        assert cache.adjust_confidence(PLAN) == PLAN

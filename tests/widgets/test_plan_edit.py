from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.scenes.workflow import PLAN
from tui_agent.common.workplan import InstructionPlan
from widgets.plan_review import StepRow, StepsEditor


def test_what_is_left_empty_says_what_it_said() -> None:
    edit = StepsEditor(PLAN)
    edit.write(StepRow(0, "description"), "  ")
    assert edit.plan == PLAN
    edit.write(StepRow(1, "fallback"), "  ")
    assert edit.plan.steps[1].fallback == ""


def test_the_check_can_be_reworded_but_not_moved_or_dropped() -> None:
    edit = StepsEditor(PLAN)
    edit.row = len(edit.rows) - 1
    assert edit.now == StepRow(-1, "command")
    assert not edit.move(-1)
    assert not edit.drop()
    edit.write(edit.now, "make\ntest")
    assert edit.plan.check.command == "make test"


def test_a_plan_without_steps_takes_one() -> None:
    edit = StepsEditor(InstructionPlan(approach="think"))
    edit.add()
    edit.write(edit.now, "look")
    assert [(one.number, one.description) for one in edit.plan.steps] == [(1, "look")]


@given(st.lists(st.sampled_from(["up", "down", "K", "J", "d", "+", "type", "tidy"]), max_size=40))
def test_whatever_is_done_the_plan_stays_whole(moves: list[str]) -> None:
    edit = StepsEditor(PLAN)
    for move in moves:
        match move:
            case "up" | "down":
                edit.row += 1 if move == "down" else -1
            case "K" | "J":
                edit.move(1 if move == "J" else -1)
            case "d":
                edit.drop()
            case "+":
                edit.add()
            case "type":
                edit.write(edit.now, "words")
            case _:
                edit.tidy()
        assert edit.now in edit.rows
        assert [one.number for one in edit.plan.steps] == list(range(1, len(edit.plan.steps) + 1))
    edit.tidy()
    assert edit.plan.steps

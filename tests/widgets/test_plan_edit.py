from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.scenes.workflow import PLAN
from tui_agent.common.workplan import InstructionPlan
from widgets.plan_review import StepRow, StepsEditor


def test_what_is_left_empty_says_what_it_said() -> None:
    editor = StepsEditor(PLAN)
    editor.write(StepRow(0, "description"), "  ")
    assert editor.plan == PLAN
    editor.write(StepRow(1, "fallback"), "  ")
    assert editor.plan.steps[1].fallback == ""


def test_the_check_can_be_reworded_but_not_moved_or_dropped() -> None:
    editor = StepsEditor(PLAN)
    editor.move_cursor(len(editor.rows))
    assert editor.current == StepRow(-1, "command")
    assert not editor.move_step(-1)
    assert not editor.drop_step()
    editor.write(editor.current, "make\ntest")
    assert editor.plan.check.command == "make test"


def test_a_plan_without_steps_takes_one() -> None:
    editor = StepsEditor(InstructionPlan(approach="think"))
    editor.add_step()
    editor.write(editor.current, "look")
    assert [(one.number, one.description) for one in editor.plan.steps] == [(1, "look")]


@given(st.lists(st.sampled_from(["up", "down", "K", "J", "d", "+", "type", "tidy"]), max_size=40))
def test_whatever_is_done_the_plan_stays_whole(moves: list[str]) -> None:
    editor = StepsEditor(PLAN)
    for move in moves:
        match move:
            case "up" | "down":
                editor.move_cursor(1 if move == "down" else -1)
            case "K" | "J":
                editor.move_step(1 if move == "J" else -1)
            case "d":
                editor.drop_step()
            case "+":
                editor.add_step()
            case "type":
                editor.write(editor.current, "words")
            case _:
                editor.remove_empty_steps()
        assert editor.current in editor.rows
        assert [one.number for one in editor.plan.steps] == list(range(1, len(editor.plan.steps) + 1))
    editor.remove_empty_steps()
    assert editor.plan.steps

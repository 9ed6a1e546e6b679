from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.common.workplan import InstructionPlan
from tui_agent.engine.workflow.plan_reading import InvalidPlan, parse_classification, parse_plan

WRITERS = {"write_file", "edit_file"}
TOOLS = {"read_file", "run_terminal_command", *WRITERS}


def sketch(name: str, arguments: dict[str, Any]) -> tuple[str, bool, str]:
    if name not in TOOLS:
        return name, True, f"there is no tool {name!r}."
    fault = "has no argument colour." if "colour" in arguments else ""
    return name, name not in WRITERS, fault


def plan(text: str) -> InstructionPlan:
    return parse_plan(text, sketch)


FULL = {
    "approach": "read, then write",
    "prerequisites": ["python is there"],
    "steps": [
        {
            "step_number": 1,
            "description": "Read it",
            "tool": "read_file",
            "args": {"path": "a.py"},
            "expected_outcome": "its text",
            "error_handling": "list the folder",
            "confidence": 0.9,
        },
        {"step_number": 2, "description": "Think", "tool": "analyze", "confidence": 0.8},
        {
            "step_number": 3,
            "description": "Change a.py",
            "tool": "edit_file",
            "args": {"path": "a.py"},
            "confidence": 0.7,
        },
    ],
    "verification": {"check_command": "python a.py", "success_criteria": "it prints 1"},
    "alternatives": [{"approach": "by hand", "when_to_use": "never", "confidence": 0.4}],
}


def test_a_whole_plan_is_read_and_takes_its_lowest_confidence() -> None:
    read = plan(json.dumps(FULL))
    assert [step.tool for step in read.steps] == ["read_file", "", "edit_file"]
    assert read.confidence == 0.7
    assert read.steps[0].fallback == "list the folder"
    assert read.check.command == "python a.py"
    assert read.alternatives[0].when == "never"


def test_a_step_that_writes_or_that_a_later_one_needs_is_critical() -> None:
    assert [step.critical for step in plan(json.dumps(FULL)).steps] == [True, False, True]


@pytest.mark.parametrize(
    "around",
    ["{}", "Sure, here it is:\n```json\n{}\n```\nGood luck!", "<think>maybe {{x}}</think>{}", '{{"plan": {}}}'],
)
def test_prose_fences_thinking_and_a_wrapper_may_stand_around(around: str) -> None:
    assert len(plan(around.format(json.dumps(FULL))).steps) == 3


def test_the_older_task_list_is_read_too() -> None:
    text = '{"task_list": [{"step": 1, "description": "Read", "tool": "read_file", "params": {"path": "x"}}]}'
    assert plan(text).steps[0].arguments == {"path": "x"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": []}, "at least one step"),
        ({"steps": [{"tool": "read_file"}]}, "`description`"),
        ({"steps": [{"description": "x", "tool": "teleport"}]}, "'teleport'"),
        ({"steps": [{"description": "x", "tool": "read_file", "args": {"colour": 1}}]}, "colour"),
        ({"steps": [{"description": "x", "tool": "read_file", "args": "a.py"}]}, "`args`"),
        ({"steps": [{"description": "x", "confidence": 0.3}]}, "0.3"),
        ({"steps": [{"description": "x"}] * 13}, "13 steps"),
        ({"confidence": "20%"}, "0.2"),
    ],
)
def test_what_is_wrong_is_said_exactly(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidPlan) as bad:
        plan(json.dumps(FULL | change))
    assert said in str(bad.value)


def test_no_object_at_all_is_a_bad_plan() -> None:
    with pytest.raises(InvalidPlan, match="no JSON object"):
        plan("I would first read the file and then edit it.")


@pytest.mark.parametrize(
    ("said", "meant"), [("80%", 0.8), (85, 0.85), ("high", 0.9), (True, 0.8), (None, 0.8), ("", 0.8)]
)
def test_confidence_is_read_as_people_write_it(said: Any, meant: float) -> None:
    assert plan(json.dumps({"steps": [{"description": "x", "confidence": said}]})).confidence == meant


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["steps", "description", "tool", "args", "confidence", "x"]), inner)
        ),
    )
)
def test_whatever_comes_is_a_plan_or_a_bad_one(value: Any) -> None:
    try:
        read = plan(json.dumps(value))
    except InvalidPlan as bad:
        assert bad.faults
    else:
        assert read.steps
        assert all(step.description for step in read.steps)


def test_a_classification_is_read_with_single_bad_values_on_the_careful_side() -> None:
    read = parse_classification('{"intent": "Analyze", "needs_write": "no", "complexity": "gigantic", "task_type": 7}')
    assert read is not None
    assert (read.intent, read.needs_write, read.complexity, read.task_type) == ("analyze", False, "moderate", "coding")


@pytest.mark.parametrize("text", ["", "modify", '{"intent": "dance"}', "{", "[1]"])
def test_a_useless_classification_is_none(text: str) -> None:
    assert parse_classification(text) is None

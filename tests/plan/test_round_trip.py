from __future__ import annotations

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.doubles.plan_text import plan_text
from tests.plan.plans import documents, plans
from tui_agent.plan.document import Criterion, LogEntry, Plan
from tui_agent.plan.grammar import CHECKBOX
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.writing import PlanTextError, rewrite


@settings(max_examples=100, deadline=None)
@given(plans)
@example(Plan(goal="x", acceptance_criteria=(Criterion(description="[tbd]"), Criterion(description="a *(b)*"))))
@example(Plan(goal="```\nnever closed", execution_log=(LogEntry(action=""), LogEntry(action="2025-01-01 b"))))
def test_every_plan_survives_a_round_trip(plan: Plan) -> None:
    text = plan_text(plan)
    document = parse(text)
    assert document.plan == plan
    assert rewrite(document.plan, document).text == text
    assert not document.problem


@settings(max_examples=100, deadline=None)
@given(plans, plans)
def test_every_plan_can_be_written_over_every_other(before: Plan, after: Plan) -> None:
    assert rewrite(after, parse(plan_text(before))).plan == after


def user_lines(document: Document) -> list[str]:
    """Return the non-blank lines that belong to no value of the plan."""
    ours: set[int] = {at for at in (document.title, document.status) if at is not None}
    if document.front:
        ours.update(range(document.front.start, document.front.end + 1))
    for section in document.sections:
        ours.update(range(*section.goal_lines))
        ours.update(section.placeholders)
        for item in section.items:
            ours.add(item.start)
            for field in item.fields:
                ours.update(range(field.start, field.end))
    return [line for at, line in enumerate(document.raw) if at not in ours and line.strip()]


def lost_lines(before: Document, after: Document) -> list[str]:
    """Return the user's lines that are not in `after` in the same order."""
    remaining = iter(line.rstrip("\r\n") for line in after.raw)
    return [line for line in user_lines(before) if line.rstrip("\r\n") not in remaining]


@settings(max_examples=120, deadline=None)
@given(documents, plans)
def test_user_text_survives_any_change_of_the_plan(text: str, plan: Plan) -> None:
    before = parse(text)
    assert rewrite(before.plan, before).text == text
    try:
        after = rewrite(plan, before)
    except PlanTextError:
        event("refused")
        return
    assert after.plan == plan
    assert lost_lines(before, after) == []


@settings(max_examples=120, deadline=None)
@given(documents, st.data())
def test_ticking_one_criterion_changes_one_line(text: str, data: st.DataObject) -> None:
    before = parse(text)
    if not before.plan.acceptance_criteria or any(not item.boxed for one in before.sections for item in one.items):
        return
    chosen = data.draw(st.integers(0, len(before.plan.acceptance_criteria) - 1))
    ticked = tuple(
        structs.replace(one, completed=not one.completed) if at == chosen else one
        for at, one in enumerate(before.plan.acceptance_criteria)
    )
    after = rewrite(structs.replace(before.plan, acceptance_criteria=ticked), before)
    assert len(after.raw) == len(before.raw)
    ((old, new),) = ((a, b) for a, b in zip(before.raw, after.raw, strict=True) if a != b)
    was, now = CHECKBOX.match(old), CHECKBOX.match(new)
    assert was and now
    assert was.group(1, 3, 4) == now.group(1, 3, 4) and box_free(old) == box_free(new)


def box_free(line: str) -> str:
    """Return the line with its end, without the content of its first box."""
    return line[: line.index("[")] + line[line.index("]") :]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("line", ["- [ ]  two blanks", "*\t[ ]\ttab *(n)*  ", "  1) [ ]none", "- [  ] wide"])
def test_ticking_preserves_every_byte_outside_the_box(line: str, end: str) -> None:
    text = f"# Plan: x\n\n## Acceptance Criteria\n{line}{end}"
    before = parse(text)
    (row,) = before.plan.acceptance_criteria
    after = rewrite(structs.replace(before.plan, acceptance_criteria=(structs.replace(row, completed=True),)), before)
    ticked = "[x]"
    assert after.text == text.replace("[  ]", ticked).replace("[ ]", ticked)

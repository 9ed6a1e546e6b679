from __future__ import annotations

from hypothesis import given, settings
from msgspec import structs

from tests.plan.plans import plans
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan, PlanStatus
from tui_agent.plan.merge import merge_plans

A, B, C = (Criterion(description=f"the {word} criterion") for word in ("first", "second", "third"))
BASE = Plan(goal="goal", acceptance_criteria=(A, B), execution_log=(LogEntry(action="one"),))


def criteria(*values: Criterion) -> Plan:
    return structs.replace(BASE, acceptance_criteria=values)


def test_independent_changes_are_merged() -> None:
    ours = structs.replace(
        BASE, status=PlanStatus.IN_PROGRESS, execution_log=(*BASE.execution_log, LogEntry(action="two"))
    )
    theirs = structs.replace(BASE, goal="a better goal", acceptance_criteria=(A, C, structs.replace(B, completed=True)))
    merged = merge_plans(BASE, ours, theirs)
    assert merged.conflicts == ()
    assert merged.plan == structs.replace(theirs, status=ours.status, execution_log=ours.execution_log)


def test_changes_of_different_fields_of_an_item_are_merged() -> None:
    merged = merge_plans(
        BASE, criteria(structs.replace(A, completed=True), B), criteria(structs.replace(A, notes="n"), B)
    )
    assert merged.conflicts == ()
    assert merged.plan.acceptance_criteria[0] == structs.replace(A, completed=True, notes="n")


def test_additions_of_both_sides_are_kept() -> None:
    merged = merge_plans(BASE, criteria(A, B, C), criteria(A, Criterion(description="something else"), B))
    assert [one.description for one in merged.plan.acceptance_criteria] == [
        A.description, "something else", B.description, C.description,
    ]  # fmt: skip


def test_the_same_addition_is_merged() -> None:
    merged = merge_plans(BASE, criteria(A, B, C), criteria(A, B, structs.replace(C, notes="mine")))
    assert merged.plan.acceptance_criteria == (A, B, structs.replace(C, notes="mine"))


def test_a_removal_conflicts_only_with_a_change_of_the_item() -> None:
    assert merge_plans(BASE, criteria(A), criteria(A, B, C)).plan.acceptance_criteria == (A, C)
    changed = structs.replace(B, completed=True)
    merged = merge_plans(BASE, criteria(A), criteria(A, changed))
    assert [(one.where, one.item, one.field, one.ours) for one in merged.conflicts] == [
        ("acceptance_criteria", B.description, "", None)
    ]
    assert merged.plan.acceptance_criteria == (A, changed)
    key = merged.conflicts[0].id
    assert merge_plans(BASE, criteria(A), criteria(A, changed), {key: "ours"}).plan.acceptance_criteria == (A,)
    assert merge_plans(BASE, criteria(A), criteria(A, changed), {key: "both"}).plan.acceptance_criteria == (A, changed)


def test_conflicting_goals_can_be_resolved_in_three_ways() -> None:
    ours, theirs = structs.replace(BASE, goal="ours"), structs.replace(BASE, goal="theirs")
    (conflict,) = merge_plans(BASE, ours, theirs).conflicts
    assert (conflict.id, conflict.base, conflict.ours, conflict.theirs) == ("goal", "goal", "ours", "theirs")
    goals = [merge_plans(BASE, ours, theirs, {"goal": choice}).plan.goal for choice in ("ours", "theirs", "both")]
    assert goals == ["ours", "theirs", "theirs\nours"]
    assert merge_plans(BASE, ours, theirs).plan.goal == "theirs"


def test_a_reworded_item_is_recognized() -> None:
    reworded = structs.replace(A, description="the very first criterion")
    merged = merge_plans(BASE, criteria(reworded, B), criteria(structs.replace(A, completed=True), B))
    assert merged.plan.acceptance_criteria[0] == structs.replace(reworded, completed=True)


def test_a_cautious_merge_reports_missing_items() -> None:
    merged = merge_plans(BASE, BASE, criteria(A), cautious=True)
    assert [one.item for one in merged.conflicts] == [B.description]


def test_one_side_reorders_and_the_other_adds() -> None:
    merged = merge_plans(BASE, criteria(A, B, C), criteria(B, A))
    assert merged.plan.acceptance_criteria == (B, C, A)


def test_decisions_with_both_alternatives() -> None:
    one = Decision(title="choose", alternatives=("a",))
    base, ours, theirs = (
        structs.replace(BASE, decisions_made=(structs.replace(one, alternatives=items),))
        for items in (("a",), ("a", "b"), ("a", "c"))
    )
    (conflict,) = merge_plans(base, ours, theirs).conflicts
    assert merge_plans(base, ours, theirs, {conflict.id: "both"}).plan.decisions_made[0].alternatives == ("a", "c", "b")


@settings(max_examples=80, deadline=None)
@given(plans, plans)
def test_one_sided_changes_are_adopted(base: Plan, changed: Plan) -> None:
    assert merge_plans(base, base, changed).plan == changed
    ours = merge_plans(base, changed, base)
    assert ours.conflicts == ()
    numbers = {"version": 0, "created_at": 0, "updated_at": 0}
    assert structs.replace(ours.plan, **numbers) == structs.replace(changed, **numbers)


@settings(max_examples=80, deadline=None)
@given(plans, plans, plans)
def test_every_conflict_can_be_resolved(base: Plan, ours: Plan, theirs: Plan) -> None:
    merged = merge_plans(base, ours, theirs)
    for choice in ("ours", "theirs", "both"):
        assert merge_plans(base, ours, theirs, {one.id: choice for one in merged.conflicts}).conflicts == ()

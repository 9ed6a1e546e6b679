"""What the model proposes for the plan document, applied to the plan as it is now (P6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from tui_agent.engine.summary_reading import applied_changes, same_criterion
from tui_agent.plan.document import Criterion, Plan, PlanStatus
from tui_agent.plan.markdown import parse
from tui_agent.plan.merge import merge
from tui_agent.tools.base import ToolError
from tui_agent.workplan import PlanChange

Change = Callable[[Plan], Plan]


def proposed(plan: Plan, change: PlanChange, now: datetime) -> Plan:
    """The plan with the change in it. Criteria that go by another wording are added, never dropped."""
    if change.fresh:
        rows = tuple(_kept(plan, one.description) for one in change.criteria) or plan.acceptance_criteria
        return msgspec.structs.replace(plan, goal=change.goal or plan.goal, acceptance_criteria=rows)
    return applied_changes(plan, change, now)


def check(plan: Plan, change: PlanChange) -> None:
    """Raises ToolError where a criterion is said to be met that is not in the plan, or the status is none."""
    if change.status and change.status not in list(PlanStatus):
        raise ToolError(f"status must be one of {', '.join(PlanStatus)}.", "bad_arguments")
    if change.fresh:
        return
    known = [one.description for one in plan.acceptance_criteria]
    for one in change.criteria:
        if not one.added and not any(same_criterion(one.description, text) for text in known):
            there = "; ".join(known[:30]) or "none yet: add them first"
            raise ToolError(
                f"The plan has no criterion {one.description[:100]!r}. Its criteria: {there}.", "not_found"
            )


def taken_up(text: str, ground: Plan) -> Change | None:
    """What leads from `ground` to the plan document `text`, as a change of the plan; None when there is nothing."""
    wanted = parse(text)
    if wanted.problem or wanted.plan == ground:
        return None
    return lambda plan: merge(ground, plan, wanted.plan).plan


def in_words(plan: Plan) -> str:
    """The plan as it would be, for the model."""
    lines = ["Proposed; the user decides whether it is written. It counts for your work from now on.", ""]
    lines.append(
        f"Goal: {plan.goal or '(none)'} ({plan.status}, {plan.completed}/{len(plan.acceptance_criteria)})"
    )
    lines += [
        f"- [{'x' if one.completed else ' '}] {one.description}" for one in plan.acceptance_criteria[:50]
    ]
    return "\n".join(lines)


def _kept(plan: Plan, description: str) -> Criterion:
    known = (one for one in plan.acceptance_criteria if same_criterion(one.description, description))
    return next(known, Criterion(description=description))


def with_changes(plan: Plan, changes: Sequence[Change]) -> Plan:
    """The plan with all of `changes`, one after the other."""
    for change in changes:
        plan = change(plan)
    return plan

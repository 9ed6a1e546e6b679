"""What the model proposes for the plan document, applied to the plan as it is now (P6); the user's newer words win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from tui_agent.engine.summary_reading import applied, applied_changes, same_criterion
from tui_agent.plan.document import Criterion, Plan, PlanStatus
from tui_agent.plan.markdown import parse
from tui_agent.plan.matching import align
from tui_agent.plan.merge import merge
from tui_agent.tools.base import ToolError
from tui_agent.workplan import PlanChange, Summary

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


def accepted(offered: Summary, taken: Summary, base: Plan, now: datetime, left: list[str]) -> Change:
    """What writing an accepted summary changes. It was offered for `base` as `offered`; `taken` is what the user made
    of it, whose words hold even where they wrote in the document meanwhile. `left`: see `minding`."""
    own = PlanChange(
        goal=taken.goal if taken.goal != offered.goal else "",
        status=taken.status if taken.status != offered.status and taken.status in list(PlanStatus) else "",
        criteria=tuple(one for one in taken.criteria if one not in offered.criteria),
    )
    mind = minding(lambda plan: applied(plan, taken, now), base, left)
    return lambda plan: applied_changes(mind(plan), own, now)


def minding(change: Change, base: Plan, left: list[str]) -> Change:
    """`change`, which was made for `base`, for a plan that the user may have written in since: what they changed stays
    as they wrote it. `left` gets what of the change is left out for that, in words."""

    def made(plan: Plan) -> Plan:
        wanted = change(base)
        if plan == base:
            return wanted
        rows, added = _unless_theirs(base.acceptance_criteria, wanted, plan, left)
        old, logged = base.execution_log, wanted.execution_log
        merged = merge(
            base, msgspec.structs.replace(wanted, acceptance_criteria=rows, execution_log=old), plan
        )
        left.extend(one.item or one.where for one in merged.conflicts)
        found = merged.plan
        criteria = (*found.acceptance_criteria, *added)
        status = found.status
        if status is PlanStatus.COMPLETED and not all(one.completed for one in criteria):
            status = PlanStatus.IN_PROGRESS if plan.status == base.status != status else status
        return msgspec.structs.replace(
            found,
            status=status,
            acceptance_criteria=criteria,
            execution_log=(*found.execution_log, *logged[len(old) :]),
        )

    return made


def _unless_theirs(
    base: tuple[Criterion, ...], wanted: Plan, plan: Plan, left: list[str]
) -> tuple[tuple[Criterion, ...], tuple[Criterion, ...]]:
    """The wanted criteria without changes of those that were changed in `plan`, too, since a row is theirs as a whole;
    and those that are new and not in `plan`."""
    rows = list(wanted.acceptance_criteria)
    ours, theirs = align(base, rows), align(base, plan.acceptance_criteria)
    for at, old in enumerate(base):
        other = plan.acceptance_criteria[theirs[at]] if at in theirs else None
        if at in ours and rows[ours[at]] != old and other not in (old, rows[ours[at]]):
            left.append(old.description)
            rows[ours[at]] = old
    known = set(ours.values())
    there = [one.description for one in plan.acceptance_criteria]
    added = [row for at, row in enumerate(rows) if at not in known]
    new = (row for row in added if not any(same_criterion(row.description, one) for one in there))
    return tuple(rows[at] for at in sorted(known)), tuple(new)


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

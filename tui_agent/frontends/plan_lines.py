"""The staged workflow as plain lines: the plan, its steps, what became memory."""

from __future__ import annotations

from tui_agent.events import (
    CompletionRefused,
    PlanProposed,
    PlanReviewed,
    StepRecovering,
    StepStarted,
    StepVerified,
    SummaryOffered,
    SummarySettled,
)
from tui_agent.text import clean, one_line
from tui_agent.workplan import InstructionPlan, Summary

SETTLED = {
    "accepted": "  ✓ summary accepted",
    "edited": "  ✓ summary accepted as edited",
    "discarded": "  ✗ summary discarded",
    "pending": "  … summary not decided; it is offered again at the next start",
}


def plan_line(event: object) -> str | None:
    """What is written for an event of the workflow; None for nothing."""
    match event:
        case PlanProposed(plan=plan, recovery=recovery):
            return _plan(plan, "New plan" if recovery else "Plan")
        case PlanReviewed(answer=answer) if answer.verdict == "reject":
            return f"  ✗ plan rejected ({_short(answer.text or answer.by)})"
        case PlanReviewed(plan=plan, edited=True):
            return _plan(plan, "Plan as edited")
        case StepStarted(step=step, of=of):
            number = f"{step.number}/{of} " if of else ""
            return f"── {number}{_short(step.description)}"
        case StepVerified(met=False, expected=expected, actual=actual):
            wanted = f"expected {_short(expected)}; " if expected else ""
            return f"  ✗ {wanted}actual: {_short(actual)}"
        case StepRecovering(by=by, strategy=strategy, cause=cause):
            return f"  … {'fallback' if by == 'fallback' else 'new plan'}: {_short(strategy or cause)}"
        case CompletionRefused(why=why):
            return f"  … not done yet: {_short(why)}"
        case SummaryOffered(summary=summary):
            return _summary(summary)
        case SummarySettled(outcome=outcome):
            return SETTLED[outcome]
    return None


def _short(text: str) -> str:
    return one_line(clean(text), 300)


def _plan(plan: InstructionPlan, name: str) -> str:
    lines = [f"{name}: {_short(plan.approach)}"]
    lines += [f"  {step.number}. {_short(step.description)}" for step in plan.steps]
    lines += [f"  check: {_short(plan.check.command)}"] if plan.check.command else []
    return "\n".join(lines)


def _summary(summary: Summary) -> str:
    lines = [f"Summary: {_short(summary.action)}"]
    lines += [f"  {_short(text)}" for text in (summary.details, summary.result) if text]
    lines += [f"  [{'x' if one.completed else ' '}] {_short(one.description)}" for one in summary.criteria]
    return "\n".join(lines)

"""What chat_history.log says of the staged workflow and the plan document (S2, W9)."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.workplan import Summary, as_text


def classified(event: e.RequestClassified) -> str:
    """How the request was read."""
    found = event.classified
    writes = "writes" if found.needs_write else "reads only"
    why = f": {found.reasoning}" if found.reasoning else ""
    return f"Request: {found.intent}, {writes}, {found.task_type}, {found.complexity}{why}"


def proposed(event: e.PlanProposed) -> str:
    """The instruction plan, whole."""
    how = "Recovery plan" if event.recovery else "Plan"
    source = " from the cache" if event.cached else ", made without the model" if event.fallback else ""
    asks = "asks" if event.asks else "does not ask"
    head = f"{how}{source}, confidence {event.plan.confidence:.2f}; {asks}: {event.why}".rstrip(": ")
    faults = [f"Fault of an earlier attempt: {one}" for one in event.faults]
    return "\n".join([head, as_text(event.plan), *faults])


def reviewed(event: e.PlanReviewed) -> str:
    """What was decided about it; the plan again where it was changed."""
    answer = event.answer
    by = "" if answer.by == "user" else f" by {answer.by}"
    if answer.verdict == "reject":
        return f"Plan rejected{by}" + (f": {answer.text}" if answer.text else ".")
    if answer.verdict != "approve":
        return "Plan review withdrawn."
    if event.alternative is not None:
        return f"Plan: alternative {event.alternative + 1} was picked{by}."
    return f"Plan edited and approved{by}:\n{as_text(event.plan)}" if event.edited else f"Plan approved{by}."


def started(event: e.StepStarted) -> str:
    """The step that begins."""
    return (
        f"Step {event.step.number} of {event.of}: {event.step.description}"
        if event.of
        else event.step.description
    )


def verified(event: e.StepVerified) -> str:
    """Expected and actual."""
    what = f"Check `{event.command}`" if event.command else "Outcome"
    expected = f" Expected: {event.expected}." if event.expected else ""
    return f"{what}: {'met' if event.met else 'not met'}, by {event.by}.{expected} Actual: {event.actual}"


def recovering(event: e.StepRecovering) -> str:
    """What failed and what is tried now."""
    kind = f" ({event.error_class})" if event.error_class else ""
    how = "Fallback" if event.by == "fallback" else "Recovery planning"
    return f"{how}{kind}. Cause: {event.cause} Next: {event.strategy}"


def document(event: e.PlanDocChanged) -> str:
    """The plan document, whole: the log holds what was accepted, word for word."""
    if event.by == "template" and not event.pending:
        return ""
    if event.pending:
        return f"The model proposes for the plan (not written yet):\n{event.text}"
    return f"Plan document changed by {event.by}:\n{event.text}"


def offered(event: e.SummaryOffered) -> str:
    """The summary as it is put before the user."""
    return f"Summary proposed by the {event.by}:\n{summary_text(event.summary)}"


def settled(event: e.SummarySettled) -> str:
    """What became of it."""
    by = "" if event.by == "user" else f" by {event.by}"
    text = f":\n{summary_text(event.summary)}" if event.outcome == "edited" else "."
    return f"Summary {event.outcome}{by}{text}"


def summary_text(summary: Summary) -> str:
    """The summary in a form to read."""
    lines = [f"Action: {summary.action}"]
    lines += [f"Details: {summary.details}"] if summary.details else []
    lines += [f"Result: {summary.result}"] if summary.result else []
    lines += [f"Tools: {', '.join(summary.tools)}"] if summary.tools else []
    lines += [f"- [{'x' if one.completed else ' '}] {one.description}" for one in summary.criteria]
    lines += [f"Decided: {one.title} ({one.rationale})" for one in summary.decisions_made]
    lines += [f"Rejected: {one.title} ({one.rationale})" for one in summary.decisions_rejected]
    return "\n".join(lines)

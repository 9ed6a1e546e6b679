"""What the events of the staged workflow do to the view: plan, steps, summary (W1 to W9)."""

from __future__ import annotations

from typing import Literal

from tui_agent import events as e
from tui_agent.domain import Answer
from tui_agent.view.change import NOTHING, Change, Part, Steps, add, join, settle, touch
from tui_agent.view.items import (
    NoticeItem,
    Offer,
    Proposal,
    Recovering,
    RequestItem,
    SessionView,
    StepItem,
    Verdict,
)

VERDICTS: dict[str, Literal["approve", "reject", "withdrawn"]] = {
    "accepted": "approve",
    "edited": "approve",
    "discarded": "reject",
    "pending": "withdrawn",
}
"""What became of a summary → the answer to its request."""

# --- the request and its plan -------------------------------------------------------------------


def _classified(view: SessionView, event: e.RequestClassified, record: e.Record) -> Change:
    found = event.classified
    if found.guessed:
        return NOTHING
    words = f"Understood as: {found.intent} · {found.task_type} · {found.complexity}"
    return add(view, NoticeItem("info", words, "request.classified"))


def _proposed(view: SessionView, event: e.PlanProposed, record: e.Record) -> Change:
    proposal = Proposal(
        event.plan,
        event.asks,
        event.why,
        event.depth,
        event.cached,
        event.fallback,
        event.recovery,
        event.faults,
        event.ms,
    )
    return _wait(
        view, RequestItem(event.id, record.node, why=event.why, proposal=proposal), event.asks, record
    )


def _wait(view: SessionView, request: RequestItem, asks: bool, record: e.Record) -> Change:
    view.requests[request.id] = request
    change = add(view, request, request.id)
    if not asks:
        return change
    view.pending[request.id] = request
    return join(change, Change(Part.PENDING), settle(view, record.at))


def _reviewed(view: SessionView, event: e.PlanReviewed, record: e.Record) -> Change:
    request = view.requests.get(event.id)
    if request is None or request.proposal is None or request.answer is not None:
        return NOTHING
    request.proposal.taken, request.proposal.edited = event.plan, event.edited
    request.proposal.alternative = event.alternative
    return _close(view, request, event.answer, record)


def _close(view: SessionView, request: RequestItem, answer: Answer, record: e.Record) -> Change:
    request.answer = answer
    if view.pending.pop(request.id, None) is None:
        return touch(view, request.id)
    return join(touch(view, request.id), Change(Part.PENDING), settle(view, record.at))


# --- steps --------------------------------------------------------------------------------------


def _step(view: SessionView, key: str) -> StepItem | None:
    place = view.places.get(key)
    item = view.items[place] if place is not None else view.step
    return item if isinstance(item, StepItem) else None


def _step_started(view: SessionView, event: e.StepStarted, record: e.Record) -> Change:
    view.step = StepItem(record.node, event.step, event.of)
    return add(view, view.step, record.node)


def _step_verified(view: SessionView, event: e.StepVerified, record: e.Record) -> Change:
    step = _step(view, record.node)
    if step is None:
        return NOTHING
    step.verdicts.append(Verdict(event.met, event.expected, event.actual, event.by, event.command, event.ms))
    return touch(view, step.id)


def _step_recovering(view: SessionView, event: e.StepRecovering, record: e.Record) -> Change:
    """A recovery belongs to the stage; it is told of with the step that failed."""
    step = _step(view, record.node)
    if step is None:
        return NOTHING
    step.recoveries.append(
        Recovering(event.by, event.error_class, event.cause, event.strategy, len(step.verdicts))
    )
    return touch(view, step.id)


def _step_finished(view: SessionView, event: e.StepFinished, record: e.Record) -> Change:
    step = _step(view, record.node)
    if step is None:
        return NOTHING
    step.outcome, step.text = event.outcome, event.text
    step.iterations, step.ms = event.iterations, event.ms
    return touch(view, step.id)


def _refused(view: SessionView, event: e.CompletionRefused, record: e.Record) -> Change:
    return add(view, NoticeItem("warning", f"Not done yet: {event.why}", "completion.refused"))


# --- the summary --------------------------------------------------------------------------------


def _offered(view: SessionView, event: e.SummaryOffered, record: e.Record) -> Change:
    offer = Offer(event.summary, event.by)
    return _wait(view, RequestItem(event.id, record.node, offer=offer), True, record)


def _summary_settled(view: SessionView, event: e.SummarySettled, record: e.Record) -> Change:
    request = view.requests.get(event.id)
    if request is None or request.offer is None or request.offer.outcome:
        return NOTHING
    request.offer.outcome, request.offer.taken = event.outcome, event.summary
    return _close(view, request, Answer(verdict=VERDICTS[event.outcome], by=event.by), record)


STEPS: Steps = {
    e.RequestClassified: _classified,
    e.PlanProposed: _proposed,
    e.PlanReviewed: _reviewed,
    e.StepStarted: _step_started,
    e.StepVerified: _step_verified,
    e.StepRecovering: _step_recovering,
    e.StepFinished: _step_finished,
    e.CompletionRefused: _refused,
    e.SummaryOffered: _offered,
    e.SummarySettled: _summary_settled,
}

"""What the events of the plan document do to the view (P1 to P6). Texts are kept, never read here."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.view.change import NOTHING, Change, Part, Steps, add, join, settle, touch
from tui_agent.view.items import Dispute, RequestItem, SessionView

PLAN = Change(Part.PLAN)


def _changed(view: SessionView, event: e.PlanDocChanged, record: e.Record) -> Change:
    plan = view.plan
    if event.pending:
        plan.proposal, plan.ground = event.text, plan.text
        return PLAN
    plan.text, plan.by = event.text, event.by
    if event.by in ("summary", "review") or plan.proposal == event.text:
        plan.proposal = None  # what was accepted is in the text now
    return PLAN


def _conflict(view: SessionView, event: e.PlanDocConflict, record: e.Record) -> Change:
    dispute = Dispute(event.where, event.ours, event.theirs)
    request = RequestItem(event.id, record.node, dispute=dispute)
    view.requests[event.id] = view.pending[event.id] = request
    return join(add(view, request, event.id), Change(Part.PENDING), settle(view, record.at))


def _settled(view: SessionView, event: e.PlanDocSettled, record: e.Record) -> Change:
    request = view.requests.get(event.id)
    if request is None:  # not a conflict: the proposal
        view.plan.proposal = None
        return PLAN
    if request.answer is not None:
        return NOTHING
    request.answer = event.answer
    view.pending.pop(event.id, None)
    return join(touch(view, event.id), Change(Part.PENDING), settle(view, record.at))


STEPS: Steps = {
    e.PlanDocChanged: _changed,
    e.PlanDocConflict: _conflict,
    e.PlanDocSettled: _settled,
}

"""One reducer for all readers: live, resumed, exported and counted sessions take this path and no other."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.view import (
    context_steps,
    file_steps,
    plan_steps,
    reply_steps,
    session_steps,
    tool_steps,
    workflow_steps,
)
from tui_agent.view.change import NOTHING, Change, Part, Steps, join
from tui_agent.view.items import SessionView
from tui_agent.view.tree import grow
from tui_agent.view.veil import Veil

STEPS: Steps = {
    **session_steps.STEPS,
    **reply_steps.STEPS,
    **tool_steps.STEPS,
    **context_steps.STEPS,
    **plan_steps.STEPS,
    **workflow_steps.STEPS,
    **file_steps.STEPS,
}
"""Event class → what it does to the view. `state.saved` is for the engine alone."""


def fold(view: SessionView, record: e.Record, veil: Veil | None = None) -> Change:
    """Take one record into the view and say what changed. A record that was already folded changes nothing.

    With `veil` the view holds no secret, but for the exact action of a request and the exact text of the plan (A7).
    """
    if record.seq <= view.seq:
        return NOTHING
    view.seq = record.seq
    if veil is None:
        return _take(view, record)
    changes = [_take(view, one) for one in veil.records(record)]
    _keep_exact(view, record.event)
    return changes[0] if len(changes) == 1 else _joined(changes)


def _take(view: SessionView, record: e.Record) -> Change:
    step = STEPS.get(type(record.event))
    change = NOTHING if step is None else step(view, record.event, record)
    nodes = grow(view, record)
    return Change(change.parts | Part.TREE, change.items, nodes) if nodes else change


def _joined(changes: list[Change]) -> Change:
    return join(*changes)._replace(nodes=tuple(node for change in changes for node in change.nodes))


def _keep_exact(view: SessionView, event: e.Event) -> None:
    """What a decision is bound to, and what an edit starts from."""
    if isinstance(event, e.ApprovalAsked):
        view.requests[event.id].exact = event.action
    elif isinstance(event, e.PlanDocChanged) and not event.pending:
        view.plan.exact = event.text

"""One reducer for all readers: live, resumed, exported and counted sessions take this path and no other."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.view import context_steps, plan_steps, reply_steps, session_steps, tool_steps, workflow_steps
from tui_agent.view.change import NOTHING, Change, Part, Steps
from tui_agent.view.items import SessionView
from tui_agent.view.tree import grow

STEPS: Steps = {
    **session_steps.STEPS,
    **reply_steps.STEPS,
    **tool_steps.STEPS,
    **context_steps.STEPS,
    **plan_steps.STEPS,
    **workflow_steps.STEPS,
}
"""Event class → what it does to the view. `state.saved` is for the engine alone."""


def fold(view: SessionView, record: e.Record) -> Change:
    """Take one record into the view and say what changed. A record that was already folded changes nothing."""
    if record.seq <= view.seq:
        return NOTHING
    view.seq = record.seq
    step = STEPS.get(type(record.event))
    change = NOTHING if step is None else step(view, record.event, record)
    nodes = grow(view, record)
    return Change(change.parts | Part.TREE, change.items, nodes) if nodes else change

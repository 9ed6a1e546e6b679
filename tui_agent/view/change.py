"""The few moves that every step of the fold is made of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from tui_agent import events as e
from tui_agent.common.domain import EditAction, ReadAction, RunAction, TrustAction
from tui_agent.view.items import Item, RequestItem, SessionView, ViewPart

EXPLORER = "explorer"
"""Role of the replies of sub-agents: several may be written at the same time, and none is the session's own."""

Steps: TypeAlias = dict[type[e.Event], Callable[[SessionView, Any, e.Record], None]]
"""Event class → what it does to the view."""


def epoch_seconds(at: str) -> float:
    """A record's `at` as seconds since the epoch; 0 when it can't be read."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def add_item(view: SessionView, item: Item, key: str = "") -> None:
    place = len(view.items)
    view.items.append(item)
    view.changes.items.add(place)
    if key:
        view.places[key] = place


def item_changed(view: SessionView, key: str) -> None:
    if (place := view.places.get(key)) is not None:
        view.changes.items.add(place)


def _phase(view: SessionView) -> tuple[str, str]:
    """What the status line names: the thing that holds everything up, most pressing first."""
    if view.pending:
        return "waiting", _wanted(next(iter(view.pending.values())))
    if view.running:
        return "running", _running(view)
    if view.reply is not None:
        retry = view.reply.retry
        if retry is not None and not retry.over:
            return "retrying", f"{retry.attempt} of {retry.of}"
        return view.reply_phase
    return ("working", "") if view.run else ("", "")


def _running(view: SessionView) -> str:
    """The newest call of the agent's own; sub-agents are named, or counted where there are several."""
    own = [tool for tool in view.running.values() if not tool.agent] or [*view.running.values()]
    sent = [tool for tool in own if tool.call.name == "run_subagent"]
    if len(sent) > 1:
        return f"{len(sent)} sub-agents"
    tool = own[-1]
    name = "sub-agent" if tool in sent else tool.call.name
    return f"{name} {tool.title}".strip()


def _wanted(request: RequestItem) -> str:
    match request.action:
        case EditAction(display=name):
            return f"edit {name}"
        case ReadAction(display=name):
            return f"read {name}"
        case RunAction():
            return "run a command"
        case TrustAction():
            return "trust this folder"
        case None:
            return _beside(request)


def _beside(request: RequestItem) -> str:
    """Subject of a request that belongs to no action."""
    if request.proposal is not None:
        return "the plan"
    if request.offer is not None:
        return "the summary"
    return "the plan document" if request.dispute is not None else "a question"


def update_status(view: SessionView, at: str) -> None:
    """Bring the status up to date after something began or ended."""
    phase, detail = _phase(view)
    status = view.status
    if (phase, detail) != (status.phase, status.detail):
        if phase != status.phase or phase == "running":
            status.since = epoch_seconds(at)
        status.phase, status.detail = phase, detail
        view.changes.parts |= ViewPart.STATUS

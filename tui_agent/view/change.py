"""Operations that the steps of the fold share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from tui_agent import events as e
from tui_agent.common.domain import EditAction, ReadAction, RunAction, TrustAction
from tui_agent.view.items import Item, RequestItem, SessionView, ViewPart

EXPLORER = "explorer"
"""Role of sub-agents' replies, of which several may be in progress at the same time."""

Steps: TypeAlias = dict[type[e.Event], Callable[[SessionView, Any, e.Record], None]]
"""Event class → the function that applies it to the view."""


def epoch_seconds(at: str) -> float:
    """Return a record's `at` as seconds since the epoch, or 0 if it is invalid."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def add_item(view: SessionView, item: Item, key: str = "") -> None:
    index = len(view.items)
    view.items.append(item)
    view.changes.items.add(index)
    if key:
        view.indexes[key] = index


def item_changed(view: SessionView, key: str) -> None:
    if (index := view.indexes.get(key)) is not None:
        view.changes.items.add(index)


def _phase(view: SessionView) -> tuple[str, str]:
    """Return phase and detail for the status line: what everything waits for, the most urgent first."""
    if view.pending:
        return "waiting", _request_subject(next(iter(view.pending.values())))
    if view.running:
        return "running", _running_calls(view)
    if view.reply is not None:
        retry = view.reply.retry
        if retry is not None and not retry.is_over:
            return "retrying", f"{retry.attempt} of {retry.of}"
        return view.reply_phase
    return ("working", "") if view.run else ("", "")


def _running_calls(view: SessionView) -> str:
    """Return the agent's newest call, or the number of running sub-agents."""
    calls = [tool for tool in view.running.values() if not tool.agent] or [*view.running.values()]
    subagents = [tool for tool in calls if tool.call.name == "run_subagent"]
    if len(subagents) > 1:
        return f"{len(subagents)} sub-agents"
    tool = calls[-1]
    if tool.call.name == "run_terminal_command" and tool.title:
        return tool.title
    name = "sub-agent" if tool in subagents else tool.call.name
    return f"{name} {tool.title}".strip()


def _request_subject(request: RequestItem) -> str:
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
            pass
    if request.proposal is not None:
        return "the plan"
    if request.summary is not None:
        return "the summary"
    return "the plan document" if request.conflict is not None else "a question"


def update_status(view: SessionView, at: str) -> None:
    """Update the status after something began or ended at the time `at`."""
    phase, detail = _phase(view)
    status = view.status
    if (phase, detail) != (status.phase, status.detail):
        if phase != status.phase or phase == "running":
            status.since = epoch_seconds(at)
        status.phase, status.detail = phase, detail
        view.changes.parts |= ViewPart.STATUS

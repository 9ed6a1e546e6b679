"""What a record changed, and the few moves that every step of the fold is made of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Flag, auto
from typing import Any, NamedTuple, TypeAlias

from tui_agent import events as e
from tui_agent.domain import Answer, Editing, Reading, Running, Trusting
from tui_agent.view.items import Item, RequestItem, SessionView


class Part(Flag):
    """Which parts of the view a record changed."""

    NOTHING = 0
    ITEMS = auto()
    STATUS = auto()
    """Phase, modes, model, title, context."""
    PENDING = auto()
    """Requests that wait for somebody."""
    QUEUE = auto()
    TREE = auto()
    PLAN = auto()
    """The plan document, or a proposal for it."""
    ALL = ITEMS | STATUS | PENDING | QUEUE


class Change(NamedTuple):
    """What one record changed: places in `SessionView.items` and in `SessionView.tree`, new ones or changed ones."""

    parts: Part
    items: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()


EXPLORER = "explorer"
"""Role of the replies of sub-agents: several may be written at the same time, and none is the session's own."""
NOTHING = Change(Part.NOTHING)
STATUS = Change(Part.STATUS)


Steps: TypeAlias = dict[type[e.Event], Callable[[SessionView, Any, e.Record], Change]]
"""Event class → what it does to the view."""


def seconds(at: str) -> float:
    """A record's `at` as seconds since the epoch; 0 when it can't be read."""
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


def add(view: SessionView, item: Item, key: str = "") -> Change:
    view.items.append(item)
    place = len(view.items) - 1
    if key:
        view.places[key] = place
    return Change(Part.ITEMS, (place,))


def touch(view: SessionView, key: str) -> Change:
    place = view.places.get(key)
    return NOTHING if place is None else Change(Part.ITEMS, (place,))


def join(*changes: Change) -> Change:
    parts = Part.NOTHING
    items: tuple[int, ...] = ()
    for change in changes:
        parts |= change.parts
        items += change.items
    return Change(parts, items)


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
        case Editing(display=name):
            return f"edit {name}"
        case Reading(display=name):
            return f"read {name}"
        case Running():
            return "run a command"
        case Trusting():
            return "trust this folder"
        case None:
            return _beside(request)


def _beside(request: RequestItem) -> str:
    """What is wanted by a request that belongs to no action."""
    if request.proposal is not None:
        return "the plan"
    if request.offer is not None:
        return "the summary"
    return "the plan document" if request.dispute is not None else "a question"


def settle(view: SessionView, at: str) -> Change:
    """Bring the status up to date after something began or ended."""
    phase, detail = _phase(view)
    status = view.status
    if (phase, detail) == (status.phase, status.detail):
        return NOTHING
    if phase != status.phase or phase == "running":
        status.since = seconds(at)
    status.phase, status.detail = phase, detail
    return STATUS


def stop_step(view: SessionView) -> Change:
    """The step that went on has no end of its own."""
    if view.step is None or view.step.outcome:
        return NOTHING
    view.step.outcome = "interrupted"
    return touch(view, view.step.id)


def abandon(view: SessionView) -> Change:
    """The process that worked is gone: what was open stays open no longer."""
    touched: list[str] = []
    for tool in view.running.values():
        tool.status = "interrupted"
        touched.append(tool.id)
    for request in view.pending.values():
        request.answer = Answer(verdict="withdrawn", by="session")
        touched += [request.node, request.id]
    for reply in (*view.asides.values(), *([view.reply] if view.reply is not None else [])):
        reply.ended = reply.interrupted = True
        reply.thinking_since = None
        touched.append(reply.id)
    view.running.clear()
    view.asides.clear()
    view.pending.clear()
    stopped = stop_step(view)
    view.reply, view.run = None, ""
    view.status.phase = view.status.detail = ""
    return join(Change(Part.ALL), stopped, *(touch(view, key) for key in touched))

"""What the events of a reply do to the view."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent import speed
from tui_agent.domain import Usage
from tui_agent.text import one_line
from tui_agent.view.change import EXPLORER, NOTHING, STATUS, Change, Steps, add, join, seconds, settle, touch
from tui_agent.view.items import ReplyItem, Retry, SessionView
from tui_agent.view.texts import Growing

ROLES = {
    "dispatcher": "sorting the request",
    "planning": "planning",
    "replanning": "planning again",
    "judging": "checking the outcome",
    "diagnosing": "finding out what went wrong",
    "mending": "repairing the plan document",
    "summary": "writing the summary",
    "title": "naming the session",
    "explorer": "exploring",
}
"""Purpose of a reply apart from the conversation, its role where that says it all → what it does."""


def does(purpose: str) -> str:
    """What a reply with this purpose does, in words for the user; a later version's purpose as it is called."""
    return ROLES.get(purpose) or one_line(purpose, 60)


def _reply_started(view: SessionView, event: e.ReplyStarted, record: e.Record) -> Change:
    if event.role == EXPLORER:
        aside = view.asides[record.node] = ReplyItem(
            record.node, role=event.role, does=does(event.role), agent=record.parent
        )
        return add(view, aside, record.node)
    view.reply = ReplyItem(
        record.node,
        role=event.role,
        does=does(event.purpose or event.role),
        size=event.estimate,
        fresh=event.fresh,
    )
    view.reply_phase = ("connecting", _purpose(view.reply, ""))
    return join(add(view, view.reply, record.node), settle(view, record.at))


def _purpose(reply: ReplyItem | None, detail: str) -> str:
    """What the reply is for, where it is no part of the conversation."""
    return f"· {reply.does}" if reply is not None and reply.does else detail


def _current(view: SessionView, record: e.Record) -> tuple[ReplyItem, Change]:
    """The reply that a record is about; made when its beginning was never seen."""
    place = view.places.get(record.node)
    item = view.items[place] if place is not None else view.reply
    if isinstance(item, ReplyItem):
        return item, NOTHING
    reply = ReplyItem(record.node)
    view.reply = reply
    return reply, add(view, reply, record.node)


def _enter(view: SessionView, reply: ReplyItem, phase: str, detail: str, at: str) -> Change:
    if reply.agent:
        return NOTHING  # a sub-agent's: what goes on is that it works
    view.reply_phase = (phase, _purpose(view.reply, detail))
    return settle(view, at)


def _reply_phase(view: SessionView, event: e.ReplyPhase, record: e.Record) -> Change:
    reply, made = _current(view, record)
    change = NOTHING
    if event.phase == "thinking":
        change = _think(view, reply, record.at)
    elif event.phase == "writing":
        change = _stop_thinking(view, reply, record.at)
    _end_retry(reply)
    if event.done is not None and event.total and event.done != reply.read:
        change = join(change, _read(view, reply, event.done, event.total, seconds(record.at)))
    return join(made, change, _enter(view, reply, event.phase, event.detail, record.at))


def _read(view: SessionView, reply: ReplyItem, done: int, total: int, at: float) -> Change:
    """How far the server has read, and how fast since it said so before."""
    spent = at - reply.read_at
    if reply.read is not None and done - reply.read >= speed.LEAST_READ and spent > 0.1:
        view.reading_rate = (done - reply.read) / spent
    reply.read, reply.size, reply.read_at = done, total, at
    return STATUS


def _think(view: SessionView, reply: ReplyItem, at: str) -> Change:
    if reply.thinking_since is not None:
        return NOTHING
    reply.thinking_since = seconds(at)
    return touch(view, reply.id)


def _stop_thinking(view: SessionView, reply: ReplyItem, at: str) -> Change:
    """Text or a call arrived: thinking is over, and how long it took is known (C6)."""
    if reply.thinking_since is None:
        return NOTHING
    reply.thought_ms += round((seconds(at) - reply.thinking_since) * 1000)
    reply.thinking_since = None
    return touch(view, reply.id)


def _reply_text(view: SessionView, event: e.ReplyText, record: e.Record) -> Change:
    reply, made = _current(view, record)
    if reply.began is None:
        reply.began = seconds(record.at)
    reply.text.add(event.text)
    _end_retry(reply)
    change = touch(view, reply.id)
    if reply.thinking_since is None and view.status.phase == "writing":
        return change if made is NOTHING else join(made, change)
    stopped = _stop_thinking(view, reply, record.at)
    return join(made, change, stopped, _enter(view, reply, "writing", "", record.at))


def _reply_thought(view: SessionView, event: e.ReplyThought, record: e.Record) -> Change:
    reply, made = _current(view, record)
    reply.thought.add(event.text)
    _end_retry(reply)
    thinking = _think(view, reply, record.at)
    return join(made, thinking, touch(view, reply.id), _enter(view, reply, "thinking", "", record.at))


def _reply_ended(view: SessionView, event: e.ReplyEnded, record: e.Record) -> Change:
    reply, made = _current(view, record)
    _stop_thinking(view, reply, record.at)
    reply.text = Growing(event.text)
    if event.thought:
        reply.thought = Growing(event.thought)
    reply.thought_ms = event.thought_ms or reply.thought_ms
    reply.began = None
    reply.ended, reply.calls, reply.stop = True, len(event.calls), event.stop
    reply.fault, reply.interrupted, reply.usage, reply.ms = (
        event.fault,
        event.interrupted,
        event.usage,
        event.ms,
    )
    reply.role = reply.role or event.role
    reply.does = reply.does or does(reply.role)
    if view.asides.pop(reply.id, None) is None:
        view.reply = None
        _measure(view, event.usage)
    _end_retry(reply)
    return join(made, touch(view, reply.id), settle(view, record.at))


def _measure(view: SessionView, usage: Usage) -> None:
    """Keep what the server said of its work."""
    if usage != Usage():
        view.usage = usage
        view.reading_rate = speed.reading(usage, view.reading_rate) or view.reading_rate


def _retry(view: SessionView, event: e.RetryWaiting, record: e.Record) -> Change:
    reply, made = _current(view, record)
    until = seconds(record.at) + event.seconds
    reply.retry = Retry(event.attempt, event.of, event.why, until)
    return join(made, touch(view, reply.id), settle(view, record.at))


def _end_retry(reply: ReplyItem) -> None:
    """Something came: the server answers again."""
    if reply.retry is not None:
        reply.retry.over = True


STEPS: Steps = {
    e.ReplyStarted: _reply_started,
    e.ReplyPhase: _reply_phase,
    e.ReplyText: _reply_text,
    e.ReplyThought: _reply_thought,
    e.ReplyEnded: _reply_ended,
    e.RetryWaiting: _retry,
}

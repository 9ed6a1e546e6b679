"""What the events of the window, of rejected replies and of the form of calls do to the view (R1, W16, H4, H5)."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.view.change import NOTHING, STATUS, Change, Steps, add, touch
from tui_agent.view.items import NoticeItem, Rejected, ReplyItem, SessionView

USELESS = frozenset(
    {"unreadable", "empty", "thinking_only", "truncated", "degenerate", "server", "broken", "announced"}
)
"""Kinds of rejection that are of a whole reply."""


def _measured(view: SessionView, event: e.ContextMeasured, record: e.Record) -> Change:
    view.context_used, view.context_estimated = event.used, event.estimated
    view.context_limit = event.limit if event.limit is not None else view.context_limit
    view.context_parts = event.parts
    view.truncated = event.truncated or view.truncated  # it stays in sight until the next message
    return STATUS


def _compacted(view: SessionView, event: e.ContextCompacted, record: e.Record) -> Change:
    return add(view, NoticeItem("info", _words(event), "context.compacted", event.summary))


def _words(event: e.ContextCompacted) -> str:
    what: list[str] = []
    if event.summary:
        by = "the model" if event.by == "model" else "the program"
        what.append(f"older steps are a summary by {by} now")
    if event.entries:
        what.append(f"of the plan's log the last {event.entries} entries stay whole")
    if event.users:
        what.append(
            "of your messages only the newest stays"
            if event.users == 1
            else f"your last {event.users} messages stay"
        )
    if event.cut:
        what.append(f"long results are cut to {event.cut:,} characters")
    size = f"Context compacted from about {event.before:,} to {event.after:,} tokens"
    return f"{size}: {', '.join(what)}." if what else f"{size}."


def _rejected(view: SessionView, event: e.ReplyRejected, record: e.Record) -> Change:
    """The notice behind it tells the user; here is kept what it leaves out."""
    place = view.places.get(record.node)
    item = view.items[place] if place is not None else None
    if not (isinstance(item, ReplyItem) and item.agent):  # a sub-agent's is told of by no notice
        view.rejected = Rejected(event.kind, event.detail, event.attempt, event.raw)
    if isinstance(item, ReplyItem) and item.ended and event.kind in USELESS:
        item.rejected = event.kind
        return touch(view, item.id)
    return NOTHING


def _protocol(view: SessionView, event: e.ProtocolChanged, record: e.Record) -> Change:
    view.strategy, view.strategy_why = event.protocol, event.why
    return STATUS


STEPS: Steps = {
    e.ContextMeasured: _measured,
    e.ContextCompacted: _compacted,
    e.ReplyRejected: _rejected,
    e.ProtocolChanged: _protocol,
}

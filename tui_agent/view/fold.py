"""Folds events into the view of a session."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Answer, RunAction
from tui_agent.events.narration import narrate
from tui_agent.text import one_line
from tui_agent.view import run_steps
from tui_agent.view.change import Steps, add_item, item_changed, update_status
from tui_agent.view.items import TAIL, EndItem, NoticeItem, ReplyItem, SessionView, ToolItem, ViewPart
from tui_agent.view.redactor import Redactor
from tui_agent.view.tree import (
    EXECUTION,
    OUTCOMES,
    abandon_nodes,
    begin_run,
    begin_stage,
    drop_nodes,
    end_node,
    end_run_node,
    node_changed,
    skip_planned,
)


def _interrupt_step(view: SessionView) -> None:
    """End the current step, which has no event for that."""
    if view.step is not None and not view.step.outcome:
        view.step.outcome = "interrupted"
        item_changed(view, view.step.id)


def _open_replies(view: SessionView) -> list[ReplyItem]:
    """Return the replies since the end of the last run that have not ended."""
    items = takewhile(lambda item: not isinstance(item, EndItem), reversed(view.items))
    return [item for item in items if isinstance(item, ReplyItem) and not item.ended]


def _abandon_open_work(view: SessionView, at: str) -> None:
    """End everything that an earlier process left open."""
    for request in view.pending.values():
        request.answer = Answer(verdict="withdrawn", by="session")
        item_changed(view, request.node)
        item_changed(view, request.id)
    view.pending.clear()
    view.run = view.stage = ""
    _end_activity(view, at)
    view.changes.parts |= ViewPart.ALL


def _end_activity(view: SessionView, at: str) -> None:
    """End replies, calls and steps that are still open, such as after a run: nothing is counting any longer (U9)."""
    for tool in view.running.values():
        tool.status = "interrupted"
        item_changed(view, tool.id)
    for reply in _open_replies(view):
        reply.interrupted = reply.interrupted or not reply.ended
        reply.ended = True
        run_steps.stop_reply(view, reply, at)
        item_changed(view, reply.id)
    view.running.clear()
    view.subagent_replies.clear()
    view.reply = None
    _interrupt_step(view)
    skip_planned(view)
    abandon_nodes(view, tuple(view.tree.running))
    update_status(view, at)


# --- session ------------------------------------------------------------------------------------


def _session_opened(view: SessionView, event: e.SessionOpened, record: e.Record) -> None:
    _abandon_open_work(view, record.at)
    view.id, view.version, view.workspace = event.id, event.version, event.workspace
    view.provider, view.model, view.trusted = event.provider, event.model, event.trusted
    view.mode, view.approval_mode = event.mode, event.approval_mode
    _set_sandbox(view, event)
    view.question = event.question or view.question
    view.closed = ""
    if event.resumed:
        add_item(view, NoticeItem("info", "Session resumed.", "session.resumed"))


def _session_closed(view: SessionView, event: e.SessionClosed, record: e.Record) -> None:
    _abandon_open_work(view, record.at)
    view.closed = event.reason or "closed"


def _session_titled(view: SessionView, event: e.SessionTitled, record: e.Record) -> None:
    view.title = event.title
    view.changes.parts |= ViewPart.STATUS


def _mode_changed(view: SessionView, event: e.ModeChanged, record: e.Record) -> None:
    view.mode, view.approval_mode = event.mode, event.approval_mode
    view.changes.parts |= ViewPart.STATUS


def _set_sandbox(view: SessionView, event: e.SessionOpened | e.SandboxChanged) -> None:
    view.sandbox = event.sandbox
    view.sandbox_required, view.sandbox_network = event.sandbox_required, event.sandbox_network


def _sandbox_changed(view: SessionView, event: e.SandboxChanged, record: e.Record) -> None:
    _set_sandbox(view, event)
    view.changes.parts |= ViewPart.STATUS


def _trust_changed(view: SessionView, event: e.TrustChanged, record: e.Record) -> None:
    view.trusted = event.trusted
    view.changes.parts |= ViewPart.STATUS


def _model_changed(view: SessionView, event: e.ModelChanged, record: e.Record) -> None:
    is_same = (view.provider, view.model) == (event.provider, event.model)
    view.provider, view.model = event.provider, event.model
    view.context_limit = event.context_window or (view.context_limit if is_same else None)
    if not is_same:
        view.strategy, view.strategy_why = "native", ""
    view.truncated = 0
    view.effort = event.effort
    view.changes.parts |= ViewPart.STATUS


def _effort_changed(view: SessionView, event: e.EffortChanged, record: e.Record) -> None:
    view.effort = event.effective
    view.changes.parts |= ViewPart.STATUS


def _role_changed(view: SessionView, event: e.RoleChanged, record: e.Record) -> None:
    view.roles.pop(event.role, None)
    if event.model:
        view.roles[event.role] = event.model


def _notice(view: SessionView, event: e.Notice, record: e.Record) -> None:
    item = NoticeItem(event.level, event.text, event.code)
    if view.unreported_rejection is not None and event.code.startswith("reply."):
        item.details, view.unreported_rejection = _rejection_details(view.unreported_rejection, event.text), None
    add_item(view, item)


def _rejection_details(rejected: e.ReplyRejected, notice: str) -> str:
    """Return what the text of a notice leaves out about a rejected reply."""
    is_in_notice = rejected.detail.strip().rstrip(".").casefold() in notice.casefold()
    raw_reply = f"Raw reply: {rejected.raw} in the folder of the session." if rejected.raw else ""
    return "\n".join(filter(None, ["" if is_in_notice else rejected.detail, raw_reply]))


def _unknown(view: SessionView, event: e.UnknownEvent, record: e.Record) -> None:
    add_item(view, NoticeItem("info", f"Record of a newer version: {event.name}", "unknown"))


# --- the user -----------------------------------------------------------------------------------


def _user_message_added(view: SessionView, event: e.UserMessageAdded, record: e.Record) -> None:
    if any(message.id == event.id for message in view.queue):
        _message_withdrawn(view, event, record)
    add_item(view, event, event.id)


def _message_queued(view: SessionView, event: e.MessageQueued, record: e.Record) -> None:
    view.queue.append(event)
    view.changes.parts |= ViewPart.QUEUE


def _message_changed(view: SessionView, event: e.MessageChanged, record: e.Record) -> None:
    for index, message in enumerate(view.queue):
        if message.id == event.id:
            steering = message.steering if event.steering is None else event.steering
            view.queue[index] = msgspec.structs.replace(message, text=event.text, steering=steering)
    view.changes.parts |= ViewPart.QUEUE


def _message_moved(view: SessionView, event: e.MessageMoved, record: e.Record) -> None:
    moved = [message for message in view.queue if message.id == event.id]
    others = [message for message in view.queue if message.id != event.id]
    index = next((index for index, message in enumerate(others) if message.id == event.before), len(others))
    view.queue = [*others[:index], *moved, *others[index:]]
    view.changes.parts |= ViewPart.QUEUE


def _message_withdrawn(view: SessionView, event: e.MessageWithdrawn | e.UserMessageAdded, record: e.Record) -> None:
    view.queue = [message for message in view.queue if message.id != event.id]
    view.changes.parts |= ViewPart.QUEUE


def _user_shell_command(view: SessionView, event: e.UserShellCommand, record: e.Record) -> None:
    add_item(view, msgspec.structs.replace(event, output=event.output[-TAIL:]))


# --- a run --------------------------------------------------------------------------------------


def _run_started(view: SessionView, event: e.RunStarted, record: e.Record) -> None:
    view.run = record.run or event.message_id or "run"
    view.plan_steps = ()
    if view.truncated:
        view.truncated = 0
        view.changes.parts |= ViewPart.STATUS
    begin_run(view, record, event)
    update_status(view, record.at)


def _critical_not_run(view: SessionView) -> str:
    """Return what became of the last critical command of the run, if it was rejected or failed."""
    for item in reversed(view.items):
        if isinstance(item, e.UserMessageAdded):
            break
        if not isinstance(item, ToolItem):
            continue
        for request in reversed(item.requests):
            if isinstance(request.action, RunAction) and request.harm is not None and request.answer is not None:
                command = one_line(request.action.command, 60)
                if request.answer.verdict != "approve":
                    return f"`{command}` was rejected and did not run"
                return f"`{command}` failed" if item.status in ("failed", "interrupted") else ""
    return ""


def _run_ended(view: SessionView, event: e.RunEnded, record: e.Record) -> None:
    view.run, view.stage, view.ended_run = "", "", record.run
    reply = next((item for item in reversed(view.items) if isinstance(item, ReplyItem) and not item.role), None)
    shown_texts = () if reply is None else (reply.text.text.strip(), reply.fault.message if reply.fault else "")
    already_shown = bool(event.text) and event.text.strip() in shown_texts
    text = "" if already_shown else event.facts
    if shown_texts and shown_texts[0]:  # the reply right above is not repeated
        text = text.strip().removeprefix(f"{shown_texts[0]}\n\n")
    item = EndItem(event.outcome, text, event.iterations, event.tool_calls, event.ms, already_shown)
    item.not_run = _critical_not_run(view)
    end_run_node(view, record, event)
    _end_activity(view, record.at)
    add_item(view, item)


def _stage_id(record: e.Record, stage: str) -> str:
    return record.node or f"{record.run}/{stage}"


def _stage_started(view: SessionView, event: e.StageStarted, record: e.Record) -> None:
    view.stage = event.title or event.stage
    begin_stage(view, record, _stage_id(record, event.stage), event.stage, view.stage)
    view.changes.parts |= ViewPart.STATUS


def _stage_ended(view: SessionView, event: e.StageEnded, record: e.Record) -> None:
    """Return to the enclosing stage, if there is one, such as after a recovery."""
    nodes, index = view.tree.nodes, view.tree.indexes.get(record.parent, -1)
    while index >= 0 and nodes[index].kind != "stage":
        index = nodes[index].parent
    view.stage = nodes[index].title if index >= 0 else ""
    if event.stage == EXECUTION:
        skip_planned(view)
    end_node(view, _stage_id(record, event.stage), OUTCOMES.get(event.outcome, "failed"), event.ms)
    view.changes.parts |= ViewPart.STATUS


WHOLE_REPLY_REJECTIONS = frozenset(
    {"unreadable", "empty", "thinking_only", "truncated", "degenerate", "server", "broken", "announced"}
)
"""Kinds of rejection that concern a whole reply."""


def _context_measured(view: SessionView, event: e.ContextMeasured, record: e.Record) -> None:
    view.context_used, view.context_estimated = event.used, event.estimated
    view.context_limit = event.limit if event.limit is not None else view.context_limit
    view.context_parts = event.parts
    view.truncated = event.truncated or view.truncated  # shown until the next message
    view.changes.parts |= ViewPart.STATUS


def _reply_rejected(view: SessionView, event: e.ReplyRejected, record: e.Record) -> None:
    """Store the rejection for the details of the next notice, which reports it."""
    item = view.item(record.node)
    if not (isinstance(item, ReplyItem) and item.agent):  # no notice reports those of sub-agents
        view.unreported_rejection = event
    if isinstance(item, ReplyItem) and item.ended and event.kind in WHOLE_REPLY_REJECTIONS:
        item.rejected = event.kind
        item_changed(view, item.id)
    node_changed(view, record.node)


def _protocol_changed(view: SessionView, event: e.ProtocolChanged, record: e.Record) -> None:
    view.strategy, view.strategy_why = event.protocol, event.why
    view.changes.parts |= ViewPart.STATUS


NOTICES: dict[type[e.Event], str] = {
    e.ContextAttached: "context.attached",
    e.ContextCompacted: "context.compacted",
    e.RequestClassified: "request.classified",
    e.CompletionRefused: "completion.refused",
    e.FileSnapshotted: "undo.unkept",
    e.UndoFinished: "undo.done",
    e.CheckpointsKept: "undo.kept",
    e.CommandChangedFiles: "undo.command",
    e.FilesQuarantined: "command.quarantined",
    e.ConversationRewound: "conversation.rewound",
    e.SessionRecovered: "session.recovered",
    e.SessionForked: "session.forked",
}
"""Events shown as a notice with their narration → code of the notice."""


def _narrated(view: SessionView, event: e.Event, record: e.Record) -> None:
    narration = narrate(event)
    if narration is None or (isinstance(event, e.RequestClassified) and event.classified.guessed):
        return
    details = "" if isinstance(event, e.ContextAttached | e.RequestClassified) else narration.details
    add_item(view, NoticeItem(narration.level, narration.text, NOTICES[type(event)], details))


def _previous_process_ended(view: SessionView, event: e.SessionRecovered | e.SessionForked, record: e.Record) -> None:
    _abandon_open_work(view, record.at)
    if isinstance(event, e.SessionForked):
        view.parent = event.parent
    if isinstance(event, e.SessionForked) or event.interrupted or event.void or event.damaged:
        _narrated(view, event, record)


STEPS: Steps = {
    **run_steps.STEPS,
    **dict.fromkeys(NOTICES, _narrated),
    e.SessionRecovered: _previous_process_ended,
    e.SessionForked: _previous_process_ended,
    e.UndoStarted: lambda view, event, record: None,  # `undo.done` has the results
    e.SessionOpened: _session_opened,
    e.SessionClosed: _session_closed,
    e.SessionTitled: _session_titled,
    e.ModeChanged: _mode_changed,
    e.TrustChanged: _trust_changed,
    e.SandboxChanged: _sandbox_changed,
    e.ModelChanged: _model_changed,
    e.RoleChanged: _role_changed,
    e.EffortChanged: _effort_changed,
    e.Notice: _notice,
    e.UnknownEvent: _unknown,
    e.UserMessageAdded: _user_message_added,
    e.MessageQueued: _message_queued,
    e.MessageChanged: _message_changed,
    e.MessageMoved: _message_moved,
    e.MessageWithdrawn: _message_withdrawn,
    e.UserShellCommand: _user_shell_command,
    e.RunStarted: _run_started,
    e.RunEnded: _run_ended,
    e.StageStarted: _stage_started,
    e.StageEnded: _stage_ended,
    e.ContextMeasured: _context_measured,
    e.ReplyRejected: _reply_rejected,
    e.ProtocolChanged: _protocol_changed,
}
"""Event class → the function that applies it; `state.saved` only concerns the engine."""


def fold_record(view: SessionView, record: e.Record, redactor: Redactor | None = None) -> None:
    """Apply one record to the view and note what changed in `view.changes`; do nothing if it was folded before.

    With a `redactor`, only `exact_action` of requests and `exact_text` of the plan hold secrets (A7).
    """
    if record.seq <= view.seq:
        return
    view.seq = record.seq
    for redacted in (record,) if redactor is None else redactor.records(record):
        if (step := STEPS.get(type(redacted.event))) is not None:
            step(view, redacted.event, redacted)
    if record.run and record.run == view.ended_run and not view.run:
        _end_activity(view, record.at)  # such as the request for a title: it does not count as the user's work
    if redactor is not None:
        _store_exact(view, record.event)


def _store_exact(view: SessionView, event: e.Event) -> None:
    """Store what a decision is bound to and what an edit starts from, with secrets."""
    if isinstance(event, e.ApprovalRequested):
        view.requests[event.id].exact_action = event.action
    elif isinstance(event, e.PlanDocChanged) and not event.pending:
        view.plan.exact_text = event.text


# --- bounded memory -----------------------------------------------------------------------------


def drop_older(view: SessionView, keep: int) -> int:
    """Drop items before the newest `keep`, but none of the active run and none unfinished; return their number."""
    items = reversed(range(len(view.items))) if view.run else ()
    run = next((index for index in items if isinstance(view.items[index], e.UserMessageAdded)), len(view.items))
    replies = [*view.subagent_replies, *([view.reply.id] if view.reply is not None else ())]
    steps = [view.step.id] if view.step is not None and not view.step.outcome else []
    requests = [key for request in view.pending.values() for key in (request.id, request.node)]
    unfinished = [view.indexes[key] for key in (*view.running, *replies, *steps, *requests) if key in view.indexes]
    dropped = min(len(view.items) - keep, run, *unfinished)
    if dropped <= 0:
        return 0
    del view.items[:dropped]
    view.older += dropped
    view.indexes = {key: index - dropped for key, index in view.indexes.items() if index >= dropped}
    view.requests = {
        key: request for key, request in view.requests.items() if key in view.indexes or request.node in view.indexes
    } | view.pending
    view.changes.items = {index - dropped for index in view.changes.items if index >= dropped}
    drop_nodes(view, dropped)
    return dropped


def add_older(view: SessionView, full_view: SessionView) -> int:
    """Take the items that `view` lacks from `full_view`, which was folded from the same records; return their number.

    0 if `full_view` does not fit, such as when the beginning of the journal is missing.
    """
    added = len(full_view.items) - len(view.items)
    if added <= 0 or any(full_view.indexes.get(key) != index + added for key, index in view.indexes.items()):
        return 0
    view.items[:0] = full_view.items[:added]
    view.indexes, view.tree, view.older = full_view.indexes, full_view.tree, 0
    view.requests = full_view.requests | view.requests
    view.changes.items = {index + added for index in view.changes.items}
    view.changes.nodes = full_view.changes.nodes
    return added

"""Folds the events of replies, tools, requests, stages and the plan document."""

from __future__ import annotations

from typing import Literal

from tui_agent import events as e
from tui_agent.common import speed
from tui_agent.common.domain import Answer, ToolCall, Usage
from tui_agent.text import one_line
from tui_agent.view.change import EXPLORER, Steps, add_item, epoch_seconds, item_changed, update_status
from tui_agent.view.items import (
    TAIL,
    GrowingText,
    ReplyItem,
    RequestItem,
    Retry,
    SessionView,
    StepItem,
    ToolItem,
    ViewPart,
)
from tui_agent.view.tree import (
    OUTCOMES,
    begin_call,
    begin_node,
    begin_step,
    count_requests,
    end_call,
    end_node,
    end_reply,
    node_changed,
    replace_planned,
)

REPLY_PURPOSES = {
    "dispatcher": "classifying the request",
    "planning": "planning",
    "replanning": "replanning",
    "judging": "checking the outcome",
    "diagnosing": "diagnosing the failure",
    "mending": "repairing the plan document",
    "summary": "writing the summary",
    "title": "naming the session",
    "explorer": "exploring",
}
"""Purpose or role of a reply apart from the conversation → description."""


def reply_purpose(purpose: str) -> str:
    """Describe the purpose of a reply; return an unknown purpose as it is."""
    return REPLY_PURPOSES.get(purpose) or one_line(purpose, 60)


def _reply_started(view: SessionView, event: e.ReplyStarted, record: e.Record) -> None:
    if event.role == EXPLORER:
        reply = view.subagent_replies[record.node] = ReplyItem(
            record.node, role=event.role, purpose=reply_purpose(event.role), agent=record.parent
        )
        add_item(view, reply, record.node)
        return
    view.reply = ReplyItem(
        record.node,
        role=event.role,
        purpose=reply_purpose(event.purpose or event.role),
        prompt_tokens=event.estimate,
        new_tokens=event.fresh,
    )
    view.reply_phase = ("connecting", _purpose_or_detail(view.reply, ""))
    add_item(view, view.reply, record.node)
    begin_node(view, record, "reply", record.node, item=view.indexes.get(record.node, -1))
    update_status(view, record.at)


def _purpose_or_detail(reply: ReplyItem | None, detail: str) -> str:
    """Return what a reply apart from the conversation is for, else `detail`."""
    return f"· {reply.purpose}" if reply is not None and reply.purpose else detail


def _current_reply(view: SessionView, record: e.Record) -> ReplyItem:
    """Return the reply that a record is about; create it if its start is missing."""
    item = view.item(record.node) or view.reply
    if isinstance(item, ReplyItem):
        return item
    view.reply = ReplyItem(record.node)
    add_item(view, view.reply, record.node)
    return view.reply


def _enter_phase(view: SessionView, reply: ReplyItem, phase: str, detail: str, at: str) -> None:
    if reply.agent:
        return  # the status does not show phases of sub-agents
    view.reply_phase = (phase, _purpose_or_detail(view.reply, detail))
    update_status(view, at)


def _reply_phase(view: SessionView, event: e.ReplyPhase, record: e.Record) -> None:
    reply = _current_reply(view, record)
    if event.phase == "thinking":
        _start_thinking(view, reply, record.at)
    elif event.phase == "writing":
        _stop_thinking(view, reply, record.at)
    _end_retry(reply)
    if event.done is not None and event.total and event.done != reply.tokens_read:
        _update_read_tokens(view, reply, event.done, event.total, epoch_seconds(record.at))
    _enter_phase(view, reply, event.phase, event.detail, record.at)


def _update_read_tokens(view: SessionView, reply: ReplyItem, done: int, total: int, at: float) -> None:
    """Update how much of the prompt the server has read, and how fast."""
    elapsed = at - reply.read_at
    if reply.tokens_read is not None and done - reply.tokens_read >= speed.MIN_PROMPT_TOKENS and elapsed > 0.1:
        view.reading_rate = (done - reply.tokens_read) / elapsed
    reply.tokens_read, reply.prompt_tokens, reply.read_at = done, total, at
    view.changes.parts |= ViewPart.STATUS


def _start_thinking(view: SessionView, reply: ReplyItem, at: str) -> None:
    if reply.thinking_since is None and not reply.ended:
        reply.thinking_since = epoch_seconds(at)
        item_changed(view, reply.id)


def _stop_thinking(view: SessionView, reply: ReplyItem, at: str) -> None:
    """End thinking and note how long it took (C6)."""
    if reply.thinking_since is not None:
        reply.reasoning_ms += round((epoch_seconds(at) - reply.thinking_since) * 1000)
        reply.thinking_since = None
        item_changed(view, reply.id)


def _text_delta(view: SessionView, event: e.TextDelta, record: e.Record) -> None:
    reply = _current_reply(view, record)
    if reply.started_at is None and not reply.ended:
        reply.started_at = epoch_seconds(record.at)
    reply.text.add(event.text)
    _end_retry(reply)
    item_changed(view, reply.id)
    if reply.thinking_since is not None or view.status.phase != "writing":
        _stop_thinking(view, reply, record.at)
        _enter_phase(view, reply, "writing", "", record.at)


def _reasoning_delta(view: SessionView, event: e.ReasoningDelta, record: e.Record) -> None:
    reply = _current_reply(view, record)
    reply.reasoning.add(event.text)
    _end_retry(reply)
    _start_thinking(view, reply, record.at)
    item_changed(view, reply.id)
    _enter_phase(view, reply, "thinking", "", record.at)


SHORT_REPLIES = ("dispatcher", "title")
"""Roles whose replies have too few tokens to tell the model's speed."""


def stop_reply(view: SessionView, reply: ReplyItem, at: str) -> None:
    """End what counts in a reply: thinking, writing and the wait for a retry."""
    _stop_thinking(view, reply, at)
    reply.started_at = None
    _end_retry(reply)


def _reply_ended(view: SessionView, event: e.ReplyEnded, record: e.Record) -> None:
    reply = _current_reply(view, record)
    stop_reply(view, reply, record.at)
    reply.text = GrowingText(event.text)
    if event.thought:
        reply.reasoning = GrowingText(event.thought)
    reply.reasoning_ms = event.thought_ms or reply.reasoning_ms
    reply.ended, reply.call_count, reply.stop_reason = True, len(event.calls), event.stop
    reply.fault, reply.interrupted, reply.usage, reply.ms = (event.fault, event.interrupted, event.usage, event.ms)
    reply.role = reply.role or event.role
    reply.purpose = reply.purpose or reply_purpose(reply.role)
    if view.subagent_replies.pop(reply.id, None) is None:
        view.reply = None
        if event.usage != Usage() and reply.role not in SHORT_REPLIES:
            view.usage = event.usage
            view.reading_rate = speed.prompt_rate(event.usage, view.reading_rate) or view.reading_rate
    item_changed(view, reply.id)
    end_reply(view, record)
    update_status(view, record.at)


def _retry_scheduled(view: SessionView, event: e.RetryScheduled, record: e.Record) -> None:
    reply = _current_reply(view, record)
    if reply.ended:
        return
    until = epoch_seconds(record.at) + event.seconds
    reply.retry = Retry(event.attempt, event.of, event.why, until)
    item_changed(view, reply.id)
    update_status(view, record.at)


def _end_retry(reply: ReplyItem) -> None:
    """Mark the retry as over: the server has answered."""
    if reply.retry is not None:
        reply.retry.is_over = True


# --- tools --------------------------------------------------------------------------------------


def _find_tool(view: SessionView, key: str) -> ToolItem | None:
    item = view.item(key)
    return item if isinstance(item, ToolItem) else None


def _tool_started(view: SessionView, event: e.ToolStarted, record: e.Record) -> None:
    item = ToolItem(event.call.id, event.call, event.title, event.reads_only, started_at=epoch_seconds(record.at))
    item.agent = event.agent
    view.running[item.id] = item
    add_item(view, item, item.id)
    begin_call(view, record, event)
    update_status(view, record.at)


def _tool_output(view: SessionView, event: e.ToolOutput, record: e.Record) -> None:
    if (tool := _find_tool(view, record.node)) is not None:
        tool.output.add(event.text)
        tool.output_file = event.file or tool.output_file
        item_changed(view, tool.id)


def _tool_finished(view: SessionView, event: e.ToolFinished, record: e.Record) -> None:
    tool = _find_tool(view, event.call_id)
    if tool is None:
        call = ToolCall(id=event.call_id, name=event.name, arguments={})
        tool = ToolItem(event.call_id, call, started_at=epoch_seconds(record.at), agent=event.agent)
        add_item(view, tool, tool.id)
    view.running.pop(tool.id, None)
    tool.result, tool.text, tool.ms = event.result, event.text[:TAIL], event.ms
    tool.changes = list(event.result.changes) or tool.changes
    if event.result.success:
        tool.status = "ok"
    elif event.result.code in ("refused", "interrupted"):
        tool.status = "refused" if event.result.code == "refused" else "interrupted"
    else:
        tool.status = "failed"
    item_changed(view, tool.id)
    end_call(view, record)
    update_status(view, record.at)


def _file_changed(view: SessionView, event: e.FileChanged, record: e.Record) -> None:
    if (tool := _find_tool(view, record.node)) is not None:
        tool.changes.append(event.change)
        tool.diffs.append(event.diff)
        item_changed(view, tool.id)


def _diagnostics_reported(view: SessionView, event: e.DiagnosticsReported, record: e.Record) -> None:
    if (tool := _find_tool(view, record.node)) is not None:
        tool.diagnostics = list(event.found)
        item_changed(view, tool.id)


# --- requests -----------------------------------------------------------------------------------


def _open_request(view: SessionView, request: RequestItem, record: e.Record, *, asks: bool = True) -> None:
    """Add a request to its call, or as an item; it is pending if it `asks`."""
    view.requests[request.id] = request
    tool = _find_tool(view, request.node)
    if tool is None or request.proposal is not None or request.summary is not None or request.conflict is not None:
        add_item(view, request, request.id)
    else:
        tool.requests.append(request)
        item_changed(view, tool.id)
    if asks:
        view.pending[request.id] = request
        _pending_changed(view, record)


def _close_request(view: SessionView, request: RequestItem, answer: Answer, record: e.Record) -> None:
    request.answer = answer
    _request_changed(view, request)
    if view.pending.pop(request.id, None):
        _pending_changed(view, record)


def _pending_changed(view: SessionView, record: e.Record) -> None:
    view.changes.parts |= ViewPart.PENDING
    count_requests(view, record.node)
    update_status(view, record.at)


def _approval_requested(view: SessionView, event: e.ApprovalRequested, record: e.Record) -> None:
    request = RequestItem(event.id, record.node, event.action, event.digest, event.why, event.grants, harm=event.harm)
    _open_request(view, request, record)


def _question_asked(view: SessionView, event: e.QuestionAsked, record: e.Record) -> None:
    request = RequestItem(event.id, record.node, question=event.question, options=event.options)
    request.otherwise = event.otherwise
    _open_request(view, request, record)


def _request_changed(view: SessionView, request: RequestItem) -> None:
    item_changed(view, request.id if request.id in view.indexes else request.node)


def _request_answered(view: SessionView, event: e.ApprovalAnswered | e.QuestionAnswered, record: e.Record) -> None:
    request = view.requests.get(event.id)
    if request is None:  # decided by a rule, without a request
        request = view.requests[event.id] = RequestItem(event.id, record.node)
        if (tool := _find_tool(view, record.node)) is not None:
            tool.requests.append(request)
    if request.answer is not None:
        return
    request.grant = event.grant if isinstance(event, e.ApprovalAnswered) else None
    _close_request(view, request, event.answer, record)


def _approval_voided(view: SessionView, event: e.ApprovalVoided, record: e.Record) -> None:
    request = view.pending.get(event.id)
    if request is not None and not request.void_reason:
        request.void_reason = event.reason
        _request_changed(view, request)
        view.changes.parts |= ViewPart.PENDING


VERDICTS: dict[str, Literal["approve", "reject", "withdrawn"]] = {
    "accepted": "approve",
    "edited": "approve",
    "discarded": "reject",
    "pending": "withdrawn",
}
"""Outcome of a summary review → verdict on its request."""

# --- the request and its plan -------------------------------------------------------------------


def _plan_proposed(view: SessionView, event: e.PlanProposed, record: e.Record) -> None:
    _open_request(view, RequestItem(event.id, record.node, why=event.why, proposal=event), record, asks=event.asks)


def _plan_reviewed(view: SessionView, event: e.PlanReviewed, record: e.Record) -> None:
    request = view.requests.get(event.id)
    if request is None or request.proposal is None or request.answer is not None:
        return
    request.plan_review = event
    _close_request(view, request, event.answer, record)
    if event.answer.verdict == "approve" and event.alternative is None:
        _plan_approved(view, event, request.proposal, record)


def _plan_approved(view: SessionView, event: e.PlanReviewed, proposal: e.PlanProposed, record: e.Record) -> None:
    """Show the steps that are to come: of the plan, of the plan that replaces it, or of a step's own plan."""
    steps = event.plan.steps
    if proposal.fallback and event.plan == proposal.plan:
        steps = ()  # executed as it is, without steps
    stage = view.tree.nodes[index].stage if (index := view.tree.indexes.get(record.node, -1)) >= 0 else ""
    if view.tree.execution < 0:
        view.plan_steps = steps
    elif steps:
        replace_planned(view, steps, count=1 if stage == "subtask" else None)


# --- steps --------------------------------------------------------------------------------------


def _find_step(view: SessionView, key: str) -> StepItem | None:
    item = view.item(key) or view.step
    return item if isinstance(item, StepItem) else None


def _step_started(view: SessionView, event: e.StepStarted, record: e.Record) -> None:
    view.step = StepItem(record.node, event.step, event.of)
    add_item(view, view.step, record.node)
    begin_step(view, record, event)


def _step_verified(view: SessionView, event: e.StepVerified, record: e.Record) -> None:
    if (step := _find_step(view, record.node)) is not None:
        step.verifications.append(event)
        item_changed(view, step.id)
    if view.step is not None:
        node_changed(view, view.step.id)


def _step_recovery_started(view: SessionView, event: e.StepRecoveryStarted, record: e.Record) -> None:
    """Show the recovery, whose node is the stage, with the step that failed."""
    if (step := _find_step(view, record.node)) is not None:
        step.recoveries.append((len(step.verifications), event))
        item_changed(view, step.id)
    if view.step is not None:
        node_changed(view, view.step.id)


def _step_finished(view: SessionView, event: e.StepFinished, record: e.Record) -> None:
    if (step := _find_step(view, record.node)) is not None:
        step.outcome, step.text = event.outcome, event.text
        step.iterations, step.ms = event.iterations, event.ms
        item_changed(view, step.id)
    end_node(view, record.node, OUTCOMES.get(event.outcome, "failed"), event.ms)


# --- the summary --------------------------------------------------------------------------------


def _summary_proposed(view: SessionView, event: e.SummaryProposed, record: e.Record) -> None:
    _open_request(view, RequestItem(event.id, record.node, summary=event), record)


def _summary_reviewed(view: SessionView, event: e.SummaryReviewed, record: e.Record) -> None:
    request = view.requests.get(event.id)
    if request is None or request.summary is None or request.summary_review is not None:
        return
    request.summary_review = event
    _close_request(view, request, Answer(verdict=VERDICTS[event.outcome], by=event.by), record)


def _plan_doc_changed(view: SessionView, event: e.PlanDocChanged, record: e.Record) -> None:
    plan = view.plan
    view.changes.parts |= ViewPart.PLAN
    if event.pending:
        plan.proposal, plan.proposal_base = event.text, plan.text
        return
    plan.text, plan.changed_by = event.text, event.by
    if event.by in ("summary", "review") or plan.proposal == event.text:
        plan.proposal = None  # accepted, so it is in the text now


def _plan_doc_conflict(view: SessionView, event: e.PlanDocConflict, record: e.Record) -> None:
    _open_request(view, RequestItem(event.id, record.node, conflict=event), record)


def _plan_doc_resolved(view: SessionView, event: e.PlanDocResolved, record: e.Record) -> None:
    request = view.requests.get(event.id)
    if request is None:  # a proposal, not a conflict
        view.plan.proposal = None
        view.changes.parts |= ViewPart.PLAN
    elif request.answer is None:
        _close_request(view, request, event.answer, record)


STEPS: Steps = {
    e.ReplyStarted: _reply_started,
    e.ReplyPhase: _reply_phase,
    e.TextDelta: _text_delta,
    e.ReasoningDelta: _reasoning_delta,
    e.ReplyEnded: _reply_ended,
    e.RetryScheduled: _retry_scheduled,
    e.ToolStarted: _tool_started,
    e.ToolOutput: _tool_output,
    e.ToolFinished: _tool_finished,
    e.FileChanged: _file_changed,
    e.DiagnosticsReported: _diagnostics_reported,
    e.ApprovalRequested: _approval_requested,
    e.ApprovalAnswered: _request_answered,
    e.ApprovalVoided: _approval_voided,
    e.QuestionAsked: _question_asked,
    e.QuestionAnswered: _request_answered,
    e.PlanProposed: _plan_proposed,
    e.PlanReviewed: _plan_reviewed,
    e.StepStarted: _step_started,
    e.StepVerified: _step_verified,
    e.StepRecoveryStarted: _step_recovery_started,
    e.StepFinished: _step_finished,
    e.SummaryProposed: _summary_proposed,
    e.SummaryReviewed: _summary_reviewed,
    e.PlanDocChanged: _plan_doc_changed,
    e.PlanDocConflict: _plan_doc_conflict,
    e.PlanDocResolved: _plan_doc_resolved,
}
"""Event class → the function that applies it to the view."""

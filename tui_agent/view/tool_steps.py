"""What the events of tools and requests do to the view."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.domain import ToolCall
from tui_agent.view.change import NOTHING, Change, Part, Steps, add, join, seconds, settle, touch
from tui_agent.view.items import RequestItem, SessionView, ToolItem
from tui_agent.view.texts import TAIL

# --- tools --------------------------------------------------------------------------------------


def _tool(view: SessionView, key: str) -> ToolItem | None:
    place = view.places.get(key)
    item = view.items[place] if place is not None else None
    return item if isinstance(item, ToolItem) else None


def _tool_started(view: SessionView, event: e.ToolStarted, record: e.Record) -> Change:
    item = ToolItem(event.call.id, event.call, event.title, event.reads_only, began=seconds(record.at))
    item.agent = event.agent
    view.running[item.id] = item
    return join(add(view, item, item.id), settle(view, record.at))


def _tool_output(view: SessionView, event: e.ToolOutput, record: e.Record) -> Change:
    tool = _tool(view, record.node)
    if tool is None:
        return NOTHING
    tool.output.add(event.text)
    tool.file = event.file or tool.file
    return touch(view, tool.id)


def _tool_finished(view: SessionView, event: e.ToolFinished, record: e.Record) -> Change:
    tool, made = _tool(view, event.call_id), NOTHING
    if tool is None:
        call = ToolCall(id=event.call_id, name=event.name, arguments={})
        tool = ToolItem(event.call_id, call, began=seconds(record.at), agent=event.agent)
        made = add(view, tool, tool.id)
    view.running.pop(tool.id, None)
    tool.result, tool.text, tool.ms = event.result, event.text[:TAIL], event.ms
    tool.changes = list(event.result.changes) or tool.changes
    if event.result.success:
        tool.status = "ok"
    elif event.result.code in ("refused", "interrupted"):
        tool.status = "refused" if event.result.code == "refused" else "interrupted"
    else:
        tool.status = "failed"
    return join(made, touch(view, tool.id), settle(view, record.at))


def _file_changed(view: SessionView, event: e.FileChanged, record: e.Record) -> Change:
    tool = _tool(view, record.node)
    if tool is None:
        return NOTHING
    tool.changes.append(event.change)
    tool.diffs.append(event.diff)
    return touch(view, tool.id)


def _diagnosed(view: SessionView, event: e.FileDiagnosed, record: e.Record) -> Change:
    tool = _tool(view, record.node)
    if tool is None:
        return NOTHING
    tool.wrong = list(event.found)
    return touch(view, tool.id)


# --- requests -----------------------------------------------------------------------------------


def _ask(view: SessionView, request: RequestItem, at: str) -> Change:
    view.requests[request.id] = request
    view.pending[request.id] = request
    tool = _tool(view, request.node)
    if tool is None:
        change = add(view, request, request.id)
    else:
        tool.requests.append(request)
        change = touch(view, tool.id)
    return join(change, Change(Part.PENDING), settle(view, at))


def _approval_asked(view: SessionView, event: e.ApprovalAsked, record: e.Record) -> Change:
    request = RequestItem(event.id, record.node, event.action, event.digest, event.why, event.grants)
    return _ask(view, request, record.at)


def _question_asked(view: SessionView, event: e.QuestionAsked, record: e.Record) -> Change:
    request = RequestItem(event.id, record.node, question=event.question, options=event.options)
    return _ask(view, request, record.at)


def _touch_request(view: SessionView, request: RequestItem) -> Change:
    return touch(view, request.id if request.id in view.places else request.node)


def _answered(view: SessionView, event: e.ApprovalAnswered | e.QuestionAnswered, record: e.Record) -> Change:
    request = view.requests.get(event.id)
    if request is None:  # decided by a rule, without a question before it
        request = view.requests[event.id] = RequestItem(event.id, record.node)
        if (tool := _tool(view, record.node)) is not None:
            tool.requests.append(request)
    if request.answer is not None:
        return NOTHING
    request.answer = event.answer
    request.grant = event.grant if isinstance(event, e.ApprovalAnswered) else None
    asked = view.pending.pop(event.id, None)
    change = _touch_request(view, request)
    return join(change, Change(Part.PENDING), settle(view, record.at)) if asked else change


def _executed(view: SessionView, event: e.ApprovalExecuted, record: e.Record) -> Change:
    request = view.requests.get(event.id)
    if request is None:
        return NOTHING
    request.executed = True
    return _touch_request(view, request)


def _voided(view: SessionView, event: e.ApprovalVoided, record: e.Record) -> Change:
    request = view.pending.get(event.id)
    if request is None or request.void:
        return NOTHING
    request.void = event.reason
    return join(_touch_request(view, request), Change(Part.PENDING))


STEPS: Steps = {
    e.ToolStarted: _tool_started,
    e.ToolOutput: _tool_output,
    e.ToolFinished: _tool_finished,
    e.FileChanged: _file_changed,
    e.FileDiagnosed: _diagnosed,
    e.ApprovalAsked: _approval_asked,
    e.ApprovalAnswered: _answered,
    e.ApprovalExecuted: _executed,
    e.ApprovalVoided: _voided,
    e.QuestionAsked: _question_asked,
    e.QuestionAnswered: _answered,
}

"""Stage 3: from the whole execution to what shall be remembered of it (W9)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from tui_agent.domain import Fault, Message, SystemMessage, ToolCall, ToolResult, UserMessage
from tui_agent.engine.prompts import prompt
from tui_agent.engine.structured import Question, Structured
from tui_agent.engine.summary_reading import RunFacts, plain_summary, read_summary
from tui_agent.protocols.repair import Unreadable
from tui_agent.workplan import Summary

BUDGET = 10_000 * 4
"""Characters of the execution that the summary model reads (H2)."""
TASK = 2_000 * 4
"""The same behind the conversation, where the steps stand with what came of them."""
_SIZES = (1_500, 600, 250, 100)
"""Characters of one result; smaller ones where the whole would be too long."""
_ROWS: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "log_entry": {
            "type": "object",
            "properties": {
                "action": {"type": "string"},
                "details": {"type": "string"},
                "result": {"type": "string"},
            },
            "required": ["action", "details", "result"],
        },
        "acceptance_criteria_updates": _ROWS,
        "decisions_made": _ROWS,
        "decisions_rejected": _ROWS,
    },
    "required": ["log_entry"],
}


async def summarise(
    facts: RunFacts,
    done: Sequence[tuple[ToolCall, ToolResult]],
    outcomes: Sequence[str],
    plan_doc: str,
    structured: Structured | None,
    *,
    node: str,
) -> tuple[Summary, Literal["model", "program"]]:
    """The summary and who wrote it: the program where the model fails, or where none is asked (`structured` None)."""
    if structured is None:
        return plain_summary(facts), "program"
    record = [f"How it ended: {facts.outcome}", *(f"Step: {one}" for one in outcomes)]
    if facts.check_met is not None:
        record.append(f"The check {'passed' if facts.check_met else 'failed'}.")
    if facts.files:
        record.append(f"Files changed: {', '.join(facts.files[:50])}")
    question = Question(
        alone=_alone(facts, record, done, plan_doc),
        task="\n".join([prompt("summarise"), *record, _listed(_calls(done, TASK))]),
    )
    said = await structured.ask("summary", question, parent=node, schema=SCHEMA)
    if isinstance(said, Fault):
        return plain_summary(facts), "program"
    try:
        return read_summary(said.text, facts), "model"
    except (Unreadable, ValueError):
        return plain_summary(facts), "program"


def _alone(
    facts: RunFacts, record: Sequence[str], done: Sequence[tuple[ToolCall, ToolResult]], plan_doc: str
) -> tuple[Message, ...]:
    """The request that holds the whole execution itself."""
    rows = [f"The request: {facts.request[:4_000]}", *record]
    if facts.closing:
        rows.append(f"The agent's closing words: {facts.closing[:3_000]}")
    head = "\n".join(rows)
    calls = _calls(done, BUDGET - len(head) - len(plan_doc))
    return (
        SystemMessage(text=prompt("summarise")),
        *((SystemMessage(text=plan_doc),) if plan_doc else ()),
        UserMessage(text=f"{head}\n\n{_listed(calls)}"),
    )


def _listed(calls: str) -> str:
    return f"What was done, in order:\n{calls or '(no tool was called)'}"


def _calls(done: Sequence[tuple[ToolCall, ToolResult]], room: int) -> str:
    """All calls with the beginning and the end of their results, as long as there is room for."""
    for size in _SIZES:
        text = "\n".join(_call(call, result, size) for call, result in done)
        if len(text) <= room:
            return text
    rows = [_call(call, result, 60) for call, result in done]
    while len(rows) > 1 and sum(map(len, rows)) > room:
        del rows[len(rows) // 2]
    return "\n".join(rows)


def _call(call: ToolCall, result: ToolResult, size: int) -> str:
    given = json.dumps(call.arguments, ensure_ascii=False)
    data = result.data if isinstance(result.data, str) else json.dumps(result.data, ensure_ascii=False)
    came = f"{'ok' if result.success else result.error or 'failed'}" + (
        f": {_cut(data, size)}" if result.data else ""
    )
    return f"- {call.name} {_cut(given, size)} → {came}"


def _cut(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return f"{text[: size * 2 // 3]} […] {text[-size // 3 :]}"

"""Stage 3: summarizes a run, and writes what the user accepts of it to the plan document (W9, X3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from tui_agent.common.domain import Answer, Fault, SystemMessage, ToolCall, ToolResult, UserMessage
from tui_agent.common.workplan import CriterionChange, DecisionNote, Summary
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.prompts import prompt, reply_schema
from tui_agent.engine.core.shielded import complete_shielded
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.loop.structured import Question
from tui_agent.engine.plan_doc.memory import PlanMemory
from tui_agent.engine.workflow.execution import ExecutionResult, WorkflowDeps
from tui_agent.engine.workflow.plan_reading import as_fields, find_object, value_text, value_texts
from tui_agent.engine.workflow.verification import CallResults
from tui_agent.events import Event, SummaryProposed, SummaryReviewed
from tui_agent.plan.document import DONE, IN_PROGRESS, NOT_DONE, Plan
from tui_agent.protocols.repair import UnreadableJson
from tui_agent.text import one_line

BUDGET = 10_000 * 4
"""Characters of the run that the summary model reads (H2)."""
APPENDED_BUDGET = 2_000 * 4
"""The same for a request at the end of the conversation, which has the calls of the run already."""
_RESULT_SIZES = (1_500, 600, 250, 100, 60)
"""Characters of one result; the first size with which all calls fit is used."""
WRITE_TIMEOUT = 1.0
"""Seconds to write an accepted summary after the run was cancelled; a question asked meanwhile is withdrawn."""
Outcome: TypeAlias = Literal["accepted", "edited", "discarded", "pending"]
Author: TypeAlias = Literal["model", "program"]
_MARKS = (DONE, IN_PROGRESS, NOT_DONE)


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run without asking a model."""

    request: str
    outcome: str
    closing: str = ""
    """The agent's last words, or why the run ended."""
    tools: tuple[str, ...] = ()
    """Names of the tools that ran, in order of first use."""
    calls: CallResults = ()
    files: tuple[str, ...] = ()
    """Display names of the changed files."""
    outcomes: Sequence[str] = ()
    """One line per step."""
    steps_done: int = 0
    steps: int = 0
    check_met: bool | None = None

    @property
    def done(self) -> bool:
        """Whether the work is done, according to the facts."""
        return self.outcome == "done" and self.check_met is not False


async def summarize_run(
    deps: WorkflowDeps, request: str, result: ExecutionResult, rule_based: bool, run: str, node: str
) -> None:
    """Summarize a run and offer the summary to the user.

    No model is asked if classification and plan were `rule_based`, or used if its summary is invalid."""
    facts = RunFacts(
        request=request,
        outcome=result.outcome,
        closing=result.closing.removeprefix(result.said or "").strip() if rule_based else result.closing,
        tools=tuple(dict.fromkeys(call.name for call, _ in deps.calls.results)),
        calls=deps.calls.results,
        files=tuple(dict.fromkeys(deps.calls.changed)),
        outcomes=result.outcomes,
        steps_done=result.done,
        steps=result.steps,
        check_met=result.check_met,
    )
    by: Author = "program"
    summary = summary_from_facts(facts)
    if not rule_based:
        question = _question(facts, deps.memory.text())
        reply = await deps.structured.ask("summary", question, parent=node, schema=reply_schema("summarize"))
        if not isinstance(reply, Fault):
            with contextlib.suppress(UnreadableJson, ValueError):
                summary, by = parse_summary(reply.text, facts), "model"
    decided = None
    if not deps.environment.attended:  # accepted unchanged with the option, else offered at the next start (X3)
        rule = "--accept-summary" if deps.accept_summary else "no user is present"
        decided = Answer(verdict="approve" if deps.accept_summary else "withdrawn", by=rule)
    review = SummaryReview(deps.stream, deps.approvals, deps.memory)
    await review.ask(summary, by, run=run, node=node, decided=decided)


class SummaryReview(msgspec.Struct, frozen=True):
    """Offers summaries to the user and writes the accepted ones."""

    stream: EventStream
    approvals: Approvals
    memory: PlanMemory

    async def ask(
        self, summary: Summary, by: Author = "model", *, run: str = "", node: str = "", decided: Answer | None = None
    ) -> None:
        """Offer a summary and wait for the decision; nothing is written before the user accepts it.

        Cancellation leaves it pending; if it was accepted before, it is written first."""
        base = self.memory.plan
        reviewed = SummaryReviewed(id="", outcome="pending", summary=summary)

        def offer(request: str) -> Event:
            return SummaryProposed(id=request, summary=summary, by=by)

        def settle(request: str, answer: Answer) -> Event:
            nonlocal reviewed
            reviewed = _settled(request, summary, answer)
            return reviewed

        try:
            await self.approvals.decide(offer, settle, run=run, node=node, decided=decided)
        except asyncio.CancelledError:
            await complete_shielded(self._apply(reviewed, summary, base), WRITE_TIMEOUT)
            raise
        await complete_shielded(self._apply(reviewed, summary, base), WRITE_TIMEOUT)

    async def ask_again(self, saved: dict[str, Any]) -> None:
        """Offer a summary of an earlier process that is undecided, or was accepted and not written.

        An unreadable one is discarded."""
        with contextlib.suppress(msgspec.ValidationError):
            summary = msgspec.convert(saved, Summary)
            texts = (summary.action, summary.details, summary.result)
            recent = self.memory.plan.execution_log[-20:]
            if all((entry.action, entry.details, entry.result) != texts for entry in recent):
                await self.ask(summary)

    async def _apply(self, reviewed: SummaryReviewed, offered: Summary, base: Plan) -> None:
        if reviewed.outcome in ("accepted", "edited"):
            await self.memory.accept(reviewed.summary, offered, base)
        elif reviewed.outcome == "discarded":
            await self.memory.settle(False)


def _settled(request: str, summary: Summary, answer: Answer) -> SummaryReviewed:
    """Return the event for an answer: the outcome, and the summary as edited by the user."""
    outcome: Outcome = "pending"
    if answer.verdict == "reject":
        outcome = "discarded"
    elif answer.verdict == "approve":
        outcome = "accepted"
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            edited = msgspec.convert((answer.data or {})["summary"], Summary)
            summary, outcome = edited, "edited" if edited != summary else "accepted"
    return SummaryReviewed(id=request, outcome=outcome, summary=summary, by=answer.by)


def _question(facts: RunFacts, plan_doc: str) -> Question:
    """Return the request for a summary; the self-contained form has the conversation's part of it as well."""
    record = [f"How it ended: {facts.outcome}", *(f"Step: {line}" for line in facts.outcomes)]
    if facts.check_met is not None:
        record.append(f"The check {'passed' if facts.check_met else 'failed'}.")
    if facts.files:
        record.append(f"Files changed: {', '.join(facts.files[:50])}")
    rows = [f"The request: {facts.request[:4_000]}", *record]
    if facts.closing:
        rows.append(f"The agent's closing words: {facts.closing[:3_000]}")
    head = "\n".join(rows)
    calls = _call_list(facts.calls, BUDGET - len(head) - len(plan_doc))
    return Question(
        alone=(
            SystemMessage(text=prompt("summarize")),
            *((SystemMessage(text=plan_doc),) if plan_doc else ()),
            UserMessage(text=f"{head}\n\n{calls}"),
        ),
        task="\n".join([prompt("summarize"), *record, _call_list(facts.calls, APPENDED_BUDGET)]),
    )


def _call_list(results: CallResults, room: int) -> str:
    """Return all calls with the start and end of their results; if they don't fit, those in the middle are left out."""
    for size in _RESULT_SIZES:
        rows = [_call_row(call, result, size) for call, result in results]
        if sum(map(len, rows)) + len(rows) <= room + 1:
            break
    while len(rows) > 1 and sum(map(len, rows)) > room:
        del rows[len(rows) // 2]
    return "What was done, in order:\n" + ("\n".join(rows) or "(no tool was called)")


def _call_row(call: ToolCall, result: ToolResult, size: int) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    data = result.data if isinstance(result.data, str) else json.dumps(result.data, ensure_ascii=False)
    outcome = "ok" if result.success else result.error or "failed"
    tail = f": {_abridge(data, size)}" if result.data else ""
    return f"- {call.name} {_abridge(arguments, size)} → {outcome}{tail}"


def _abridge(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return f"{text[: size * 2 // 3]} […] {text[-size // 3 :]}"


def parse_summary(text: str, facts: RunFacts) -> Summary:
    """Return the summary in a model's reply (nested or flat). Raises UnreadableJson or ValueError.

    Its tools are taken from the facts, since a model may name tools that never ran.
    """
    fields = find_object(text, ("log_entry", "acceptance_criteria_updates", "action"))
    entry = fields.get("log_entry", fields)
    action = value_text(entry.get("action")) if isinstance(entry, Mapping) else ""
    if not action:
        raise ValueError("the summary needs `log_entry` with an `action`")
    return Summary(
        action=one_line(action, 200),
        details=value_text(entry.get("details")),
        result=_marked(value_text(entry.get("result")), facts),
        tools=facts.tools,
        criteria=_criteria(fields.get("acceptance_criteria_updates") or fields.get("criteria"), facts.done),
        decisions_made=_decisions(fields.get("decisions_made")),
        decisions_rejected=_decisions(fields.get("decisions_rejected")),
    )


def summary_from_facts(facts: RunFacts) -> Summary:
    """Return the deterministic summary that is offered if there is none by a model (W9)."""
    parts = []
    if facts.steps:
        parts.append(f"{facts.steps_done} of {facts.steps} steps done.")
    if facts.files and not facts.closing.startswith("Changed: "):
        parts.append(f"Changed: {', '.join(facts.files[:20])}.")
    if facts.check_met is not None:
        parts.append("The check passed." if facts.check_met else "The check failed.")
    closing = facts.closing.strip()
    if closing:
        parts.append(closing if len(closing) <= 1_000 else closing[:999] + "…")
    result = "Done" if facts.outcome == "done" else f"Ended early: {facts.outcome}"
    return Summary(
        action=one_line(facts.request, 200), details=" ".join(parts), result=_marked(result, facts), tools=facts.tools
    )


def _marked(result: str, facts: RunFacts) -> str:
    """Return a result with the mark that the facts justify, or the model's own if it claims less (E2)."""
    claimed = next((mark for mark in _MARKS if result.startswith(mark)), None)
    text = result.removeprefix(claimed or "").strip()
    mark = DONE if facts.done else IN_PROGRESS if facts.outcome in ("limit", "interrupted") else NOT_DONE
    if claimed is not None and _MARKS.index(claimed) > _MARKS.index(mark):
        mark = claimed
    elif claimed == DONE and mark != DONE:
        text = ""  # it claims that the work is done
    return f"{mark} {text or ('Done' if mark == DONE else 'Not finished')}"


def _criteria(rows: Any, done: bool) -> tuple[CriterionChange, ...]:
    """Return the changes of criteria; a run that is not done ticks none."""
    changes = (
        CriterionChange(
            description=value_text(row.get("description")),
            completed=row.get("completed") is not False,
            notes=value_text(row.get("notes")),
        )
        for row in (rows[:50] if isinstance(rows, list) else ())
        if isinstance(row, Mapping)
    )
    return tuple(change for change in changes if change.description and (done or not change.completed))


def _decisions(rows: Any) -> tuple[DecisionNote, ...]:
    notes = []
    for row in rows[:20] if isinstance(rows, list) else ():
        fields = as_fields(row, "title")
        if fields is None or not (title := value_text(fields.get("title") or fields.get("decision"))):
            continue
        notes.append(
            DecisionNote(
                title=one_line(title, 200),
                rationale=value_text(fields.get("rationale")),
                alternatives=value_texts(fields.get("alternatives")),
            )
        )
    return tuple(notes)

"""Stage 3: from the whole execution to what shall be remembered of it, as the user decides (W9, X3)."""

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
from tui_agent.engine.workflow.plan_reading import find_object
from tui_agent.events import Event, SummaryProposed, SummaryReviewed
from tui_agent.plan.document import DONE, IN_PROGRESS, NOT_DONE, Plan
from tui_agent.protocols.repair import UnreadableJson
from tui_agent.text import one_line

BUDGET = 10_000 * 4
"""Characters of the execution that the summary model reads (H2)."""
TASK = 2_000 * 4
"""The same behind the conversation, where the steps stand with what came of them."""
_SIZES = (1_500, 600, 250, 100, 60)
"""Characters of one result; smaller ones where the whole would be too long."""
LAST = 1.0
"""Seconds that writing an accepted summary gets when the work is stopped; a question it asks is withdrawn then."""
Outcome: TypeAlias = Literal["accepted", "edited", "discarded", "pending"]
Author: TypeAlias = Literal["model", "program"]


_MARKS = (DONE, IN_PROGRESS, NOT_DONE)


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run without asking a model."""

    request: str
    outcome: str
    closing: str = ""
    """The agent's last words, or why the run ended."""
    tools: tuple[str, ...] = ()
    """Names of the tools that ran, in order, each once."""
    calls: Sequence[tuple[ToolCall, ToolResult]] = ()
    files: tuple[str, ...] = ()
    """Files that changed, as they are shown."""
    outcomes: Sequence[str] = ()
    """A line for each step."""
    steps_done: int = 0
    steps: int = 0
    check_met: bool | None = None

    @property
    def done(self) -> bool:
        """The facts say that the work is done."""
        return self.outcome == "done" and self.check_met is not False


async def summarize_run(
    deps: WorkflowDeps, request: str, result: ExecutionResult, by_words: bool, run: str, node: str
) -> None:
    """Have a run summed up and put that before the user: by the program where the model fails, and where it sorted and
    planned the run (`by_words`)."""
    facts = RunFacts(
        request=request,
        outcome=result.outcome,
        closing=result.closing.removeprefix(result.said or "").strip() if by_words else result.closing,
        tools=tuple(dict.fromkeys(call.name for call, _ in deps.calls.results)),
        calls=deps.calls.results,
        files=tuple(dict.fromkeys(deps.calls.changed)),
        outcomes=result.outcomes,
        steps_done=result.done,
        steps=result.steps,
        check_met=result.check_met,
    )
    by: Author = "program"
    summary = plain_run_summary(facts)
    if not by_words:
        question = _question(facts, deps.memory.text())
        reply = await deps.structured.ask("summary", question, parent=node, schema=reply_schema("summarise"))
        if not isinstance(reply, Fault):
            with contextlib.suppress(UnreadableJson, ValueError):
                summary, by = read_summary(reply.text, facts), "model"
    decided = None
    if not deps.environment.attended:  # accepted as it is with the flag, else left for the next interactive start (X3)
        by_whom = "--accept-summary" if deps.accept_summary else "no user is present"
        decided = Answer(verdict="approve" if deps.accept_summary else "withdrawn", by=by_whom)
    review = SummaryReview(deps.stream, deps.approvals, deps.memory)
    await review.ask(summary, by, run=run, node=node, decided=decided)


class SummaryReview(msgspec.Struct, frozen=True):
    """Where summaries are offered, and what they change."""

    stream: EventStream
    approvals: Approvals
    memory: PlanMemory

    async def ask(
        self, summary: Summary, by: Author = "model", *, run: str = "", node: str = "", decided: Answer | None = None
    ) -> None:
        """Offer it and wait; nothing is written before the user accepts. Cancelling leaves it pending, but what was
        accepted by then is written first."""
        since = self.memory.plan
        settled = SummaryReviewed(id="", outcome="pending", summary=summary)

        def offer(request: str) -> Event:
            return SummaryProposed(id=request, summary=summary, by=by)

        def settle(request: str, answer: Answer) -> Event:
            nonlocal settled
            settled = _settled(request, summary, answer)
            return settled

        try:
            await self.approvals.decide(offer, settle, run=run, node=node, decided=decided)
        except asyncio.CancelledError:
            await complete_shielded(self._carry_out(settled, summary, since), LAST)
            raise
        await complete_shielded(self._carry_out(settled, summary, since), LAST)

    async def again(self, saved: dict[str, Any]) -> None:
        """Offer a summary of an earlier process that nobody decided about, or that was accepted and not written; what
        can't be read is discarded."""
        with contextlib.suppress(msgspec.ValidationError):
            summary = msgspec.convert(saved, Summary)
            entry = (summary.action, summary.details, summary.result)
            if all((one.action, one.details, one.result) != entry for one in self.memory.plan.execution_log[-20:]):
                await self.ask(summary)

    async def _carry_out(self, settled: SummaryReviewed, offered: Summary, since: Plan) -> None:
        if settled.outcome in ("accepted", "edited"):
            await self.memory.accept(settled.summary, offered, since)
        elif settled.outcome == "discarded":
            await self.memory.settle(False)


def _settled(request: str, summary: Summary, answer: Answer) -> SummaryReviewed:
    """The summary as the user wants it, and what became of it."""
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
    """The whole execution: in a request of its own, and in what follows the conversation."""
    record = [f"How it ended: {facts.outcome}", *(f"Step: {one}" for one in facts.outcomes)]
    if facts.check_met is not None:
        record.append(f"The check {'passed' if facts.check_met else 'failed'}.")
    if facts.files:
        record.append(f"Files changed: {', '.join(facts.files[:50])}")
    rows = [f"The request: {facts.request[:4_000]}", *record]
    if facts.closing:
        rows.append(f"The agent's closing words: {facts.closing[:3_000]}")
    head = "\n".join(rows)
    calls = _calls(facts.calls, BUDGET - len(head) - len(plan_doc))
    return Question(
        alone=(
            SystemMessage(text=prompt("summarise")),
            *((SystemMessage(text=plan_doc),) if plan_doc else ()),
            UserMessage(text=f"{head}\n\n{calls}"),
        ),
        task="\n".join([prompt("summarise"), *record, _calls(facts.calls, TASK)]),
    )


def _calls(done: Sequence[tuple[ToolCall, ToolResult]], room: int) -> str:
    """All calls with the beginning and the end of their results, as long as there is room for."""
    for size in _SIZES:
        rows = [_call(call, result, size) for call, result in done]
        if sum(map(len, rows)) + len(rows) <= room + 1:
            break
    while len(rows) > 1 and sum(map(len, rows)) > room:
        del rows[len(rows) // 2]
    return "What was done, in order:\n" + ("\n".join(rows) or "(no tool was called)")


def _call(call: ToolCall, result: ToolResult, size: int) -> str:
    given = json.dumps(call.arguments, ensure_ascii=False)
    data = result.data if isinstance(result.data, str) else json.dumps(result.data, ensure_ascii=False)
    came = f"{'ok' if result.success else result.error or 'failed'}" + (f": {_cut(data, size)}" if result.data else "")
    return f"- {call.name} {_cut(given, size)} → {came}"


def _cut(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    return f"{text[: size * 2 // 3]} […] {text[-size // 3 :]}"


def read_summary(text: str, facts: RunFacts) -> Summary:
    """The summary in a model's reply (nested or flat). Raises protocols.repair.Unreadable or ValueError.

    Tools are taken from the facts, since a model may name ones that never ran.
    """
    given = find_object(text, ("log_entry", "acceptance_criteria_updates", "action"))
    entry = given.get("log_entry", given)
    action = _text(entry.get("action")) if isinstance(entry, Mapping) else ""
    if not action:
        raise ValueError("the summary needs `log_entry` with an `action`")
    return Summary(
        action=one_line(action, 200),
        details=_text(entry.get("details")),
        result=_marked(_text(entry.get("result")), facts),
        tools=facts.tools,
        criteria=_criteria(given.get("acceptance_criteria_updates") or given.get("criteria"), facts.done),
        decisions_made=_decisions(given.get("decisions_made")),
        decisions_rejected=_decisions(given.get("decisions_rejected")),
    )


def plain_run_summary(facts: RunFacts) -> Summary:
    """The deterministic summary that is offered when the model has none (W9)."""
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
    words = "Done" if facts.outcome == "done" else f"Ended early: {facts.outcome}"
    return Summary(
        action=one_line(facts.request, 200), details=" ".join(parts), result=_marked(words, facts), tools=facts.tools
    )


def _marked(result: str, facts: RunFacts) -> str:
    """A result with its mark: that of the facts, or the model's own where it says less (E2)."""
    claimed = next((mark for mark in _MARKS if result.startswith(mark)), None)
    words = result.removeprefix(claimed or "").strip()
    mark = DONE if facts.done else IN_PROGRESS if facts.outcome in ("limit", "interrupted") else NOT_DONE
    if claimed is not None and _MARKS.index(claimed) > _MARKS.index(mark):
        mark = claimed
    elif claimed == DONE and mark != DONE:
        words = ""  # they say that it is done
    return f"{mark} {words or ('Done' if mark == DONE else 'Not finished')}"


def _criteria(given: Any, done: bool) -> tuple[CriterionChange, ...]:
    """Without the ticks of a run that is not done."""
    rows = given if isinstance(given, list) else []
    found = (
        CriterionChange(
            description=_text(row.get("description")),
            completed=row.get("completed") is not False,
            notes=_text(row.get("notes")),
        )
        for row in rows[:50]
        if isinstance(row, Mapping)
    )
    return tuple(one for one in found if one.description and (done or not one.completed))


def _decisions(given: Any) -> tuple[DecisionNote, ...]:
    found = []
    for row in given[:20] if isinstance(given, list) else []:
        if isinstance(row, str) and row.strip():
            found.append(DecisionNote(title=one_line(row, 200)))
        elif isinstance(row, Mapping) and (title := _text(row.get("title") or row.get("decision"))):
            others = row.get("alternatives")
            texts = [_text(one) for one in (others if isinstance(others, list) else [others])]
            note = DecisionNote(
                title=title, rationale=_text(row.get("rationale")), alternatives=tuple(filter(None, texts))
            )
            found.append(note)
    return tuple(found)


def _text(given: Any) -> str:
    return given.strip() if isinstance(given, str) else ("" if given is None else str(given))

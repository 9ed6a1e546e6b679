"""Putting a summary before the user, now or at a later start, and carrying out what they decide (W9, X3)."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeAlias

import msgspec

from tui_agent.domain import Answer
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.finishing import finished
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.stream import EventStream
from tui_agent.events import Event, SummaryOffered, SummarySettled
from tui_agent.plan.document import Plan
from tui_agent.workplan import Summary

Outcome: TypeAlias = Literal["accepted", "edited", "discarded", "pending"]
Author: TypeAlias = Literal["model", "program"]
LAST = 1.0
"""Seconds that writing an accepted summary gets when the work is stopped; a question it asks is withdrawn then."""


class Offering(msgspec.Struct, frozen=True):
    """Where summaries are offered and what they change."""

    stream: EventStream
    approvals: Approvals
    memory: PlanMemory

    async def ask(self, summary: Summary, by: Author, *, run: str, node: str) -> Outcome:
        """Offer it and wait; nothing is written before the user accepts. Cancelling leaves it pending, but what was
        accepted by then is written first."""
        decided: list[Answer] = []
        since = self.memory.plan

        def offered(request: str) -> Event:
            return SummaryOffered(id=request, summary=summary, by=by)

        def settled(request: str, answer: Answer) -> Event:
            taken, outcome = _taken(summary, answer)
            decided[:] = [answer]
            return SummarySettled(id=request, outcome=outcome, summary=taken, by=answer.by)

        try:
            answer = await self.approvals.decide(offered, settled, run=run, node=node)
        except asyncio.CancelledError:
            if decided:
                await finished(self._carry_out(*_taken(summary, decided[-1]), summary, since), LAST)
            raise
        taken, outcome = _taken(summary, answer)
        await finished(self._carry_out(taken, outcome, summary, since), LAST)
        return outcome

    async def without_user(
        self, summary: Summary, by: Author, accept: bool, *, run: str, node: str
    ) -> Outcome:
        """Nobody is there: taken as it is with the flag, else left for the next interactive start (X3)."""
        request = f"{run}.summary"
        outcome: Outcome = "accepted" if accept else "pending"
        why = "the flag --accept-summary" if accept else "nobody is there"
        self.stream.emit(SummaryOffered(id=request, summary=summary, by=by), run=run, node=node)
        event = SummarySettled(id=request, outcome=outcome, summary=summary, by=why)
        self.stream.emit(event, run=run, node=node)
        await self._carry_out(summary, outcome, summary, self.memory.plan)
        return outcome

    async def again(self, kept: dict[str, Any]) -> Outcome:
        """Offer a summary of an earlier process that nobody decided about, or that was accepted and not written; what
        can't be read is discarded."""
        try:
            summary = msgspec.convert(kept, Summary)
        except msgspec.ValidationError:
            return "discarded"
        log = self.memory.plan.execution_log
        if any((one.action, one.details, one.result) == _entry(summary) for one in log[-20:]):
            return "accepted"
        return await self.ask(summary, "model", run="", node="")

    async def _carry_out(self, summary: Summary, outcome: Outcome, offered: Summary, since: Plan) -> None:
        if outcome in ("accepted", "edited"):
            await self.memory.accept(summary, offered, since)
        elif outcome == "discarded":
            await self.memory.settle(False)


def _entry(summary: Summary) -> tuple[str, str, str]:
    return summary.action, summary.details, summary.result


def _taken(summary: Summary, answer: Answer) -> tuple[Summary, Outcome]:
    """The summary as the user wants it, and what became of it."""
    if answer.verdict == "reject":
        return summary, "discarded"
    if answer.verdict != "approve":
        return summary, "pending"
    try:
        edited = msgspec.convert((answer.data or {})["summary"], Summary)
    except (KeyError, msgspec.ValidationError):
        return summary, "accepted"
    return (edited, "edited") if edited != summary else (summary, "accepted")

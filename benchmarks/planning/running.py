"""Runs one task with the agent's own engine and reads the outcome from its events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.planning.tasks import Task
from tui_agent.common.domain import Answer, FrozenValue
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.engine.session import Session
from tui_agent.events import (
    ApprovalRequested,
    Event,
    PlanDocConflict,
    PlanProposed,
    QuestionAsked,
    Record,
    ReplyEnded,
    RequestClassified,
    RunEnded,
    StepRecoveryStarted,
    StepVerified,
    SummaryProposed,
    ToolFinished,
)

MODES = ("agent", "direct")
"""With planning, and without."""
LONGEST = 1_800.0
"""Seconds of one task, after which it counts as stuck."""
_ASKING = (ApprovalRequested, QuestionAsked, PlanDocConflict)


class Outcome(FrozenValue, frozen=True, kw_only=True):
    """What came of one task in one mode."""

    number: int
    family: str
    simple: bool
    fault: str
    ended: str
    """As of RunEnded, or `hung`."""
    right: bool
    """The files that were asked for are as asked, whatever the agent says."""
    failed_calls: int = 0
    rounds: int = 0
    """Replies with calls: times that something was done."""
    replies: int = 0
    """All replies of the working model, its closing words too."""
    fallbacks: int = 0
    """Steps that went on by their fallback."""
    recoveries: int = 0
    """Times that the cause was sought and what is left planned anew."""
    planned: bool = False
    """A plan was made or taken from the cache."""
    plan_fallback: bool = False
    """No usable plan came; the request was carried out as it stands."""
    may_cache: bool = True
    """Plans of earlier tasks could be used."""
    cached: bool = False
    plan_ms: int = 0
    sorted: bool = False
    """The dispatcher understood the request."""
    checks: int = 0
    checks_met: int = 0
    asked: int = 0
    """Times that somebody had to decide, accepting the summary left out."""
    ms: int = 0
    said: str = ""
    """The last words."""

    @property
    def done(self) -> bool:
        """Everything is as asked, and the agent says so."""
        return self.right and self.ended == "done"

    @property
    def stumbled(self) -> bool:
        """Something failed on the way, so that more than the first attempt was needed."""
        return bool(self.failed_calls or self.fallbacks or self.recoveries)


async def carry_out(
    task: Task, folder: Path, mode: str, flags: dict[str, Any], *, longest: float = LONGEST, **more: Any
) -> Outcome:
    """Work on a task in `folder`, which is made here. `more` goes to the session's wishes.

    Plans are approved and summaries accepted; leave for what the rules want asked is refused, as nobody is there.
    """
    await asyncio.to_thread(folder.mkdir, parents=True)
    await asyncio.to_thread(task.set_up, folder)
    flags = {**flags, "mode": mode, "approval_mode": "auto", "plan_auto_approve": True}
    session = await open_session(SessionOptions(workspace=folder, flags=flags, trust=True, **more))
    records: list[Record] = []
    try:
        async with asyncio.timeout(longest):
            await session.send(task.request)
            await _follow(session, records)
    except TimeoutError:
        await session.interrupt(at_once=True)
    finally:
        await session.close()
    right = await asyncio.to_thread(task.right, folder)
    found = judged(task, [record.event for record in records], right)
    return msgspec.structs.replace(found, may_cache=flags.get("plan_cache", True))


async def _follow(session: Session, records: list[Record]) -> None:
    """Until the run has ended, answering what is asked."""
    async for record in session.follow(session.replay_end):
        records.append(record)
        if isinstance(record.event, RunEnded):
            return
        answer = _answer(record.event)
        if answer is not None:
            session.answer(record.event.id, answer)  # type: ignore[attr-defined]  # what asks has an id


def _answer(event: Event) -> Answer | None:
    match event:
        case PlanProposed(asks=True) | SummaryProposed():
            return Answer(verdict="approve", by="the task suite")
        case PlanDocConflict():
            return Answer(verdict="approve", data={"take": "ours"}, by="the task suite")
        case QuestionAsked():
            return Answer(verdict="reply", text="Nobody is there. Decide yourself.", by="the task suite")
        case ApprovalRequested():
            return Answer(verdict="reject", text="nobody is there to allow it", by="the task suite")
    return None


def judged(task: Task, events: Iterable[Event], right: bool) -> Outcome:
    """What the events of a task's run say of it."""
    events = list(events)
    ended = next((one for one in events if isinstance(one, RunEnded)), None)
    plans = [one for one in events if isinstance(one, PlanProposed)]
    first = next((one for one in plans if not one.recovery), None)
    replies = [one for one in events if isinstance(one, ReplyEnded) and not one.role]
    recovering = [one.by for one in events if isinstance(one, StepRecoveryStarted)]
    checks = [one.met for one in events if isinstance(one, StepVerified) and one.by == "command"]
    sorted_as = next((one.classified for one in events if isinstance(one, RequestClassified)), None)
    return Outcome(
        number=task.number,
        family=task.family,
        simple=task.simple,
        fault=task.fault,
        ended=ended.outcome if ended else "hung",
        right=right,
        failed_calls=sum(isinstance(one, ToolFinished) and not one.result.success for one in events),
        rounds=sum(bool(one.calls) for one in replies),
        replies=len(replies),
        fallbacks=recovering.count("fallback"),
        recoveries=recovering.count("recovery"),
        planned=first is not None,
        plan_fallback=first is not None and first.fallback,
        cached=first is not None and first.cached,
        plan_ms=first.ms if first is not None else 0,
        sorted=sorted_as is not None and not sorted_as.guessed,
        checks=len(checks),
        checks_met=sum(checks),
        asked=sum(isinstance(one, _ASKING) or (isinstance(one, PlanProposed) and one.asks) for one in events),
        ms=ended.ms if ended else 0,
        said=ended.text if ended else "",
    )

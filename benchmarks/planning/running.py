"""Runs one task with the agent's engine and determines the outcome from its events."""

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
TASK_SECONDS = 1_800.0
"""Seconds after which a task counts as stuck."""
_REQUESTS = (ApprovalRequested, QuestionAsked, PlanDocConflict)


class Outcome(FrozenValue, frozen=True, kw_only=True):
    """The outcome of one task in one mode."""

    number: int
    family: str
    simple: bool
    fault: str
    ended: str
    """Outcome of the run, or `hung`."""
    right: bool
    """The files are as expected, whatever the agent claims."""
    failed_calls: int = 0
    rounds: int = 0
    """Replies with tool calls."""
    replies: int = 0
    """All replies of the working model, including the final one."""
    fallbacks: int = 0
    """Steps continued with their fallback."""
    recoveries: int = 0
    """Recoveries: a diagnosis and a new plan for the remaining work."""
    planned: bool = False
    """There was a plan, new or cached."""
    plan_fallback: bool = False
    """No usable plan was produced; the request was executed as a single step."""
    may_cache: bool = True
    """Cached plans of earlier tasks were allowed."""
    cached: bool = False
    plan_ms: int = 0
    sorted: bool = False
    """The dispatcher classified the request."""
    checks: int = 0
    checks_met: int = 0
    asked: int = 0
    """Requests to the user, except summaries."""
    ms: int = 0
    said: str = ""
    """The final text."""

    @property
    def done(self) -> bool:
        """The files are as expected, and the agent reports success."""
        return self.right and self.ended == "done"

    @property
    def stumbled(self) -> bool:
        """Something failed, so the first attempt was not enough."""
        return bool(self.failed_calls or self.fallbacks or self.recoveries)


async def run_task(
    task: Task, folder: Path, mode: str, flags: dict[str, Any], *, timeout: float = TASK_SECONDS, **options: Any
) -> Outcome:
    """Work on a task in `folder`, which is created. `options` are passed on to the session.

    Plans are approved and summaries accepted; actions that need approval are rejected.
    """
    await asyncio.to_thread(folder.mkdir, parents=True)
    await asyncio.to_thread(task.set_up, folder)
    flags = {**flags, "mode": mode, "approval_mode": "auto", "plan_auto_approve": True}
    session = await open_session(SessionOptions(workspace=folder, flags=flags, trust=True, **options))
    records: list[Record] = []
    try:
        async with asyncio.timeout(timeout):
            await session.send(task.request)
            await _follow(session, records)
    except TimeoutError:
        await session.interrupt(at_once=True)
    finally:
        await session.close()
    is_solved = await asyncio.to_thread(task.is_solved, folder)
    outcome = evaluate(task, [record.event for record in records], is_solved)
    return msgspec.structs.replace(outcome, may_cache=flags.get("plan_cache", True))


async def _follow(session: Session, records: list[Record]) -> None:
    """Collect records until the run has ended, and answer requests."""
    async for record in session.follow(session.replay_end):
        records.append(record)
        if isinstance(record.event, RunEnded):
            return
        answer = _answer(record.event)
        if answer is not None:
            session.answer(record.event.id, answer)  # type: ignore[attr-defined]  # requests have an id


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


def evaluate(task: Task, events: Iterable[Event], is_solved: bool) -> Outcome:
    """Determine the outcome of a task from the events of its run."""
    events = list(events)
    ended = next((event for event in events if isinstance(event, RunEnded)), None)
    plans = [event for event in events if isinstance(event, PlanProposed)]
    first = next((plan for plan in plans if not plan.recovery), None)
    replies = [event for event in events if isinstance(event, ReplyEnded) and not event.role]
    recoveries_by = [event.by for event in events if isinstance(event, StepRecoveryStarted)]
    checks = [event.met for event in events if isinstance(event, StepVerified) and event.by == "command"]
    classified = next((event.classified for event in events if isinstance(event, RequestClassified)), None)
    return Outcome(
        number=task.number,
        family=task.family,
        simple=task.simple,
        fault=task.fault,
        ended=ended.outcome if ended else "hung",
        right=is_solved,
        failed_calls=sum(isinstance(event, ToolFinished) and not event.result.success for event in events),
        rounds=sum(bool(reply.calls) for reply in replies),
        replies=len(replies),
        fallbacks=recoveries_by.count("fallback"),
        recoveries=recoveries_by.count("recovery"),
        planned=first is not None,
        plan_fallback=first is not None and first.fallback,
        cached=first is not None and first.cached,
        plan_ms=first.ms if first is not None else 0,
        sorted=classified is not None and not classified.guessed,
        checks=len(checks),
        checks_met=sum(checks),
        asked=sum(isinstance(event, _REQUESTS) or (isinstance(event, PlanProposed) and event.asks) for event in events),
        ms=ended.ms if ended else 0,
        said=ended.text if ended else "",
    )

"""The plan as values (P1). Everything here compares by content and can be written as JSON."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec.structs import replace

from tui_agent.common.domain import FrozenValue


class PlanStatus(StrEnum):
    """How the work as a whole stands."""

    PLANNING = "planning"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"


class Criterion(FrozenValue, frozen=True, kw_only=True):
    """One thing that must hold when the work is done."""

    description: str
    completed: bool = False
    notes: str = ""


class Decision(FrozenValue, frozen=True, kw_only=True):
    """A choice that was made, or one that was turned down."""

    title: str
    rationale: str = ""
    alternatives: tuple[str, ...] = ()
    when: datetime | None = None
    """Local time without zone, to the minute; None when nobody wrote it down."""


class LogEntry(FrozenValue, frozen=True, kw_only=True):
    """What was done, once."""

    action: str
    details: str = ""
    result: str = ""
    """Begins with one of `DONE`, `UNDERWAY`, `NOT_DONE` where we write it."""
    tools: tuple[str, ...] = ()
    when: datetime | None = None
    """Local time without zone, to the minute."""


DONE, UNDERWAY, NOT_DONE = "✓", "🔄", "❌"
"""What a result begins with."""


class Plan(FrozenValue, frozen=True, kw_only=True):
    """All that plan_doc.md says, apart from what its reader can't know: the user's own sections and notes."""

    status: PlanStatus = PlanStatus.PLANNING
    goal: str = ""
    acceptance_criteria: tuple[Criterion, ...] = ()
    decisions_made: tuple[Decision, ...] = ()
    decisions_rejected: tuple[Decision, ...] = ()
    execution_log: tuple[LogEntry, ...] = ()
    created_at: int = 0
    """Milliseconds since the epoch; 0 is unknown."""
    updated_at: int = 0
    version: int = 1
    """Grows by one with every save of ours: it tells which text an edit started from."""

    @property
    def completed(self) -> int:
        """How many criteria are met."""
        return sum(one.completed for one in self.acceptance_criteria)

    @property
    def content(self) -> Plan:
        """What a reader would compare: all but the time and the version of the last save."""
        return replace(self, version=0, updated_at=0)


def minute(moment: datetime) -> datetime:
    """`moment` as the plan keeps times: local, without zone, to the minute."""
    if moment.tzinfo is not None:
        moment = moment.astimezone()
    return moment.replace(second=0, microsecond=0, tzinfo=None, fold=0)


def shown(when: datetime) -> str:
    """`YYYY-MM-DD HH:MM`."""
    return when.isoformat(sep=" ", timespec="minutes")

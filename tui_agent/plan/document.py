"""The content of a plan document (P1) as comparable, JSON-serializable values."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from msgspec.structs import replace

from tui_agent.common.domain import FrozenValue


class PlanStatus(StrEnum):
    """Status of the work as a whole."""

    PLANNING = "planning"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"


class Criterion(FrozenValue, frozen=True, kw_only=True):
    """A condition that must be met when the work is done."""

    description: str
    completed: bool = False
    notes: str = ""


class Decision(FrozenValue, frozen=True, kw_only=True):
    """A decision, made or rejected."""

    title: str
    rationale: str = ""
    alternatives: tuple[str, ...] = ()
    when: datetime | None = None
    """Local time without zone, to the minute; None if unknown."""


class LogEntry(FrozenValue, frozen=True, kw_only=True):
    """A record of completed work."""

    action: str
    details: str = ""
    result: str = ""
    """Begins with `DONE`, `IN_PROGRESS` or `NOT_DONE` if written by the program."""
    tools: tuple[str, ...] = ()
    when: datetime | None = None
    """Local time without zone, to the minute."""


PlanItem: TypeAlias = Criterion | Decision | LogEntry
"""An item of one of the plan's lists."""

DONE, IN_PROGRESS, NOT_DONE = "✓", "🔄", "❌"
"""Marks at the beginning of a result."""


class Plan(FrozenValue, frozen=True, kw_only=True):
    """The structured content of plan_doc.md, without the user's own sections and notes."""

    status: PlanStatus = PlanStatus.PLANNING
    goal: str = ""
    acceptance_criteria: tuple[Criterion, ...] = ()
    decisions_made: tuple[Decision, ...] = ()
    decisions_rejected: tuple[Decision, ...] = ()
    execution_log: tuple[LogEntry, ...] = ()
    created_at: int = 0
    """Milliseconds since the epoch; 0 if unknown."""
    updated_at: int = 0
    version: int = 1
    """Incremented with each save by the program; identifies the text that an edit is based on."""

    @property
    def completed(self) -> int:
        """Number of criteria met."""
        return sum(criterion.completed for criterion in self.acceptance_criteria)

    @property
    def content(self) -> Plan:
        """The plan without time and version of the last save, for comparisons."""
        return replace(self, version=0, updated_at=0)


def to_minute(moment: datetime) -> datetime:
    """Convert to the plan's times: local, without zone, to the minute."""
    if moment.tzinfo is not None:
        moment = moment.astimezone()
    return moment.replace(second=0, microsecond=0, tzinfo=None, fold=0)


def format_time(when: datetime) -> str:
    """Format as `YYYY-MM-DD HH:MM`."""
    return when.isoformat(sep=" ", timespec="minutes")

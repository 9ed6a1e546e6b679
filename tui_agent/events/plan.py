"""The staged workflow and the plan document (W1 to W9, P1 to P6)."""

from __future__ import annotations

from typing import ClassVar, Literal

from tui_agent.domain import Answer
from tui_agent.events.base import Event
from tui_agent.workplan import Classified, InstructionPlan, PlanStep, Summary


class RequestClassified(Event, frozen=True, kw_only=True):
    """The dispatcher read the request (W1)."""

    type: ClassVar[str] = "request.classified"
    classified: Classified
    ms: int = 0


class PlanProposed(Event, frozen=True, kw_only=True):
    """How the request shall be done, before anything runs. Asks when `asks` (W5)."""

    type: ClassVar[str] = "plan.proposed"
    id: str
    plan: InstructionPlan
    asks: bool
    """Somebody must decide; otherwise `plan.reviewed` with a rule's name follows at once."""
    why: str = ""
    """The rule that asks, or the one that does not."""
    depth: str = "moderate"
    cached: bool = False
    fallback: bool = False
    """No usable plan came: the request as a single step in the direct loop."""
    recovery: bool = False
    """Made after a failure, to go on from there."""
    ms: int = 0
    prompt_version: str = ""
    faults: tuple[str, ...] = ()
    """What was wrong with earlier attempts at this plan."""


class PlanReviewed(Event, frozen=True, kw_only=True):
    """What was decided about a proposed plan; `plan` is what will be carried out."""

    type: ClassVar[str] = "plan.reviewed"
    id: str
    answer: Answer
    """`approve`, `reject` with a reason, or `withdrawn`."""
    plan: InstructionPlan
    edited: bool = False
    alternative: int | None = None
    """Which alternative was picked, from 0."""


class StepStarted(Event, frozen=True, kw_only=True):
    """The record's `node` is the step's id."""

    type: ClassVar[str] = "step.started"
    step: PlanStep
    of: int


class StepVerified(Event, frozen=True, kw_only=True):
    """Expected and actual outcome of a step, or of the run's check (W7)."""

    type: ClassVar[str] = "step.verified"
    met: bool
    expected: str
    actual: str
    by: Literal["facts", "model", "command"]
    command: str = ""
    """The run's check command; empty for a step."""
    ms: int = 0


class StepRecovering(Event, frozen=True, kw_only=True):
    """A step failed and something else is tried (W7)."""

    type: ClassVar[str] = "step.recovering"
    by: Literal["fallback", "recovery"]
    error_class: str = ""
    """Such as `authentication`, `missing_program`, `not_found`."""
    cause: str = ""
    strategy: str = ""


class StepFinished(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "step.finished"
    outcome: Literal["done", "failed", "skipped", "interrupted"]
    text: str = ""
    iterations: int = 0
    ms: int = 0


class CompletionRefused(Event, frozen=True, kw_only=True):
    """A claim of completion was not accepted (W8)."""

    type: ClassVar[str] = "completion.refused"
    why: str


class PlanDocChanged(Event, frozen=True, kw_only=True):
    """plan_doc.md is different now; `text` is all of it."""

    type: ClassVar[str] = "plan_doc.changed"
    text: str
    by: Literal["template", "summary", "review", "user", "editor", "merge", "repair"]
    sha256: str = ""
    pending: bool = False
    """A proposal by the model: shown, but not written yet (P6)."""


class PlanDocConflict(Event, frozen=True, kw_only=True):
    """The agent's and the user's edits of plan_doc.md can't both hold: asks which one."""

    type: ClassVar[str] = "plan_doc.conflict"
    id: str
    where: str
    ours: str
    theirs: str


class PlanDocSettled(Event, frozen=True, kw_only=True):
    """The user decided about a conflict or a pending proposal."""

    type: ClassVar[str] = "plan_doc.settled"
    id: str
    answer: Answer


class SummaryOffered(Event, frozen=True, kw_only=True):
    """What of the run shall become memory: waits for accept, edit or discard (W9)."""

    type: ClassVar[str] = "summary.offered"
    id: str
    summary: Summary
    by: Literal["model", "program"] = "model"


class SummarySettled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "summary.settled"
    id: str
    outcome: Literal["accepted", "edited", "discarded", "pending"]
    """`pending`: nobody was there; offered again at the next interactive start."""
    summary: Summary
    by: str = "user"

"""Values of the staged workflow: classification, plan, summary (W1 to W9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from tui_agent.common.domain import FrozenValue

ONE_STEP = "Do it in one step"
"""Approach of a plan that the program makes of a request, without the model."""


class Classification(FrozenValue, frozen=True, kw_only=True):
    """How the dispatcher classifies a request (W1)."""

    intent: Literal["analyze", "modify", "create", "mixed"] = "mixed"
    needs_write: bool = True
    task_type: Literal["planning", "architecture", "coding", "refactoring", "documentation", "analysis"] = "coding"
    complexity: Literal["simple", "moderate", "complex"] = "moderate"
    reasoning: str = ""
    guessed: bool = False
    """True if the model gave nothing usable and this is the fallback."""


class PlanStep(FrozenValue, frozen=True, kw_only=True):
    """One step of an instruction plan (W2)."""

    number: int
    description: str
    tool: str = ""
    """Canonical name of the suggested tool; empty or `analyze` for a step without one."""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    expected: str = ""
    """Expected outcome."""
    fallback: str = ""
    """What to do if the step fails."""
    confidence: float = 0.8
    critical: bool = False
    subtask: bool = False
    """Planned separately when it is reached (one level)."""


class Check(FrozenValue, frozen=True, kw_only=True):
    """How the result is verified after the last step."""

    command: str = ""
    criteria: str = ""


class Alternative(FrozenValue, frozen=True, kw_only=True):
    """An alternative approach the user can choose."""

    approach: str
    when: str = ""
    confidence: float = 0.5


class InstructionPlan(FrozenValue, frozen=True, kw_only=True):
    """The plan for one request (W2)."""

    approach: str
    prerequisites: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    check: Check = Check()
    alternatives: tuple[Alternative, ...] = ()
    confidence: float = 0.8

    @property
    def is_the_request(self) -> bool:
        """Whether it was made by the program, with the request as its only step: it says nothing new."""
        return self.approach == ONE_STEP and len(self.steps) == 1


class CriterionChange(FrozenValue, frozen=True, kw_only=True):
    """An acceptance criterion to tick, untick or add."""

    description: str
    completed: bool = True
    notes: str = ""
    added: bool = False
    """Not yet in the plan document."""


class DecisionNote(FrozenValue, frozen=True, kw_only=True):
    """A decision made or rejected during the work."""

    title: str
    rationale: str = ""
    alternatives: tuple[str, ...] = ()


class PlanChange(FrozenValue, frozen=True, kw_only=True):
    """A proposed change of the plan document (P6); empty fields change nothing."""

    goal: str = ""
    status: str = ""
    criteria: tuple[CriterionChange, ...] = ()
    replace_criteria: bool = msgspec.field(default=False, name="fresh")
    """`criteria` replace the existing ones; those that remain keep their ticks."""
    decisions_made: tuple[DecisionNote, ...] = ()
    decisions_rejected: tuple[DecisionNote, ...] = ()


class Summary(FrozenValue, frozen=True, kw_only=True):
    """What is recorded of a run in the plan document (W9)."""

    action: str
    details: str = ""
    result: str = ""
    """Begins with ✓, 🔄 or ❌."""
    tools: tuple[str, ...] = ()
    criteria: tuple[CriterionChange, ...] = ()
    decisions_made: tuple[DecisionNote, ...] = ()
    decisions_rejected: tuple[DecisionNote, ...] = ()
    goal: str = ""
    """The new goal; empty leaves it unchanged."""
    status: str = ""
    """The new status; empty leaves it unchanged."""


def format_plan(plan: InstructionPlan) -> str:
    """Return the plan as text, for the log and for models."""
    lines = [f"Approach: {plan.approach}"] if plan.approach else []
    lines += [f"Needs: {item}" for item in plan.prerequisites]
    for step in plan.steps:
        tool = f" [{step.tool}{' ' + json.dumps(step.arguments, ensure_ascii=False) if step.arguments else ''}]"
        lines.append(f"{step.number}. {step.description}{tool if step.tool else ''}")
        lines += [f"   expected: {step.expected}"] if step.expected else []
        lines += [f"   if it fails: {step.fallback}"] if step.fallback else []
    if plan.check.command or plan.check.criteria:
        lines.append(f"Check: {plan.check.command} ({plan.check.criteria})".replace(" ()", ""))
    return "\n".join(lines)


def plan_template(milliseconds: int) -> str:
    """Return the plan document of a new session (P2), created `milliseconds` after the epoch.

    Its bracketed placeholders count as empty.
    """
    text = Path(__file__).with_name("plan_template.md").read_text(encoding="utf-8")
    return text.format(milliseconds=milliseconds)

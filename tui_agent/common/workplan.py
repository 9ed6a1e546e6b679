"""The nouns of the staged workflow: what was asked, how it shall be done, what came of it (W1 to W9)."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Literal

import msgspec

from tui_agent.common.domain import FrozenValue


class Classified(FrozenValue, frozen=True, kw_only=True):
    """How the dispatcher reads a request (W1)."""

    intent: Literal["analyze", "modify", "create", "mixed"] = "mixed"
    needs_write: bool = True
    task_type: Literal["planning", "architecture", "coding", "refactoring", "documentation", "analysis"] = "coding"
    complexity: Literal["simple", "moderate", "complex"] = "moderate"
    reasoning: str = ""
    guessed: bool = False
    """True when the model gave nothing usable, so that this is the fallback."""


class PlanStep(FrozenValue, frozen=True, kw_only=True):
    """One step of an instruction plan (W2)."""

    number: int
    description: str
    tool: str = ""
    """Canonical name of the tool thought of; empty or `analyze` is a step of thought."""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    expected: str = ""
    """What should be true afterwards."""
    fallback: str = ""
    """What to do when it fails."""
    confidence: float = 0.8
    critical: bool = False
    subtask: bool = False
    """Planned by itself when it is reached (one level)."""


class Check(FrozenValue, frozen=True, kw_only=True):
    """How the whole is verified after the last step."""

    command: str = ""
    criteria: str = ""


class Alternative(FrozenValue, frozen=True, kw_only=True):
    """Another way to do it, which the user may pick."""

    approach: str
    when: str = ""
    confidence: float = 0.5


class InstructionPlan(FrozenValue, frozen=True, kw_only=True):
    """How a request shall be carried out (W2)."""

    approach: str
    prerequisites: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    check: Check = Check()
    alternatives: tuple[Alternative, ...] = ()
    confidence: float = 0.8


class CriterionChange(FrozenValue, frozen=True, kw_only=True):
    """An acceptance criterion that a summary ticks, unticks or adds."""

    description: str
    completed: bool = True
    notes: str = ""
    added: bool = False
    """Not in the plan document yet."""


class DecisionNote(FrozenValue, frozen=True, kw_only=True):
    """A decision made or rejected during the work."""

    title: str
    rationale: str = ""
    alternatives: tuple[str, ...] = ()


class PlanChange(FrozenValue, frozen=True, kw_only=True):
    """What the model proposes for the plan document (P6); empty fields change nothing."""

    goal: str = ""
    status: str = ""
    criteria: tuple[CriterionChange, ...] = ()
    fresh: bool = False
    """`criteria` take the place of those that are there, which keep their ticks where they stay."""
    decisions_made: tuple[DecisionNote, ...] = ()
    decisions_rejected: tuple[DecisionNote, ...] = ()


class Summary(FrozenValue, frozen=True, kw_only=True):
    """What of a run shall become memory (W9)."""

    action: str
    details: str = ""
    result: str = ""
    """Begins with ✓, 🔄 or ❌."""
    tools: tuple[str, ...] = ()
    criteria: tuple[CriterionChange, ...] = ()
    decisions_made: tuple[DecisionNote, ...] = ()
    decisions_rejected: tuple[DecisionNote, ...] = ()
    goal: str = ""
    """A new goal for the document; empty leaves it."""
    status: str = ""
    """A new status for the document; empty leaves it."""


def as_text(plan: InstructionPlan) -> str:
    """The plan in a form to read, for the log and for models."""
    lines = [f"Approach: {plan.approach}"] if plan.approach else []
    lines += [f"Needs: {one}" for one in plan.prerequisites]
    for step in plan.steps:
        tool = f" [{step.tool}{' ' + json.dumps(step.arguments, ensure_ascii=False) if step.arguments else ''}]"
        lines.append(f"{step.number}. {step.description}{tool if step.tool else ''}")
        lines += [f"   expected: {step.expected}"] if step.expected else []
        lines += [f"   if it fails: {step.fallback}"] if step.fallback else []
    if plan.check.command or plan.check.criteria:
        lines.append(f"Check: {plan.check.command} ({plan.check.criteria})".replace(" ()", ""))
    return "\n".join(lines)


def plan_template(milliseconds: int) -> str:
    """The plan document of a new session (P2): bracketed placeholders read as empty. Times are since the epoch."""
    text = files("tui_agent.common").joinpath("plan_template.md").read_text(encoding="utf-8")
    return text.format(milliseconds=milliseconds)

"""initialize_plan and update_plan: propose changes of the plan document (P6)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tui_agent.common.domain import Mode, ToolResult
from tui_agent.common.workplan import CriterionChange, DecisionNote, PlanChange
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError


class InitializePlanArgs(Args):
    """See initialize_plan.md."""

    goal: str = Field(min_length=1, max_length=2_000)
    acceptance_criteria: list[str] = Field(default_factory=list, max_length=100)


class InitializePlan(Tool[InitializePlanArgs]):
    """Proposes goal and criteria; changes nothing on disk."""

    name = "initialize_plan"
    args = InitializePlanArgs
    subject = "goal"
    reads_only = True
    modes = (Mode.AGENT, Mode.PLAN)

    async def run(self, args: InitializePlanArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        if not args.goal.strip():
            raise ToolError("goal is empty.", "bad_arguments")
        criteria = _criteria(args.acceptance_criteria, completed=False)
        change = PlanChange(goal=args.goal.strip(), criteria=criteria, replace_criteria=True)
        return ToolResult(success=True, data=ctx.propose_plan(change))


class UpdatePlanArgs(Args):
    """See update_plan.md."""

    goal: str | None = Field(default=None, max_length=2_000)
    status: Literal["planning", "in_progress", "blocked", "completed", "failed"] | None = None
    criteria_met: list[str] | None = Field(default=None, max_length=100)
    criteria_added: list[str] | None = Field(default=None, max_length=100)
    decisions_made: list[dict[str, Any] | str] | None = Field(default=None, max_length=20)
    decisions_rejected: list[dict[str, Any] | str] | None = Field(default=None, max_length=20)


class UpdatePlan(Tool[UpdatePlanArgs]):
    """Proposes changes of the plan; changes nothing on disk."""

    name = "update_plan"
    args = UpdatePlanArgs
    reads_only = True
    modes = (Mode.AGENT, Mode.PLAN)

    def title(self, args: UpdatePlanArgs) -> str:
        """See Tool."""
        return ", ".join(name.replace("_", " ") for name, value in args if value)

    async def run(self, args: UpdatePlanArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        change = PlanChange(
            goal=(args.goal or "").strip(),
            status=args.status or "",
            criteria=(
                *_criteria(args.criteria_met, completed=True),
                *_criteria(args.criteria_added, completed=False, added=True),
            ),
            decisions_made=_decisions("decisions_made", args.decisions_made),
            decisions_rejected=_decisions("decisions_rejected", args.decisions_rejected),
        )
        if change == PlanChange():
            raise ToolError("Nothing was given to change.", "bad_arguments")
        return ToolResult(success=True, data=ctx.propose_plan(change))


def _criteria(texts: list[str] | None, *, completed: bool, added: bool = False) -> tuple[CriterionChange, ...]:
    unique = dict.fromkeys(" ".join(text.split()) for text in texts or ())
    return tuple(CriterionChange(description=text, completed=completed, added=added) for text in unique if text)


def _decisions(field: str, rows: list[dict[str, Any] | str] | None) -> tuple[DecisionNote, ...]:
    notes = []
    for row in rows or ():
        entry = {"title": row} if isinstance(row, str) else row
        title = entry.get("title")
        if not isinstance(title, str) or not title.strip():
            raise ToolError(f"Every entry of {field} needs a title.", "bad_arguments")
        alternatives = entry.get("alternatives")
        texts = alternatives if isinstance(alternatives, list) else [alternatives]
        notes.append(
            DecisionNote(
                title=title.strip(),
                rationale=str(entry.get("rationale") or "").strip(),
                alternatives=tuple(str(text).strip() for text in texts if text),
            )
        )
    return tuple(notes)


TOOLS = (InitializePlan(), UpdatePlan())

"""initialize_plan and update_plan: changes to the plan document, proposed to the user (P6)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from tui_agent.common.domain import Mode, ToolResult
from tui_agent.common.workplan import CriterionChange, DecisionNote, PlanChange
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError


class InitializePlanArgs(Args):
    """See initialize_plan.md."""

    goal: str = Field(min_length=1, max_length=2_000)
    acceptance_criteria: list[str] = Field(default_factory=list, max_length=100)


class InitializePlan(Tool[InitializePlanArgs]):
    """Changes nothing on disk: the user decides."""

    name: ClassVar[str] = "initialize_plan"
    args = InitializePlanArgs
    subject: ClassVar[str] = "goal"
    reads_only: ClassVar[bool] = True
    modes: ClassVar[tuple[Mode, ...]] = (Mode.AGENT, Mode.PLAN)

    async def run(self, args: InitializePlanArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        if not args.goal.strip():
            raise ToolError("goal is empty.", "bad_arguments")
        texts = dict.fromkeys(" ".join(one.split()) for one in args.acceptance_criteria)
        change = PlanChange(
            goal=args.goal.strip(),
            criteria=tuple(CriterionChange(description=one, completed=False) for one in texts if one),
            replace_criteria=True,
        )
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
    """Changes nothing on disk: the user decides."""

    name: ClassVar[str] = "update_plan"
    args = UpdatePlanArgs
    reads_only: ClassVar[bool] = True
    modes: ClassVar[tuple[Mode, ...]] = (Mode.AGENT, Mode.PLAN)

    def title(self, args: UpdatePlanArgs) -> str:
        """See Tool."""
        return ", ".join(name.replace("_", " ") for name, value in args if value)

    async def run(self, args: UpdatePlanArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        change = PlanChange(
            goal=(args.goal or "").strip(),
            status=args.status or "",
            criteria=(*_criteria(args.criteria_met, True), *_criteria(args.criteria_added, False)),
            decisions_made=_decisions("decisions_made", args.decisions_made),
            decisions_rejected=_decisions("decisions_rejected", args.decisions_rejected),
        )
        if change == PlanChange():
            raise ToolError("Nothing was given to change.", "bad_arguments")
        return ToolResult(success=True, data=ctx.propose_plan(change))


def _criteria(texts: list[str] | None, met: bool) -> tuple[CriterionChange, ...]:
    rows = dict.fromkeys(" ".join(one.split()) for one in texts or ())
    return tuple(CriterionChange(description=one, completed=met, added=not met) for one in rows if one)


def _decisions(name: str, rows: list[dict[str, Any] | str] | None) -> tuple[DecisionNote, ...]:
    notes = []
    for row in rows or ():
        given = {"title": row} if isinstance(row, str) else row
        title = given.get("title")
        if not isinstance(title, str) or not title.strip():
            raise ToolError(f"Every entry of {name} needs a title.", "bad_arguments")
        others = given.get("alternatives")
        texts = others if isinstance(others, list) else [others]
        notes.append(
            DecisionNote(
                title=title.strip(),
                rationale=str(given.get("rationale") or "").strip(),
                alternatives=tuple(str(one).strip() for one in texts if one),
            )
        )
    return tuple(notes)


TOOLS = (InitializePlan(), UpdatePlan())

"""update_plan: ticks, criteria, decisions and status, proposed to the user (P6)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from tui_agent.domain import Mode, ToolResult
from tui_agent.tools.base import Args, Bench, Tool, ToolError
from tui_agent.workplan import CriterionChange, DecisionNote, PlanChange


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
    aliases: ClassVar[tuple[str, ...]] = ("edit_plan", "plan_update", "set_plan")
    argument_aliases: ClassVar[dict[str, str]] = {
        "completed_criteria": "criteria_met",
        "completed": "criteria_met",
        "new_criteria": "criteria_added",
        "acceptance_criteria": "criteria_added",
        "decisions": "decisions_made",
        "rejected": "decisions_rejected",
    }

    def title(self, args: UpdatePlanArgs) -> str:
        """See Tool."""
        return ", ".join(name.replace("_", " ") for name, value in args if value)

    async def run(self, args: UpdatePlanArgs, bench: Bench) -> ToolResult:
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
        return ToolResult(success=True, data=bench.propose_plan(change))


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

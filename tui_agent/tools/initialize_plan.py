"""initialize_plan: goal and acceptance criteria, proposed to the user (P6)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tui_agent.domain import Mode, ToolResult
from tui_agent.tools.base import Args, Bench, Tool, ToolError
from tui_agent.workplan import CriterionChange, PlanChange


class InitializePlanArgs(Args):
    """See initialize_plan.md."""

    goal: str = Field(min_length=1, max_length=2_000)
    acceptance_criteria: list[str] = Field(default_factory=list, max_length=100)


class InitializePlan(Tool[InitializePlanArgs]):
    """Changes nothing on disk: the user decides."""

    name: ClassVar[str] = "initialize_plan"
    args = InitializePlanArgs
    reads_only: ClassVar[bool] = True
    modes: ClassVar[tuple[Mode, ...]] = (Mode.AGENT, Mode.PLAN)
    aliases: ClassVar[tuple[str, ...]] = ("create_plan", "init_plan")
    argument_aliases: ClassVar[dict[str, str]] = {
        "criteria": "acceptance_criteria",
        "objective": "goal",
        "title": "goal",
    }

    def title(self, args: InitializePlanArgs) -> str:
        """See Tool."""
        return args.goal

    async def run(self, args: InitializePlanArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        if not args.goal.strip():
            raise ToolError("goal is empty.", "bad_arguments")
        texts = dict.fromkeys(" ".join(one.split()) for one in args.acceptance_criteria)
        change = PlanChange(
            goal=args.goal.strip(),
            criteria=tuple(CriterionChange(description=one, completed=False) for one in texts if one),
            fresh=True,
        )
        return ToolResult(success=True, data=bench.propose_plan(change))

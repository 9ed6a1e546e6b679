from __future__ import annotations

from typing import Any

import pytest

from tests.doubles.fake_tool_context import FakeToolContext
from tests.tools.calling import call
from tui_agent.common.workplan import CriterionChange, DecisionNote, PlanChange


async def test_initialize_plan_proposes_goal_and_criteria(ctx: FakeToolContext) -> None:
    result = await call(ctx, "initialize_plan", goal=" A shop ", acceptance_criteria=["Tests  pass", "Tests pass"])
    assert result.success and ctx.actions == []
    criteria = (CriterionChange(description="Tests pass", completed=False),)
    assert ctx.proposed == [PlanChange(goal="A shop", criteria=criteria, replace_criteria=True)]
    assert (await call(ctx, "initialize_plan", goal="only that")).success
    assert (await call(ctx, "initialize_plan", goal="  ")).code == "bad_arguments"


async def test_update_plan_proposes_ticks_criteria_and_decisions(ctx: FakeToolContext) -> None:
    result = await call(
        ctx,
        "update_plan",
        status="in_progress",
        criteria_met=["Tests pass"],
        criteria_added=["Docs are there"],
        decisions_made=[{"title": "argon2", "rationale": "stronger", "alternatives": ["bcrypt", "scrypt"]}],
        decisions_rejected=["bcrypt"],
    )
    assert result.success
    (change,) = ctx.proposed
    assert change.status == "in_progress" and not change.replace_criteria
    assert [(criterion.completed, criterion.added) for criterion in change.criteria] == [(True, False), (False, True)]
    note = DecisionNote(title="argon2", rationale="stronger", alternatives=("bcrypt", "scrypt"))
    assert change.decisions_made == (note,)
    assert change.decisions_rejected == (DecisionNote(title="bcrypt"),)


@pytest.mark.parametrize(
    "arguments", [{}, {"status": "nearly"}, {"decisions_made": [{"why": "no title"}]}, {"criteria_met": [""]}]
)
async def test_an_empty_proposal_is_reported(ctx: FakeToolContext, arguments: dict[str, Any]) -> None:
    result = await call(ctx, "update_plan", **arguments)
    assert result.code == "bad_arguments" and result.error and ctx.proposed == []

"""A plan as a text of its own, for tests that begin with one."""

from __future__ import annotations

from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import parse
from tui_agent.plan.writing import SKELETON, rewrite


def plan_text(plan: Plan) -> str:
    """The empty plan document, filled with `plan`."""
    return rewrite(plan, parse(SKELETON)).text

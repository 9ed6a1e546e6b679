"""Plan documents as text."""

from __future__ import annotations

from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import parse
from tui_agent.plan.writing import SKELETON, rewrite


def plan_text(plan: Plan) -> str:
    """Return an empty plan document filled with `plan`."""
    return rewrite(plan, parse(SKELETON)).text

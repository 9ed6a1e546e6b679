"""Asking the user which of two edits of the plan document holds (P4)."""

from __future__ import annotations

from tui_agent.engine.approvals import Approvals
from tui_agent.events import Event, PlanDocConflict, PlanDocSettled
from tui_agent.plan.merge import Choice, Conflict


async def chosen(conflict: Conflict, approvals: Approvals, source: str = "") -> Choice | None:
    """The user's choice; None when they made none. `source` says where the other text comes from."""

    def asked(request: str) -> Event:
        where = " · ".join(filter(None, (source, conflict.where, conflict.item, conflict.field)))
        return PlanDocConflict(
            id=request,
            where=where,
            ours=conflict.ours or "(removed)",
            theirs=conflict.theirs or "(removed)",
        )

    answer = await approvals.decide(
        asked, lambda request, answer: PlanDocSettled(id=request, answer=answer), run="", node=""
    )
    taken = (answer.data or {}).get("take")
    if answer.verdict != "approve" or taken not in ("ours", "theirs", "both"):
        return None
    choice: Choice = taken
    return choice

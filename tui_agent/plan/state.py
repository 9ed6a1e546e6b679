"""The state of the work on a plan in a few words, for the screen and the page (U2)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tui_agent.plan.document import Plan


class PlanState(NamedTuple):
    """How the work on a plan stands."""

    symbol: str
    role: str
    """Of its color: `accent`, `ok`, `warn`, `bad` or `muted`."""
    words: str


STATES: Final = {
    "planning": PlanState("○", "muted", "planning"),
    "in_progress": PlanState("●", "accent", "in progress"),
    "blocked": PlanState("■", "warn", "blocked"),
    "completed": PlanState("✓", "ok", "completed"),
    "failed": PlanState("✗", "bad", "failed"),
}
"""Status of the document → what is shown."""
RESULTS: Final = {
    "✓": PlanState("✓", "ok", "done"),
    "🔄": PlanState("◐", "muted", "unfinished"),
    "❌": PlanState("✗", "bad", "failed"),
}
"""Mark at the beginning of the newest result → what is shown between runs."""


def plan_state(plan: Plan, now: float, *, is_running: bool = False, has_steps: bool = False) -> PlanState:
    """Return the state of the work; `now` is in seconds since the epoch, `has_steps`: the run carries out a plan.

    The document stays `in_progress` for more work to follow; between runs it is told how the last work ended.
    """
    last = plan.execution_log[-1] if plan.execution_log else None
    when = "" if last is None or last.when is None else f" {time_label(last.when, datetime.fromtimestamp(now))}"
    if plan.status == "completed":
        state = STATES["completed"]
        return state._replace(words=state.words + when)
    if has_steps and plan.status == "planning":  # the document is first written with the summary
        return STATES["in_progress"]
    if is_running or plan.status != "in_progress":
        return STATES.get(str(plan.status), STATES["planning"])
    if to_do := len(plan.acceptance_criteria) - plan.completed:
        return PlanState("○", "muted", f"{to_do} to do")
    if last is None:
        return PlanState("○", "muted", "open")
    state = RESULTS[next((sign for sign in RESULTS if last.result.startswith(sign)), "✓")]
    return state._replace(words=state.words + when)


def time_label(when: datetime, newest: datetime | None) -> str:
    """Format a time of the day of `newest` as such, any other one as a date."""
    if newest is not None and when.date() == newest.date():
        return f"{when:%H:%M}"
    return f"{when:%d %b}".lstrip("0")

"""What the plan panel shows of the newest run: whether it is going on, its request, and the steps of its plan (U2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tui_agent.view.items import NodeStatus, ProgressNode, SessionView
from widgets.words import WORDS

if TYPE_CHECKING:
    from tui_agent.plan.document import Plan


class RunStep(NamedTuple):
    """A step of the newest run."""

    number: int
    """0 for the plan's check."""
    title: str
    status: NodeStatus
    ms: int = 0


@dataclass(frozen=True, slots=True)
class PlanRun:
    """The newest run."""

    is_running: bool = False
    request: str = ""
    steps: tuple[RunStep, ...] = ()
    has_plan: bool = False
    """It carries out the steps of a plan, which may be shown elsewhere."""


def plan_run(view: SessionView, *, with_steps: bool) -> PlanRun:
    """Return the newest run of a session, also `with_steps` if they are shown nowhere else."""
    tree = view.tree
    if not tree.roots:
        return PlanRun(view.busy)
    root = tree.nodes[tree.roots[-1]]
    steps = tuple(_steps(view, root))
    request = root.title[:2000] if view.busy else ""
    return PlanRun(view.busy, request, steps if with_steps else (), has_plan=view.busy and bool(steps))


def _steps(view: SessionView, run: ProgressNode) -> Iterator[RunStep]:
    nodes = view.tree.nodes
    for stage in run.children:
        for child in nodes[stage].children if nodes[stage].kind == "stage" else ():
            node = nodes[child]
            if node.kind == "step":
                yield RunStep(node.number, node.title[:2000], node.status, 0 if node.status == "running" else node.ms)


def plan_state(plan: Plan, run: PlanRun, now: float) -> tuple[str, str, str]:
    """Return symbol, role of its color, and words for the state of the work; `now` is in seconds since the epoch.

    The document stays `in_progress` for more work to follow; between runs the panel tells how the last work ended.
    """
    last = plan.execution_log[-1] if plan.execution_log else None
    when = "" if last is None or last.when is None else f" {time_label(last.when, datetime.fromtimestamp(now))}"
    if plan.status == "completed":
        symbol, role, words = WORDS.plan_states["completed"]
        return symbol, role, words + when
    if run.has_plan and plan.status == "planning":  # the document is first written with the summary
        return WORDS.plan_states["in_progress"]
    if run.is_running or plan.status != "in_progress":
        return WORDS.plan_states.get(str(plan.status), WORDS.plan_states["planning"])
    if to_do := len(plan.acceptance_criteria) - plan.completed:
        return "○", "muted", f"{to_do} to do"
    if last is None:
        return "○", "muted", "open"
    result = next((sign for sign in WORDS.work_results if last.result.startswith(sign)), "✓")
    symbol, role, words = WORDS.work_results[result]
    return symbol, role, words + when


def time_label(when: datetime, newest: datetime | None) -> str:
    """Format a time of the day of `newest` as such, any other one as a date."""
    if newest is not None and when.date() == newest.date():
        return f"{when:%H:%M}"
    return f"{when:%d %b}".lstrip("0")

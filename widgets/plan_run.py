"""What the plan panel shows of the newest run: whether it is going on, its request, and the steps of its plan (U2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from tui_agent.view.items import NodeStatus, ProgressNode, SessionView


class RunStep(NamedTuple):
    """A step of the newest run."""

    number: int
    """0 for the plan's check."""
    title: str
    status: NodeStatus
    ms: int = 0


class PlanRun(msgspec.Struct, frozen=True):
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

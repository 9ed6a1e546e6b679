"""The task suite with planning and without: `python -m tests.benchmarks.planning [--tasks 120] [--seed 4] [--told]`.

The product's own engine works over HTTP on a scripted model (planning_model.py), which does not know whether anything
plans, on the same tasks with the same faults (benchmarks/planning/fault_plan.json; the model's wit is planning_model.json). Exits with 1 when planning misses a target
of the suite, or does not beat no planning.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from benchmarks.planning.figures import better, missed, rows
from benchmarks.planning.running import Outcome, carry_out
from benchmarks.planning.tasks import COUNT, Task, fault_plan, suite
from tests.benchmarks.planning_model import PlanningModel, Traits, traits
from tui_agent.commands.output import TextPage
from tui_agent.mock_server.app import MockServer

WAYS: dict[str, dict[str, Any]] = {
    "planning": {"mode": "agent"},
    "no cache": {"mode": "agent", "plan_cache": False},
    "without": {"mode": "direct"},
}
"""How the tasks are worked on → settings. `no cache`: every plan is the model's own, so that its bad ones show."""
SIDE_BY_SIDE = 4
MODEL = "mock-model"
LONGEST = 120.0


async def measure(
    tasks: Sequence[Task], way: str, folder: Path, *, wit: Traits | None = None, provider: str = "openai", seed: int = 0
) -> list[Outcome]:
    """All tasks in one way, a few at a time, in folders of their own below `folder`."""
    slots = asyncio.Semaphore(SIDE_BY_SIDE)
    model = PlanningModel(tasks, wit or traits(), seed)
    async with MockServer(model, strict=True) as server:
        url = server.url + ("/v1" if provider == "openai" else "")
        flags = {"provider": provider, "base_url": url, "model": MODEL, **WAYS[way]}

        async def one(task: Task) -> Outcome:
            async with slots:
                place = folder / way.replace(" ", "-") / str(task.number)
                return await carry_out(task, place, flags["mode"], flags, longest=LONGEST)

        return list(await asyncio.gather(*map(one, tasks)))


def told(outcomes: Sequence[Outcome]) -> str:
    """A line for each task in which something was in the way or went wrong."""
    lines = []
    for one in outcomes:
        if one.stumbled or not one.done:
            how = "done" if one.done else f"{one.ended}, right={one.right}"
            counts = f"failed {one.failed_calls}, fallbacks {one.fallbacks}, recoveries {one.recoveries}"
            words = " ".join(one.said.split())[:140]
            lines.append(f"  {one.number:4} {one.family:9} {one.fault or '-':15} {how}; {counts}; «{words}»")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.planning", description=__doc__)
    parser.add_argument("--tasks", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, help="of the faults; default that of the fault plan")
    parser.add_argument("--provider", choices=("openai", "ollama"), default="openai")
    parser.add_argument("--told", action="store_true", help="a line for each task that met something")
    options = parser.parse_args()
    plan = fault_plan()
    if options.seed is not None:
        plan = msgspec.structs.replace(plan, seed=options.seed)
    tasks, found, began = suite(options.tasks, plan), dict[str, list[Outcome]](), perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, way in enumerate(WAYS):
            os.environ["TUI_AGENT_HOME"] = str(Path(folder) / f"home{number}")
            measuring = measure(tasks, way, Path(folder) / "work", provider=options.provider, seed=plan.seed)
            found[way] = asyncio.run(measuring)
            if options.told:
                print(f"\n{way}\n{told(found[way])}")
    struck = sum(bool(task.fault) for task in tasks)
    spent = perf_counter() - began
    print(f"\n{len(tasks)} tasks, seed {plan.seed}, a fault in the way of {struck}, {spent:.0f} s in all\n")
    head = ["figure", "target", *(part for way in found for part in (way, ""))]
    TextPage().table(head, [row[:-1] for row in rows(found)], right=(1, 2, 4, 6))
    faults = missed(found["planning"])
    for way in ("planning", "no cache"):
        faults += [f"{way}: {fault}" for fault in better(found[way], found["without"])]
    if faults:
        print("\nMISSED: " + "; ".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

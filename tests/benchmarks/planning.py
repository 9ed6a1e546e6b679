"""The task suite with planning and without: `python -m tests.benchmarks.planning [--tasks 120] [--told]`.

The product's own engine works over HTTP on a scripted model (planning_model.py), which does not know whether anything
plans, on the same tasks with the same faults (commands/tasks/fault_plan.json). Exits with 1 when planning misses a target
of seed 004, or does not beat no planning.
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

from tests.benchmarks.planning_model import PlanningModel, Traits, traits
from tui_agent.commands.page import Page
from tui_agent.commands.tasks.counting import better, missed, rows
from tui_agent.commands.tasks.making import COUNT, Task, fault_plan, suite
from tui_agent.commands.tasks.working import MODES, Outcome, carry_out
from tui_agent.mock_server.app import MockServer

SIDE_BY_SIDE = 4
MODEL = "mock-model"
LONGEST = 120.0


async def measure(
    tasks: Sequence[Task], mode: str, folder: Path, *, wit: Traits | None = None, provider: str = "openai"
) -> list[Outcome]:
    """All tasks in one mode, a few at a time, in folders of their own below `folder`."""
    slots = asyncio.Semaphore(SIDE_BY_SIDE)
    model = PlanningModel(tasks, wit or traits(), fault_plan().seed)
    async with MockServer(model, strict=True) as server:
        url = server.url + ("/v1" if provider == "openai" else "")
        flags = {"provider": provider, "base_url": url, "model": MODEL}

        async def one(task: Task) -> Outcome:
            async with slots:
                place = folder / mode / str(task.number)
                return await carry_out(task, place, mode, flags, longest=LONGEST)

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
    parser.add_argument("--provider", choices=("openai", "ollama"), default="openai")
    parser.add_argument("--told", action="store_true", help="a line for each task that met something")
    options = parser.parse_args()
    tasks, page, by_mode, began = suite(options.tasks), Page(), {}, perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for mode in MODES:
            os.environ["TUI_AGENT_HOME"] = str(Path(folder) / f"home-{mode}")
            by_mode[mode] = asyncio.run(
                measure(tasks, mode, Path(folder) / "work", provider=options.provider)
            )
            if options.told:
                print(f"\n{mode}\n{told(by_mode[mode])}")
    struck = sum(bool(task.fault) for task in tasks)
    print(f"\n{len(tasks)} tasks, a fault in the way of {struck}, {perf_counter() - began:.0f} s in all\n")
    head = ("figure", "target", "planning", "", "without", "", "what is counted")
    page.table(head, rows(by_mode), right=(1, 2, 4))
    faults = missed(by_mode["agent"]) + better(by_mode["agent"], by_mode["direct"])
    if faults:
        print("\nMISSED: " + "; ".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

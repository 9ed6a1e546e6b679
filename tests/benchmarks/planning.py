"""The task suite with planning and without: `python -m tests.benchmarks.planning [--tasks 120] [--seed 4] [--told]`.

The product's own engine works over HTTP on a scripted model (planning_model.py), which does not know whether
planning is used, on the same tasks with the same faults (benchmarks/planning/fault_plan.json; the model's traits are in
planning_model.json). Exits with 1 if planning misses a target of the suite or is not better than no planning.
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

from benchmarks.planning.figures import disadvantages, missed_goals, table_rows
from benchmarks.planning.running import Outcome, run_task
from benchmarks.planning.tasks import COUNT, Task, fault_plan, suite
from tests.benchmarks.planning_model import PlanningModel, Traits, traits
from tui_agent.commands.output import TextPage
from tui_agent.mock_server.app import MockServer

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "planning": {"mode": "agent"},
    "no cache": {"mode": "agent", "plan_cache": False},
    "without": {"mode": "direct"},
}
"""Configuration → settings. With `no cache` every plan comes from the model, so its bad ones show."""
CONCURRENT_TASKS = 4
MODEL = "mock-model"
TASK_SECONDS = 120.0


async def measure(
    tasks: Sequence[Task],
    configuration: str,
    folder: Path,
    *,
    model_traits: Traits | None = None,
    provider: str = "openai",
    seed: int = 0,
) -> list[Outcome]:
    """Run all tasks in one configuration, a few at a time, each in a folder below `folder`."""
    slots = asyncio.Semaphore(CONCURRENT_TASKS)
    model = PlanningModel(tasks, model_traits or traits(), seed)
    async with MockServer(model, strict=True) as server:
        url = server.url + ("/v1" if provider == "openai" else "")
        flags = {"provider": provider, "base_url": url, "model": MODEL, **CONFIGURATIONS[configuration]}

        async def run(task: Task) -> Outcome:
            async with slots:
                workspace = folder / configuration.replace(" ", "-") / str(task.number)
                return await run_task(task, workspace, flags["mode"], flags, timeout=TASK_SECONDS)

        return list(await asyncio.gather(*map(run, tasks)))


def describe(outcomes: Sequence[Outcome]) -> str:
    """Describe each task in which something failed, in one line."""
    lines = []
    for outcome in outcomes:
        if outcome.stumbled or not outcome.done:
            status = "done" if outcome.done else f"{outcome.ended}, right={outcome.right}"
            counts = f"failed {outcome.failed_calls}, fallbacks {outcome.fallbacks}, recoveries {outcome.recoveries}"
            text = " ".join(outcome.said.split())[:140]
            lines.append(
                f"  {outcome.number:4} {outcome.family:9} {outcome.fault or '-':15} {status}; {counts}; «{text}»"
            )
    return "\n".join(lines)


def main() -> int:
    """Measure, print the results and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.planning", description=__doc__)
    parser.add_argument("--tasks", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, help="seed of the faults; default: that of the fault plan")
    parser.add_argument("--provider", choices=("openai", "ollama"), default="openai")
    parser.add_argument("--told", action="store_true", help="print each task in which something failed")
    options = parser.parse_args()
    plan = fault_plan()
    if options.seed is not None:
        plan = msgspec.structs.replace(plan, seed=options.seed)
    tasks, results, started = suite(options.tasks, plan), dict[str, list[Outcome]](), perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, configuration in enumerate(CONFIGURATIONS):
            os.environ["TUI_AGENT_HOME"] = str(Path(folder) / f"home{number}")
            measuring = measure(tasks, configuration, Path(folder) / "work", provider=options.provider, seed=plan.seed)
            results[configuration] = asyncio.run(measuring)
            if options.describe:
                print(f"\n{configuration}\n{describe(results[configuration])}")
    with_fault = sum(bool(task.fault) for task in tasks)
    spent = perf_counter() - started
    print(f"\n{len(tasks)} tasks, seed {plan.seed}, {with_fault} with a fault, {spent:.0f} s in all\n")
    head = ["figure", "target", *(cell for configuration in results for cell in (configuration, ""))]
    TextPage().table(head, [row[:-1] for row in table_rows(results)], right=(1, 2, 4, 6))
    failures = missed_goals(results["planning"])
    for configuration in ("planning", "no cache"):
        failures += [
            f"{configuration}: {failure}" for failure in disadvantages(results[configuration], results["without"])
        ]
    if failures:
        print("\nMISSED: " + "; ".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

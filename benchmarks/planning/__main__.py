"""The task suite on a real model: python -m benchmarks.planning MODEL [-n 120] [--json] [server options]."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.planning.figures import figures, table_rows
from benchmarks.planning.running import MODES, Outcome, run_task
from benchmarks.planning.tasks import COUNT, fault_plan, suite
from tui_agent import __version__
from tui_agent.commands import server_access
from tui_agent.commands.arguments import add_options
from tui_agent.commands.output import TextPage
from tui_agent.commands.server_access import ServerUnavailable
from tui_agent.common import paths
from tui_agent.engine.options import SessionOpenError

GOAL = 0.8
"""Share of tasks that planning must complete at the first attempt."""
FIGURE = "first-attempt success"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite and print its figures; return 0 if the goal is reached, 1 if not, 4 without a model server.

    Ctrl+C ends it with the results so far.
    """
    return run_suite(_parser().parse_args(argv))


def run_suite(args: argparse.Namespace) -> int:
    """The same for parsed arguments (`tui-agent reliability --tasks`)."""
    page = TextPage(sys.stderr if args.json else sys.stdout)
    by_mode: dict[str, list[Outcome]] = {mode: [] for mode in MODES}
    stopped, name = False, args.model or ""
    try:
        name = asyncio.run(_model(args))
        with tempfile.TemporaryDirectory(prefix="tui-agent-tasks-") as folder:
            for mode in MODES:
                with _home(Path(folder) / f"home-{mode}"):
                    asyncio.run(_measure(args, name, mode, Path(folder), by_mode[mode], page))
    except (ServerUnavailable, SessionOpenError) as error:
        page.progress("")
        sys.stderr.write(f"tui-agent: {error}\n")
        return 4
    except KeyboardInterrupt:
        stopped = True
    page.progress("")
    if args.json:
        sys.stdout.write(json.dumps(as_data(name, by_mode, stopped), indent=1) + "\n")
    elif any(by_mode.values()):
        print_results(name, by_mode, page)
    if stopped:
        return 130
    return 0 if (figures(by_mode["agent"])[FIGURE] or 0.0) >= GOAL else 1


def _parser() -> argparse.ArgumentParser:
    about = "Small tasks with injected faults. The model's calls are executed without asking."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=about)
    shared = ["measured-model", "settings-of", "reliability.timeout", "reliability.json"]
    add_options(parser, [*shared, "provider", "base-url", "context-window", "scenarios"])
    parser.add_argument("-n", type=int, default=COUNT, metavar="N", help=f"number of tasks; default: {COUNT}")
    return parser


async def _model(args: argparse.Namespace) -> str:
    """The model's name, after checking that it exists. Raises ServerUnavailable."""
    config = await asyncio.to_thread(server_access.load_config, args)
    access = server_access.access_server(config.loaded, args.scenarios, args.timeout)
    try:
        name: str = args.model or await server_access.default_model(access, config)
        await server_access.describe_model(access, name)
        return name
    finally:
        await access.aclose()


@contextmanager
def _home(folder: Path) -> Iterator[None]:
    """Use a temporary home with the user's settings, to keep sessions and plans separate from the user's."""
    folder.mkdir()
    for file in (paths.config_file(), paths.models_file()):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
    previous = os.environ.get("TUI_AGENT_HOME")
    os.environ["TUI_AGENT_HOME"] = str(folder)
    try:
        yield
    finally:
        if previous is None:
            del os.environ["TUI_AGENT_HOME"]
        else:
            os.environ["TUI_AGENT_HOME"] = previous


async def _measure(
    args: argparse.Namespace, name: str, mode: str, folder: Path, outcomes: list[Outcome], page: TextPage
) -> None:
    """Fill `outcomes`, one task after another, since a local model serves one request at a time."""
    values: dict[str, Any] = {
        "provider": args.provider,
        "base_url": args.base_url,
        "model": name,
        "context_window": args.context_window,
    }
    flags = {key: value for key, value in values.items() if value}
    for task in suite(args.n):
        done = sum(outcome.done for outcome in outcomes)
        page.progress(f"{name}: {mode}, task {task.number} of {args.n} · {done} done so far")
        workspace = folder / "work" / mode / str(task.number)
        outcomes.append(await run_task(task, workspace, mode, flags, scenarios=args.scenarios))
        if outcomes[-1].ended == "unreachable":
            raise ServerUnavailable(outcomes[-1].said)


def print_results(name: str, by_mode: dict[str, list[Outcome]], page: TextPage) -> None:
    """Print the table."""
    count = len(by_mode["agent"])
    page.line(f"{name}: {count} tasks, with planning and without", "bold")
    page.line()
    head = ("figure", "target", "planning", "", "without", "")
    page.table(head, [row[:-1] for row in table_rows(by_mode)], right=(1, 2, 4))
    page.line()
    for mode, outcomes in by_mode.items():
        for failed in [outcome for outcome in outcomes if not outcome.done][:10]:
            text = " ".join(failed.said.split())[:140]
            page.hanging(f"  {mode:7}", 9, f"task {failed.number} ({failed.family}): {failed.ended}. {text}", "dim")


def as_data(name: str, by_mode: dict[str, list[Outcome]], stopped: bool) -> Any:
    """The output of --json."""
    return {
        "version": __version__,
        "model": name,
        "goal": GOAL,
        "stopped": stopped,
        "faults": msgspec.to_builtins(fault_plan()),
        "figures": {mode: figures(outcomes) for mode, outcomes in by_mode.items()},
        "tasks": {mode: msgspec.to_builtins(outcomes) for mode, outcomes in by_mode.items()},
    }


if __name__ == "__main__":
    sys.exit(main())

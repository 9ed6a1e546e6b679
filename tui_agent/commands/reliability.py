"""`tui-agent reliability`: measures how many of a model's replies are valid (M8), and its best strategy (E4)."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from tui_agent import __version__
from tui_agent.commands import calibration, probing, server_access
from tui_agent.commands.output import INTERRUPTED, TextPage
from tui_agent.commands.probing import Cell, ProbeSetup
from tui_agent.commands.server_access import CommandConfig, ServerAccess, ServerUnavailable
from tui_agent.common import paths
from tui_agent.engine.models.protocol_fallback import SMALL_MODEL
from tui_agent.models.catalog import Calibration
from tui_agent.platform.pipes import print_error
from tui_agent.protocols.parser import Protocol
from tui_agent.text import one_line, pluralize

COUNT = 20
"""Tasks per strategy and temperature."""
QUICK_COUNT = 2
"""The same in a quick measurement."""
TEMPERATURES = (0.0, 0.3, 0.7)
GOAL = 95
"""Percentage of valid replies that makes a model good enough (M8)."""
UNAVAILABLE = 4
"""Exit code if there is no usable server."""
_MAX_NO_REPLY = 3
"""Consecutive requests without a reply after which the rest of a cell is skipped."""
_MAX_QUICK_FAILURES = 2
"""Failures after which a quick measurement skips the rest of a strategy."""
_QUICK_REPLY_TOKENS = 300
"""Token limit of a reply in a quick measurement; none of its tasks needs more."""
_SAVED_HINT = 'Sessions start with it; to use another one, set "strategy" in the model\'s options.'


class Measurement(msgspec.Struct):
    """The measurement so far."""

    name: str
    cells: list[Cell]
    small: bool = False
    """The model has few parameters."""
    calibration: Calibration = Calibration()
    saved: bool = False
    not_saved: str = ""
    """Why it was not saved in models.json."""
    stopped: bool = False
    settled: bool = False
    """A quick measurement ended early because no other strategy could be preferred."""

    def conclude(self, provider: str) -> None:
        """Evaluate the cells and decide whether the result can be saved."""
        self.cells = [cell for cell in self.cells if cell.attempts]
        self.calibration = calibration.calibrate(self.cells, self.small)
        self.not_saved = calibration.reason_not_to_save(
            self.calibration, self.cells, stopped=self.stopped, provider=provider, settled=self.settled
        )


def run_reliability(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Measure, print the result and return the exit code. After Ctrl+C, print what was measured so far."""
    if args.tasks:
        return _run_task_suite(args, parser)
    args.n = args.n or (QUICK_COUNT if args.quick else COUNT)
    args.temperatures = args.temperatures or (TEMPERATURES[:1] if args.quick else TEMPERATURES)
    page = TextPage(sys.stderr if args.json else sys.stdout)
    measurement = Measurement(args.model or "", [])
    try:
        asyncio.run(_measure(args, measurement, page))
    except ServerUnavailable as error:
        page.progress("")
        print_error(str(error))
        return UNAVAILABLE
    except KeyboardInterrupt:
        measurement.stopped = True
        measurement.conclude("")
    page.progress("")
    if args.json:
        sys.stdout.write(json.dumps(_measurement_as_data(measurement), indent=1) + "\n")
    elif measurement.cells:
        _print_measurement(measurement, page, args.n)
    if measurement.stopped:
        return INTERRUPTED
    return 0 if any(_reaches_goal(cell) for cell in measurement.cells) else 1


def _reaches_goal(cell: Cell) -> bool:
    return 100 * cell.valid >= GOAL * len(cell.attempts)


def _run_task_suite(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Run the developers' task suite, which is part of the source tree but not of the installed package."""
    if args.quick:
        parser.error("--tasks can't be combined with --quick")
    try:
        suite = importlib.import_module("benchmarks.planning.__main__")
    except ModuleNotFoundError:
        parser.error("--tasks needs the source checkout: install tui-agent from it with `pip install -e .`")
    args.n = args.n or suite.COUNT
    code: int = suite.run_suite(args)
    return code


async def _measure(args: argparse.Namespace, measurement: Measurement, page: TextPage) -> None:
    """Fill `measurement` and save it in models.json. Raises ServerUnavailable."""
    config = await asyncio.to_thread(server_access.load_config, args)
    access = server_access.access_server(config.loaded, args.scenarios, args.timeout)
    try:
        setup = await _probe_setup(args, access, config, measurement)
        measurement.name = setup.name
        for strategy in _strategy_order(args, measurement.small):
            for temperature in args.temperatures:
                cell = Cell(strategy, temperature, [])
                measurement.cells.append(cell)
                await _fill_cell(cell, setup, access, args, page.progress)
            if args.quick and calibration.is_perfect(cell):
                measurement.settled = True
                break
        measurement.conclude(access.model.provider)
        if args.no_save:
            measurement.not_saved = "--no-save"
        elif not measurement.not_saved:
            measurement.not_saved = await calibration.save_measurement(
                paths.models_file(), access.model, setup.name, measurement.calibration
            )
            measurement.saved = not measurement.not_saved
    finally:
        await access.aclose()


def _strategy_order(args: argparse.Namespace, small: bool) -> Sequence[Protocol]:
    """The strategies to measure; a quick measurement starts with the preferred ones."""
    if not args.quick:
        return tuple(args.strategies)
    order = calibration.PREFERRED_SMALL if small else calibration.PREFERRED
    return tuple(sorted(args.strategies, key=order.index))


async def _probe_setup(
    args: argparse.Namespace, access: ServerAccess, config: CommandConfig, measurement: Measurement
) -> ProbeSetup:
    name = args.model or await server_access.default_model(access, config)
    info = await server_access.describe_model(access, name)
    measurement.small = info.parameters is not None and info.parameters < SMALL_MODEL
    return server_access.probe_setup(info, access, config, args.timeout, _QUICK_REPLY_TOKENS if args.quick else None)


async def _fill_cell(
    cell: Cell, setup: ProbeSetup, access: ServerAccess, args: argparse.Namespace, on_progress: Callable[[str], None]
) -> None:
    tasks = probing.tasks_for(cell.protocol, args.quick)
    for number in range(args.n):
        status = f"{setup.name}: {cell.protocol}, temperature {cell.temperature:g}, {number + 1} of {args.n}"
        on_progress(f"{status} · {cell.valid} valid so far" if number else status)
        task = tasks[number % len(tasks)]
        attempt = await probing.probe(access.model, setup, task, cell.protocol, cell.temperature)
        if args.quick and attempt.kind == "broken":  # of two replies none can be spared
            attempt = await probing.probe(access.model, setup, task, cell.protocol, cell.temperature)
        cell.attempts.append(attempt)
        latest = [attempt.kind for attempt in cell.attempts[-_MAX_NO_REPLY:]]
        if len(latest) == _MAX_NO_REPLY and set(latest) <= set(probing.NO_REPLY_KINDS):
            return
        if args.quick and len(cell.attempts) - cell.valid >= _MAX_QUICK_FAILURES:
            return


def _print_measurement(measurement: Measurement, page: TextPage, count: int) -> None:
    cells = measurement.cells
    page.line(f"{measurement.name}: replies that are valid and do what was asked", "bold")
    page.line()
    _print_table(cells, page)
    _print_failures(cells, page)
    page.line()
    best = max(cells, key=lambda cell: (cell.valid / len(cell.attempts), -cell.temperature))
    share = 100 * best.valid // len(best.attempts)
    verdict = "good enough" if _reaches_goal(best) else f"below the goal of {GOAL}%"
    page.line(f"Best: {best.protocol} at {best.temperature:g} with {share}%, {verdict}.", "bold")
    page.line(f"Strategy: {calibration.describe_calibration(measurement.calibration)}", "bold")
    if measurement.saved:
        page.hanging("", 0, f"Saved in {paths.models_file()}. {_SAVED_HINT}", "dim")
    else:
        page.hanging("", 0, f"Not saved in models.json: {measurement.not_saved}.", "dim")
    if count < COUNT:
        tasks = pluralize(count, "task")
        page.line(f"With {tasks} each these are rough numbers; use -n 100 for firm ones.", "dim")


def _print_table(cells: Sequence[Cell], page: TextPage) -> None:
    head = ("strategy", "temp", "valid", "", "in text", "median", "failures")
    rows = []
    for cell in cells:
        total = len(cell.attempts)
        seconds = cell.median_seconds
        rows.append((
            cell.protocol, f"{cell.temperature:g}", f"{100 * cell.valid // total}%", f"{cell.valid}/{total}",
            str(cell.recovered or ""), "" if seconds is None else f"{seconds:.1f} s",
            ", ".join(f"{kind} {number}" for kind, number in cell.failures.most_common()),
        ))  # fmt: skip
    page.table(head, rows, right=(1, 2, 3, 4, 5))


def _print_failures(cells: Sequence[Cell], page: TextPage) -> None:
    """Explain each kind of failure that occurred, with an example."""
    attempts = [attempt for cell in cells for attempt in cell.attempts]
    kinds = Counter(attempt.kind for attempt in attempts if attempt.kind != probing.VALID).most_common()
    if not kinds:
        return
    page.line()
    width = max(len(kind) for kind, _ in kinds) + 2
    for kind, _ in kinds:
        detail = next((attempt.detail for attempt in attempts if attempt.kind == kind and attempt.detail), "")
        example = f"; such as: {one_line(detail, 140)}" if detail else ""
        page.hanging(f"  {kind.ljust(width)}", width + 2, probing.FAILURE_KINDS.get(kind, kind) + example, "dim")


def _measurement_as_data(measurement: Measurement) -> dict[str, object]:
    """The output of --json."""
    return {
        "version": __version__,
        "model": measurement.name,
        "goal": GOAL / 100,
        "stopped": measurement.stopped,
        "calibration": msgspec.to_builtins(measurement.calibration),
        "kept": measurement.saved,
        "not_kept": measurement.not_saved,
        "cells": [
            {
                "protocol": cell.protocol,
                "strategy": cell.protocol,
                "temperature": cell.temperature,
                "replies": len(cell.attempts),
                "valid": cell.valid,
                "recovered": cell.recovered,
                "median_seconds": cell.median_seconds,
                "failures": dict(cell.failures),
                "attempts": [
                    {
                        "task": number % len(probing.tasks_for(cell.protocol)),
                        "kind": attempt.kind,
                        "recovered": attempt.recovered,
                        "ms": attempt.ms,
                        "detail": attempt.detail,
                        "prompt_tokens": attempt.usage.prompt_tokens,
                        "cached_tokens": attempt.usage.cached_tokens,
                        "completion_tokens": attempt.usage.completion_tokens,
                        "generate_ms": attempt.usage.generate_ms,
                    }
                    for number, attempt in enumerate(cell.attempts)
                ],
            }
            for cell in measurement.cells
        ],
    }

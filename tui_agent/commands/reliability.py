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
from tui_agent.commands import calibration, probing, reaching
from tui_agent.commands.output import TextPage
from tui_agent.commands.probing import Cell, ProbeSetup
from tui_agent.commands.reaching import Configured, NoServer, Reached
from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.engine.models.protocol_fallback import SMALL
from tui_agent.models.catalog import Calibration
from tui_agent.platform.pipes import print_error
from tui_agent.protocols.parser import Protocol
from tui_agent.text import count_of, one_line

COUNT = 20
"""Tasks per strategy and temperature."""
QUICK = 2
"""The same in a quick measurement."""
TEMPERATURES = (0.0, 0.3, 0.7)
GOAL = 95
"""Percentage of valid replies from which on a model is good enough (M8)."""
_GIVE_UP = 3
"""Requests in a row that the server does not answer or refuses, after which the rest of a cell is left out."""
_EARLY = 2
"""Failures after which a quick measurement has seen enough of a strategy."""
_QUICK_REPLY = 300
"""Tokens of a reply in a quick measurement at most: none of its tasks needs more."""
_FIXES = 'Sessions start with it; to use another one, set "strategy" in the model\'s options.'


class Measurement(msgspec.Struct):
    """What was measured so far."""

    name: str
    cells: list[Cell]
    small: bool = False
    """The model has few parameters."""
    calibration: Calibration = Calibration()
    kept: bool = False
    not_kept: str = ""
    """Why it is not in models.json now."""
    stopped: bool = False
    settled: bool = False
    """A quick measurement ended early: the strategies that are left can't be preferred any more."""


def run_reliability(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Measure and print the result; returns the exit code. Ctrl+C ends it with what was measured so far."""
    if args.tasks:
        return _run_task_suite(args, parser)
    args.n = args.n or (QUICK if args.quick else COUNT)
    args.temperatures = args.temperatures or (TEMPERATURES[:1] if args.quick else TEMPERATURES)
    page = TextPage(sys.stderr if args.json else sys.stdout)
    found = Measurement(args.model or "", [])
    try:
        asyncio.run(_measure(args, found, page))
    except NoServer as error:
        page.progress("")
        print_error(str(error))
        return 4
    except KeyboardInterrupt:
        found.stopped = True
        _conclude(found, "")
    page.progress("")
    if args.json:
        sys.stdout.write(json.dumps(_measurement_as_data(found), indent=1) + "\n")
    elif found.cells:
        _print_measurement(found, page, args.n)
    if found.stopped:
        return 130
    return 0 if any(100 * cell.valid >= GOAL * len(cell.attempts) for cell in found.cells) else 1


def _run_task_suite(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """The developers' task suite. It is part of the source tree, not of the installed package."""
    if args.quick:
        parser.error("--tasks can't be combined with --quick")
    try:
        suite = importlib.import_module("benchmarks.planning.__main__")
    except ModuleNotFoundError:
        parser.error("--tasks needs the source checkout: install tui-agent from it with `pip install -e .`")
    args.n = args.n or suite.COUNT
    code: int = suite.run_suite(args)
    return code


async def _measure(args: argparse.Namespace, found: Measurement, page: TextPage) -> None:
    """Fill `found`, and keep what it says in models.json. Raises NoServer."""
    files = await asyncio.to_thread(reaching.configured, args)
    way = reaching.reach(files.loaded, args.scenarios, args.timeout)
    try:
        setup = await _setup(args, way, files, found)
        found.name = setup.name
        for strategy in _in_order(args, found.small):
            for temperature in args.temperatures:
                cell = Cell(strategy, temperature, [])
                found.cells.append(cell)
                await _fill(cell, setup, way, args, page.progress)
            if args.quick and calibration.is_perfect(cell):
                found.settled = True
                break
        _conclude(found, way.model.provider)
        if args.no_save:
            found.not_kept = "--no-save"
        elif not found.not_kept:
            where = paths.models_file()
            found.not_kept = await calibration.save_measurement(where, way.model, setup.name, found.calibration)
            found.kept = not found.not_kept
    finally:
        await reaching.close(way)


def _conclude(found: Measurement, provider: str) -> None:
    """What the cells come to, and whether that can be kept."""
    found.cells = [cell for cell in found.cells if cell.attempts]
    found.calibration = calibration.calibrate(found.cells, found.small)
    found.not_kept = calibration.reason_not_to_save(
        found.calibration, found.cells, stopped=found.stopped, provider=provider, settled=found.settled
    )


def _in_order(args: argparse.Namespace, small: bool) -> Sequence[Protocol]:
    """The strategies to measure; in a quick measurement those first that would be taken first."""
    if not args.quick:
        return tuple(args.strategies)
    order = calibration.SMALL if small else calibration.PREFERRED
    return tuple(sorted(args.strategies, key=order.index))


async def _setup(args: argparse.Namespace, way: Reached, files: Configured, found: Measurement) -> ProbeSetup:
    name = args.model or await reaching.default_model(way, files)
    info = await way.model.describe(name)
    if isinstance(info, Fault):
        if info.kind == "unreachable" or info.status == 404:
            raise reaching.no_answer(info, way)
        info = ModelInfo(name=name)
    found.small = info.parameters is not None and info.parameters < SMALL
    return reaching.probe_setup(info, way, files, args.timeout, _QUICK_REPLY if args.quick else None)


async def _fill(
    cell: Cell, setup: ProbeSetup, way: Reached, args: argparse.Namespace, tell: Callable[[str], None]
) -> None:
    tasks, count = probing.tasks_for(cell.protocol, args.quick), args.n
    for number in range(count):
        where = f"{setup.name}: {cell.protocol}, temperature {cell.temperature:g}, {number + 1} of {count}"
        tell(f"{where} · {cell.valid} valid so far" if number else where)
        task = tasks[number % len(tasks)]
        done = await probing.probe(way.model, setup, task, cell.protocol, cell.temperature)
        if args.quick and done.kind == "broken":  # of two replies none can be spared
            done = await probing.probe(way.model, setup, task, cell.protocol, cell.temperature)
        cell.attempts.append(done)
        last = cell.attempts[-_GIVE_UP:]
        if len(last) == _GIVE_UP and all(one.kind in probing.NO_ANSWER for one in last):
            return
        if args.quick and len(cell.attempts) - cell.valid >= _EARLY:
            return


def _print_measurement(found: Measurement, page: TextPage, count: int) -> None:
    """The table for people, and what it means."""
    cells = found.cells
    page.line(f"{found.name}: replies that are valid and do what was asked", "bold")
    page.line()
    _table(cells, page)
    _kinds(cells, page)
    page.line()
    best = max(cells, key=lambda cell: (cell.valid / len(cell.attempts), -cell.temperature))
    share = 100 * best.valid // len(best.attempts)
    reached = "good enough" if 100 * best.valid >= GOAL * len(best.attempts) else f"below the goal of {GOAL}%"
    page.line(f"Best: {best.protocol} at {best.temperature:g} with {share}%, {reached}.", "bold")
    page.line(f"Strategy: {calibration.describe_calibration(found.calibration)}", "bold")
    kept = f"Saved in {paths.models_file()}." if found.kept else f"Not saved in models.json: {found.not_kept}."
    page.pair("", 0, f"{kept} {_FIXES}" if found.kept else kept, "dim")
    if count < COUNT:
        tasks = count_of(count, "task")
        page.line(f"With {tasks} each these are rough numbers; use -n 100 for firm ones.", "dim")


def _table(cells: Sequence[Cell], page: TextPage) -> None:
    head = ("strategy", "temp", "valid", "", "in text", "median", "failures")
    rows = []
    for cell in cells:
        total = len(cell.attempts)
        failures = ", ".join(f"{kind} {number}" for kind, number in cell.failures.most_common())
        seconds = cell.seconds
        rows.append(
            (
                cell.protocol,
                f"{cell.temperature:g}",
                f"{100 * cell.valid // total}%",
                f"{cell.valid}/{total}",
                str(cell.recovered or ""),
                "" if seconds is None else f"{seconds:.1f} s",
                failures,
            )
        )
    page.table(head, rows, right=(1, 2, 3, 4, 5))


def _kinds(cells: Sequence[Cell], page: TextPage) -> None:
    """What the kinds of failure mean, each with an example."""
    kinds = Counter[str]()
    for cell in cells:
        kinds.update(cell.failures)
    if kinds:
        page.line()
        wide = max(len(kind) for kind in kinds) + 2
        for kind, _ in kinds.most_common():
            detail = next(
                (one.detail for cell in cells for one in cell.attempts if one.kind == kind and one.detail), ""
            )
            text = probing.KINDS.get(kind, kind) + (f"; such as: {one_line(detail, 140)}" if detail else "")
            page.pair(f"  {kind.ljust(wide)}", wide + 2, text, "dim")


def _measurement_as_data(found: Measurement) -> dict[str, object]:
    """All that was measured, for programs."""
    return {
        "version": __version__,
        "model": found.name,
        "goal": GOAL / 100,
        "stopped": found.stopped,
        "calibration": msgspec.to_builtins(found.calibration),
        "kept": found.kept,
        "not_kept": found.not_kept,
        "cells": [
            {
                "protocol": cell.protocol,
                "strategy": cell.protocol,
                "temperature": cell.temperature,
                "replies": len(cell.attempts),
                "valid": cell.valid,
                "recovered": cell.recovered,
                "median_seconds": cell.seconds,
                "failures": dict(cell.failures),
                "attempts": [
                    {
                        "task": number % len(probing.tasks_for(cell.protocol)),
                        "kind": one.kind,
                        "recovered": one.recovered,
                        "ms": one.ms,
                        "detail": one.detail,
                        "prompt_tokens": one.usage.prompt_tokens,
                        "cached_tokens": one.usage.cached_tokens,
                        "completion_tokens": one.usage.completion_tokens,
                        "generate_ms": one.usage.generate_ms,
                    }
                    for number, one in enumerate(cell.attempts)
                ],
            }
            for cell in found.cells
        ],
    }

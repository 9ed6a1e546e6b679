"""Measures how often a model's replies can be carried out, and what is wrong else (M8), and which strategy fits it
best (E4)."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from tui_agent import __version__, paths
from tui_agent.commands import calibrating, probing, reaching
from tui_agent.commands.page import Page
from tui_agent.commands.probing import Attempt, Setup
from tui_agent.commands.reaching import Configured, NoServer, Reached
from tui_agent.commands.reliability import COUNT, GOAL
from tui_agent.domain import Fault, ModelInfo
from tui_agent.engine.ladder import SMALL
from tui_agent.engine.roles import window_for
from tui_agent.models.catalog import Calibration
from tui_agent.models.selection import sampling
from tui_agent.protocols.parser import Protocol

_GIVE_UP = 3
"""Requests in a row that the server does not answer or refuses, after which the rest of a cell is left out."""
_HOPELESS = ("unreachable", "refused", "timeout")
_EARLY = 2
"""Failures after which a quick measurement has seen enough of a strategy."""
_QUICK_REPLY = 300
"""Tokens of a reply in a quick measurement at most: none of its tasks needs more."""
_FIXES = 'Sessions begin with it; "strategy" in the model\'s options there fixes another one.'


class Cell(msgspec.Struct):
    """What was measured with one strategy and temperature."""

    protocol: Protocol
    temperature: float
    attempts: list[Attempt]

    @property
    def valid(self) -> int:
        """Replies that could run and do what was asked."""
        return sum(one.kind == probing.VALID for one in self.attempts)

    @property
    def recovered(self) -> int:
        """Valid ones among them that came in plain text."""
        return sum(one.kind == probing.VALID and one.recovered for one in self.attempts)

    @property
    def failures(self) -> Counter[str]:
        """Kind → how often."""
        return Counter(one.kind for one in self.attempts if one.kind != probing.VALID)

    @property
    def seconds(self) -> float | None:
        """The median time of a whole reply."""
        answered = [one.ms for one in self.attempts if one.kind not in _HOPELESS]
        return statistics.median(answered) / 1000 if answered else None


class Measured(msgspec.Struct):
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


def measure(args: argparse.Namespace) -> int:
    """Measure and tell; returns the exit code. Ctrl+C ends it with what was measured so far."""
    page = Page(sys.stderr if args.json else sys.stdout)
    found = Measured(args.model or "", [])
    try:
        asyncio.run(_measure(args, found, page))
    except NoServer as error:
        page.progress("")
        sys.stderr.write(f"tui-agent: {error}\n")
        return 4
    except KeyboardInterrupt:
        found.stopped = True
        _conclude(found, "")
    page.progress("")
    if args.json:
        sys.stdout.write(json.dumps(as_data(found), indent=1) + "\n")
    elif found.cells:
        write(found, page, args.n)
    if found.stopped:
        return 130
    return 0 if any(100 * cell.valid >= GOAL * len(cell.attempts) for cell in found.cells) else 1


async def _measure(args: argparse.Namespace, found: Measured, page: Page) -> None:
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
            if args.quick and calibrating.settled(cell):
                found.settled = True
                break
        _conclude(found, way.model.provider)
        if args.no_save:
            found.not_kept = "--no-save"
        elif not found.not_kept:
            where = paths.models_file()
            found.not_kept = await calibrating.keep(where, way.model, setup.name, found.calibration)
            found.kept = not found.not_kept
    finally:
        await reaching.close(way)


def _conclude(found: Measured, provider: str) -> None:
    """What the cells come to, and whether that can be kept."""
    found.cells = [cell for cell in found.cells if cell.attempts]
    found.calibration = calibrating.calibrate(found.cells, found.small)
    found.not_kept = calibrating.why_not(
        found.calibration, found.cells, stopped=found.stopped, provider=provider, settled=found.settled
    )


def _in_order(args: argparse.Namespace, small: bool) -> Sequence[Protocol]:
    """The strategies to measure; in a quick measurement those first that would be taken first."""
    if not args.quick:
        return tuple(args.strategies)
    order = calibrating.SMALL if small else calibrating.PREFERRED
    return tuple(sorted(args.strategies, key=order.index))


async def _setup(args: argparse.Namespace, way: Reached, files: Configured, found: Measured) -> Setup:
    chosen = files.loaded.settings
    name = args.model or await reaching.default_model(way, files)
    info = await way.model.describe(name)
    if isinstance(info, Fault):
        if info.kind == "unreachable" or info.status == 404:
            raise NoServer(f"{info.message} {info.advice} Tried because of {way.because}.".replace("  ", " "))
        info = ModelInfo(name=name)
    found.small = info.parameters is not None and info.parameters < SMALL
    entry = files.catalog.entry(name)
    window = window_for(info, chosen.context_window or entry.window, way.model.provider)
    options = sampling(
        "execution",
        entry,
        thinks="thinking" in (info.capabilities or ()),
        window=window,
        reply_tokens=chosen.caps.reply_tokens,
        keep_alive=chosen.keep_alive,
    )
    return Setup(
        name=name,
        window=window,
        sampling=options,
        seconds=args.timeout,
        prompt=entry.prompt,
        longest=_QUICK_REPLY if args.quick else None,
    )


async def _fill(
    cell: Cell, setup: Setup, way: Reached, args: argparse.Namespace, tell: Callable[[str], None]
) -> None:
    tasks, count = probing.tasks_for(cell.protocol, args.quick), args.n
    for number in range(count):
        where = f"{setup.name}: {cell.protocol}, temperature {cell.temperature:g}, {number + 1} of {count}"
        tell(f"{where} · {cell.valid} valid so far" if number else where)
        task = tasks[number % len(tasks)]
        done = await probing.attempt(way.model, setup, task, cell.protocol, cell.temperature)
        if args.quick and done.kind == "broken":  # of two replies none can be spared
            done = await probing.attempt(way.model, setup, task, cell.protocol, cell.temperature)
        cell.attempts.append(done)
        last = cell.attempts[-_GIVE_UP:]
        if len(last) == _GIVE_UP and all(one.kind in _HOPELESS for one in last):
            return
        if args.quick and len(cell.attempts) - cell.valid >= _EARLY:
            return


def write(found: Measured, page: Page, count: int) -> None:
    """The table for people, and what it means."""
    cells = found.cells
    page.line(f"{found.name}: replies that can be carried out and do what was asked", "bold")
    page.line()
    _table(cells, page)
    _kinds(cells, page)
    page.line()
    best = max(cells, key=lambda cell: (cell.valid / len(cell.attempts), -cell.temperature))
    share = 100 * best.valid // len(best.attempts)
    reached = (
        "fit for work" if 100 * best.valid >= GOAL * len(best.attempts) else f"below the goal of {GOAL} %"
    )
    page.line(f"Best: {best.protocol} at {best.temperature:g} with {share} %, {reached}.", "bold")
    page.line(f"Strategy: {calibrating.words(found.calibration)}", "bold")
    kept = f"Kept in {paths.models_file()}." if found.kept else f"Not kept in models.json: {found.not_kept}."
    page.pair("", 0, f"{kept} {_FIXES}" if found.kept else kept, "dim")
    if count < COUNT:
        page.line(
            f"With {count} task{'' if count == 1 else 's'} each these are rough numbers; -n 100 makes them firm.",
            "dim",
        )


def _table(cells: Sequence[Cell], page: Page) -> None:
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
                f"{100 * cell.valid // total} %",
                f"{cell.valid}/{total}",
                str(cell.recovered or ""),
                "" if seconds is None else f"{seconds:.1f} s",
                failures,
            )
        )
    page.table(head, rows, right=(1, 2, 3, 4, 5))


def _kinds(cells: Sequence[Cell], page: Page) -> None:
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
            text = probing.KINDS.get(kind, kind) + (f"; such as: {_short(detail)}" if detail else "")
            page.pair(f"  {kind.ljust(wide)}", wide + 2, text, "dim")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 140 else flat[:139] + "…"


def as_data(found: Measured) -> dict[str, object]:
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

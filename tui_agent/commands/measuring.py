"""Measures how often a model's replies are calls that can run, and what is wrong else (M8)."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from tui_agent import __version__
from tui_agent.commands import probing, reaching
from tui_agent.commands.page import Page
from tui_agent.commands.probing import Attempt, Setup
from tui_agent.commands.reaching import Configured, NoServer, Reached
from tui_agent.commands.reliability import COUNT, GOAL
from tui_agent.domain import Fault, ModelInfo
from tui_agent.engine.roles import window_for
from tui_agent.models.selection import sampling
from tui_agent.protocols.parser import Protocol

_GIVE_UP = 3
"""Requests in a row that the server does not answer or refuses, after which the rest of a cell is left out."""
_HOPELESS = ("unreachable", "refused", "timeout")


class Cell(msgspec.Struct):
    """What was measured with one protocol and temperature."""

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


def measure(args: argparse.Namespace) -> int:
    """Measure and tell; returns the exit code. Ctrl+C ends it with what was measured so far."""
    page = Page(sys.stderr if args.json else sys.stdout)
    cells: list[Cell] = []
    stopped = False
    name = args.model or ""
    try:
        name = asyncio.run(_measure(args, cells, page))
    except NoServer as error:
        page.progress("")
        sys.stderr.write(f"tui-agent: {error}\n")
        return 4
    except KeyboardInterrupt:
        stopped = True
    page.progress("")
    cells = [cell for cell in cells if cell.attempts]
    if args.json:
        sys.stdout.write(json.dumps(as_data(name, cells, stopped), indent=1) + "\n")
    elif cells:
        write(name, cells, page, args.n)
    if stopped:
        return 130
    return 0 if any(100 * cell.valid >= GOAL * len(cell.attempts) for cell in cells) else 1


async def _measure(args: argparse.Namespace, cells: list[Cell], page: Page) -> str:
    """Fill `cells`; returns the model's name. Raises NoServer."""
    files = await asyncio.to_thread(reaching.configured, args)
    way = reaching.reach(files.loaded, args.scenarios, args.timeout)
    try:
        setup = await _setup(args, way, files)
        for protocol in args.protocols:
            for temperature in args.temperatures:
                cell = Cell(protocol, temperature, [])
                cells.append(cell)
                await _fill(cell, setup, way, args.n, page.progress)
        return setup.name
    finally:
        await reaching.close(way)


async def _setup(args: argparse.Namespace, way: Reached, files: Configured) -> Setup:
    chosen = files.loaded.settings
    name = args.model or await reaching.default_model(way, files)
    info = await way.model.describe(name)
    if isinstance(info, Fault):
        if info.kind == "unreachable" or info.status == 404:
            raise NoServer(f"{info.message} {info.advice} Tried because of {way.because}.".replace("  ", " "))
        info = ModelInfo(name=name)
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
    return Setup(name=name, window=window, sampling=options, seconds=args.timeout, prompt=entry.prompt)


async def _fill(cell: Cell, setup: Setup, way: Reached, count: int, tell: Callable[[str], None]) -> None:
    tasks = probing.tasks()
    for number in range(count):
        where = f"{setup.name}: {cell.protocol}, temperature {cell.temperature:g}, {number + 1} of {count}"
        tell(f"{where} · {cell.valid} valid so far" if number else where)
        task = tasks[number % len(tasks)]
        cell.attempts.append(await probing.attempt(way.model, setup, task, cell.protocol, cell.temperature))
        last = cell.attempts[-_GIVE_UP:]
        if len(last) == _GIVE_UP and all(one.kind in _HOPELESS for one in last):
            return


def write(name: str, cells: Sequence[Cell], page: Page, count: int) -> None:
    """The table for people, and what it means."""
    page.line(f"{name}: replies that are calls which can run and do what was asked", "bold")
    page.line()
    head = ("protocol", "temp", "valid", "", "in text", "median", "failures")
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
    page.line()
    best = max(cells, key=lambda cell: (cell.valid / len(cell.attempts), -cell.temperature))
    share = 100 * best.valid // len(best.attempts)
    reached = (
        "fit for work" if 100 * best.valid >= GOAL * len(best.attempts) else f"below the goal of {GOAL} %"
    )
    page.line(f"Best: {best.protocol} at {best.temperature:g} with {share} %, {reached}.", "bold")
    if count < COUNT:
        page.line(
            f"With {count} task{'' if count == 1 else 's'} each these are rough numbers; -n 100 makes them firm.",
            "dim",
        )


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 140 else flat[:139] + "…"


def as_data(name: str, cells: Sequence[Cell], stopped: bool) -> dict[str, object]:
    """All that was measured, for programs."""
    return {
        "version": __version__,
        "model": name,
        "goal": GOAL / 100,
        "stopped": stopped,
        "cells": [
            {
                "protocol": cell.protocol,
                "temperature": cell.temperature,
                "replies": len(cell.attempts),
                "valid": cell.valid,
                "recovered": cell.recovered,
                "median_seconds": cell.seconds,
                "failures": dict(cell.failures),
                "attempts": [
                    {
                        "task": number % len(probing.tasks()),
                        "kind": one.kind,
                        "recovered": one.recovered,
                        "ms": one.ms,
                        "detail": one.detail,
                        "prompt_tokens": one.prompt_tokens,
                        "completion_tokens": one.completion_tokens,
                    }
                    for number, one in enumerate(cell.attempts)
                ],
            }
            for cell in cells
        ],
    }

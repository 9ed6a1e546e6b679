"""What `tui-agent doctor` does once its options are read: looks at everything in turn, and tells (M8)."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from itertools import groupby

import msgspec

from tui_agent import __version__
from tui_agent.commands import doctor_code, doctor_files, reaching
from tui_agent.commands.doctor_server import ServerLook
from tui_agent.commands.findings import Finding
from tui_agent.commands.page import Page, cells_wide
from tui_agent.commands.reaching import NoServer

_OTHER = 30.0
"""Seconds for all that is no reply of the model."""


def visit(args: argparse.Namespace) -> int:
    """Look and tell; returns the exit code."""
    page = Page(sys.stderr if args.json else sys.stdout)
    try:
        found = asyncio.run(_found(args, page))
    except KeyboardInterrupt:
        page.progress("")
        sys.stderr.write("Stopped.\n")
        return 130
    page.progress("")
    bad = any(one.state == "bad" for one in found)
    if args.json:
        whole = {"version": __version__, "ok": not bad, "findings": msgspec.to_builtins(found)}
        sys.stdout.write(json.dumps(whole, indent=1, ensure_ascii=True) + "\n")
    else:
        write(found, page)
    return 1 if bad else 0


async def _found(args: argparse.Namespace, page: Page) -> list[Finding]:
    files = await asyncio.to_thread(reaching.configured, args)
    found = await _server(args, files, page)
    found += await asyncio.to_thread(doctor_files.files, files)
    found += await asyncio.to_thread(doctor_files.programs, files)
    found += await asyncio.to_thread(doctor_code.code, files)
    page.progress("")
    return found + await asyncio.to_thread(doctor_files.terminal, files.workspace)


async def _server(args: argparse.Namespace, files: reaching.Configured, page: Page) -> list[Finding]:
    try:
        way = reaching.reach(files.loaded, args.scenarios, args.timeout)
    except NoServer as error:
        return [Finding(group="Server", name="address", state="bad", text=str(error))]
    look = ServerLook(way, files, seconds=args.timeout, probe=not args.no_probe, tell=page.progress)
    try:
        async with asyncio.timeout(_OTHER + 3 * args.timeout):
            await look.look()
    except TimeoutError:
        text = "looking at it took too long and was given up"
        return [*look.found, Finding(group="Server", name="time", state="bad", text=text)]
    finally:
        await reaching.close(way)
    return look.found


def write(found: Sequence[Finding], page: Page) -> None:
    """The findings as a page for people."""
    page.line(f"tui-agent {__version__}", "bold")
    wide = max(cells_wide(one.name) for one in found)
    for group, ones in groupby(found, key=lambda one: one.group):
        page.line()
        page.line(group, "bold")
        for one in ones:
            sign = page.state(one.state)
            lead = f"  {sign} {one.name.ljust(wide)}  "
            width = 2 + len(page.sign("ok")) + 1 + wide + 2
            page.pair(lead, width, one.text)
            if one.advice:
                arrow = page.sign("→")
                page.pair(
                    " " * width + page.styled(arrow, "cyan") + " ", width + len(arrow) + 1, one.advice, "cyan"
                )
    page.line()
    page.line(_verdict(found), "bold")


def _verdict(found: Sequence[Finding]) -> str:
    bad = sum(one.state == "bad" for one in found)
    warned = sum(one.state == "warn" for one in found)
    better = f"{warned} thing{'' if warned == 1 else 's'} could be better"
    if bad:
        text = f"{bad} thing{' stands' if bad == 1 else 's stand'} in the way"
        return f"{text}, {better}." if warned else f"{text}."
    return f"It works; {better}." if warned else "All is well."

"""Formatting code intelligence results for the model: by file, with line numbers and source lines, limited (T3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tui_agent.common.domain import Target
from tui_agent.common.symbols import Diagnostic, Hierarchy, HierarchyLink, SourceLocation, Symbol
from tui_agent.platform.encoding import NotText, decode
from tui_agent.tools.base import ToolContext, ToolError
from tui_agent.tools.file_access import read_bytes
from tui_agent.tools.wording import MAX_RESULT_SIZE, printable_name, shorten_line

T = TypeVar("T")

MAX_LOCATIONS = 30
"""Locations per result."""
MAX_OUTLINE = 400
"""Symbols per outline."""
MAX_WIDTH = 200
"""Characters of a source line."""
MAX_DIAGNOSTICS = 50
"""Diagnostics per result."""


class SourceLines:
    """Displayed names and lines of files, except lines of files that need permission to read."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._lines: dict[str, list[str]] = {}

    def name(self, path: str) -> str:
        """Return the displayed name of a file."""
        target = self._target(path)
        return printable_name(target.display) if target is not None else printable_name(path)

    async def line(self, path: str, number: int) -> str:
        """Return the text of a line, or an empty string if it must not be shown."""
        if path not in self._lines:
            self._lines[path] = await self._read(path)
        lines = self._lines[path]
        return shorten_line(lines[number - 1].strip(), MAX_WIDTH) if 0 < number <= len(lines) else ""

    async def _read(self, path: str) -> list[str]:
        target = self._target(path)
        if target is None or target.outside or target.credentials:
            return []
        try:
            file = await read_bytes(target)
            return re.split(r"\r\n|\n|\r", (await asyncio.to_thread(decode, file.data)).text)
        except (ToolError, NotText):
            return []

    def _target(self, path: str) -> Target | None:
        try:
            return self._ctx.resolve(path)
        except ToolError:
            return None


async def format_locations(ctx: ToolContext, locations: Sequence[SourceLocation]) -> str:
    """Format locations grouped by file, at most MAX_LOCATIONS."""
    sources = SourceLines(ctx)
    lines: list[str] = []
    for path, group in _group_by_file((location.path, location) for location in locations[:MAX_LOCATIONS]):
        lines.append(f"── {sources.name(path)} ──")
        for location in sorted(group, key=lambda item: item.line):
            lines.append(f"→ {location.line}: {await sources.line(path, location.line)}".rstrip())
    if len(locations) > MAX_LOCATIONS:
        files = len({location.path for location in locations})
        lines.append(f"[{MAX_LOCATIONS} of {len(locations):,} places in {files} files shown]")
    return _limit(lines)


async def format_symbols(ctx: ToolContext, symbols: Sequence[Symbol]) -> str:
    """Format symbols grouped by file."""
    sources = SourceLines(ctx)
    lines: list[str] = []
    for path, group in _group_by_file((symbol.location.path, symbol) for symbol in symbols[:MAX_LOCATIONS]):
        lines.append(f"── {sources.name(path)} ──")
        for symbol in sorted(group, key=lambda item: item.location.line):
            container = f" in {symbol.container}" if symbol.container else ""
            lines.append(f"→ {symbol.location.line}: {symbol.kind} {symbol.name}{container}")
    if len(symbols) > MAX_LOCATIONS:
        lines.append(f"[{MAX_LOCATIONS} of {len(symbols):,} shown; give more of the name]")
    return _limit(lines)


def _group_by_file(entries: Iterable[tuple[str, T]]) -> Iterable[tuple[str, list[T]]]:
    groups: dict[str, list[T]] = {}
    for path, entry in entries:
        groups.setdefault(path, []).append(entry)
    return groups.items()


def format_outline(symbols: Sequence[Symbol]) -> str:
    """Format the symbols of one file with their lines, nested ones indented."""
    lines = []
    for symbol in symbols[:MAX_OUTLINE]:
        last = max(symbol.location.line, symbol.location.end_line)
        extent = f"{symbol.location.line}-{last}" if last > symbol.location.line else str(symbol.location.line)
        lines.append(f"{'  ' * symbol.depth}{extent}: {symbol.kind} {symbol.name}")
    if len(symbols) > MAX_OUTLINE:
        lines.append(f"[{MAX_OUTLINE} of {len(symbols):,} symbols shown]")
    return _limit(lines)


async def format_hierarchy(ctx: ToolContext, hierarchy: Hierarchy, incoming: str, outgoing: str) -> str:
    """Format a symbol with its neighbors; `incoming` and `outgoing` are the headings."""
    sources = SourceLines(ctx)
    symbol = hierarchy.symbol
    lines = [f"{symbol.kind} {symbol.name} · {sources.name(symbol.location.path)}:{symbol.location.line}"]
    for heading, links, calls in ((incoming, hierarchy.incoming, True), (outgoing, hierarchy.outgoing, False)):
        if links is None:
            continue
        lines.append(f"{heading}: {len(links)}" if links else f"{heading}: none")
        for link in links[:MAX_LOCATIONS]:
            lines += await _format_link(sources, link, link.symbol.location.path if calls else symbol.location.path)
        if len(links) > MAX_LOCATIONS:
            lines.append(f"[{MAX_LOCATIONS} of {len(links):,} shown]")
    return _limit(lines)


async def _format_link(sources: SourceLines, link: HierarchyLink, path: str) -> list[str]:
    """Format a neighbor and the lines of file `path` that connect it."""
    symbol = link.symbol
    lines = [f"  {symbol.kind} {symbol.name} · {sources.name(symbol.location.path)}:{symbol.location.line}"]
    for number in link.lines[:5]:
        lines.append(f"    → {number}: {await sources.line(path, number)}".rstrip())
    if len(link.lines) > 5:
        lines.append(f"    [{len(link.lines)} calls]")
    return lines


def format_diagnostics(diagnostics: Iterable[Diagnostic], cap: int = MAX_DIAGNOSTICS) -> str:
    """Format one line per diagnostic, errors first, new ones marked."""
    order = ("error", "warning", "info", "hint")
    ordered = sorted(diagnostics, key=lambda item: (order.index(item.kind), not item.new, item.line))
    lines = []
    for item in ordered[:cap]:
        code = f" [{item.code}]" if item.code else ""
        message = " ".join(item.message.split())
        new = " (new)" if item.new else ""
        lines.append(f"→ {item.line}: {item.kind}{new}: {shorten_line(message, 500)}{code}")
    if len(ordered) > cap:
        lines.append(f"[{cap} of {len(ordered):,} shown]")
    return _limit(lines)


def _limit(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    return text if len(text) <= MAX_RESULT_SIZE else f"{text[:MAX_RESULT_SIZE]}\n[cut]"

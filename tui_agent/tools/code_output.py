"""Formatting code intelligence results for the model: by file, with line numbers and source lines, limited (T3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from operator import itemgetter

from tui_agent.common.domain import Target
from tui_agent.common.symbols import Diagnostic, Hierarchy, HierarchyLink, SourceLocation, Symbol, Unavailable
from tui_agent.platform.encoding import NotText, decode
from tui_agent.tools.base import ToolContext, ToolError
from tui_agent.tools.file_access import read_bytes
from tui_agent.tools.tolerant_text import LINE_END
from tui_agent.tools.wording import MAX_RESULT_SIZE, printable_name, shorten_line

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
            return LINE_END.split((await asyncio.to_thread(decode, file.data)).text)
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
    rows = [(location, await sources.line(location.path, location.line)) for location in locations[:MAX_LOCATIONS]]
    files = len({location.path for location in locations})
    return _format_by_file(sources, rows, len(locations), f"places in {files} files shown")


async def format_symbols(ctx: ToolContext, symbols: Sequence[Symbol]) -> str:
    """Format symbols grouped by file."""
    rows = []
    for symbol in symbols[:MAX_LOCATIONS]:
        container = f" in {symbol.container}" if symbol.container else ""
        rows.append((symbol.location, f"{symbol.kind} {symbol.name}{container}"))
    return _format_by_file(SourceLines(ctx), rows, len(symbols), "shown; give more of the name")


def _format_by_file(sources: SourceLines, rows: list[tuple[SourceLocation, str]], total: int, note: str) -> str:
    groups: dict[str, list[tuple[int, str]]] = {}
    for location, text in rows:
        groups.setdefault(location.path, []).append((location.line, text))
    lines: list[str] = []
    for path, group in groups.items():
        lines.append(f"── {sources.name(path)} ──")
        lines += [f"→ {number}: {text}".rstrip() for number, text in sorted(group, key=itemgetter(0))]
    if total > MAX_LOCATIONS:
        lines.append(f"[{MAX_LOCATIONS} of {total:,} {note}]")
    return _limit(lines)


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


async def format_hierarchy(
    ctx: ToolContext, hierarchy: Hierarchy | Unavailable | None, incoming: str, outgoing: str
) -> str | Unavailable | None:
    """Format a symbol with its neighbors, if there is one; `incoming` and `outgoing` are the headings."""
    if not isinstance(hierarchy, Hierarchy):
        return hierarchy
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

"""How answers about code are written for the model: by file, with line numbers and source lines, capped (T3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from tui_agent.common.domain import Target
from tui_agent.common.symbols import Diagnostic, Hierarchy, HierarchyLink, SourceLocation, Symbol
from tui_agent.platform.encoding import NotText, decode
from tui_agent.tools.base import ToolContext, ToolError
from tui_agent.tools.file_access import bytes_of
from tui_agent.tools.wording import MODEL_CAP, cut_line, shown_name

PLACES = 30
"""Places of one answer."""
OUTLINE = 400
"""Symbols of one file."""
WIDE = 200
"""Characters of a source line."""
FOUND = 50
"""Diagnostics of one file."""


class Sources:
    """Names and lines of files as the model may see them: nothing of those that it had to ask for."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._lines: dict[str, list[str]] = {}

    def name(self, path: str) -> str:
        """The file as the model knows it."""
        target = self._target(path)
        return shown_name(target.display) if target is not None else shown_name(path)

    async def line(self, path: str, number: int) -> str:
        """The text of a line; empty where it is not to be shown."""
        if path not in self._lines:
            self._lines[path] = await self._read(path)
        lines = self._lines[path]
        return cut_line(lines[number - 1].strip(), WIDE) if 0 < number <= len(lines) else ""

    async def _read(self, path: str) -> list[str]:
        target = self._target(path)
        if target is None or target.outside or target.credentials:
            return []
        try:
            file = await bytes_of(target)
            return re.split(r"\r\n|\n|\r", (await asyncio.to_thread(decode, file.data)).text)
        except (ToolError, NotText):
            return []

    def _target(self, path: str) -> Target | None:
        try:
            return self._ctx.resolve(path)
        except ToolError:
            return None


async def places_text(ctx: ToolContext, places: Sequence[SourceLocation]) -> str:
    """Places by file, the order of files kept; at most PLACES of them."""
    sources = Sources(ctx)
    by_file: dict[str, list[SourceLocation]] = {}
    for place in places[:PLACES]:
        by_file.setdefault(place.path, []).append(place)
    lines: list[str] = []
    for path, held in by_file.items():
        lines.append(f"── {sources.name(path)} ──")
        for place in sorted(held, key=lambda one: one.line):
            lines.append(f"→ {place.line}: {await sources.line(path, place.line)}".rstrip())
    if len(places) > PLACES:
        files = len({place.path for place in places})
        lines.append(f"[{PLACES} of {len(places):,} places in {files} files shown]")
    return _capped(lines)


async def symbols_text(ctx: ToolContext, symbols: Sequence[Symbol]) -> str:
    """Symbols of several files, by file."""
    sources = Sources(ctx)
    by_file: dict[str, list[Symbol]] = {}
    for symbol in symbols[:PLACES]:
        by_file.setdefault(symbol.location.path, []).append(symbol)
    lines: list[str] = []
    for path, held in by_file.items():
        lines.append(f"── {sources.name(path)} ──")
        for symbol in sorted(held, key=lambda one: one.location.line):
            where = f" in {symbol.container}" if symbol.container else ""
            lines.append(f"→ {symbol.location.line}: {symbol.kind} {symbol.name}{where}")
    if len(symbols) > PLACES:
        lines.append(f"[{PLACES} of {len(symbols):,} shown; give more of the name]")
    return _capped(lines)


def outline_text(symbols: Sequence[Symbol]) -> str:
    """The symbols of one file with their lines, what holds what by indentation."""
    lines = []
    for symbol in symbols[:OUTLINE]:
        last = max(symbol.location.line, symbol.location.end_line)
        extent = f"{symbol.location.line}-{last}" if last > symbol.location.line else str(symbol.location.line)
        lines.append(f"{'  ' * symbol.depth}{extent}: {symbol.kind} {symbol.name}")
    if len(symbols) > OUTLINE:
        lines.append(f"[{OUTLINE} of {len(symbols):,} symbols shown]")
    return _capped(lines)


async def family_text(ctx: ToolContext, family: Hierarchy, above: str, below: str) -> str:
    """A symbol with what is above and below it in a hierarchy; `above` and `below` are the headings."""
    sources = Sources(ctx)
    own = family.symbol
    lines = [f"{own.kind} {own.name} · {sources.name(own.location.path)}:{own.location.line}"]
    for heading, links, calls in ((above, family.incoming, True), (below, family.outgoing, False)):
        if links is None:
            continue
        lines.append(f"{heading}: {len(links)}" if links else f"{heading}: none")
        for link in links[:PLACES]:
            lines += await _link_lines(sources, link, link.symbol.location.path if calls else own.location.path)
        if len(links) > PLACES:
            lines.append(f"[{PLACES} of {len(links):,} shown]")
    return _capped(lines)


async def _link_lines(sources: Sources, link: HierarchyLink, where: str) -> list[str]:
    """The symbol, then the lines of the file `where` in which the two meet."""
    symbol = link.symbol
    lines = [f"  {symbol.kind} {symbol.name} · {sources.name(symbol.location.path)}:{symbol.location.line}"]
    for number in link.lines[:5]:
        lines.append(f"    → {number}: {await sources.line(where, number)}".rstrip())
    if len(link.lines) > 5:
        lines.append(f"    [{len(link.lines)} calls]")
    return lines


def diagnostics_text(found: Iterable[Diagnostic], cap: int = FOUND) -> str:
    """A line for each, errors first, new ones marked."""
    order = ("error", "warning", "info", "hint")
    all_found = sorted(found, key=lambda one: (order.index(one.kind), not one.new, one.line))
    lines = []
    for one in all_found[:cap]:
        code = f" [{one.code}]" if one.code else ""
        message = " ".join(one.message.split())
        new = " (new)" if one.new else ""
        lines.append(f"→ {one.line}: {one.kind}{new}: {cut_line(message, 500)}{code}")
    if len(all_found) > cap:
        lines.append(f"[{cap} of {len(all_found):,} shown]")
    return _capped(lines)


def _capped(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    return text if len(text) <= MODEL_CAP else f"{text[:MODEL_CAP]}\n[cut]"

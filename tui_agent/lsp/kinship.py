"""Super- and subtypes where a server has no type hierarchy of its own: read off the heads of classes.

The head of a class reaches from its name to where its body begins. The names in it that are defined as types are its
supertypes; classes whose heads hold a reference to a type are that type's subtypes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tui_agent.lsp import reading
from tui_agent.lsp.documents import Document, NoSuchFile
from tui_agent.lsp.positions import from_units, line_of, path_of, whole_number
from tui_agent.lsp.server import LanguageServer
from tui_agent.symbols import Family, Link, Place, Spot, Symbol

HEAD_LINES = 12
"""Lines of a head."""
BASES = 12
"""Names in a head that are looked up."""
FILES = 40
"""Files whose classes are looked at for subtypes."""
_NAME = re.compile(r"[^\W\d]\w*")
_BODY = re.compile(r"[{]|:\s*(?:#.*)?$|\bwhere\b")


async def family_of_type(server: LanguageServer, document: Document, spot: Spot) -> Family | None:
    """Super- and subtypes of the type that is named at `spot`; None where no type is."""
    home = await _type_at(server, document, spot)
    if home is None:
        return None
    document, symbol, spot = home
    above: dict[tuple[str, int], Link] = {}
    for name in _bases(document, symbol, spot):
        for found in await _types_at(server, document, name):
            if found.place != symbol.place:
                above.setdefault((found.place.path, found.place.line), Link(symbol=found))
    below = await subtypes(server, document, spot) or ()
    return Family(symbol=symbol, above=tuple(above.values()), below=tuple(Link(symbol=one) for one in below))


async def subtypes(server: LanguageServer, document: Document, spot: Spot) -> tuple[Symbol, ...] | None:
    """The classes that name the type at `spot` in their heads; None where no references can be had."""
    method = "textDocument/references"
    if not server.can(method):
        return None
    params = {
        "textDocument": {"uri": document.uri},
        "position": server.position(document, spot),
        "context": {"includeDeclaration": False},
    }
    uses: dict[str, list[tuple[int, int]]] = {}
    for one in reading.listed(await server.ask(method, params)):
        path, extent = path_of(one.get("uri")), one.get("range")
        start = extent.get("start") if isinstance(extent, dict) else None
        if path and Path(path).is_relative_to(server.root):
            uses.setdefault(path, []).append((line_of(start), whole_number(start, "character")))
    found: list[Symbol] = []
    for path, spots in list(uses.items())[:FILES]:
        try:
            document = await server.show(Path(path))
        except NoSuchFile:
            continue
        places = [(line, from_units(document.lines[line - 1], unit, server.encoding)) for line, unit in spots]
        for symbol, name in await _classes(server, document):
            head = list(_head(document, name, symbol.name))
            if any(
                line == number and begin <= column < end
                for line, column in places
                for number, begin, end in head
            ):
                found.append(symbol)
    return tuple(found)


# --- the types of a file ---


async def _classes(server: LanguageServer, document: Document) -> list[tuple[Symbol, Spot]]:
    """The types of a file and where their names stand."""
    result = await server.ask("textDocument/documentSymbol", {"textDocument": {"uri": document.uri}})
    found = []
    for symbol, given in await asyncio.to_thread(reading.nested, result, str(document.path)):
        if symbol.kind in reading.TYPES:
            found.append((symbol, _name_of(server, document, symbol, given)))
    return found


def _name_of(server: LanguageServer, document: Document, symbol: Symbol, given: dict[str, Any]) -> Spot:
    extent = given.get("selectionRange")
    start = extent.get("start") if isinstance(extent, dict) else None
    line = document.lines[symbol.place.line - 1]
    column = from_units(line, whole_number(start, "character"), server.encoding)
    named = re.compile(rf"(?<!\w){re.escape(symbol.name)}(?!\w)").search(line, column)
    return Spot(line=symbol.place.line, column=named.start() if named else column)


async def _type_at(
    server: LanguageServer, document: Document, spot: Spot
) -> tuple[Document, Symbol, Spot] | None:
    """The type that is named at `spot`, in the file that defines it."""
    for symbol, name in await _classes(server, document):
        if name.line == spot.line and name.column <= spot.column <= name.column + len(symbol.name):
            return document, symbol, name
    for found in await _types_at(server, document, spot):
        try:
            home = await server.show(Path(found.place.path))
        except NoSuchFile:
            continue
        for symbol, name in await _classes(server, home):
            if symbol.place == found.place:
                return home, symbol, name
    return None


async def _types_at(server: LanguageServer, document: Document, spot: Spot) -> list[Symbol]:
    """The types that the name at `spot` is defined as."""
    params = {"textDocument": {"uri": document.uri}, "position": server.position(document, spot)}
    found: list[Symbol] = []
    for place in await asyncio.to_thread(reading.places, await server.ask("textDocument/definition", params)):
        try:
            home = await server.show(Path(place.path))
        except NoSuchFile:
            continue
        classes = [symbol for symbol, _ in await _classes(server, home)]
        named = [symbol for symbol in classes if symbol.place.line == place.line]
        inside = [symbol for symbol in classes if symbol.place.line <= place.line <= symbol.place.last]
        found += named[:1] or _header_of(inside, place)
    return found


def _header_of(inside: list[Symbol], place: Place) -> list[Symbol]:
    """A definition may point to a decorator or keyword line right above the name; one within the body is no type."""
    close = [symbol for symbol in inside if abs(symbol.place.line - place.line) <= 1]
    return close[-1:]


# --- heads ---


def _head(document: Document, name: Spot, word: str) -> Iterator[tuple[int, int, int]]:
    """The lines of a type's head behind its name: number, first and last column."""
    column, depth = name.column + len(word), 0
    for number in range(name.line, min(name.line + HEAD_LINES, len(document.lines) + 1)):
        line = document.lines[number - 1]
        body = _BODY.search(line, column) if depth <= 0 or "{" in line[column:] else None
        depth += line.count("(", column) - line.count(")", column)
        if body is None and depth <= 0:
            body = _BODY.search(line, column)
        end = body.start() if body else len(line)
        yield number, column, end
        if body:
            return
        column = 0


def _bases(document: Document, symbol: Symbol, name: Spot) -> list[Spot]:
    """The names in the head of a type, each once."""
    found: dict[str, Spot] = {}
    for number, begin, end in _head(document, name, symbol.name):
        for word in _NAME.finditer(document.lines[number - 1], begin, end):
            found.setdefault(word[0], Spot(line=number, column=word.start()))
    words = [
        word for word in found if word not in ("extends", "implements", "metaclass", "public", "private")
    ]
    return [found[word] for word in words[:BASES]]

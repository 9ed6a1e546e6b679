"""The queries of the code tools to a language server: where something is, who uses it, what it is (T3)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tui_agent.common.symbols import (
    Diagnostic,
    Hierarchy,
    HierarchyLink,
    LocationKind,
    SourceLocation,
    SourcePosition,
    Symbol,
    Unavailable,
)
from tui_agent.lsp import results
from tui_agent.lsp.connection import RequestRejected, ServerTimeout
from tui_agent.lsp.documents import NoSuchFile, OpenDocument
from tui_agent.lsp.positions import as_dict, from_units, path_of, range_start
from tui_agent.lsp.server import LanguageServer

MAX_CALLS = 200
"""Callers or callees of one function."""
MAX_HEADER_LINES = 12
"""Lines of the header of a class."""
MAX_BASES = 12
"""Names in a class header that are looked up."""
MAX_FILES = 40
"""Files that are searched for subtypes."""
_NAME = re.compile(r"[^\W\d]\w*")
_KEYWORDS = ("extends", "implements", "metaclass", "public", "private")
_BODY = re.compile(r"[{]|:\s*(?:#.*)?$|\bwhere\b")
_LOCATION_METHODS: dict[LocationKind, str] = {
    "definitions": "textDocument/definition",
    "references": "textDocument/references",
    "implementations": "textDocument/implementation",
}
_SYMBOLS = "textDocument/documentSymbol"

R = TypeVar("R")


class CodeServer(LanguageServer):
    """A language server with these queries.

    Methods return Unavailable for what the server does not support, and raise LspError and NoSuchFile.
    """

    async def file_diagnostics(
        self, path: Path, seconds: float, data: bytes | None = None
    ) -> tuple[str, tuple[Diagnostic, ...]]:
        """Return the hash of the file's content, or of `data` instead of it, and the diagnostics for it."""
        document = await self.sync(path, data)
        items = await self.diagnostics(document, seconds)
        if self.documents.get(document.uri) is not document:
            raise ServerTimeout(f"{path.name} changed meanwhile")
        diagnostics = await asyncio.to_thread(results.read_diagnostics, items, document.lines, self.encoding)
        return document.sha256, diagnostics

    async def outline(self, path: Path) -> tuple[Symbol, ...] | Unavailable:
        """Return the symbols of a file."""
        return await self._query(_SYMBOLS, "list symbols", lambda result: results.read_outline(result, str(path)), path)

    async def locations(
        self, kind: LocationKind, path: Path, position: SourcePosition
    ) -> tuple[SourceLocation, ...] | Unavailable:
        """Return where the symbol at `position` is defined, used (including its declaration), or implemented.

        If the server can't tell the implementations of a type, return the types that name it as a base.
        """
        locations = await self._query(_LOCATION_METHODS[kind], f"find {kind}", results.read_locations, path, position)
        if kind != "implementations" or (locations and not isinstance(locations, Unavailable)):
            return locations
        subtypes = await self._subtypes(await self._open(path), position)
        return locations if subtypes is None else tuple(symbol.location for symbol in subtypes)

    async def hover(self, path: Path, position: SourcePosition) -> str | Unavailable:
        """Return signature, type and documentation; empty if there is none."""
        return await self._query("textDocument/hover", "tell types", results.read_hover, path, position)

    async def symbols(self, name: str, example: Path | None) -> tuple[Symbol, ...] | Unavailable:
        """Return the symbols of the whole project that match `name`. `example`: a file to open first."""
        if not self.supports("workspace/symbol"):
            return self._unsupported("search symbols")
        if example is not None and not self.documents:
            await self.sync(example)
        await self.wait_indexed()
        result = await self.request_project("workspace/symbol", {"query": name})
        return await asyncio.to_thread(results.read_symbols, result)

    async def calls(
        self, path: Path, position: SourcePosition, *, incoming: bool, outgoing: bool
    ) -> Hierarchy | Unavailable | None:
        """Return the callers and callees of the function at `position`; None if there is no function."""
        method = "textDocument/prepareCallHierarchy"
        if not self.supports(method):
            return self._unsupported("tell who calls whom")
        item = await self._item(method, await self._open(path), position)
        if item is None:
            return None
        return Hierarchy(
            symbol=item[0],
            incoming=await self._links("callHierarchy/incomingCalls", "from", item[1]) if incoming else None,
            outgoing=await self._links("callHierarchy/outgoingCalls", "to", item[1]) if outgoing else None,
        )

    async def types(self, path: Path, position: SourcePosition) -> Hierarchy | Unavailable | None:
        """Return super- and subtypes of the type at `position`; None if there is no type."""
        method = "textDocument/prepareTypeHierarchy"
        document = await self._open(path)
        if not self.supports(method):
            return await self._type_hierarchy(document, position)
        item = await self._item(method, document, position)
        if item is None:
            return None
        above = await self._links("typeHierarchy/supertypes", "", item[1])
        return Hierarchy(
            symbol=item[0], incoming=above, outgoing=await self._links("typeHierarchy/subtypes", "", item[1])
        )

    # --- helpers ---

    def _unsupported(self, action: str) -> Unavailable:
        return Unavailable(reason=f"the language server for {self.language.title} can't {action}")

    async def _open(self, path: Path) -> OpenDocument:
        """Open the file, and wait until the server has read the project."""
        document = await self.sync(path)
        await self.wait_indexed()
        return document

    async def _query(
        self, method: str, action: str, read: Callable[[Any], R], path: Path, position: SourcePosition | None = None
    ) -> R | Unavailable:
        """Send a request about a file or a position in it, and convert the result with `read`."""
        if not self.supports(method):
            return self._unsupported(action)
        document = await self._open(path)
        return await asyncio.to_thread(read, await self._request_at(method, document, position))

    async def _request_at(
        self, method: str, document: OpenDocument, position: SourcePosition | None = None, *, declaration: bool = True
    ) -> Any:
        """Send a request about a document. `declaration`: references include it."""
        params: dict[str, Any] = {"textDocument": {"uri": document.uri}}
        if position is not None:
            params["position"] = self.position(document, position)
        if method == _LOCATION_METHODS["references"]:
            params["context"] = {"includeDeclaration": declaration}
        is_global = method in (_LOCATION_METHODS["references"], _LOCATION_METHODS["implementations"])
        return await (self.request_project if is_global else self.request)(method, params)

    async def _item(
        self, method: str, document: OpenDocument, position: SourcePosition
    ) -> tuple[Symbol, dict[str, Any]] | None:
        """Return the first item of a hierarchy with a location; servers reply with an error if there is none."""
        try:
            result = await self._request_at(method, document, position)
        except RequestRejected:
            return None
        items = ((results.read_symbol(item), item) for item in results.as_objects(result))
        return next(((symbol, item) for symbol, item in items if symbol is not None), None)

    async def _links(self, method: str, key: str, item: dict[str, Any]) -> tuple[HierarchyLink, ...]:
        """Return the related symbols of a hierarchy item. `key`: the field of a call that contains the symbol."""
        links: list[HierarchyLink] = []
        for related in results.as_objects(await self.request_project(method, {"item": item}))[:MAX_CALLS]:
            symbol = results.read_symbol(as_dict(related.get(key)) if key else related)
            if symbol is not None:
                calls = results.as_objects(related.get("fromRanges"))
                lines = dict.fromkeys(range_start(call)[0] for call in calls)
                links.append(HierarchyLink(symbol=symbol, lines=tuple(lines)))
        return tuple(links)

    # --- type hierarchy of servers that do not offer it ---

    async def _type_hierarchy(self, document: OpenDocument, position: SourcePosition) -> Hierarchy | None:
        """Return super- and subtypes of the type that is named at `position`; None if there is no type."""
        definition = await self._type_at(document, position)
        if definition is None:
            return None
        document, symbol, position = definition
        above: dict[tuple[str, int], HierarchyLink] = {}
        for base in _base_names(document, symbol, position):
            for supertype in await self._types_at(document, base):
                if supertype.location != symbol.location:
                    above.setdefault(
                        (supertype.location.path, supertype.location.line), HierarchyLink(symbol=supertype)
                    )
        below = await self._subtypes(document, position) or ()
        return Hierarchy(
            symbol=symbol,
            incoming=tuple(above.values()),
            outgoing=tuple(HierarchyLink(symbol=subtype) for subtype in below),
        )

    async def _subtypes(self, document: OpenDocument, position: SourcePosition) -> tuple[Symbol, ...] | None:
        """Return the classes with the type at `position` in their header; None if the server can't find references."""
        method = _LOCATION_METHODS["references"]
        if not self.supports(method):
            return None
        uses: dict[str, list[tuple[int, int]]] = {}
        for item in results.as_objects(await self._request_at(method, document, position, declaration=False)):
            path = path_of(item.get("uri"))
            if path and Path(path).is_relative_to(self.root):
                uses.setdefault(path, []).append(range_start(item.get("range")))
        subtypes: list[Symbol] = []
        for path, starts in list(uses.items())[:MAX_FILES]:
            for file, symbol, name in await self._classes(Path(path)):
                positions = [(line, from_units(file.lines[line - 1], unit, self.encoding)) for line, unit in starts]
                header = {line: (start, end) for line, start, end in _header(file, name, symbol.name)}
                if any(line in header and header[line][0] <= column < header[line][1] for line, column in positions):
                    subtypes.append(symbol)
        return tuple(subtypes)

    async def _classes(self, path: Path) -> list[tuple[OpenDocument, Symbol, SourcePosition]]:
        """Return the types of a file with the position of their names; none if the file can't be opened."""
        try:
            document = await self.sync(path)
        except NoSuchFile:
            return []
        result = await self._request_at(_SYMBOLS, document)
        tree = await asyncio.to_thread(results.read_symbol_tree, result, str(path))
        return [
            (document, symbol, self._name_position(document, symbol, range_start(item.get("selectionRange"))[1]))
            for symbol, item in tree
            if symbol.kind in results.TYPES
        ]

    def _name_position(self, document: OpenDocument, symbol: Symbol, unit: int) -> SourcePosition:
        line = document.lines[symbol.location.line - 1]
        column = from_units(line, unit, self.encoding)
        match = re.compile(rf"(?<!\w){re.escape(symbol.name)}(?!\w)").search(line, column)
        return SourcePosition(line=symbol.location.line, column=match.start() if match else column)

    async def _type_at(
        self, document: OpenDocument, position: SourcePosition
    ) -> tuple[OpenDocument, Symbol, SourcePosition] | None:
        """Return the type that is named at `position`, in the file that defines it, with the position of its name."""
        for file, symbol, name in await self._classes(document.path):
            if name.line == position.line and name.column <= position.column <= name.column + len(symbol.name):
                return file, symbol, name
        for named in await self._types_at(document, position):
            for file, symbol, name in await self._classes(Path(named.location.path)):
                if symbol.location == named.location:
                    return file, symbol, name
        return None

    async def _types_at(self, document: OpenDocument, position: SourcePosition) -> list[Symbol]:
        """Return the types that the name at `position` is defined as."""
        types: list[Symbol] = []
        definitions = await self._request_at(_LOCATION_METHODS["definitions"], document, position)
        for location in await asyncio.to_thread(results.read_locations, definitions):
            classes = [symbol for _, symbol, _ in await self._classes(Path(location.path))]
            exact = [symbol for symbol in classes if symbol.location.line == location.line]
            # A definition may point to a keyword next to the name; one deeper in the body is not the type.
            adjacent = [symbol for symbol in classes if 0 <= location.line - symbol.location.line <= 1]
            around = [symbol for symbol in adjacent if location.line <= symbol.location.end_line]
            types += exact[:1] or around[-1:]
        return types


def _header(document: OpenDocument, position: SourcePosition, name: str) -> Iterator[tuple[int, int, int]]:
    """Yield the lines of a type's header after its name at `position`: number, first and last column."""
    column, depth = position.column + len(name), 0
    for number in range(position.line, min(position.line + MAX_HEADER_LINES, len(document.lines) + 1)):
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


def _base_names(document: OpenDocument, symbol: Symbol, position: SourcePosition) -> list[SourcePosition]:
    """Return where the different names in the header of a type are."""
    names: dict[str, SourcePosition] = {}
    for line, start, end in _header(document, position, symbol.name):
        for match in _NAME.finditer(document.lines[line - 1], start, end):
            if match[0] not in _KEYWORDS:
                names.setdefault(match[0], SourcePosition(line=line, column=match.start()))
    return list(names.values())[:MAX_BASES]

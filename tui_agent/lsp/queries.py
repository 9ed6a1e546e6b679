"""A language server with the questions that the tools ask: where something is, who uses it, what it is (T3)."""

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
    PlaceKind,
    SourceLocation,
    SourcePosition,
    Symbol,
    Unavailable,
)
from tui_agent.lsp import results
from tui_agent.lsp.connection import RequestRejected, ServerTimeout
from tui_agent.lsp.documents import NoSuchFile, OpenDocument
from tui_agent.lsp.positions import as_int, from_units, line_of, path_of, start_of
from tui_agent.lsp.server import LanguageServer

CALLS = 200
"""Callers or callees that are told."""
HEAD_LINES = 12
"""Lines of a head."""
BASES = 12
"""Names in a head that are looked up."""
FILES = 40
"""Files whose classes are looked at for subtypes."""
_NAME = re.compile(r"[^\W\d]\w*")
_BODY = re.compile(r"[{]|:\s*(?:#.*)?$|\bwhere\b")
_PLACES: dict[PlaceKind, str] = {
    "definitions": "textDocument/definition",
    "references": "textDocument/references",
    "implementations": "textDocument/implementation",
}
_SYMBOLS = "textDocument/documentSymbol"

R = TypeVar("R")


class CodeServer(LanguageServer):
    """What the server can't do is `Unavailable`; methods raise LspError and NoSuchFile."""

    async def file_diagnostics(
        self, path: Path, seconds: float, data: bytes | None = None
    ) -> tuple[str, tuple[Diagnostic, ...]]:
        """What the server finds wrong in a file, behind the sha256 of the bytes in which it was found; with `data` as
        if that stood in the file."""
        document = await self.show(path, data)
        items = await self.diagnostics(document, seconds)
        if self.documents.get(document.uri) is not document:
            raise ServerTimeout(f"{path.name} changed meanwhile")
        found = await asyncio.to_thread(results.read_diagnostics, items, document.lines, self.encoding)
        return document.sha256, found

    async def outline(self, path: Path) -> tuple[Symbol, ...] | Unavailable:
        """The symbols of a file."""
        return await self._read(_SYMBOLS, "list symbols", lambda found: results.read_outline(found, str(path)), path)

    async def places(
        self, kind: PlaceKind, path: Path, spot: SourcePosition
    ) -> tuple[SourceLocation, ...] | Unavailable:
        """Where what stands at `spot` is defined, used (the declaration among them), or implemented and overridden; of
        a type, where the server can't say, the types that name it as a base."""
        found = await self._read(_PLACES[kind], f"find {kind}", results.places, path, spot)
        if kind != "implementations" or (found and not isinstance(found, Unavailable)):
            return found
        derived = await self._subtypes(await self._opened(path), spot)
        return found if derived is None else tuple(symbol.place for symbol in derived)

    async def hover(self, path: Path, spot: SourcePosition) -> str | Unavailable:
        """Signature, type and documentation; empty where there is nothing to say."""
        return await self._read("textDocument/hover", "tell types", results.hover_text, path, spot)

    async def symbols(self, name: str, example: Path | None) -> tuple[Symbol, ...] | Unavailable:
        """Symbols of the whole project that are called like `name`. `example`: a file of the project to start from."""
        if not self.can("workspace/symbol"):
            return self._cannot("search symbols")
        if example is not None and not self.documents:
            await self.show(example)
        await self.ready()
        return await asyncio.to_thread(
            results.read_symbols, await self.ask_project("workspace/symbol", {"query": name})
        )

    async def calls(
        self, path: Path, spot: SourcePosition, *, incoming: bool, outgoing: bool
    ) -> Hierarchy | Unavailable | None:
        """Who calls the function at `spot`, and whom it calls; None where no function is."""
        method = "textDocument/prepareCallHierarchy"
        if not self.can(method):
            return self._cannot("tell who calls whom")
        item = await self._item(method, await self._opened(path), spot)
        if item is None:
            return None
        return Hierarchy(
            symbol=item[0],
            above=await self._links("callHierarchy/incomingCalls", "from", item[1]) if incoming else None,
            below=await self._links("callHierarchy/outgoingCalls", "to", item[1]) if outgoing else None,
        )

    async def types(self, path: Path, spot: SourcePosition) -> Hierarchy | Unavailable | None:
        """Super- and subtypes of the type at `spot`; None where no type is."""
        method = "textDocument/prepareTypeHierarchy"
        document = await self._opened(path)
        if not self.can(method):
            return await self._family(document, spot)
        item = await self._item(method, document, spot)
        if item is None:
            return None
        above = await self._links("typeHierarchy/supertypes", "", item[1])
        return Hierarchy(symbol=item[0], above=above, below=await self._links("typeHierarchy/subtypes", "", item[1]))

    # --- shared ---

    def _cannot(self, what: str) -> Unavailable:
        return Unavailable(why=f"the language server for {self.language.title} can't {what}")

    async def _opened(self, path: Path) -> OpenDocument:
        """The file, shown to a server that has read the project."""
        document = await self.show(path)
        await self.ready()
        return document

    async def _read(
        self, method: str, what: str, read: Callable[[Any], R], path: Path, spot: SourcePosition | None = None
    ) -> R | Unavailable:
        """What `read` makes of the server's answer about a file, or a spot of it."""
        if not self.can(method):
            return self._cannot(what)
        document = await self._opened(path)
        return await asyncio.to_thread(read, await self._ask_at(method, document, spot))

    async def _ask_at(
        self, method: str, document: OpenDocument, spot: SourcePosition | None = None, *, declared: bool = True
    ) -> Any:
        """`declared`: with the declaration among the references."""
        params: dict[str, Any] = {"textDocument": {"uri": document.uri}}
        if spot is not None:
            params["position"] = self.position(document, spot)
        if method == _PLACES["references"]:
            params["context"] = {"includeDeclaration": declared}
        ask = self.ask_project if method in (_PLACES["references"], _PLACES["implementations"]) else self.ask
        return await ask(method, params)

    async def _item(
        self, method: str, document: OpenDocument, spot: SourcePosition
    ) -> tuple[Symbol, dict[str, Any]] | None:
        """The first item of a hierarchy that names a place; servers answer with an error where there is none."""
        try:
            found = await self._ask_at(method, document, spot)
        except RequestRejected:
            return None
        items = ((results.symbol_of(one), one) for one in results.as_list(found))
        return next(((symbol, one) for symbol, one in items if symbol is not None), None)

    async def _links(self, method: str, end: str, item: dict[str, Any]) -> tuple[HierarchyLink, ...]:
        """The other symbols of a hierarchy; those of calls stand under `end`, with the ranges of the calls."""
        links: list[HierarchyLink] = []
        for one in results.as_list(await self.ask_project(method, {"item": item}))[:CALLS]:
            other = one.get(end) if end else one
            symbol = results.symbol_of(other) if isinstance(other, dict) else None
            if symbol is not None:
                lines = dict.fromkeys(line_of(call.get("start")) for call in results.as_list(one.get("fromRanges")))
                links.append(HierarchyLink(symbol=symbol, lines=tuple(lines)))
        return tuple(links)

    # --- types of a server that has no type hierarchy ---

    async def _family(self, document: OpenDocument, spot: SourcePosition) -> Hierarchy | None:
        """Super- and subtypes of the type that is named at `spot`; None where no type is."""
        home = await self._type_at(document, spot)
        if home is None:
            return None
        document, symbol, spot = home
        above: dict[tuple[str, int], HierarchyLink] = {}
        for name in _bases(document, symbol, spot):
            for found in await self._types_at(document, name):
                if found.place != symbol.place:
                    above.setdefault((found.place.path, found.place.line), HierarchyLink(symbol=found))
        below = await self._subtypes(document, spot) or ()
        return Hierarchy(
            symbol=symbol, above=tuple(above.values()), below=tuple(HierarchyLink(symbol=one) for one in below)
        )

    async def _subtypes(self, document: OpenDocument, spot: SourcePosition) -> tuple[Symbol, ...] | None:
        """The classes that name the type at `spot` in their heads; None where no references can be had."""
        method = _PLACES["references"]
        if not self.can(method):
            return None
        uses: dict[str, list[tuple[int, int]]] = {}
        for one in results.as_list(await self._ask_at(method, document, spot, declared=False)):
            path, start = path_of(one.get("uri")), start_of(one.get("range"))
            if path and Path(path).is_relative_to(self.root):
                uses.setdefault(path, []).append((line_of(start), as_int(start, "character")))
        found: list[Symbol] = []
        for path, spots in list(uses.items())[:FILES]:
            for home, symbol, name in await self._classes(Path(path)):
                places = [(line, from_units(home.lines[line - 1], unit, self.encoding)) for line, unit in spots]
                head = {number: (begin, end) for number, begin, end in _head(home, name, symbol.name)}
                if any(line in head and head[line][0] <= column < head[line][1] for line, column in places):
                    found.append(symbol)
        return tuple(found)

    async def _classes(self, path: Path) -> list[tuple[OpenDocument, Symbol, SourcePosition]]:
        """The types of a file, each with where its name stands; none of a file that can't be shown."""
        try:
            document = await self.show(path)
        except NoSuchFile:
            return []
        result = await self._ask_at(_SYMBOLS, document)
        held = await asyncio.to_thread(results.nested, result, str(path))
        return [
            (document, symbol, self._name_of(document, symbol, given))
            for symbol, given in held
            if symbol.kind in results.TYPES
        ]

    def _name_of(self, document: OpenDocument, symbol: Symbol, given: dict[str, Any]) -> SourcePosition:
        line = document.lines[symbol.place.line - 1]
        column = from_units(line, as_int(start_of(given.get("selectionRange")), "character"), self.encoding)
        named = re.compile(rf"(?<!\w){re.escape(symbol.name)}(?!\w)").search(line, column)
        return SourcePosition(line=symbol.place.line, column=named.start() if named else column)

    async def _type_at(
        self, document: OpenDocument, spot: SourcePosition
    ) -> tuple[OpenDocument, Symbol, SourcePosition] | None:
        """The type that is named at `spot`, in the file that defines it."""
        for home, symbol, name in await self._classes(document.path):
            if name.line == spot.line and name.column <= spot.column <= name.column + len(symbol.name):
                return home, symbol, name
        for found in await self._types_at(document, spot):
            for home, symbol, name in await self._classes(Path(found.place.path)):
                if symbol.place == found.place:
                    return home, symbol, name
        return None

    async def _types_at(self, document: OpenDocument, spot: SourcePosition) -> list[Symbol]:
        """The types that the name at `spot` is defined as."""
        found: list[Symbol] = []
        definitions = await self._ask_at(_PLACES["definitions"], document, spot)
        for place in await asyncio.to_thread(results.places, definitions):
            classes = [symbol for _, symbol, _ in await self._classes(Path(place.path))]
            named = [symbol for symbol in classes if symbol.place.line == place.line]
            inside = [symbol for symbol in classes if symbol.place.line <= place.line <= symbol.place.last]
            # A definition may point to a decorator or keyword line above the name; one within the body is no type.
            close = [symbol for symbol in inside if abs(symbol.place.line - place.line) <= 1]
            found += named[:1] or close[-1:]
        return found


def _head(document: OpenDocument, name: SourcePosition, word: str) -> Iterator[tuple[int, int, int]]:
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


def _bases(document: OpenDocument, symbol: Symbol, name: SourcePosition) -> list[SourcePosition]:
    """The names in the head of a type, each once."""
    found: dict[str, SourcePosition] = {}
    for number, begin, end in _head(document, name, symbol.name):
        for word in _NAME.finditer(document.lines[number - 1], begin, end):
            found.setdefault(word[0], SourcePosition(line=number, column=word.start()))
    words = [word for word in found if word not in ("extends", "implements", "metaclass", "public", "private")]
    return [found[word] for word in words[:BASES]]

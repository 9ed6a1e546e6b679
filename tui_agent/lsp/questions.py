"""The questions that the tools ask, put to one server: where something is, who uses it, what it is (T3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tui_agent.lsp import reading
from tui_agent.lsp.connection import Declined, Silent
from tui_agent.lsp.documents import Document
from tui_agent.lsp.kinship import family_of_type, subtypes
from tui_agent.lsp.positions import line_of
from tui_agent.lsp.server import LanguageServer
from tui_agent.symbols import Diagnostic, Family, Link, Place, Spot, Symbol, Unavailable

CALLS = 200
"""Callers or callees that are told."""
SYMBOLS = 200


async def prepared(server: LanguageServer, path: Path) -> Document:
    """The file, shown to a server that has read the project."""
    document = await server.show(path)
    await server.ready()
    return document


async def diagnostics(server: LanguageServer, path: Path, seconds: float) -> tuple[Diagnostic, ...]:
    """What the server finds wrong in a file."""
    return (await checked(server, path, seconds))[1]


async def checked(
    server: LanguageServer, path: Path, seconds: float, data: bytes | None = None
) -> tuple[str, tuple[Diagnostic, ...]]:
    """The same with the sha256 of the bytes in which it was found; with `data` as if that stood in the file."""
    document = await server.show(path, data)
    items = await server.diagnostics(document, seconds)
    if server.documents.get(document.uri) is not document:
        raise Silent(f"{path.name} changed meanwhile")
    found = await asyncio.to_thread(reading.diagnostics, items, document.lines, server.encoding)
    return document.sha256, found


async def outline(server: LanguageServer, path: Path) -> tuple[Symbol, ...] | Unavailable:
    """The symbols of a file."""
    method = "textDocument/documentSymbol"
    if not server.can(method):
        return _cannot(server, "list symbols")
    document = await prepared(server, path)
    result = await server.ask(method, {"textDocument": {"uri": document.uri}})
    return await asyncio.to_thread(reading.outline, result, str(path))


async def definitions(server: LanguageServer, path: Path, spot: Spot) -> tuple[Place, ...] | Unavailable:
    """Where what stands at `spot` is defined."""
    return await _places(server, "textDocument/definition", path, spot, "find definitions")


async def references(server: LanguageServer, path: Path, spot: Spot) -> tuple[Place, ...] | Unavailable:
    """Every use of it, its declaration among them."""
    return await _places(server, "textDocument/references", path, spot, "find references")


async def implementations(server: LanguageServer, path: Path, spot: Spot) -> tuple[Place, ...] | Unavailable:
    """What implements or overrides it; of a type, where the server can't say, the types that name it as a base."""
    method = "textDocument/implementation"
    if server.can(method):
        places = await _places(server, method, path, spot, "find implementations")
        if places:
            return places
    found = await subtypes(server, await prepared(server, path), spot)
    if found is None:
        return () if server.can(method) else _cannot(server, "find implementations")
    return tuple(symbol.place for symbol in found)


async def hover(server: LanguageServer, path: Path, spot: Spot) -> str | Unavailable:
    """Signature, type and documentation; empty where there is nothing to say."""
    method = "textDocument/hover"
    if not server.can(method):
        return _cannot(server, "tell types")
    document = await prepared(server, path)
    return await asyncio.to_thread(reading.hover_text, await server.ask(method, _at(server, document, spot)))


async def symbols(
    server: LanguageServer, name: str, example: Path | None
) -> tuple[Symbol, ...] | Unavailable:
    """Symbols of the whole project that are called like `name`. `example`: a file of the project to start from."""
    method = "workspace/symbol"
    if not server.can(method):
        return _cannot(server, "search symbols")
    if example is not None and not server.documents:
        await server.show(example)
    await server.ready()
    return await asyncio.to_thread(reading.symbols, await server.ask(method, {"query": name}))


async def calls(
    server: LanguageServer, path: Path, spot: Spot, *, incoming: bool, outgoing: bool
) -> Family | Unavailable | None:
    """Who calls the function at `spot`, and whom it calls; None where no function is."""
    method = "textDocument/prepareCallHierarchy"
    if not server.can(method):
        return _cannot(server, "tell who calls whom")
    document = await prepared(server, path)
    item = await _item(server, method, document, spot)
    if item is None:
        return None
    symbol = reading.symbol_of(item)
    assert symbol is not None
    return Family(
        symbol=symbol,
        above=await _links(server, "incomingCalls", "from", item) if incoming else None,
        below=await _links(server, "outgoingCalls", "to", item) if outgoing else None,
    )


async def types(server: LanguageServer, path: Path, spot: Spot) -> Family | Unavailable | None:
    """Super- and subtypes of the type at `spot`; None where no type is."""
    method = "textDocument/prepareTypeHierarchy"
    document = await prepared(server, path)
    if not server.can(method):
        return await family_of_type(server, document, spot)
    item = await _item(server, method, document, spot)
    if item is None:
        return None
    symbol = reading.symbol_of(item)
    assert symbol is not None
    found = []
    for way in ("supertypes", "subtypes"):
        result = await server.ask(f"typeHierarchy/{way}", {"item": item})
        symbols = await asyncio.to_thread(reading.symbols, result)
        found.append(tuple(Link(symbol=one) for one in symbols[:CALLS]))
    return Family(symbol=symbol, above=found[0], below=found[1])


# --- shared ---


async def _places(
    server: LanguageServer, method: str, path: Path, spot: Spot, what: str
) -> tuple[Place, ...] | Unavailable:
    if not server.can(method):
        return _cannot(server, what)
    document = await prepared(server, path)
    params = _at(server, document, spot)
    if method.endswith("references"):
        params["context"] = {"includeDeclaration": True}
    return await asyncio.to_thread(reading.places, await server.ask(method, params))


async def _item(server: LanguageServer, method: str, document: Document, spot: Spot) -> dict[str, Any] | None:
    """The first item of a hierarchy that names a place; servers answer with an error where there is none."""
    try:
        result = await server.ask(method, _at(server, document, spot))
    except Declined:
        return None
    return next((one for one in reading.listed(result) if reading.symbol_of(one) is not None), None)


async def _links(server: LanguageServer, way: str, end: str, item: dict[str, Any]) -> tuple[Link, ...]:
    links: list[Link] = []
    for one in reading.listed(await server.ask(f"callHierarchy/{way}", {"item": item}))[:CALLS]:
        other = one.get(end)
        symbol = reading.symbol_of(other) if isinstance(other, dict) else None
        if symbol is not None:
            links.append(Link(symbol=symbol, lines=_lines(one.get("fromRanges"))))
    return tuple(links)


def _lines(ranges: Any) -> tuple[int, ...]:
    starts = [one.get("start") for one in reading.listed(ranges)]
    return tuple(dict.fromkeys(line_of(start) for start in starts))


def _at(server: LanguageServer, document: Document, spot: Spot) -> dict[str, Any]:
    return {"textDocument": {"uri": document.uri}, "position": server.position(document, spot)}


def _cannot(server: LanguageServer, what: str) -> Unavailable:
    return Unavailable(why=f"the language server for {server.language.title} can't {what}")

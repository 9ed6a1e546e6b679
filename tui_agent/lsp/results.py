"""Convert a server's results to symbols, locations and diagnostics.

They are not trusted: invalid items are left out, and sizes are limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tui_agent.common.symbols import Diagnostic, DiagnosticKind, SourceLocation, Symbol
from tui_agent.lsp.positions import Encoding, ServerLines, as_dict, as_int, as_list, from_units, path_of, range_start
from tui_agent.text import clean, one_line

MAX_ITEMS = 5_000
"""Entries of one result that are read."""
MAX_DEPTH = 20
"""Levels of nested symbols."""
MAX_TEXT = 8_000
"""Characters of one text."""
MAX_DIAGNOSTICS = 1_000
"""Diagnostics of one file; the most severe ones are kept."""
MAX_MESSAGE = 2_000
"""Characters of the message of a diagnostic."""

KINDS = (
    "symbol", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip
"""Names of symbol kinds by the protocol's number."""
TYPES = frozenset({"class", "interface", "struct", "enum"})
_SEVERITIES: tuple[DiagnosticKind, ...] = ("error", "error", "warning", "info", "hint")


def as_objects(result: Any) -> list[dict[str, Any]]:
    """Return the objects of a result that is one object, a list of them or nothing."""
    items = result if isinstance(result, list) else [result]
    return [item for item in items[:MAX_ITEMS] if isinstance(item, dict)]


def read_locations(result: Any) -> tuple[SourceLocation, ...]:
    """Return the different lines of locations or links to locations."""
    locations: dict[tuple[str, int], SourceLocation] = {}
    for item in as_objects(result):
        location = _location(
            item.get("uri", item.get("targetUri")), item.get("targetSelectionRange", item.get("range"))
        )
        if location is not None:
            locations.setdefault((location.path, location.line), location)
    return tuple(locations.values())


def _location(uri: Any, extent: Any, selection: Any = None) -> SourceLocation | None:
    """Return the location of a range, from the first line of `selection` if given; None if the URI is not a file."""
    path = path_of(uri)
    return _lines_of(path, extent, selection) if path and isinstance(extent, dict) else None


def _lines_of(path: str, extent: dict[str, Any], selection: Any) -> SourceLocation:
    first, _ = range_start(selection if isinstance(selection, dict) else extent)
    last = as_int(as_dict(extent.get("end")).get("line")) + 1
    return SourceLocation(path=path, line=first, end_line=max(first, last))


def _symbol(item: dict[str, Any], place: SourceLocation, container: str, depth: int = 0) -> Symbol:
    kind = item.get("kind")
    return Symbol(
        name=_one_line(item.get("name")),
        kind=KINDS[kind] if isinstance(kind, int) and 0 < kind < len(KINDS) else KINDS[0],
        location=place,
        container=container,
        detail=_one_line(item.get("detail")),
        depth=depth,
    )


def read_symbol(item: dict[str, Any]) -> Symbol | None:
    """Return a symbol of a workspace or an item of a hierarchy; None if it has no location."""
    location = item.get("location")
    owner = location if isinstance(location, dict) else item
    extent = owner.get("range")
    if extent is None and isinstance(location, dict):
        extent = {}
    place = _location(owner.get("uri"), extent, item.get("selectionRange"))
    return None if place is None else _symbol(item, place, _one_line(item.get("containerName")))


def read_symbols(result: Any) -> tuple[Symbol, ...]:
    """Return the symbols of a flat list."""
    return tuple(symbol for item in as_objects(result) if (symbol := read_symbol(item)) is not None)


def read_outline(result: Any, path: str) -> tuple[Symbol, ...]:
    """Return the symbols of a file in its order, outer ones before the ones they contain."""
    items = as_objects(result)
    if items and "location" in items[0]:
        return tuple(sorted(read_symbols(items), key=lambda symbol: symbol.location.line))
    return tuple(symbol for symbol, _ in read_symbol_tree(result, path))


def read_symbol_tree(result: Any, path: str) -> list[tuple[Symbol, dict[str, Any]]]:
    """Return the symbols of a nested result, each with the protocol's form of it."""
    return list(islice(_walk(result, path, 0, ""), MAX_ITEMS))


def _walk(result: Any, path: str, depth: int, container: str) -> Iterator[tuple[Symbol, dict[str, Any]]]:
    for item in sorted(as_objects(result), key=lambda item: range_start(item.get("selectionRange", item.get("range")))):
        extent = item.get("range")
        if not isinstance(extent, dict):
            continue
        symbol = _symbol(item, _lines_of(path, extent, item.get("selectionRange")), container, depth)
        yield symbol, item
        if depth < MAX_DEPTH:
            yield from _walk(as_list(item.get("children")), path, depth + 1, symbol.name)


def read_hover(result: Any) -> str:
    """Return the text that a server shows for a position, plain or Markdown."""
    contents = as_dict(result).get("contents")
    parts = contents if isinstance(contents, list) else [contents]
    texts = [part.get("value") if isinstance(part, dict) else part for part in parts[:50]]
    trimmed = [text[:MAX_TEXT].strip() for text in texts if isinstance(text, str)]
    return clean("\n\n".join(text for text in trimmed if text)[: MAX_TEXT * 2])[:MAX_TEXT]


def trim_diagnostics(items: list[Any]) -> list[dict[str, Any]]:
    """Reduce published diagnostics to what is read of them."""
    diagnostics = as_objects(items)
    if len(diagnostics) > MAX_DIAGNOSTICS:
        diagnostics = sorted(diagnostics, key=_severity)[:MAX_DIAGNOSTICS]
    return [_trim(diagnostic) for diagnostic in diagnostics]


def _trim(item: dict[str, Any]) -> dict[str, Any]:
    line, unit = range_start(item.get("range"))
    code, source, message = (item.get(name) for name in ("code", "source", "message"))
    return {
        "range": {"start": {"line": line - 1, "character": unit}},
        "severity": _severity(item),
        "code": code if isinstance(code, int) else code[:200] if isinstance(code, str) else "",
        "source": source[:200] if isinstance(source, str) else "",
        "message": message[: MAX_MESSAGE * 2] if isinstance(message, str) else "",
    }


def _severity(item: dict[str, Any]) -> int:
    """Return the severity from 1, an error, to 4, a hint; errors by default."""
    severity = item.get("severity")
    return severity if isinstance(severity, int) and 0 < severity < len(_SEVERITIES) else 1


def read_diagnostics(items: list[Any], lines: ServerLines, encoding: Encoding) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a file in its order."""
    diagnostics = []
    for item in trim_diagnostics(items):
        line, unit = range_start(item["range"])
        diagnostics.append(
            Diagnostic(
                kind=_SEVERITIES[item["severity"]],
                line=line,
                column=from_units(lines[line - 1], unit, encoding),
                message=clean(item["message"])[:MAX_MESSAGE].strip(),
                code=_one_line(item["code"]),
                source=_one_line(item["source"]),
            )
        )
    return tuple(sorted(diagnostics, key=lambda diagnostic: (diagnostic.line, diagnostic.column)))


def _one_line(value: Any) -> str:
    return one_line(str(value), 200) if isinstance(value, str | int) else ""

"""A server's answers as nouns. What it sends is not trusted: what does not fit is left out, and all is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tui_agent.common.symbols import Diagnostic, DiagnosticKind, SourceLocation, Symbol
from tui_agent.lsp.positions import Encoding, ServerLines, as_int, from_units, line_of, path_of, start_of
from tui_agent.text import clean, one_line

MANY = 5_000
"""Entries of one answer that are read."""
DEEP = 20
"""Levels of symbols within symbols."""
TEXT = 8_000
"""Characters of one text."""
FOUND = 1_000
"""Diagnostics of one file; the gravest ones."""
MESSAGE = 2_000
"""Characters of what one says."""

KINDS = (
    "symbol", "file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum",
    "interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key", "null",
    "enum member", "struct", "event", "operator", "type parameter",
)  # fmt: skip
"""Names of symbol kinds by the protocol's number."""
TYPES = frozenset({"class", "interface", "struct", "enum"})
_SEVERITIES: tuple[DiagnosticKind, ...] = ("error", "error", "warning", "info", "hint")


def as_list(result: Any) -> list[dict[str, Any]]:
    """The objects of an answer that is one object, a list of them or nothing."""
    found = result if isinstance(result, list) else [result]
    return [one for one in found[:MANY] if isinstance(one, dict)]


def places(result: Any) -> tuple[SourceLocation, ...]:
    """Locations or links to locations, each once, as places."""
    found: dict[tuple[str, int], SourceLocation] = {}
    for one in as_list(result):
        place = place_of(one.get("uri", one.get("targetUri")), one.get("targetSelectionRange", one.get("range")))
        if place is not None:
            found.setdefault((place.path, place.line), place)
    return tuple(found.values())


def place_of(uri: Any, extent: Any, shown: Any = None) -> SourceLocation | None:
    """The place of a range; with `shown` from the line where that begins. None where the address is no file's."""
    path = path_of(uri)
    if not path or not isinstance(extent, dict):
        return None
    start = shown if isinstance(shown, dict) else extent
    first = line_of(start.get("start"))
    return SourceLocation(path=path, line=first, last=max(first, line_of(extent.get("end"))))


def symbol_kind(given: Any) -> str:
    """The word for a symbol kind."""
    return KINDS[given] if isinstance(given, int) and 0 < given < len(KINDS) else KINDS[0]


def symbol_of(given: dict[str, Any]) -> Symbol | None:
    """A symbol of a workspace or an item of a hierarchy; None for what names no place."""
    inside = given.get("location")
    held = inside if isinstance(inside, dict) else given
    extent = held.get("range")
    if extent is None and isinstance(inside, dict):
        extent = {"start": {"line": 0}, "end": {"line": 0}}
    place = place_of(held.get("uri"), extent, given.get("selectionRange"))
    if place is None:
        return None
    return Symbol(
        name=_word(given.get("name")),
        kind=symbol_kind(given.get("kind")),
        place=place,
        container=_word(given.get("containerName")),
        detail=_word(given.get("detail")),
    )


def read_symbols(result: Any) -> tuple[Symbol, ...]:
    """The symbols of an answer that is a flat list."""
    return tuple(symbol for one in as_list(result) if (symbol := symbol_of(one)) is not None)


def read_outline(result: Any, path: str) -> tuple[Symbol, ...]:
    """The symbols of a file, outer ones before what they hold, in the file's order."""
    found = as_list(result)
    if found and "location" in found[0]:
        return tuple(sorted(read_symbols(found), key=lambda symbol: symbol.place.line))
    return tuple(symbol for symbol, _ in nested(result, path))


def nested(result: Any, path: str) -> list[tuple[Symbol, dict[str, Any]]]:
    """The same with the server's own form of each symbol; nothing where it sends a flat list."""
    found: list[tuple[Symbol, dict[str, Any]]] = []
    for symbol, given in _walk(result, path, 0, ""):
        found.append((symbol, given))
        if len(found) >= MANY:
            break
    return found


def _walk(result: Any, path: str, depth: int, holder: str) -> Iterator[tuple[Symbol, dict[str, Any]]]:
    def first(one: dict[str, Any]) -> tuple[int, int]:
        start = start_of(one.get("selectionRange", one.get("range")))
        return as_int(start, "line"), as_int(start, "character")

    for one in sorted(as_list(result), key=first):
        extent, selected = one.get("range"), one.get("selectionRange")
        if not isinstance(extent, dict):
            continue
        line = line_of(start_of(selected if isinstance(selected, dict) else extent))
        symbol = Symbol(
            name=_word(one.get("name")),
            kind=symbol_kind(one.get("kind")),
            place=SourceLocation(path=path, line=line, last=max(line, line_of(extent.get("end")))),
            container=holder,
            detail=_word(one.get("detail")),
            depth=depth,
        )
        yield symbol, one
        if depth < DEEP and isinstance(one.get("children"), list):
            yield from _walk(one["children"], path, depth + 1, symbol.name)


def hover_text(result: Any) -> str:
    """What a server shows for a position, as plain text or the markdown that it is."""
    contents = result.get("contents") if isinstance(result, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    texts = [part.get("value") if isinstance(part, dict) else part for part in parts[:50]]
    joined = "\n\n".join(text[:TEXT].strip() for text in texts if isinstance(text, str) and text[:TEXT].strip())
    return clean(joined[: TEXT * 2])[:TEXT]


def trim_hover(items: list[Any]) -> list[dict[str, Any]]:
    """Diagnostics as a server sends them, with no more of each than is read of it."""
    found = as_list(items)
    if len(found) > FOUND:
        found = sorted(found, key=_severity)[:FOUND]
    return [_trimmed(one) for one in found]


def _trimmed(one: dict[str, Any]) -> dict[str, Any]:
    extent, code, source, message = (one.get(name) for name in ("range", "code", "source", "message"))
    start = start_of(extent)
    place = {"line": as_int(start, "line"), "character": as_int(start, "character")}
    return {
        "range": {"start": place},
        "severity": _severity(one),
        "code": code if isinstance(code, int) else code[:200] if isinstance(code, str) else "",
        "source": source[:200] if isinstance(source, str) else "",
        "message": message[: MESSAGE * 2] if isinstance(message, str) else "",
    }


def _severity(one: dict[str, Any]) -> int:
    """From 1, an error, to 4, a hint; what is not said is an error."""
    given = one.get("severity")
    return given if isinstance(given, int) and 0 < given < len(_SEVERITIES) else 1


def read_diagnostics(items: list[Any], lines: ServerLines, encoding: Encoding) -> tuple[Diagnostic, ...]:
    """What a server finds wrong in a file, in the file's order."""
    found = []
    for one in trim_hover(items):
        start = one["range"]["start"]
        line = line_of(start)
        found.append(
            Diagnostic(
                kind=_SEVERITIES[one["severity"]],
                line=line,
                column=from_units(lines[line - 1], start["character"], encoding),
                message=clean(one["message"])[:MESSAGE].strip(),
                code=_word(one["code"]),
                source=_word(one["source"]),
            )
        )
    return tuple(sorted(found, key=lambda one: (one.line, one.column)))


def _word(given: Any) -> str:
    return one_line(str(given), 200) if isinstance(given, str | int) else ""

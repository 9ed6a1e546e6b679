"""Columns as a server counts them, and as we do: characters (code points). Lines count from 0 in the protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote, unquote_to_bytes

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class ServerLines:
    """The lines of a text as the protocol counts them."""

    def __init__(self, text: str) -> None:
        self._lines: list[str] = []
        start = 0
        # One by one: a split of a large text would keep all other threads waiting.
        for end in _LINE_END.finditer(text):
            self._lines.append(text[start : end.start()])
            start = end.end()
        self._lines.append(text[start:])

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> str:
        """The line `number`, from 0; empty where there is none."""
        return self._lines[number] if 0 <= number < len(self._lines) else ""


def to_units(line: str, column: int, encoding: Encoding) -> int:
    """How many code units of `encoding` stand before the character `column` of `line`."""
    before = line[:column]
    if encoding == "utf-32" or before.isascii():
        return len(before)
    if encoding == "utf-8":
        return len(before.encode("utf-8", "surrogatepass"))
    return len(before) + sum(character > "\uffff" for character in before)


def from_units(line: str, units: int, encoding: Encoding) -> int:
    """How many characters stand before the code unit `units`; inside a character, those before it."""
    if encoding == "utf-32" or line.isascii():
        return max(0, min(units, len(line)))
    count = used = 0
    for character in line:
        used += to_units(character, 1, encoding)
        if used > units:
            break
        count += 1
    return count


def uri_of(path: str) -> str:
    """The `file:` address of an absolute path."""
    return "file://" + quote(os.fsencode(path), safe="/")


def path_of(uri: object) -> str:
    """The absolute path of a `file:` address, also in the short form `file:/x`; empty for any other."""
    if not isinstance(uri, str) or not uri.startswith("file:/"):
        return ""
    rest = uri.removeprefix("file:")
    if rest.startswith("//"):
        rest = rest[rest.find("/", 2) :] if "/" in rest[2:] else ""
    path = os.fsdecode(unquote_to_bytes(rest))
    return "" if "\0" in path else os.path.normpath(path) if path else ""


def as_int(given: object, name: str) -> int:
    """The number under `name`, not below 0; 0 where there is none."""
    value = given.get(name) if isinstance(given, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0


def start_of(extent: Any) -> Any:
    """Where a range begins; None for what is no range."""
    return extent.get("start") if isinstance(extent, dict) else None


def line_of(position: Any) -> int:
    """The line of a position, counted from 1."""
    return as_int(position, "line") + 1

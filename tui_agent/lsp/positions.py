"""Convert positions and URIs between the protocol and ours.

The protocol counts lines from 0 and columns in code units; we count lines from 1 and columns in code points.
"""

from __future__ import annotations

import os
import re
from typing import Any, Literal
from urllib.parse import quote, unquote_to_bytes

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class ServerLines:
    """The lines of a text as the protocol counts them."""

    def __init__(self, text: str) -> None:
        self._lines: list[str] = []
        start = 0
        # One by one: splitting a large text at once would block all other threads.
        for end in _LINE_END.finditer(text):
            self._lines.append(text[start : end.start()])
            start = end.end()
        self._lines.append(text[start:])

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> str:
        """Return a line by its index; empty if there is no such line."""
        return self._lines[number] if 0 <= number < len(self._lines) else ""


def to_units(line: str, column: int, encoding: Encoding) -> int:
    """Return how many code units of `encoding` precede the character `column` of `line`."""
    before = line[:column]
    if encoding == "utf-32" or before.isascii():
        return len(before)
    if encoding == "utf-8":
        return len(before.encode("utf-8", "surrogatepass"))
    return len(before) + sum(character > "\uffff" for character in before)


def from_units(line: str, units: int, encoding: Encoding) -> int:
    """Return how many characters completely precede the code unit `units` of `line`."""
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
    """Return the `file:` URI of an absolute path."""
    return "file://" + quote(os.fsencode(path), safe="/")


def path_of(uri: object) -> str:
    """Return the absolute path of a `file:` URI, also in the short form `file:/x`; empty for any other URI."""
    if not isinstance(uri, str) or not uri.startswith("file:/"):
        return ""
    rest = uri.removeprefix("file:")
    if rest.startswith("//"):
        rest = rest[rest.find("/", 2) :] if "/" in rest[2:] else ""
    path = os.fsdecode(unquote_to_bytes(rest))
    return "" if "\0" in path else os.path.normpath(path) if path else ""


def as_dict(value: object) -> dict[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_int(value: object) -> int:
    """Return the value if it is a positive number, else 0."""
    return value if isinstance(value, int) and value > 0 else 0


def range_start(value: object) -> tuple[int, int]:
    """Return where a protocol range begins: line, counted from 1, and code unit."""
    start = as_dict(as_dict(value).get("start"))
    return as_int(start.get("line")) + 1, as_int(start.get("character"))

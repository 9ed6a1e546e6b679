"""Tolerant handling of JSON from models and servers: control characters, huge numbers, lone surrogates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

MAX_DEPTH = 64
"""Maximum nesting depth of JSON."""


def parse_integer(digits: str) -> int | float | None:
    """Parse an integer; an overlong one becomes a float, or None if that overflows."""
    return int(digits) if len(digits) <= 40 else parse_number(digits)


def parse_number(digits: str) -> float | None:
    """Parse a number; None if it overflows."""
    number = float(digits)
    return number if abs(number) != float("inf") else None


LENIENT = json.JSONDecoder(
    strict=False, parse_int=parse_integer, parse_float=parse_number, parse_constant=lambda _name: None
)
"""Accepts raw control characters; NaN and infinities become None; the last duplicate key counts."""


def is_too_deep(text: str, value: Any) -> bool:
    """True if `value`, parsed from `text`, is nested deeper than MAX_DEPTH."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children.extend(item.values())
            elif isinstance(item, list):
                children.extend(item)
        level = [item for item in children if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def repair_surrogates(value: Any) -> Any:
    """Join surrogate pairs and replace lone surrogates; `value` must not be nested deeply."""
    return map_strings(
        value, lambda text: type(text)(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    )


def map_strings(value: Any, convert: Callable[[str], str]) -> Any:
    """Apply `convert` to every string in plain data, including keys."""
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, list | tuple):
        return [map_strings(item, convert) for item in value]
    if isinstance(value, dict):
        return {map_strings(key, convert): map_strings(item, convert) for key, item in value.items()}
    return value


class JsonMember(msgspec.Struct, frozen=True):
    """A member of a JSON object, with its position in the text."""

    key: str
    start: int
    """Offset of the key's opening quote."""
    value_start: int
    end: int
    """Offset after the value."""


def iter_json_members(text: str, position: int) -> Iterator[JsonMember]:
    """Yield the members of the object whose brace is at `position` in valid JSON."""
    decoder = json.JSONDecoder()
    position += 1
    while True:
        position = _skip(text, position, ", \t\r\n")
        if text[position : position + 1] != '"':
            return
        key, key_end = decoder.raw_decode(text, position)
        value_start = _skip(text, key_end, ": \t\r\n")
        _, end = decoder.raw_decode(text, value_start)
        yield JsonMember(key, position, value_start, end)
        position = end


def _skip(text: str, position: int, characters: str) -> int:
    while position < len(text) and text[position] in characters:
        position += 1
    return position

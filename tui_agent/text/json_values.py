"""Plain data and JSON that others wrote: control characters, absurd numbers and torn characters are survived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

DEPTH_LIMIT = 64
"""How deep JSON may be nested."""


def parse_integer(digits: str) -> int | float | None:
    """A whole number; one of absurd length as a float, None where even that can't hold it."""
    return int(digits) if len(digits) <= 40 else parse_number(digits)


def parse_number(digits: str) -> float | None:
    """A number; None where a float can't hold it."""
    number = float(digits)
    return number if abs(number) != float("inf") else None


LENIENT = json.JSONDecoder(
    strict=False, parse_int=parse_integer, parse_float=parse_number, parse_constant=lambda _name: None
)
"""Raw control characters are accepted, NaN and the infinities become None; the last of duplicate keys counts."""


def is_too_deep(text: str, value: Any) -> bool:
    """Whether `value`, which was read from `text`, is nested deeper than DEPTH_LIMIT."""
    if text.count("[") + text.count("{") <= DEPTH_LIMIT:
        return False
    level = [value]
    for _ in range(DEPTH_LIMIT):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def repair_surrogates(value: Any) -> Any:
    """`value` with surrogate pairs joined and lone ones replaced; it must not be nested deeply."""
    return map_strings(
        value, lambda text: type(text)(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    )


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Plain data with every text in it, keys too, as `change` makes it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {map_strings(key, change): map_strings(item, change) for key, item in value.items()}
    return value


class JsonMember(msgspec.Struct, frozen=True):
    """A member of an object in a JSON text."""

    key: str
    start: int
    """Offset of the key's opening quote."""
    value_start: int
    end: int
    """Offset after the value."""


def iter_json_members(text: str, at: int) -> Iterator[JsonMember]:
    """The members of the object whose brace is at `at`, in a text that is JSON."""
    at += 1
    while True:
        at = _behind(text, at, ", \t\r\n")
        if text[at : at + 1] != '"':
            return
        key, end = json.JSONDecoder().raw_decode(text, at)
        value = _behind(text, end, ": \t\r\n")
        _, last = json.JSONDecoder().raw_decode(text, value)
        yield JsonMember(key, at, value, last)
        at = last


def _behind(text: str, at: int, signs: str) -> int:
    while at < len(text) and text[at] in signs:
        at += 1
    return at

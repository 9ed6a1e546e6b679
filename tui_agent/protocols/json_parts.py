"""A JSON file with the values that a part of it shows: the layout of all else stays (E4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tui_agent.protocols.removals import AllowedRemovals
from tui_agent.text.json_values import iter_json_members

_FAULTS = (ValueError, RecursionError, MemoryError)


def load_json(text: str) -> Any:
    """The value of a JSON text; `...` where it is none."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except _FAULTS:
        return ...


def load_partial_object(text: str) -> str:
    """A JSON text of a part that lacks its outer braces or has a comma too many; empty where it isn't one either."""
    bare = text.strip().rstrip(",")
    for one in (bare, f"{{{bare}}}"):
        for each in (one, re.sub(r",(\s*[}\]])", r"\1", one)):
            if isinstance(load_json(each), dict):
                return each + "\n"
    return ""


def missing_keys(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Keys of an object and of those in it that another one lacks."""
    found = []
    for key, value in old.items():
        if key not in new:
            found.append(key)
        elif isinstance(value, dict) and isinstance(new[key], dict):
            found += missing_keys(value, new[key])
    return found


def is_inner(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether an object is a part of one within another: its keys are there, and none of them in the outer one."""
    if old.keys() & new.keys():
        return False
    inner = [value for value in old.values() if isinstance(value, dict)]
    return any(new.keys() <= one.keys() or is_inner(one, new) for one in inner)


def shrinks(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a list within an object has fewer items in another one."""
    for key, value in old.items():
        given = new.get(key)
        if isinstance(value, list) and isinstance(given, list) and len(given) < len(value):
            return True
        if isinstance(value, dict) and isinstance(given, dict) and shrinks(value, given):
            return True
    return False


def with_values(old: str, part: str, allowed: AllowedRemovals) -> str:
    """The object `old` with the values of the object `part`; empty where it can't be told which they replace."""
    was, new = load_json(old), load_json(part)
    try:
        spots = list(_spots(old, was, old.index("{"), ""))
        fits = [spot for spot in spots if new.keys() <= spot[1].keys()]
        if len(fits) > 1:
            fits = [spot for spot in fits if spot[0] and allowed.names(spot[0])] or fits[:1]
        if not fits:
            fits = _for_new(spots, new, allowed)
        if len(fits) != 1:
            return ""
        text = old
        for begin, end, value in sorted(_edits(old, fits[0][2], part, part.index("{")), reverse=True):
            text = text[:begin] + value + text[end:]
    except _FAULTS:
        return ""
    return text if load_json(text) is not ... and not missing_keys(was, load_json(text)) else ""


def _for_new(
    spots: list[tuple[str, Any, int]], new: dict[str, Any], allowed: AllowedRemovals
) -> list[tuple[str, Any, int]]:
    """The object that gets keys which the file does not have: the outer one, unless the request names another."""
    elsewhere = {key for _, value, _ in spots[1:] for key in value}
    named = any(name and allowed.names(name) for name, *_ in spots[1:])
    return [] if named or elsewhere & (new.keys() - spots[0][1].keys()) else spots[:1]


def _spots(text: str, value: Any, at: int, name: str) -> Iterator[tuple[str, Any, int]]:
    """The objects of a text, the outer one first: the key that each belongs to, its value, where it begins."""
    yield name, value, at
    for one in iter_json_members(text, at):
        if isinstance(value[one.key], dict):
            yield from _spots(text, value[one.key], one.value_start, one.key)


def _edits(old: str, at: int, part: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Begin, end and new text of what changes in the object at `at` by the one at `start` of the part."""
    members = list(iter_json_members(old, at))
    there = {one.key: one for one in members}
    added = []
    for one in iter_json_members(part, start):
        mine = there.get(one.key)
        if mine is None:
            added.append(one)
        elif part[one.value_start] == "{" == old[mine.value_start]:
            yield from _edits(old, mine.value_start, part, one.value_start)
        elif json.dumps(load_json(old[mine.value_start : mine.end])) != json.dumps(
            load_json(part[one.value_start : one.end])
        ):
            yield (
                mine.value_start,
                mine.end,
                _shifted(part, one.start, one.value_start, one.end, _margin(old, mine.start)),
            )
    if not added:
        return
    if not members:
        yield at, at + 1, part[start : added[-1].end]
        return
    last = members[-1]
    gap = old[_blank_before(old, last.start) : last.start] or " "
    rows = [_shifted(part, one.start, one.start, one.end, _margin(old, last.start)) for one in added]
    yield last.end, last.end, "".join(f",{gap}{row}" for row in rows)


def _blank_before(text: str, at: int) -> int:
    while at and text[at - 1] in " \t\r\n":
        at -= 1
    return at


def _margin(text: str, at: int) -> str:
    """The blanks that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _shifted(text: str, key: int, begin: int, end: int, margin: str) -> str:
    """A piece of a text, with the margin of another place instead of its own."""
    own = _margin(text, key)
    first, *rest = text[begin:end].split("\n")
    return "\n".join([first, *(margin + line.removeprefix(own) for line in rest)])

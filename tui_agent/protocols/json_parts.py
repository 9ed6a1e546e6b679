"""Merge a partial JSON file into the complete one, keeping the layout of everything else (E4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tui_agent.protocols.removals import AllowedRemovals
from tui_agent.text.json_values import iter_json_members

_PARSE_ERRORS = (ValueError, RecursionError, MemoryError)


def load_json(text: str) -> Any:
    """Parse a JSON text; returns `...` if it is invalid."""
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except _PARSE_ERRORS:
        return ...


def load_partial_object(text: str) -> str:
    """Return the JSON text of a part that lacks its outer braces or has a trailing comma; empty if it isn't one."""
    stripped = text.strip().rstrip(",")
    for one in (stripped, f"{{{stripped}}}"):
        for candidate in (one, re.sub(r",(\s*[}\]])", r"\1", one)):
            if isinstance(load_json(candidate), dict):
                return candidate + "\n"
    return ""


def missing_keys(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the keys, including nested ones, of `old` that `new` lacks."""
    found = []
    for key, value in old.items():
        if key not in new:
            found.append(key)
        elif isinstance(value, dict) and isinstance(new[key], dict):
            found += missing_keys(value, new[key])
    return found


def is_inner(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether `new` is part of an object nested in `old`: its keys are in there, and none in `old` itself."""
    if old.keys() & new.keys():
        return False
    nested = [value for value in old.values() if isinstance(value, dict)]
    return any(new.keys() <= one.keys() or is_inner(one, new) for one in nested)


def shrinks(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a list in `old` has fewer items in `new`."""
    for key, value in old.items():
        new_value = new.get(key)
        if isinstance(value, list) and isinstance(new_value, list) and len(new_value) < len(value):
            return True
        if isinstance(value, dict) and isinstance(new_value, dict) and shrinks(value, new_value):
            return True
    return False


def with_values(old: str, part: str, allowed: AllowedRemovals) -> str:
    """Return the object `old` with the values of `part`; empty if it is unclear which ones they replace."""
    old_value, new = load_json(old), load_json(part)
    try:
        objects = list(_objects(old, old_value, old.index("{"), ""))
        matches = [candidate for candidate in objects if new.keys() <= candidate[1].keys()]
        if len(matches) > 1:
            matches = [
                candidate for candidate in matches if candidate[0] and allowed.mentions(candidate[0])
            ] or matches[:1]
        if not matches:
            matches = _target_for_new_keys(objects, new, allowed)
        if len(matches) != 1:
            return ""
        text = old
        for begin, end, value in sorted(_edits(old, matches[0][2], part, part.index("{")), reverse=True):
            text = text[:begin] + value + text[end:]
    except _PARSE_ERRORS:
        return ""
    return text if load_json(text) is not ... and not missing_keys(old_value, load_json(text)) else ""


def _target_for_new_keys(
    objects: list[tuple[str, Any, int]], new: dict[str, Any], allowed: AllowedRemovals
) -> list[tuple[str, Any, int]]:
    """Return the object that new keys go to: the outer one, unless the request mentions another."""
    other_keys = {key for _, value, _ in objects[1:] for key in value}
    is_mentioned = any(name and allowed.mentions(name) for name, *_ in objects[1:])
    return [] if is_mentioned or other_keys & (new.keys() - objects[0][1].keys()) else objects[:1]


def _objects(text: str, value: Any, at: int, name: str) -> Iterator[tuple[str, Any, int]]:
    """Yield the objects of a text, the outer one first: key, value, start."""
    yield name, value, at
    for one in iter_json_members(text, at):
        if isinstance(value[one.key], dict):
            yield from _objects(text, value[one.key], one.value_start, one.key)


def _edits(old: str, at: int, part: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of the changes to the object at `at` by the one at `start` of the part."""
    members = list(iter_json_members(old, at))
    old_members = {one.key: one for one in members}
    new_members = []
    for one in iter_json_members(part, start):
        old_member = old_members.get(one.key)
        if old_member is None:
            new_members.append(one)
        elif part[one.value_start] == "{" == old[old_member.value_start]:
            yield from _edits(old, old_member.value_start, part, one.value_start)
        elif json.dumps(load_json(old[old_member.value_start : old_member.end])) != json.dumps(
            load_json(part[one.value_start : one.end])
        ):
            yield (
                old_member.value_start,
                old_member.end,
                _reindent(part, one.start, one.value_start, one.end, _indentation(old, old_member.start)),
            )
    if not new_members:
        return
    if not members:
        yield at, at + 1, part[start : new_members[-1].end]
        return
    last = members[-1]
    separator = old[_space_start(old, last.start) : last.start] or " "
    rendered = [_reindent(part, one.start, one.start, one.end, _indentation(old, last.start)) for one in new_members]
    yield last.end, last.end, "".join(f",{separator}{row}" for row in rendered)


def _space_start(text: str, at: int) -> int:
    while at and text[at - 1] in " \t\r\n":
        at -= 1
    return at


def _indentation(text: str, at: int) -> str:
    """Return the indentation of the line at `at`."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(text: str, key: int, begin: int, end: int, indentation: str) -> str:
    """Return a part of a text, re-indented for another place."""
    old_indentation = _indentation(text, key)
    first, *others = text[begin:end].split("\n")
    return "\n".join([first, *(indentation + line.removeprefix(old_indentation) for line in others)])

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
    for part in (stripped, f"{{{stripped}}}"):
        for candidate in (part, re.sub(r",(\s*[}\]])", r"\1", part)):
            if isinstance(load_json(candidate), dict):
                return candidate + "\n"
    return ""


def missing_keys(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the keys, including nested ones, of `old` that `new` lacks."""
    missing = []
    for key, value in old.items():
        if key not in new:
            missing.append(key)
        elif isinstance(value, dict) and isinstance(new[key], dict):
            missing += missing_keys(value, new[key])
    return missing


def is_inner(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether `new` is part of an object nested in `old`: its keys are in there, and none in `old` itself."""
    if old.keys() & new.keys():
        return False
    nested = [value for value in old.values() if isinstance(value, dict)]
    return any(new.keys() <= inner.keys() or is_inner(inner, new) for inner in nested)


def shrinks(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a list in `old` has fewer items in `new`."""
    for key, value in old.items():
        new_value = new.get(key)
        if isinstance(value, list) and isinstance(new_value, list) and len(new_value) < len(value):
            return True
        if isinstance(value, dict) and isinstance(new_value, dict) and shrinks(value, new_value):
            return True
    return False


def merge_values(old: str, part: str, allowed: AllowedRemovals) -> str:
    """Return the object `old` with the values of `part`; empty if it is unclear which ones they replace."""
    old_value, new = load_json(old), load_json(part)
    try:
        start = _target(list(_objects(old, old_value, old.index("{"), "")), new, allowed)
        if start is None:
            return ""
        text = old
        for begin, end, value in sorted(_edits(old, start, part, part.index("{")), reverse=True):
            text = text[:begin] + value + text[end:]
    except _PARSE_ERRORS:
        return ""
    return text if load_json(text) is not ... and not missing_keys(old_value, load_json(text)) else ""


def _target(objects: list[tuple[str, Any, int]], new: dict[str, Any], allowed: AllowedRemovals) -> int | None:
    """Return the start of the object that the keys of `new` belong to; None if that is unclear.

    New keys go to the outer object, unless the request mentions another.
    """
    (_, outer, outer_start), *inner = objects
    mentioned = {start for key, _, start in inner if key and allowed.mentions(key)}
    matches = [start for _, value, start in objects if new.keys() <= value.keys()]
    if matches:
        preferred = [start for start in matches if start in mentioned] or matches[:1]
        return preferred[0] if len(preferred) == 1 else None
    inner_keys = {key for _, value, _ in inner for key in value}
    return None if mentioned or inner_keys & (new.keys() - outer.keys()) else outer_start


def _objects(text: str, value: Any, at: int, name: str) -> Iterator[tuple[str, Any, int]]:
    """Yield the objects of a text, the outer one first: key, value, start."""
    yield name, value, at
    for member in iter_json_members(text, at):
        if isinstance(value[member.key], dict):
            yield from _objects(text, value[member.key], member.value_start, member.key)


def _edits(old: str, at: int, part: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of the changes to the object at `at` by the one at `start` of the part."""
    old_members = {member.key: member for member in iter_json_members(old, at)}
    added = []
    for member in iter_json_members(part, start):
        old_member = old_members.get(member.key)
        if old_member is None:
            added.append(member)
            continue
        old_start, old_end, new_start, new_end = old_member.value_start, old_member.end, member.value_start, member.end
        if part[new_start] == "{" == old[old_start]:
            yield from _edits(old, old_start, part, new_start)
        elif json.dumps(load_json(old[old_start:old_end])) != json.dumps(load_json(part[new_start:new_end])):
            indentation = _indentation(old, old_member.start)
            yield old_start, old_end, _reindent(part, member.start, new_start, new_end, indentation)
    if added and not old_members:
        yield at, at + 1, part[start : added[-1].end]
    elif added:
        last = list(old_members.values())[-1]
        separator = old[len(old[: last.start].rstrip(" \t\r\n")) : last.start] or " "
        indentation = _indentation(old, last.start)
        rows = [_reindent(part, member.start, member.start, member.end, indentation) for member in added]
        yield last.end, last.end, "".join(f",{separator}{row}" for row in rows)


def _indentation(text: str, at: int) -> str:
    """Return the indentation of the line at `at`."""
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(text: str, key: int, begin: int, end: int, indentation: str) -> str:
    """Return a part of a text, re-indented for another place."""
    old_indentation = _indentation(text, key)
    first, *following = text[begin:end].split("\n")
    return "\n".join([first, *(indentation + line.removeprefix(old_indentation) for line in following)])

"""The line structure of a Markdown text: front matter, code fences, comments and headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_agent.settings.tree import parse_tree

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?!#)([ \t]*)(.*)$")
_KEY = re.compile(r"""[ \t]*(["']?)\w[\w-]*\1[ \t]*:(?:[ \t]|$)""")
_SIMPLE_PAIR = re.compile(
    r"(\w[\w-]*): ([1-9]\d{0,17}|0|(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z][a-z_]*)$", re.ASCII
)
"""A line of YAML that means a number or a word in any context."""
_MAX_FRONT_LINES = 200


class Heading(NamedTuple):
    """A heading outside code fences."""

    line: int
    level: int
    spaced: bool
    """True if there is a blank between marks and text."""
    text: str


class Front(NamedTuple):
    """The front matter of a text."""

    start: int
    """Line of the opening `---`."""
    end: int
    """Line of the closing marker."""
    values: dict[str, Any]
    places: dict[str, int]
    """Top-level key → line."""
    problem: str
    """Why the YAML is invalid; empty if it is valid."""


def split_lines(text: str) -> tuple[list[str], list[str]]:
    """Return the lines with their line ends, exactly; and without line ends and byte order mark."""
    pieces = text.split("\n")
    last = pieces.pop()
    raw = [piece + "\n" for piece in pieces]
    lines = [piece.removesuffix("\r") for piece in pieces]
    if last:
        raw.append(last)
        lines.append(last)
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    return raw, lines


def fenced_lines(lines: Sequence[str], start: int = 0) -> frozenset[int]:
    """Return the lines in code fences, markers included. A fence that is never closed is ordinary text."""
    markers = [
        (number, match[1], match[2].strip())
        for number, line in enumerate(lines)
        if number >= start and ("```" in line or "~~~" in line) and (match := _FENCE.match(line))
    ]
    fenced: set[int] = set()
    unclosed = {"`": 1 << 30, "~": 1 << 30}
    """Length from which a marker is known to have no closing one: keeps the search linear."""
    index = 0
    while index < len(markers):
        number, marker, info = markers[index]
        index += 1
        char = marker[0]
        if len(marker) >= unclosed[char] or (char == "`" and "`" in info):
            continue
        for closing_index in range(index, len(markers)):
            end, closing, trailing = markers[closing_index]
            if closing[0] == char and len(closing) >= len(marker) and not trailing:
                fenced.update(range(number, end + 1))
                index = closing_index + 1
                break
        else:
            unclosed[char] = len(marker)
    return frozenset(fenced)


def comment_lines(lines: Sequence[str], start: int, end: int) -> frozenset[int]:
    """Return the lines in [start, end) of multi-line HTML comments that begin a line; an unclosed one is text."""
    commented: set[int] = set()
    opened: int | None = None
    for at in range(start, end):
        line = lines[at]
        if opened is None and line.lstrip(" \t").startswith("<!--") and "-->" not in line:
            opened = at
        elif opened is not None and "-->" in line:
            commented.update(range(opened, at + 1))
            opened = None
    return frozenset(commented)


def find_headings(lines: Sequence[str], start: int, fenced: frozenset[int]) -> list[Heading]:
    """Return the headings from line `start` on."""
    return [
        Heading(number, len(match[1]), bool(match[2]), match[3].rstrip(" \t"))
        for number in range(start, len(lines))
        if "#" in lines[number][:4] and number not in fenced and (match := _HEADING.match(lines[number]))
    ]


def front_matter(lines: Sequence[str]) -> Front | None:
    """Return the YAML block at the top; None without one."""
    start = next((number for number, line in enumerate(lines[:20]) if line.strip()), None)
    if start is None or lines[start].rstrip() != "---":
        return None
    block = range(start + 1, min(len(lines), start + _MAX_FRONT_LINES))
    end = next((number for number in block if lines[number].rstrip() in ("---", "...")), None)
    if end is None:
        return None
    body = lines[start + 1 : end]
    first = next((line for line in body if line.strip() and not line.lstrip().startswith("#")), None)
    if first is not None and not _KEY.match(first):
        return None
    if (values := _simple_values(body)) is not None:
        return Front(start, end, values, {key: start + 1 + at for at, key in enumerate(values)}, "")
    tree, problems = parse_tree("plan_doc.md", "\n".join(body))
    if tree is None:
        problem = problems[0]
        place = f", line {problem.line + start + 1}" if problem.line else ""
        return Front(start, end, {}, {}, f"its front matter{place}: {problem.message}")
    places = {where[0]: start + line for where, line in tree.lines.items() if len(where) == 1}
    return Front(start, end, tree.values, places, "")


def _simple_values(body: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of a block as this program writes it; None if it needs a YAML parser, which is slow to load."""
    values: dict[str, Any] = {}
    for line in body:
        match = _SIMPLE_PAIR.match(line)
        if match is None or match[1] in values or match[1].isdigit():
            return None
        values[match[1]] = int(match[2]) if match[2][0].isdigit() else match[2]
    return values

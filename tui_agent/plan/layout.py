"""The outline of a Markdown text: its lines, what lies in code fences, its front matter, its headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_agent.settings.tree import parse_tree

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?!#)([ \t]*)(.*)$")
_KEY = re.compile(r"""[ \t]*(["']?)(\w[\w-]*)\1[ \t]*:(?:[ \t]+(.*))?$""")
_PLAIN = re.compile(r"(\w[\w-]*): ([1-9]\d{0,17}|0|(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z][a-z_]*)$", re.ASCII)
"""A line of YAML that says a number or a word, whatever stands around it."""
_FRONT_LINES = 200


class Heading(NamedTuple):
    """A heading outside of code fences."""

    line: int
    level: int
    spaced: bool
    """Whether a blank parts the marks from the text."""
    text: str


class Front(NamedTuple):
    """The front matter of a text."""

    start: int
    """Line of the opening `---`."""
    end: int
    """Line of the closing one."""
    values: dict[str, Any]
    places: dict[str, int]
    """Line of each key of the first level."""
    problem: str
    """Why it is not valid; '' when it is."""


def split_lines(text: str) -> tuple[list[str], list[str]]:
    """All lines with their ends, exactly; and the same without line ends and byte order mark."""
    pieces = text.split("\n")
    last = pieces.pop()
    raw = [piece + "\n" for piece in pieces]
    bare = [piece[:-1] if piece.endswith("\r") else piece for piece in pieces]
    if last:
        raw.append(last)
        bare.append(last)
    if bare:
        bare[0] = bare[0].removeprefix("\ufeff")
    return raw, bare


def fenced(lines: Sequence[str], start: int = 0) -> frozenset[int]:
    """The lines that belong to code fences, marks included. A fence that is never closed is ordinary text."""
    marks = [
        (number, match.group(1), match.group(2).strip())
        for number, line in enumerate(lines)
        if number >= start and ("```" in line or "~~~" in line) and (match := _FENCE.match(line))
    ]
    inside: set[int] = set()
    hopeless = {"`": 1 << 30, "~": 1 << 30}
    at = 0
    while at < len(marks):
        number, mark, info = marks[at]
        at += 1
        kind = mark[0]
        if len(mark) >= hopeless[kind] or (kind == "`" and "`" in info):
            continue
        for later in range(at, len(marks)):
            end, closing, rest = marks[later]
            if closing[0] == kind and len(closing) >= len(mark) and not rest:
                inside.update(range(number, end + 1))
                at = later + 1
                break
        else:
            hopeless[kind] = len(mark)
    return frozenset(inside)


def commented(lines: Sequence[str], start: int, end: int) -> frozenset[int]:
    """The lines in [start, end) of HTML comments that begin a line and go over several; one never closed is text."""
    inside: set[int] = set()
    opened: int | None = None
    for at in range(start, end):
        line = lines[at]
        if opened is None and line.lstrip(" \t").startswith("<!--") and "-->" not in line:
            opened = at
        elif opened is not None and "-->" in line:
            inside.update(range(opened, at + 1))
            opened = None
    return frozenset(inside)


def headings(lines: Sequence[str], start: int, inside: frozenset[int]) -> list[Heading]:
    """All headings from line `start` on."""
    return [
        Heading(number, len(match.group(1)), bool(match.group(2)), match.group(3).rstrip(" \t"))
        for number in range(start, len(lines))
        if "#" in lines[number][:4] and number not in inside and (match := _HEADING.match(lines[number]))
    ]


def front_matter(lines: Sequence[str]) -> Front | None:
    """The YAML block at the top, if there is one."""
    start = next((number for number, line in enumerate(lines[:20]) if line.strip()), None)
    if start is None or lines[start].rstrip() != "---":
        return None
    block = range(start + 1, min(len(lines), start + _FRONT_LINES))
    end = next((number for number in block if lines[number].rstrip() in ("---", "...")), None)
    if end is None:
        return None
    body = lines[start + 1 : end]
    first = next((line for line in body if line.strip() and not line.lstrip().startswith("#")), None)
    if first is not None and not _KEY.match(first):
        return None
    if (plain := _plain(body)) is not None:
        return Front(start, end, plain, {key: start + 1 + at for at, key in enumerate(plain)}, "")
    tree, problems = parse_tree("plan_doc.md", "\n".join(body))
    if tree is not None:
        places = {where[0]: start + line for where, line in tree.lines.items() if len(where) == 1}
        return Front(start, end, tree.values, places, "")
    found = [(start + 1 + at, match) for at, line in enumerate(body) if (match := _KEY.match(line))]
    problem = problems[0]
    place = f", line {problem.line + start + 1}" if problem.line else ""
    return Front(
        start,
        end,
        {match.group(2): (match.group(3) or "").strip() for _, match in reversed(found)},
        {match.group(2): number for number, match in reversed(found)},
        f"its front matter{place}: {problem.message}",
    )


def _plain(body: Sequence[str]) -> dict[str, Any] | None:
    """The values of a block as we write it; None when it takes a YAML parser, which is slow to load, to read it."""
    found: dict[str, Any] = {}
    for line in body:
        match = _PLAIN.match(line)
        if match is None or match[1] in found or match[1].isdigit():
            return None
        found[match[1]] = int(match[2]) if match[2][0].isdigit() else match[2]
    return found

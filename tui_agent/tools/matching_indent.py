"""Finding a block whose indentation is shifted as a whole, and giving new text the file's own indentation."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator

_INDENT = re.compile(r"[ \t]*")
_WORK = 4_000_000
"""Comparisons of lines after which the search gives up, so that no text can make it take seconds."""


def shifted(text: str, old: str, new: str, limit: int | None) -> Iterator[tuple[int, int, str]]:
    """Places in `text` where the whole lines of `old` stand under one shift of the indentation.

    Yields start and end in `text` and `new` with the indentation of that place. Line ends must be `\\n` and lines
    without blanks at their ends.
    """
    old_lines = old.split("\n")
    closed = old_lines[-1] == "" and len(old_lines) > 1
    if closed:
        old_lines.pop()
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found = 0
    for first in _candidates(lines, old_lines):
        shift = _Shift.between(old_lines, lines[first : first + len(old_lines)], new)
        fitted = shift.apply(new) if shift is not None else None
        if fitted is None:
            continue
        last = first + len(old_lines)
        yield starts[first], starts[last] - (0 if closed else 1), fitted
        found += 1
        if limit is not None and found >= limit:
            return


def _candidates(lines: list[str], old_lines: list[str]) -> Iterator[int]:
    """Where the lines agree when their indentation is not looked at."""
    bare = [line.lstrip(" \t") for line in lines]
    haystack = "\n" + "\n".join(bare) + "\n"
    needle = "\n" + "\n".join(line.lstrip(" \t") for line in old_lines) + "\n"
    # A line's number from the place of the line end before it.
    borders = [0]
    for line in bare:
        borders.append(borders[-1] + len(line) + 1)
    at, work = haystack.find(needle), 0
    while at >= 0 and work < _WORK:
        yield bisect_left(borders, at)
        work += len(old_lines)
        at = haystack.find(needle, at + 1)


class _Shift:
    """How indentation of the model's text becomes indentation of the file."""

    def __init__(self, known: dict[str, str], unit: int, by: int, tabs: bool) -> None:
        self._known = known
        self._unit = unit
        self._by = by
        self._tabs = tabs

    @classmethod
    def between(cls, old_lines: list[str], file_lines: list[str], new: str) -> _Shift | None:
        """The one shift that makes all lines agree; None when there is none."""
        known: dict[str, str] = {}
        for old, here in zip(old_lines, file_lines, strict=True):
            if old.strip() and known.setdefault(_indent(old), _indent(here)) != _indent(here):
                return None
        tabs = any("\t" in one for one in known.values())
        own_tabs = any("\t" in one for one in known)
        spaces = {len(_indent(line)) for line in [*old_lines, *new.split("\n")] if line.strip()}
        if tabs and not own_tabs:
            step = math.gcd(*spaces)
        else:
            step = math.gcd(*(len(one) for one in known.values() if "\t" not in one))
        units = [step] if 2 <= step <= 8 else []
        for unit in dict.fromkeys([*units, 4, 2, 8, 3]):
            shifts = {_width(here, unit) - _width(old, unit) for old, here in known.items()}
            if len(shifts) == 1:
                return cls(known, unit, shifts.pop(), tabs or (own_tabs and not any(known.values())))
        return None

    def apply(self, new: str) -> str | None:
        """`new` moved; None when a line would have to begin left of the margin."""
        lines: list[str] = []
        for line in new.split("\n"):
            indent = _indent(line)
            if not line.strip():
                lines.append(line if indent not in self._known else "" if not indent else self._known[indent])
                continue
            here = self._known.get(indent)
            if here is None:
                width = _width(indent, self._unit) + self._by
                if width < 0:
                    return None
                tabs, rest = divmod(width, self._unit) if self._tabs else (0, width)
                here = "\t" * tabs + " " * rest
            lines.append(here + line[len(indent) :])
        return "\n".join(lines)


def _indent(line: str) -> str:
    found = _INDENT.match(line)
    return found[0] if found else ""


def _width(indent: str, unit: int) -> int:
    width = 0
    for one in indent:
        width = width + 1 if one == " " else (width // unit + 1) * unit
    return width

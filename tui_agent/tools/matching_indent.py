"""Finding a block whose indentation is shifted as a whole, and giving new text the file's own indentation."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

_INDENT = re.compile(r"[ \t]*")
_WORK = 1_000_000
"""Lines that are compared before the search gives up, so that no text can make it take seconds."""


class TooMuch(Exception):
    """There are so many candidates that the search was given up."""


def shifted(text: str, old: str, new: str, every: bool) -> Iterator[tuple[int, int, str]]:
    """Places in `text` where the whole lines of `old` stand under one shift of the indentation.

    Yields start and end in `text` and `new` with the indentation of that place; with `every` places that do not
    overlap. Line ends must be `\\n` and lines without blanks at their ends. Raises TooMuch.
    """
    old_lines = old.split("\n")
    closed = old_lines[-1] == "" and len(old_lines) > 1
    if closed:
        old_lines.pop()
    size = len(old_lines)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    shift_of = _Shifts(old_lines, new)
    work, free = 0, 0
    for first in _candidates(lines, indents, old_lines):
        if every and first < free:
            continue
        work += size
        if work > _WORK:
            raise TooMuch
        shift = shift_of.at(indents[first : first + size])
        fitted = shift.apply(new) if shift is not None else None
        if fitted is not None:
            free = first + size
            yield starts[first], starts[free] - (0 if closed else 1), fitted


def _candidates(lines: list[str], indents: list[str], old_lines: list[str]) -> Iterator[int]:
    """Where the lines agree when their indentation is not looked at."""
    bare = [line[len(indent) :] for line, indent in zip(lines, indents, strict=True)]
    haystack = "\n" + "\n".join(bare) + "\n"
    needle = "\n" + "\n".join(line.lstrip(" \t") for line in old_lines) + "\n"
    # A line's number from the place of the line end before it.
    borders = list(accumulate((len(line) + 1 for line in bare), initial=0))
    at = haystack.find(needle)
    while at >= 0:
        yield bisect_left(borders, at)
        at = haystack.find(needle, at + 1)


class _Shifts:
    """The shifts of one `old`, each worked out once."""

    def __init__(self, old_lines: list[str], new: str) -> None:
        self._counted = [index for index, line in enumerate(old_lines) if line.strip()]
        self._old = [_indent(old_lines[index]) for index in self._counted]
        self._widths = {len(_indent(line)) for line in [*old_lines, *new.split("\n")] if line.strip()}
        self._made: dict[tuple[tuple[str, str], ...], _Shift | None] = {}

    def at(self, indents: list[str]) -> _Shift | None:
        """The one shift that makes all lines agree with these indentations of the file; None if there is none."""
        known: dict[str, str] = {}
        for old, index in zip(self._old, self._counted, strict=True):
            here = indents[index]
            if known.setdefault(old, here) != here:
                return None
        key = tuple(known.items())
        if key not in self._made:
            self._made[key] = _Shift.between(known, self._widths)
        return self._made[key]


class _Shift:
    """How indentation of the model's text becomes indentation of the file."""

    def __init__(self, known: dict[str, str], unit: int, by: int, tabs: bool) -> None:
        self._known = known
        self._unit = unit
        self._by = by
        self._tabs = tabs

    @classmethod
    def between(cls, known: dict[str, str], widths: set[int]) -> _Shift | None:
        """The shift by one and the same width that leads from each old indentation to the file's, if there is one."""
        tabs = any("\t" in one for one in known.values())
        own_tabs = any("\t" in one for one in known)
        if tabs and not own_tabs:
            step = math.gcd(*widths)
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

"""Where in a text a tolerant match can be at all, so that only these lines need a closer look."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise

from tui_agent.tools.views import LINE_END, compact

_MANY = 5_000
"""Candidates above which the whole text is looked at."""


def windows(text: str, old: str) -> list[tuple[int, int]]:
    """Stretches of whole lines that hold all that is left of `old` without what may differ, in order, disjoint.

    Empty lines around a stretch and one line more on each side belong to it.
    """
    starts = [0, *(found.end() for found in LINE_END.finditer(text))]
    if starts[-1] < len(text):
        starts.append(len(text))
    cores = [compact(text[start:end]) for start, end in pairwise(starts)]
    needle = compact(old)
    if not needle:
        return [(0, len(text))]
    haystack = "".join(cores)
    borders = list(accumulate(map(len, cores), initial=0))
    found: list[tuple[int, int]] = []
    at = haystack.find(needle)
    count = 0
    while at >= 0:
        count += 1
        if count > _MANY:
            return [(0, len(text))]
        first = _outwards(cores, bisect_right(borders, at) - 1, -1)
        last = _outwards(cores, bisect_left(borders, at + len(needle)) - 1, 1)
        if found and first <= found[-1][1]:
            first = found.pop()[0]
        found.append((first, last))
        at = haystack.find(needle, at + 1)
    return [(starts[first], starts[last + 1]) for first, last in found]


def _outwards(cores: list[str], line: int, step: int) -> int:
    """One line further than the empty ones next to `line`, within the text."""
    line += step
    while 0 <= line < len(cores) and not cores[line]:
        line += step
    return max(0, min(line, len(cores) - 1))

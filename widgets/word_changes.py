"""Which words of a changed line are other ones (A3). Bounded: long or wholly different lines are not compared."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Places in a line, each from its first character to the one behind its last."""

LONGEST = 2_000
"""Characters of a line that is compared."""
MOST = 20_000
"""Pairs of words that are compared."""
ALIKE = 0.35
"""Share of the characters that two lines have in common, below which no word is worth marking."""
NOTHING: tuple[Ranges, Ranges] = ((), ())
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def changed_words(old: str, new: str) -> tuple[Ranges, Ranges]:
    """What only `old` has and what only `new` has; nothing where the lines are too long or have little in common."""
    if old == new or len(old) > LONGEST or len(new) > LONGEST:
        return NOTHING
    left, right = _WORD.findall(old), _WORD.findall(new)
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    ours, theirs = left[head : len(left) - tail], right[head : len(right) - tail]
    if len(ours) * len(theirs) > MOST:
        return NOTHING
    gone: list[tuple[int, int]] = []
    come: list[tuple[int, int]] = []
    if not ours or not theirs:
        gone, come = [(0, len(ours))] if ours else [], [(0, len(theirs))] if theirs else []
    else:
        for tag, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
            if tag != "equal":
                gone += [(a, b)] if b > a else []
                come += [(c, d)] if d > c else []
    marked = _places(left, head, gone), _places(right, head, come)
    same = len(old.strip()) - sum(stop - start for start, stop in marked[0])
    if same < ALIKE * min(len(old.strip()), len(new.strip())):
        return NOTHING
    return marked


def _places(words: Sequence[str], head: int, spans: Sequence[tuple[int, int]]) -> Ranges:
    """Ranges of words as ranges of characters; what only blanks part is one range."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    found: list[tuple[int, int]] = []
    for first, stop in spans:
        begin, end = starts[head + first], starts[head + stop]
        between = "".join(words[bisect_left(starts, found[-1][1]) : head + first]) if found else "x"
        if found and not between.strip():
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return tuple(found)


def partners(signs: Sequence[str]) -> dict[int, int]:
    """Places of removed lines → the added lines that stand in their place, and back, by the signs of all lines."""
    found: dict[int, int] = {}
    removed: list[int] = []
    added: list[int] = []

    def pair() -> None:
        for one, other in zip(removed, added, strict=False):
            found[one], found[other] = other, one
        removed.clear()
        added.clear()

    for place, sign in enumerate([*signs, " "]):
        if sign == "-":
            if added:
                pair()
            removed.append(place)
        elif sign == "+":
            added.append(place)
        elif sign != "\\":
            pair()
    return found


class WordMarks:
    """Marks of the lines of one diff, worked out when a line is painted first."""

    def __init__(self, texts: Sequence[str], signs: Sequence[str]) -> None:
        self._texts = texts
        self._partners: Mapping[int, int] = partners(signs)
        self._signs = signs
        self._known: dict[int, Ranges] = {}

    def of(self, place: int) -> Ranges:
        """What to mark in the line at `place`."""
        other = self._partners.get(place)
        if other is None:
            return ()
        if place not in self._known:
            old, new = (place, other) if self._signs[place] == "-" else (other, place)
            self._known[old], self._known[new] = changed_words(self._texts[old], self._texts[new])
        return self._known[place]


def split_at(places: Ranges, length: int) -> list[tuple[int, int, bool]]:
    """The whole of a line as stretches, each with whether it is marked."""
    borders = sorted({0, length, *(one for pair in places for one in pair if one <= length)})
    return [(a, b, any(start <= a and b <= stop for start, stop in places)) for a, b in pairwise(borders)]

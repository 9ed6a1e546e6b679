"""Which item of an old list is which item of a new one: for writing changes, and for bringing them together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from tui_agent.plan.document import Criterion, Decision, LogEntry

_Item = TypeVar("_Item", Criterion, Decision, LogEntry)
_ALIKE = 0.6
_GAP = 40
"""Unlike items are compared by wording only in gaps of so many; elsewhere they count as removed and added."""


def label(item: Criterion | Decision | LogEntry) -> str:
    """What a reader would call the item."""
    if isinstance(item, Criterion):
        return item.description
    return item.title if isinstance(item, Decision) else item.action


def align(old: Sequence[_Item], new: Sequence[_Item]) -> dict[int, int]:
    """Index in `old` → index in `new` of the same item, in the same order on both sides.

    Equal items first, then items of the same name, then items of nearly the same wording.
    """
    if not old or not new:
        return {}
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    pairs = {at: at for at in range(head)}
    pairs |= {len(old) - 1 - at: len(new) - 1 - at for at in range(tail)}
    stop, end = len(old) - tail, len(new) - tail
    anchors: list[tuple[int, int]] = _rising(_named(old, new, range(head, stop), range(head, end)))
    at, to = head, head
    for a, b in [*anchors, (stop, end)]:
        pairs |= _alike(old, new, range(at, a), range(to, b))
        if a < stop:
            pairs[a] = b
        at, to = a + 1, b + 1
    return pairs


def _named(old: Sequence[_Item], new: Sequence[_Item], olds: range, news: range) -> list[tuple[int, int]]:
    """Pairs of the same name (and time): equal ones of that name first, then in their order."""
    places: dict[object, list[int]] = {}
    equal: dict[object, list[int]] = {}
    for b in reversed(news):
        equal.setdefault(new[b], []).append(b)
    pairs = []
    taken: set[int] = set()
    left = []
    for a in olds:
        if same := equal.get(old[a]):
            pairs.append((a, b := same.pop()))
            taken.add(b)
        else:
            left.append(a)
    for b in reversed(news):
        if b not in taken:
            places.setdefault(_key(new[b]), []).append(b)
    for a in left:
        if same := places.get(_key(old[a])):
            pairs.append((a, same.pop()))
    return sorted(pairs)


def _key(item: _Item) -> object:
    return (item.when, item.action) if isinstance(item, LogEntry) else label(item)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs that rises on both sides."""
    tails: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for number, (_, b) in enumerate(pairs):
        place = bisect_left(tails, b)
        before.append(at[place - 1] if place else -1)
        tails[place : place + 1] = [b]
        at[place : place + 1] = [number]
    run = []
    number = at[-1] if at else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]


def _alike(old: Sequence[_Item], new: Sequence[_Item], olds: range, news: range) -> dict[int, int]:
    if not olds or not news or max(len(olds), len(news)) > _GAP:
        return {}
    pairs: dict[int, int] = {}
    free = news.start
    for a in olds:
        best, place = _ALIKE, -1
        for b in range(free, news.stop):
            match = SequenceMatcher(None, label(old[a])[:200], label(new[b])[:200], autojunk=False)
            if match.quick_ratio() > best and (ratio := match.ratio()) > best:
                best, place = ratio, b
        if place >= 0:
            pairs[a] = place
            free = place + 1
    return pairs

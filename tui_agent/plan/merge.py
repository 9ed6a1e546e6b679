"""Three-way merge of plans, and the alignment of their lists (P4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from tui_agent.common.domain import FrozenValue
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan, format_time

_Item = TypeVar("_Item", Criterion, Decision, LogEntry)
_MIN_RATIO = 0.6
_MAX_GAP = 40
"""Items are compared by wording only in gaps of at most this size; otherwise they are removed and added."""


def label(item: Criterion | Decision | LogEntry) -> str:
    """Return the item's name for the user."""
    if isinstance(item, Criterion):
        return item.description
    return item.title if isinstance(item, Decision) else item.action


def align(old: Sequence[_Item], new: Sequence[_Item]) -> dict[int, int]:
    """Return index in `old` → index in `new` of the same item, ascending on both sides.

    Items are matched if equal, else by name, else by similar wording.
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
    anchors: list[tuple[int, int]] = _longest_ascending(_match_by_name(old, new, range(head, stop), range(head, end)))
    at, to = head, head
    for a, b in [*anchors, (stop, end)]:
        pairs |= _match_by_wording(old, new, range(at, a), range(to, b))
        if a < stop:
            pairs[a] = b
        at, to = a + 1, b + 1
    return pairs


def _match_by_name(old: Sequence[_Item], new: Sequence[_Item], olds: range, news: range) -> list[tuple[int, int]]:
    """Return pairs with the same name (and time), equal items first."""
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


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence that is ascending on both sides."""
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


def _match_by_wording(old: Sequence[_Item], new: Sequence[_Item], olds: range, news: range) -> dict[int, int]:
    if not olds or not news or max(len(olds), len(news)) > _MAX_GAP:
        return {}
    pairs: dict[int, int] = {}
    free = news.start
    for a in olds:
        best, place = _MIN_RATIO, -1
        for b in range(free, news.stop):
            match = SequenceMatcher(None, label(old[a])[:200], label(new[b])[:200], autojunk=False)
            if match.quick_ratio() > best and (ratio := match.ratio()) > best:
                best, place = ratio, b
        if place >= 0:
            pairs[a] = place
            free = place + 1
    return pairs


Choice: TypeAlias = Literal["ours", "theirs", "both"]
_LISTS = ("acceptance_criteria", "decisions_made", "decisions_rejected", "execution_log")
_JOINTS = {"title": " / ", "description": " / ", "action": " / "}


class Conflict(FrozenValue, frozen=True, kw_only=True):
    """A value that both sides changed differently."""

    id: str
    """Stable for the same three texts; key of the choice."""
    where: str
    """Field of the plan: `goal`, `status`, `acceptance_criteria` …"""
    item: str = ""
    """Name of the item in a list."""
    field: str = ""
    """Field of the item; empty if one side removed it."""
    base: str | None = None
    """The common base; None if missing, as in `ours` and `theirs` for a removed item."""
    ours: str | None = None
    theirs: str | None = None


class MergeResult(FrozenValue, frozen=True, kw_only=True):
    """The merged plan; for open conflicts it has the values of `theirs`."""

    plan: Plan
    conflicts: tuple[Conflict, ...] = ()


def merge_plans(
    base: Plan, ours: Plan, theirs: Plan, choices: Mapping[str, Choice] | None = None, *, cautious: bool = False
) -> MergeResult:
    """Merge the changes from `base` to `ours` and from `base` to `theirs`.

    `choices` resolves conflicts by id; `both` joins the two texts. With `cautious`, `theirs` may not be based on
    `base`, so an item missing from it is a conflict, not a removal.
    """
    if ours == theirs or (ours == base and not cautious):
        return MergeResult(plan=theirs)
    work = _Merge(choices or {}, cautious)
    lists = {name: work.items(name, getattr(base, name), getattr(ours, name), getattr(theirs, name)) for name in _LISTS}
    plan = Plan(
        status=work.value("status", "", "", base.status, ours.status, theirs.status),
        goal=work.value("goal", "", "", base.goal, ours.goal, theirs.goal),
        created_at=theirs.created_at or ours.created_at,
        updated_at=max(ours.updated_at, theirs.updated_at),
        version=max(ours.version, theirs.version),
        **lists,
    )
    return MergeResult(plan=plan, conflicts=tuple(work.conflicts))


def shown_value(value: Any) -> str | None:
    """Format a value for a question."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, FrozenValue):
        parts = [shown_value(getattr(value, name)) for name in value.__struct_fields__ if name != "completed"]
        return " · ".join(part for part in parts if part)
    return format_time(value) if hasattr(value, "isoformat") else str(value)


class _Merge:
    """A merge and its conflicts."""

    def __init__(self, choices: Mapping[str, Choice], cautious: bool) -> None:
        self._choices = choices
        self._cautious = cautious
        self._seen: dict[str, int] = {}
        self.conflicts: list[Conflict] = []

    def value(self, where: str, item: str, field: str, base: Any, ours: Any, theirs: Any) -> Any:
        """Merge a value; `base` is None for a new item."""
        if theirs in (base, ours):
            return ours
        if ours == base:
            return theirs
        if base in ("", (), None) and "" in (ours, theirs):
            return ours or theirs
        choice = self._choice(where, item, field, base, ours, theirs)
        if choice == "both":
            return self._both(where, field, ours, theirs)
        return ours if choice == "ours" else theirs

    def _both(self, where: str, field: str, ours: Any, theirs: Any) -> Any:
        if isinstance(ours, tuple):
            return (*theirs, *(one for one in ours if one not in theirs))
        if isinstance(ours, str) and where != "status":
            return f"{theirs}{_JOINTS.get(field, chr(10))}{ours}"
        return theirs

    def _choice(self, where: str, item: str, field: str, base: Any, ours: Any, theirs: Any) -> Choice | None:
        name = "/".join(part for part in (where, item[:60], field) if part)
        count = self._seen[name] = self._seen.get(name, 0) + 1
        name = name if count == 1 else f"{name}#{count}"
        texts = {"base": shown_value(base), "ours": shown_value(ours), "theirs": shown_value(theirs)}
        choice = self._choices.get(name)
        if choice is None:
            self.conflicts.append(Conflict(id=name, where=where, item=item, field=field, **texts))
        return choice

    def item(self, where: str, base: _Item | None, ours: _Item, theirs: _Item) -> _Item:
        """Merge an item that both sides have."""
        if theirs in (base, ours):
            return ours
        if ours == base:
            return theirs
        name = label(theirs)
        fields = {
            field: self.value(
                where, name, field, getattr(base, field, None), getattr(ours, field), getattr(theirs, field)
            )
            for field in theirs.__struct_fields__
        }
        return msgspec.structs.replace(theirs, **fields)

    def items(
        self, where: str, base: Sequence[_Item], ours: Sequence[_Item], theirs: Sequence[_Item]
    ) -> tuple[_Item, ...]:
        """Merge a list."""
        base, ours, theirs = tuple(base), tuple(ours), tuple(theirs)
        if ours == theirs or (ours == base and not self._cautious):
            return theirs
        if theirs == base:
            return ours
        in_ours, in_theirs = align(base, ours), align(base, theirs)
        result: dict[tuple[str, int], _Item] = {}
        for at, old in enumerate(base):
            mine = ours[in_ours[at]] if at in in_ours else None
            other = theirs[in_theirs[at]] if at in in_theirs else None
            if mine is not None and other is not None:
                result["base", at] = self.item(where, old, mine, other)
            elif remaining := self._removed_item(where, old, mine, other):
                result["base", at] = remaining
        our_ids = _ids("ours", len(ours), in_ours)
        their_ids = _ids("theirs", len(theirs), in_theirs)
        result |= {one: theirs[one[1]] for one in their_ids if one[0] == "theirs"}
        for at, same in self._merge_added(where, ours, theirs, our_ids, their_ids, result).items():
            our_ids[at] = same
        result |= {one: ours[one[1]] for one in our_ids if one[0] == "ours"}
        return tuple(result[one] for one in _order(our_ids, their_ids, result.__contains__))

    def _removed_item(self, where: str, old: _Item, mine: _Item | None, other: _Item | None) -> _Item | None:
        """Merge an item that at least one side removed."""
        kept = mine if other is None else other
        if kept is None or (kept == old and not (self._cautious and other is None)):
            return None
        choice = self._choice(where, label(old), "", old, mine, other)
        return {"ours": mine, "theirs": other, "both": kept}[choice or "theirs"]

    def _merge_added(
        self,
        where: str,
        ours: tuple[_Item, ...],
        theirs: tuple[_Item, ...],
        our_ids: list[tuple[str, int]],
        their_ids: list[tuple[str, int]],
        result: dict[tuple[str, int], _Item],
    ) -> dict[int, tuple[str, int]]:
        """Merge items that both sides added with the same name; log entries must be equal."""
        new: dict[object, tuple[str, int]] = {}
        for one in reversed(their_ids):
            if one[0] == "theirs":
                value = theirs[one[1]]
                new[_name(value)] = one
        found = {}
        for at, mine in enumerate(ours):
            twin = (
                new.pop(mine if isinstance(mine, LogEntry) else label(mine), None) if our_ids[at][0] == "ours" else None
            )
            if twin is not None:
                result[twin] = self.item(where, None, mine, theirs[twin[1]])
                found[at] = twin
        return found


def _name(item: Criterion | Decision | LogEntry) -> object:
    return item if isinstance(item, LogEntry) else label(item)


def _ids(side: str, count: int, pairs: Mapping[int, int]) -> list[tuple[str, int]]:
    ids = [(side, at) for at in range(count)]
    for base, at in pairs.items():
        ids[at] = ("base", base)
    return ids


def _order(
    ours: Sequence[tuple[str, int]], theirs: Sequence[tuple[str, int]], there: Callable[[tuple[str, int]], bool]
) -> list[tuple[str, int]]:
    """Return all items in the order of `theirs`; items only in `ours` stay after their predecessor."""
    first = [one for one in theirs if there(one)]
    known = set(first)
    after: dict[tuple[str, int] | None, list[tuple[str, int]]] = {}
    last: tuple[str, int] | None = None
    for one in ours:
        if not there(one):
            continue
        if one in known:
            last = one
        else:
            after.setdefault(last, []).append(one)
    order = list(after.get(None, ()))
    for one in first:
        order += [one, *after.get(one, ())]
    return order

"""Three-way merge of plans, and the alignment of their lists (P4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from tui_agent.common.domain import FrozenValue
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan, PlanItem, format_time
from tui_agent.plan.grammar import LIST_SECTIONS

_Item = TypeVar("_Item", Criterion, Decision, LogEntry)
_MIN_RATIO = 0.6
_MAX_GAP = 40
"""Items are compared by wording only in gaps of at most this size; otherwise they are removed and added."""


def label(item: PlanItem) -> str:
    """Return the item's name for the user."""
    if isinstance(item, Criterion):
        return item.description
    return item.title if isinstance(item, Decision) else item.action


# --- aligning two lists ---


def align(old: Sequence[_Item], new: Sequence[_Item]) -> dict[int, int]:
    """Return index in `old` → index in `new` of the same item, ascending on both sides.

    Items are matched if equal, else by name (and time), else by similar wording.
    """
    if not old or not new:
        return {}
    equal: dict[int, int] = _match(range(len(old)), range(len(new)), old.__getitem__, new.__getitem__)
    matched = set(equal.values())
    unmatched_old = [a for a in range(len(old)) if a not in equal]
    unmatched_new = [b for b in range(len(new)) if b not in matched]
    by_name: dict[int, int] = _match(
        unmatched_old, unmatched_new, lambda a: _name_key(old[a]), lambda b: _name_key(new[b])
    )
    pairs: dict[int, int] = {}
    at, to = 0, 0
    for a, b in [*_longest_ascending(sorted((equal | by_name).items())), (len(old), len(new))]:
        pairs |= _match_by_wording(old, new, range(at, a), range(to, b))
        if a < len(old):
            pairs[a] = b
        at, to = a + 1, b + 1
    return pairs


def _match(
    old: Iterable[int], new: Sequence[int], old_key: Callable[[int], object], new_key: Callable[[int], object]
) -> dict[int, int]:
    """Pair indexes with equal keys, in order."""
    places: defaultdict[object, list[int]] = defaultdict(list)
    for b in reversed(new):
        places[new_key(b)].append(b)
    return {a: candidates.pop() for a in old if (candidates := places.get(old_key(a)))}


def _name_key(item: PlanItem) -> object:
    return (item.when, item.action) if isinstance(item, LogEntry) else label(item)


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence that is ascending on both sides; `pairs` is ascending on the left."""
    last_values: list[int] = []
    last_indexes: list[int] = []
    """Length of a subsequence - 1 → index of its last pair, the smallest possible."""
    predecessors: list[int] = []
    for index, (_, b) in enumerate(pairs):
        length = bisect_left(last_values, b)
        predecessors.append(last_indexes[length - 1] if length else -1)
        last_values[length : length + 1] = [b]
        last_indexes[length : length + 1] = [index]
    longest = []
    index = last_indexes[-1] if last_indexes else -1
    while index >= 0:
        longest.append(pairs[index])
        index = predecessors[index]
    return longest[::-1]


def _match_by_wording(old: Sequence[_Item], new: Sequence[_Item], old_range: range, new_range: range) -> dict[int, int]:
    if max(len(old_range), len(new_range)) > _MAX_GAP:
        return {}
    pairs: dict[int, int] = {}
    start = new_range.start
    for a in old_range:
        best_ratio, best = _MIN_RATIO, -1
        for b in range(start, new_range.stop):
            match = SequenceMatcher(None, label(old[a])[:200], label(new[b])[:200], autojunk=False)
            if match.quick_ratio() > best_ratio and (ratio := match.ratio()) > best_ratio:
                best_ratio, best = ratio, b
        if best >= 0:
            pairs[a] = best
            start = best + 1
    return pairs


# --- merging ---


Choice: TypeAlias = Literal["ours", "theirs", "both"]
_SEPARATORS = {"title": " / ", "description": " / ", "action": " / "}
"""Field → what separates the two texts of a conflict joined with `both`; a line break for others."""


class _ItemId(NamedTuple):
    side: Literal["base", "ours", "theirs"]
    """The first list that has the item."""
    at: int
    """Its index there."""


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
    merge = _Merge(choices or {}, cautious)
    lists = {
        name: merge.items(name, getattr(base, name), getattr(ours, name), getattr(theirs, name))
        for name in LIST_SECTIONS.values()
    }
    plan = Plan(
        status=merge.value("status", "", "", base.status, ours.status, theirs.status),
        goal=merge.value("goal", "", "", base.goal, ours.goal, theirs.goal),
        created_at=theirs.created_at or ours.created_at,
        updated_at=max(ours.updated_at, theirs.updated_at),
        version=max(ours.version, theirs.version),
        **lists,
    )
    return MergeResult(plan=plan, conflicts=tuple(merge.conflicts))


def _format_value(value: Any) -> str | None:
    """Format a value for a question."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, FrozenValue):
        names = (name for name in value.__struct_fields__ if name != "completed")
        return " · ".join(filter(None, (_format_value(getattr(value, name)) for name in names)))
    return format_time(value) if isinstance(value, datetime) else str(value)


class _Merge:
    """A merge and its conflicts."""

    def __init__(self, choices: Mapping[str, Choice], cautious: bool) -> None:
        self._choices = choices
        self._cautious = cautious
        self._id_counts: dict[str, int] = {}
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
            if isinstance(ours, tuple):
                return (*theirs, *(element for element in ours if element not in theirs))
            if isinstance(ours, str) and where != "status":
                return f"{theirs}{_SEPARATORS.get(field, chr(10))}{ours}"
        return ours if choice == "ours" else theirs

    def _choice(self, where: str, item: str, field: str, base: Any, ours: Any, theirs: Any) -> Choice | None:
        name = "/".join(part for part in (where, item[:60], field) if part)
        count = self._id_counts[name] = self._id_counts.get(name, 0) + 1
        name = name if count == 1 else f"{name}#{count}"
        texts = {"base": _format_value(base), "ours": _format_value(ours), "theirs": _format_value(theirs)}
        choice = self._choices.get(name)
        if choice is None:
            self.conflicts.append(Conflict(id=name, where=where, item=item, field=field, **texts))
        return choice

    def _item(self, where: str, base: _Item | None, ours: _Item, theirs: _Item) -> _Item:
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

    def _base_item(self, where: str, base: _Item, ours: _Item | None, theirs: _Item | None) -> _Item | None:
        """Merge an item of the base; None on a side that removed it."""
        if ours is not None and theirs is not None:
            return self._item(where, base, ours, theirs)
        remaining = ours if theirs is None else theirs
        if remaining is None or (remaining == base and not (self._cautious and theirs is None)):
            return None
        choice = self._choice(where, label(base), "", base, ours, theirs)
        return {"ours": ours, "theirs": theirs, "both": remaining}[choice or "theirs"]

    def items(
        self, where: str, base: tuple[_Item, ...], ours: tuple[_Item, ...], theirs: tuple[_Item, ...]
    ) -> tuple[_Item, ...]:
        """Merge a list. Items that both sides added with the same name are merged; log entries must be equal."""
        if ours == theirs or (ours == base and not self._cautious):
            return theirs
        if theirs == base:
            return ours
        in_ours, in_theirs = align(base, ours), align(base, theirs)
        our_ids, their_ids = _item_ids("ours", ours, in_ours), _item_ids("theirs", theirs, in_theirs)
        merged: dict[_ItemId, _Item] = {}
        for at, old in enumerate(base):
            our_item = ours[in_ours[at]] if at in in_ours else None
            their_item = theirs[in_theirs[at]] if at in in_theirs else None
            if (item := self._base_item(where, old, our_item, their_item)) is not None:
                merged[_ItemId("base", at)] = item
        added: dict[object, _ItemId] = {}
        for item_id in reversed(their_ids):
            if item_id.side == "theirs":
                merged[item_id] = theirs[item_id.at]
                added[_addition_key(merged[item_id])] = item_id
        for at, item_id in enumerate(our_ids):
            if item_id.side != "ours":
                continue
            if added_id := added.pop(_addition_key(ours[at]), None):
                merged[added_id] = self._item(where, None, ours[at], merged[added_id])
                our_ids[at] = added_id
            else:
                merged[item_id] = ours[at]
        return tuple(merged[item_id] for item_id in _merge_order(our_ids, their_ids, merged))


def _addition_key(item: PlanItem) -> object:
    return item if isinstance(item, LogEntry) else label(item)


def _item_ids(side: Literal["ours", "theirs"], items: Sequence[object], pairs: Mapping[int, int]) -> list[_ItemId]:
    ids = [_ItemId(side, at) for at in range(len(items))]
    for base, at in pairs.items():
        ids[at] = _ItemId("base", base)
    return ids


def _merge_order(ours: Sequence[_ItemId], theirs: Sequence[_ItemId], merged: Container[_ItemId]) -> list[_ItemId]:
    """Return the merged items in the order of `theirs`; items only in `ours` stay after their predecessor."""
    common = dict.fromkeys(item_id for item_id in theirs if item_id in merged)
    followers: defaultdict[_ItemId | None, list[_ItemId]] = defaultdict(list)
    predecessor: _ItemId | None = None
    for item_id in ours:
        if item_id in common:
            predecessor = item_id
        elif item_id in merged:
            followers[predecessor].append(item_id)
    return [*followers[None], *(item for item_id in common for item in (item_id, *followers[item_id]))]

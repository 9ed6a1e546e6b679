"""Computing the line diff of two versions of a file (A9)."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tui_agent.common.domain import Diff, Hunk
from tui_agent.common.hunks import NO_END, count_changes
from tui_agent.platform.encoding import Decoded, NotText, decode
from tui_agent.tools.partial_edits import LineEnds, split_keeping_ends
from tui_agent.tools.wording import escape_surrogates

CONTEXT_LINES = 3

_MAX_DEPTH = 12
_MAX_COMPARED_PAIRS = 100_000
"""Line pairs that are compared in full; larger ranges are first split at lines that occur once."""
_Chain: TypeAlias = "tuple[tuple[int, int], _Chain | None]"
_LINE_END_NAMES = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}


class ChangedRange(NamedTuple):
    """Lines `old_start:old_end` became `new_start:new_end`, from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def diff_bytes(path: str, before: bytes | None, after: bytes | None, context: int = CONTEXT_LINES) -> Diff:
    """Return the diff from `before` to `after`; None means no file. `path` is the displayed path."""
    kind = "create" if before is None else "delete" if after is None else "modify"
    try:
        old = decode(before) if before is not None else None
        new = decode(after) if after is not None else None
    except NotText:
        sizes = " → ".join(f"{len(data):,} bytes" for data in (before, after) if data is not None)
        return Diff(path=path, kind=kind, note=f"binary, {sizes}")  # type: ignore[arg-type]  # one of the three words
    old_lines, new_lines = _lines(old), _lines(new)
    hunks = tuple(_hunks(old_lines, new_lines, context))
    counts = [count_changes(hunk) for hunk in hunks]
    return Diff(
        path=path,
        kind=kind,  # type: ignore[arg-type]  # one of the three words
        hunks=hunks,
        added=sum(added for added, _ in counts),
        removed=sum(removed for _, removed in counts),
        note=_note(old, new),
    )


def line_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[ChangedRange]:
    """Yield the changed ranges in order. Takes about linear time; large changes give larger ranges than necessary."""
    last: ChangedRange | None = None
    for changed in _split_range(old, new, ChangedRange(0, len(old), 0, len(new)), 0):
        if last is not None and (last.old_end, last.new_end) == (changed.old_start, changed.new_start):
            last = ChangedRange(last.old_start, changed.old_end, last.new_start, changed.new_end)
            continue
        if last is not None:
            yield last
        last = changed
    if last is not None:
        yield last


def _split_range(old: Sequence[str], new: Sequence[str], changed: ChangedRange, depth: int) -> Iterator[ChangedRange]:
    old_start, old_end, new_start, new_end = changed
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    left, right = old[old_start:old_end], new[new_start:new_end]
    if left and right and len(left) * len(right) <= _MAX_COMPARED_PAIRS:
        for tag, *ends in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if tag != "equal":
                yield ChangedRange(old_start + ends[0], old_start + ends[1], new_start + ends[2], new_start + ends[3])
    elif left and right and depth < _MAX_DEPTH and (anchors := _anchors(left, right)):
        offset = old_start, new_start
        for left_end, right_end in [*anchors, (len(left), len(right))]:
            end = offset[0] + left_end, offset[1] + right_end
            yield from _split_range(old, new, ChangedRange(old_start, end[0], new_start, end[1]), depth + 1)
            old_start, new_start = end[0] + 1, end[1] + 1
    elif left or right:
        yield ChangedRange(old_start, old_end, new_start, new_end)


def _anchors(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest increasing sequence of index pairs of lines that occur once on both sides."""
    left_counts, right_counts = Counter(left), Counter(right)
    right_index = {line: index for index, line in enumerate(right) if left_counts[line] == 1 == right_counts[line]}
    tails: list[int] = []
    chains: list[_Chain] = []  # the best one that ends with each tail
    for index, line in enumerate(left):
        if (position := right_index.get(line)) is not None:
            at = bisect_left(tails, position)
            tails[at : at + 1] = [position]
            chains[at : at + 1] = [((index, position), chains[at - 1] if at else None)]
    anchors: list[tuple[int, int]] = []
    chain = chains[-1] if chains else None
    while chain is not None:
        anchor, chain = chain
        anchors.append(anchor)
    return anchors[::-1]


def _hunks(old: list[str], new: list[str], context: int) -> Iterator[Hunk]:
    group: list[ChangedRange] = []
    for change in line_changes(old, new):
        if group and change.old_start - group[-1].old_end > 2 * context:
            yield _hunk(old, new, group, context)
            group = []
        group.append(change)
    if group:
        yield _hunk(old, new, group, context)


def _hunk(old: list[str], new: list[str], group: list[ChangedRange], context: int) -> Hunk:
    first, last = group[0], group[-1]
    lead = min(context, first.old_start)
    tail = min(context, len(old) - last.old_end)
    lines: list[str] = []
    at = first.old_start - lead
    for change in group:
        lines += _prefix_lines(" ", old[at : change.old_start])
        lines += _prefix_lines("-", old[change.old_start : change.old_end])
        lines += _prefix_lines("+", new[change.new_start : change.new_end])
        at = change.old_end
    lines += _prefix_lines(" ", old[at : at + tail])
    old_count = last.old_end + tail - (first.old_start - lead)
    new_count = last.new_end + tail - (first.new_start - lead)
    return Hunk(
        old_start=first.old_start - lead + (1 if old_count else 0),
        old_count=old_count,
        new_start=first.new_start - lead + (1 if new_count else 0),
        new_count=new_count,
        lines=tuple(lines),
    )


def _prefix_lines(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line[-1] in "\r\n":
            yield sign + line[: -2 if line.endswith("\r\n") else -1]
        else:
            yield sign + line
            yield NO_END


def _lines(text: Decoded | None) -> list[str]:
    """Split into lines with their ends."""
    if text is None:
        return []
    has_surrogates = text.codec.errors != "strict"
    return split_keeping_ends(escape_surrogates(text.text) if has_surrogates else text.text)


def _note(old: Decoded | None, new: Decoded | None) -> str | None:
    """Describe changes not visible in lines."""
    if new is None:
        return None
    notes: list[str] = []
    new_ends = _line_end_names(new)
    label = new.codec.label
    if old is None:
        notes += [new_ends] if new_ends not in ("", "LF") else []
        notes += [label] if label else []
    else:
        old_ends = _line_end_names(old)
        if old_ends != new_ends and old_ends and new_ends:
            notes.append(f"line ends {old_ends} → {new_ends}")
        if bool(old.codec.bom) != bool(new.codec.bom):
            notes.append("byte order mark added" if new.codec.bom else "byte order mark removed")
        if old.codec.name != new.codec.name and not old.codec.guessed and not new.codec.guessed:
            notes.append(f"encoding {old.codec.name} → {new.codec.name}")
    return ", ".join(notes) or None


def _line_end_names(text: Decoded) -> str:
    kinds = LineEnds(text.text).kinds
    return " and ".join(_LINE_END_NAMES[kind] for kind in kinds)

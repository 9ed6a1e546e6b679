"""The exact change between two versions of a file, as lines (A9)."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tui_agent.common.domain import Diff, Hunk
from tui_agent.platform.encoding import Decoded, NotText, decode
from tui_agent.tools.partial_edits import LineEnds, split_keeping_ends

CONTEXT = 3
NO_END = "\\ No newline at end of file"
_DEEP = 12
_SMALL = 100_000
"""Pairs of lines that are compared in full; larger stretches are first cut at lines that occur once."""
_NAMES = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}


class FileDiff(NamedTuple):
    """Lines `old_start:old_end` became `new_start:new_end`, counted from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def diff_bytes(path: str, before: bytes | None, after: bytes | None, context: int = CONTEXT) -> Diff:
    """How `before` becomes `after`; None stands for no file. `path` is what the user is shown."""
    kind = "create" if before is None else "delete" if after is None else "modify"
    try:
        old = decode(before) if before is not None else None
        new = decode(after) if after is not None else None
    except NotText:
        sizes = " → ".join(f"{len(data):,} bytes" for data in (before, after) if data is not None)
        return Diff(path=path, kind=kind, note=f"binary, {sizes}")  # type: ignore[arg-type]  # one of the three words
    old_lines, new_lines = _lines(old), _lines(new)
    hunks = tuple(_hunks(old_lines, new_lines, context))
    marks = [line[0] for hunk in hunks for line in hunk.lines]
    return Diff(
        path=path,
        kind=kind,  # type: ignore[arg-type]  # one of the three words
        hunks=hunks,
        added=marks.count("+"),
        removed=marks.count("-"),
        note=_note(old, new),
    )


def line_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[FileDiff]:
    """The changed stretches, in order. Takes about linear time, at the price of larger stretches in large changes."""
    yield from _joined(_within(old, new, FileDiff(0, len(old), 0, len(new)), 0))


def _joined(parts: Iterator[FileDiff]) -> Iterator[FileDiff]:
    last: FileDiff | None = None
    for part in parts:
        if last is not None and (last.old_end, last.new_end) == (part.old_start, part.new_start):
            last = FileDiff(last.old_start, part.old_end, last.new_start, part.new_end)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def _within(old: Sequence[str], new: Sequence[str], part: FileDiff, depth: int) -> Iterator[FileDiff]:
    old_start, old_end, new_start, new_end = part
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    part = FileDiff(old_start, old_end, new_start, new_end)
    left, right = old[old_start:old_end], new[new_start:new_end]
    if not left or not right:
        yield from [part] if left or right else []
    elif len(left) * len(right) <= _SMALL:
        yield from _compared(left, right, part)
    else:
        anchors = _anchors(left, right) if depth < _DEEP else []
        if not anchors:
            yield part
            return
        for one, other in [*anchors, (len(left), len(right))]:
            stop = FileDiff(old_start, part.old_start + one, new_start, part.new_start + other)
            yield from _within(old, new, stop, depth + 1)
            old_start, new_start = stop.old_end + 1, stop.new_end + 1


def _compared(left: Sequence[str], right: Sequence[str], part: FileDiff) -> Iterator[FileDiff]:
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield FileDiff(
                part.old_start + old_start,
                part.old_start + old_end,
                part.new_start + new_start,
                part.new_start + new_end,
            )


def _anchors(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that occur once on both sides, as the longest series that runs forward on both."""
    once_left = {line for line, count in Counter(left).items() if count == 1}
    once = once_left & {line for line, count in Counter(right).items() if count == 1}
    places = {line: index for index, line in enumerate(right) if line in once}
    pairs = [(index, places[line]) for index, line in enumerate(left) if line in once]
    tails: list[int] = []
    chain: list[int] = []  # index into pairs of each tail
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        tails[at : at + 1] = [place]
        chain[at : at + 1] = [number]
        before.append(chain[at - 1] if at else -1)
    series: list[tuple[int, int]] = []
    at = chain[-1] if chain else -1
    while at >= 0:
        series.append(pairs[at])
        at = before[at]
    return series[::-1]


def _hunks(old: list[str], new: list[str], context: int) -> Iterator[Hunk]:
    group: list[FileDiff] = []
    for change in line_changes(old, new):
        if group and change.old_start - group[-1].old_end > 2 * context:
            yield _hunk(old, new, group, context)
            group = []
        group.append(change)
    if group:
        yield _hunk(old, new, group, context)


def _hunk(old: list[str], new: list[str], group: list[FileDiff], context: int) -> Hunk:
    first, last = group[0], group[-1]
    lead = min(context, first.old_start)
    tail = min(context, len(old) - last.old_end)
    lines: list[str] = []
    at = first.old_start - lead
    for change in group:
        lines += _shown(" ", old[at : change.old_start])
        lines += _shown("-", old[change.old_start : change.old_end])
        lines += _shown("+", new[change.new_start : change.new_end])
        at = change.old_end
    lines += _shown(" ", old[at : at + tail])
    old_count = last.old_end + tail - (first.old_start - lead)
    new_count = last.new_end + tail - (first.new_start - lead)
    return Hunk(
        old_start=first.old_start - lead + (1 if old_count else 0),
        old_count=old_count,
        new_start=first.new_start - lead + (1 if new_count else 0),
        new_count=new_count,
        lines=tuple(lines),
    )


def _shown(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line[-1] in "\r\n":
            yield mark + line[: -2 if line.endswith("\r\n") else -1]
        else:
            yield mark + line
            yield NO_END


def _lines(text: Decoded | None) -> list[str]:
    """Lines with their ends; only what a file's line end can be ends a line."""
    if text is None:
        return []
    plain = text.text.encode("utf-8", "backslashreplace").decode() if text.codec.errors != "strict" else text.text
    return split_keeping_ends(plain)


def _note(old: Decoded | None, new: Decoded | None) -> str | None:
    """What lines do not show."""
    if new is None:
        return None
    notes: list[str] = []
    ends = _ends(new)
    label = new.codec.label
    if old is None:
        notes += [ends] if ends not in ("", "LF") else []
        notes += [label] if label else []
    else:
        was = _ends(old)
        if was != ends and was and ends:
            notes.append(f"line ends {was} → {ends}")
        if bool(old.codec.bom) != bool(new.codec.bom):
            notes.append("byte order mark added" if new.codec.bom else "byte order mark removed")
        if old.codec.name != new.codec.name and not old.codec.guessed and not new.codec.guessed:
            notes.append(f"encoding {old.codec.name} → {new.codec.name}")
    return ", ".join(notes) or None


def _ends(text: Decoded) -> str:
    kinds = LineEnds(text.text).kinds
    return " and ".join(_NAMES[kind] for kind in kinds)

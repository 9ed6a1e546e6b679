"""Three-way merge by lines."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_LINES = 5_000
"""Longer texts are not merged."""


class _Change(NamedTuple):
    """Lines `start:end` of the base become `lines`."""

    start: int
    end: int
    lines: list[bytes]


def merge_bytes(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Apply the change from `base` to `ours` to `theirs`.

    Returns None if the changes overlap or touch, or if a content is binary or too long.
    """
    if theirs == base:
        return ours
    if any(b"\0" in content for content in (base, ours, theirs)):
        return None
    lines = base.splitlines(keepends=True)
    if max(len(lines), ours.count(b"\n"), theirs.count(b"\n")) > MAX_LINES:
        return None
    merged: list[bytes] = []
    at = 0
    last: _Change | None = None
    for change in sorted([*_changes(lines, ours), *_changes(lines, theirs)]):
        if change == last:
            continue
        if last is not None and change.start <= last.end:
            return None
        merged += [*lines[at : change.start], *change.lines]
        at, last = change.end, change
    return b"".join([*merged, *lines[at:]])


def _changes(base: list[bytes], other: bytes) -> Iterator[_Change]:
    lines = other.splitlines(keepends=True)
    for tag, start, end, first, last in SequenceMatcher(None, base, lines, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Change(start, end, lines[first:last])

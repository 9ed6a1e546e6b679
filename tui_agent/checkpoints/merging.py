"""Taking one change out of a text that somebody else changed too: a merge of whole lines, or none at all."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

LINES = 5_000
"""Longer texts are not merged."""


class _Piece(NamedTuple):
    """Lines `start:end` of the base become `lines`."""

    start: int
    end: int
    lines: list[bytes]


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`theirs` with the change from `base` to `ours` made in it. None where the two changes meet in a line or beside
    one, where a content is binary, or too long."""
    if theirs == base:
        return ours
    if any(b"\0" in one for one in (base, ours, theirs)):
        return None
    lines = base.splitlines(keepends=True)
    if max(len(lines), ours.count(b"\n"), theirs.count(b"\n")) > LINES:
        return None
    pieces = sorted([*_changes(lines, ours), *_changes(lines, theirs)])
    merged: list[bytes] = []
    at = 0
    last: _Piece | None = None
    for piece in pieces:
        if last is not None and piece == last:
            continue
        if last is not None and piece.start <= last.end:
            return None
        merged += lines[at : piece.start]
        merged += piece.lines
        at, last = piece.end, piece
    merged += lines[at:]
    return b"".join(merged)


def _changes(base: list[bytes], other: bytes) -> Iterator[_Piece]:
    lines = other.splitlines(keepends=True)
    for tag, start, end, first, last in SequenceMatcher(None, base, lines, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Piece(start, end, lines[first:last])

"""A diff side by side: what was at the left, what will be at the right, line by line (A3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.segment import Segment

from widgets.diff_lines import Look, Row, lines_of, paint_side, shown
from widgets.ink import Ink, Line, chop

NARROWEST = 92
"""Columns of the view from which on two sides stand beside each other (a screen of about 100)."""
BETWEEN = " │ "


class Pair(NamedTuple):
    """Places of the rows that stand beside each other; what goes over both sides is at the left alone."""

    left: int | None
    right: int | None


def pairs(rows: Sequence[Row]) -> list[Pair]:
    """Unchanged lines beside themselves, removed ones beside the added ones that follow them."""
    found: list[Pair] = []
    removed: list[int] = []
    added: list[int] = []

    def flush() -> None:
        for at in range(max(len(removed), len(added))):
            found.append(
                Pair(removed[at] if at < len(removed) else None, added[at] if at < len(added) else None)
            )
        removed.clear()
        added.clear()

    before = " "
    for place, row in enumerate(rows):
        if row.sign == "-":
            if added:
                flush()
            removed.append(place)
        elif row.sign == "+":
            added.append(place)
        elif row.sign == "\\" and before in "-+":
            (removed if before == "-" else added).append(place)
            continue
        else:
            flush()
            found.append(Pair(place, None if row.sign in "@!\\" else place))
        before = row.sign
    flush()
    return found


def widths(width: int) -> tuple[int, int]:
    """Cells of the left and of the right side."""
    room = width - len(BETWEEN)
    return room // 2, room - room // 2


def pair_height(pair: Pair, rows: Sequence[Row], width: int, number: int) -> int:
    """How many lines `paint_pair` gives."""
    if pair.left is not None and rows[pair.left].sign in "@!":
        return lines_of(rows[pair.left].text, width) if rows[pair.left].sign == "!" else 1
    left, right = widths(width)
    heights = [
        lines_of(rows[place].text, room - number - 3)
        for place, room in zip(pair, (left, right), strict=True)
        if place is not None
    ]
    return max(heights)


def paint_pair(
    pair: Pair, rows: Sequence[Row], width: int, number: int, ink: Ink, look: Callable[[int], Look]
) -> list[Line]:
    """The lines of a pair."""
    if pair.left is not None and pair.right is None and rows[pair.left].sign in "@!":
        row = rows[pair.left]
        return chop([(shown(row.text), ink.muted if row.sign == "@" else ink.warn)], width)
    sides: list[list[Line]] = []
    for place, room, which in zip(pair, widths(width), ("old", "new"), strict=True):
        if place is None:
            sides.append([])
            continue
        row = rows[place]
        count = row.old if which == "old" else row.new
        sides.append(paint_side(row, f"{count or '':>{number}} ", room, ink, look(place)))
    left, right = sides
    return [
        _beside(left[at] if at < len(left) else None, right[at] if at < len(right) else None, width, ink)
        for at in range(max(len(left), len(right)))
    ]


def _beside(left: Line | None, right: Line | None, width: int, ink: Ink) -> Line:
    rooms = widths(width)
    segments: list[Segment] = []
    for line, room in zip((left, right), rooms, strict=True):
        if segments:
            segments.append(Segment(BETWEEN, ink.faint))
        parts = [] if line is None else line.segments
        segments += parts
        rest = room - sum(part.cell_length for part in parts)
        if rest > 0:
            segments.append(Segment(" " * rest, line.fill if line is not None and line.fill else ink.text))
    return Line(segments)

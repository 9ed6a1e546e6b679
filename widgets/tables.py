"""Layout of tables: columns as wide as their content needs, or one record for each row where they don't fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.cells import cell_len
from rich.segment import Segment

from widgets.styled_text import (
    WORD_OR_BLANKS,
    Line,
    Span,
    TextStyles,
    add_below,
    hanging,
    indent,
    line,
    side_by_side,
    split_cells,
    visible,
    width_of,
    wrap,
)

Cell: TypeAlias = Sequence[Span]
Row: TypeAlias = Sequence[Cell]

GAP = 3
"""Cells between two columns: a rule with a space on both sides."""
MAX_LABEL_SHARE = 0.4
"""Share of the width that the labels of a record may take."""


def table_lines(rows: Sequence[Row], aligns: Sequence[str], width: int, styles: TextStyles) -> list[Line]:
    """Lay out a table whose first row is its header. `aligns` has "left", "center" or "right" for each column."""
    columns = max(len(row) for row in rows)
    aligns = [*aligns, *(["left"] * (columns - len(aligns)))][:columns]
    padded = [[*row, *([()] * (columns - len(row)))] for row in rows]
    widths = column_widths(padded, width - GAP * (columns - 1))
    if widths is None:
        return _records(padded, width, styles)
    lines: list[Line] = []
    for number, row in enumerate(padded):
        cells = [
            [_aligned(wrapped, share, align, styles) for wrapped in wrap(cell, share)]
            for cell, share, align in zip(row, widths, aligns, strict=True)
        ]
        lines += side_by_side(cells, widths[:-1], [(" ", styles.text), ("│ ", styles.faint)], styles)
        if number == 0:
            rule = "─┼─".join("─" * share for share in widths)
            lines.append(line((split_cells(rule, width)[0], styles.faint)))
    return lines


def column_widths(rows: Sequence[Row], room: int) -> list[int] | None:
    """Return the widths of the columns, `room` cells at most; None if that would break a word.

    If the content doesn't fit on one line, rows get as few lines as possible; what is left then goes to the columns
    that lack least.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(1, *map(_widest_line, column)) for column in columns]
    if sum(natural) <= room:
        return natural
    minimum = [max(1, *map(_longest_word, column)) for column in columns]
    if sum(minimum) > room:
        return None
    height = _lowest_height(natural, minimum, room)
    widths = [max(least, -(-most // height)) for most, least in zip(natural, minimum, strict=True)]
    left = room - sum(widths)
    for index in sorted(range(len(widths)), key=lambda index: natural[index] - widths[index]):
        more = min(left, natural[index] - widths[index])
        widths[index] += more
        left -= more
    return widths


def _lowest_height(natural: Sequence[int], minimum: Sequence[int], room: int) -> int:
    """Return the smallest number of lines per row for which the columns fit in `room` cells."""
    low, high = 1, max(natural)
    while low < high:
        middle = (low + high) // 2
        if sum(max(least, -(-most // middle)) for most, least in zip(natural, minimum, strict=True)) <= room:
            high = middle
        else:
            low = middle + 1
    return low


def _widest_line(cell: Cell) -> int:
    return max(map(cell_len, visible("".join(text for text, _style in cell)).split("\n")))


def _longest_word(cell: Cell) -> int:
    text = visible("".join(text for text, _style in cell))
    return max((cell_len(word) for word in WORD_OR_BLANKS.findall(text) if not word.isspace()), default=1)


def _aligned(wrapped: Line, width: int, align: str, styles: TextStyles) -> Line:
    """Move the text of a cell to the middle or to the right of its column."""
    free = width - sum(segment.cell_length for segment in wrapped.segments)
    before = {"right": free, "center": free // 2}.get(align, 0)
    if before > 0:
        wrapped.segments.insert(0, Segment(" " * before, styles.text))
    return wrapped


def _records(rows: Sequence[Row], width: int, styles: TextStyles) -> list[Line]:
    """Show each row as lines of "Header: value", with a blank line between two rows; empty cells are left out."""
    header, *others = rows
    if not others:
        return wrap(list(_joined(header, styles)), width)
    labels = ["".join(text for text, _style in cell) for cell in header]
    inset = max(map(cell_len, labels)) + 2
    inset = inset if inset <= width * MAX_LABEL_SHARE else 2
    lines: list[Line] = []
    for row in others:
        record: list[Line] = []
        for label, cell in zip(labels, row, strict=True):
            if not "".join(text for text, _style in cell).strip():
                continue
            head: list[Span] = [(f"{label}: " if label else "", styles.muted)]
            if inset > 2:
                head.append((" " * (inset - width_of(head)), styles.text))
                record += hanging(head, cell, width, styles.text)
            else:
                record += indent(wrap([*head, *cell], max(1, width - 2)), [], [("  ", styles.text)])
        add_below(lines, record)
    return lines


def _joined(cells: Iterable[Cell], styles: TextStyles) -> Iterable[Span]:
    for number, cell in enumerate(cells):
        if number:
            yield " │ ", styles.faint
        yield from cell

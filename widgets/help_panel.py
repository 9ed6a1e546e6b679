"""The help: keys by group, then commands."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from widgets.ink import Ink, Line, Span, indent, line, wrap
from widgets.panel import Panel

Group = tuple[str, Sequence[tuple[str, str]]]
COLUMN, GAP = 44, 4
"""The least width of a column, and what is between two."""


class HelpPanel(Panel):
    """Everything that can be pressed or typed."""

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = list(groups)

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("Keys and commands", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """As many columns as there is room for, all of about the same height."""
        count = max(1, (width + GAP) // (COLUMN + GAP))
        room = (width + GAP) // count - GAP
        groups = [_group(one, room, ink) for one in self.groups]
        columns = [
            [row for at, one in enumerate(some) for row in ([Line([])] if at else []) + one]
            for some in shared(groups, count)
        ]
        lines: list[Line] = []
        for number in range(max(map(len, columns), default=0)):
            segments: list[Segment] = []
            for at, column in enumerate(columns):
                gap = at * (room + GAP) - sum(part.cell_length for part in segments)
                if number < len(column):
                    segments += [*line((" " * gap, ink.text)).segments, *column[number].segments]
            lines.append(Line(segments))
        return lines


def shared(groups: Sequence[list[Line]], count: int) -> list[list[list[Line]]]:
    """The groups in their order, in at most `count` columns, the highest of them as low as can be."""
    most = max(map(len, groups), default=0)
    while True:
        columns: list[list[list[Line]]] = [[]]
        for one in groups:
            if columns[-1] and sum(map(len, columns[-1])) + len(columns[-1]) + len(one) > most:
                columns.append([])
            columns[-1].append(one)
        if len(columns) <= count:
            return columns
        most += 1


def _group(group: Group, width: int, ink: Ink) -> list[Line]:
    name, rows = group
    wide = min(max(len(keys) for keys, _does in rows), 11) + 2
    lines = [line((name, ink.muted))]
    for keys, does in rows:
        head: list[Span] = [(f"{keys:<{wide}}", ink.accent)]
        if len(keys) > wide - 2:
            lines += wrap([(keys, ink.accent)], width)
            head = [(" " * wide, ink.text)]
        lines += indent(wrap([(does, ink.text)], width - wide), head, [(" " * wide, ink.text)])
    return lines

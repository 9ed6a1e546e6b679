"""The help: keys by group, then commands."""

from __future__ import annotations

from collections.abc import Sequence

from widgets.ink import Ink, Line, Span, indent, line, wrap
from widgets.panel import Panel

Group = tuple[str, Sequence[tuple[str, str]]]
COLUMNS = 92
"""Width from which on two columns stand side by side."""


class HelpPanel(Panel):
    """Everything that can be pressed or typed."""

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = list(groups)

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("Keys and commands", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """One column, or two of about the same height."""
        if width < COLUMNS:
            return self._column(self.groups, width, ink)
        half = (width - 4) // 2
        sizes = [len(rows) + 2 for _name, rows in self.groups]
        split = min(range(len(sizes) + 1), key=lambda at: max(sum(sizes[:at]), sum(sizes[at:])))
        left = self._column(self.groups[:split], half, ink)
        right = self._column(self.groups[split:], half, ink)
        lines: list[Line] = []
        for number in range(max(len(left), len(right))):
            one = left[number] if number < len(left) else Line([])
            other = right[number] if number < len(right) else Line([])
            gap: Span = (" " * (half + 4 - sum(part.cell_length for part in one.segments)), ink.text)
            lines.append(Line([*one.segments, *line(gap).segments, *other.segments]))
        return lines

    @staticmethod
    def _column(groups: Sequence[Group], width: int, ink: Ink) -> list[Line]:
        lines: list[Line] = []
        for name, rows in groups:
            wide = min(max(len(keys) for keys, _does in rows), 11) + 2
            lines += [Line([])] if lines else []
            lines.append(line((name, ink.muted)))
            for keys, does in rows:
                head: list[Span] = [(f"{keys:<{wide}}", ink.accent)]
                if len(keys) > wide - 2:
                    lines.append(line((keys, ink.accent)))
                    head = [(" " * wide, ink.text)]
                lines += indent(wrap([(does, ink.text)], width - wide), head, [(" " * wide, ink.text)])
        return lines

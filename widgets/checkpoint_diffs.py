"""What a run did to files, line by line (K1)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.domain import Diff
from tui_agent.text import one_line
from widgets.diff_lines import digits, paint_row, rows
from widgets.ink import Ink, Line, line, wrap
from widgets.panel import Panel

LINES = 2_000
"""Painted lines that are shown; all of them are behind `tui-agent undo --diff`."""


class CheckpointDiffs(Panel):
    """One difference below the other; `problems` say which can't be shown and why."""

    def __init__(self, title: str, diffs: Sequence[Diff], problems: Sequence[str] = ()) -> None:
        super().__init__()
        self._title = title
        self.diffs = list(diffs)
        self.problems = list(problems)

    def head(self, width: int, ink: Ink) -> list[Line]:
        """Which run."""
        return [line((one_line(self._title, width), ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """File by file."""
        lines: list[Line] = []
        for diff in self.diffs:
            lines += [Line([])] if lines else []
            counts = f"  +{diff.added} -{diff.removed}"
            name = one_line(diff.path, max(8, width - len(counts)))
            lines.append(line((name, ink.strong), (counts, ink.muted)))
            number = digits(diff)
            for row in rows(diff):
                lines += paint_row(row, width, number, ink)
                if len(lines) > LINES:
                    more = f"… more; `tui-agent undo --diff` shows all of it after the first {LINES:,} lines"
                    return [*lines[:LINES], *wrap([(more, ink.muted)], width)]
        for problem in self.problems:
            lines += wrap([(problem, ink.warn)], width)
        return lines or [line(("Nothing was done to files.", ink.muted))]

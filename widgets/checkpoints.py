"""What the runs did to files, the newest first, to take one back or to go back before it (K1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.style import Style

from tui_agent.checkpoints.ledger import Checkpoint, CheckpointFile
from tui_agent.common.domain import Diff
from tui_agent.text import one_line
from widgets.dialog_keys import Keys, key_lines
from widgets.diff_lines import diff_rows, number_width, paint_row
from widgets.panel import ListPanel, Panel, cursor_mark
from widgets.styled_text import Line, TextStyles, hanging, line, wrap

NAMED = 6
"""Files of a run that are shown; of the chosen one all are."""
ACTS = {
    "undo": "undo",
    "rewind": "both",
    "files": "code",
    "conversation": "conversation",
    "keep": "keep",
    "diff": "diff",
}
"""Action of the panel → what to do."""


class CheckpointsPanel(ListPanel[Checkpoint]):
    """`choose` gets what to do (a value of ACTS) and the run."""

    TITLE = "File changes by the agent"

    KEYS = Keys("checkpoints")
    EMPTY = "No file changes in this session."

    def __init__(self, rows: Sequence[Checkpoint], choose: Callable[[str, str], None]) -> None:
        super().__init__(rows)
        self._choose = choose

    def row_lines(self, row: Checkpoint, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """The run, its files and what can\'t be undone of it."""
        name = f"{row.run.removeprefix('run-'):>3}  "
        title = one_line(row.title, max(10, width - 20)) or "(no message)"
        state = "  kept" if row.kept else ""
        lines = [] if row is self.list.rows[0] else [Line([])]
        lines.append(
            line(
                cursor_mark(selected, styles),
                (name, styles.muted),
                (title, styles.strong if selected else styles.text),
                (state, styles.muted),
            )
        )
        shown = row.files if selected else row.files[:NAMED]
        for file in shown:
            lines += self._file(file, width, styles)
        if len(row.files) > len(shown):
            lines.append(line((f"       … {len(row.files) - len(shown)} more files", styles.muted)))
        for command in row.commands:
            text = f"can't be undone: what `{one_line(command.command, 60)}` changed"
            lines += hanging([("       ! ", styles.warn)], [(text, styles.warn)], width, styles.text)
        return lines

    @staticmethod
    def _file(file: CheckpointFile, width: int, styles: TextStyles) -> list[Line]:
        counts = f"  +{file.added} -{file.removed}"
        state = "  undone" if file.undone else "  can't be undone" if file.cannot_undo else ""
        name = one_line(file.display, max(8, width - 9 - len(counts) - len(state)))
        style: Style = styles.muted if file.undone else styles.text
        sign = "A " if file.kind == "create" else "M "
        return [
            line(
                ("       ", styles.text),
                (sign, styles.muted),
                (name, style),
                (counts, styles.muted),
                (state, styles.warn if file.cannot_undo and not file.undone else styles.muted),
            )
        ]

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """What can be done with the chosen run."""
        said = [
            ("diff", "diff"),
            ("undo", "undo this run"),
            ("rewind", "rewind to before it"),
            ("files", "files only"),
            ("conversation", "conversation only"),
            ("keep", "keep"),
        ]
        choose = self.KEYS.arrow_labels("up", "down").replace("↑ ↓", "↑↓")
        offered = [(choose, "choose"), *self.KEYS.hints(said), ("esc", "closes")]
        return key_lines(offered if self.list.rows else offered[-1:], width, styles, gap=3)

    def do(self, action: str, row: Checkpoint) -> None:
        """Close, and do it."""
        self.dismiss()
        self._choose(ACTS[action], row.run)


LINES = 2_000
"""Painted lines that are shown; all of them are behind `tui-agent undo --diff`."""


class CheckpointDiffs(Panel):
    """One difference below the other; `problems` say which can't be shown and why."""

    def __init__(self, title: str, diffs: Sequence[Diff], problems: Sequence[str] = ()) -> None:
        super().__init__()
        self._title = title
        self.diffs = list(diffs)
        self.problems = list(problems)

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """Which run."""
        return [line((one_line(self._title, width), styles.heading))]

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """File by file."""
        lines: list[Line] = []
        for diff in self.diffs:
            lines += [Line([])] if lines else []
            counts = f"  +{diff.added} -{diff.removed}"
            name = one_line(diff.path, max(8, width - len(counts)))
            lines.append(line((name, styles.strong), (counts, styles.muted)))
            number = number_width(diff)
            for row in diff_rows(diff):
                lines += paint_row(row, width, number, styles)
                if len(lines) > LINES:
                    more = f"… more; `tui-agent undo --diff` shows all of it after the first {LINES:,} lines"
                    return [*lines[:LINES], *wrap([(more, styles.muted)], width)]
        for problem in self.problems:
            lines += wrap([(problem, styles.warn)], width)
        return lines or [line(("No file changes.", styles.muted))]

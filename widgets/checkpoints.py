"""The panel of runs with their file changes, for undo and rewind, and the diffs of a run (K1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from tui_agent.checkpoints.ledger import Checkpoint, CheckpointFile, is_beyond_undo
from tui_agent.common.domain import Diff
from tui_agent.text import one_line
from widgets.dialog_keys import Keys
from widgets.diff_lines import diff_rows, number_width, paint_row
from widgets.panel import ListPanel, Panel, cursor_mark
from widgets.styled_text import Line, TextStyles, add_below, hanging, line, wrap

MAX_FILES = 6
"""Maximum files shown for a run, except for the current one."""
ACTIONS = (
    ("diff", "diff"),
    ("undo", "undo this run"),
    ("rewind", "rewind to before it"),
    ("files", "files only"),
    ("conversation", "conversation only"),
    ("keep", "keep"),
)
"""Key actions and their descriptions."""
REWIND_ACTIONS = (
    ("conversation", "conversation only"),
    ("files", "files only"),
    ("undo", "undo this run"),
    ("diff", "diff"),
)
"""The same for the list of messages, beside Enter."""
REWIND_SCOPES = {"rewind": "both", "files": "code"}
"""Key actions whose rewind scope has another name."""


class CheckpointsPanel(ListPanel[Checkpoint]):
    """Lists the runs, newest first; `on_chosen` gets `diff`, `undo`, `keep` or a rewind scope, and a run id."""

    TITLE = "File changes by the agent"
    KEYS = Keys("checkpoints")
    EMPTY = "No file changes in this session."

    def __init__(self, rows: Sequence[Checkpoint], on_chosen: Callable[[str, str], None]) -> None:
        super().__init__(rows)
        self._on_chosen = on_chosen

    def row_lines(self, row: Checkpoint, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint a run, its files and what can't be undone."""
        title = one_line(row.title, max(10, width - 20)) or "(no message)"
        lines = [] if row is self.list_view.rows[0] else [Line([])]
        lines.append(
            line(
                cursor_mark(selected, styles),
                (f"{row.run.removeprefix('run-'):>3}  ", styles.muted),
                (title, styles.strong if selected else styles.text),
                ("  kept" if row.kept else "", styles.muted),
            )
        )
        files = row.files if selected else row.files[:MAX_FILES]
        lines += [_file_line(file, width, styles) for file in files]
        if hidden := len(row.files) - len(files):
            lines.append(line((f"       … {hidden} more files", styles.muted)))
        for command in {command.command: command for command in sorted(row.commands, key=is_beyond_undo)}.values():
            for name in command.protected:
                text = f"protected, undo leaves it: {one_line(name, 100)}"
                lines += hanging([("       ! ", styles.warn)], [(text, styles.warn)], width, styles.text)
            if is_beyond_undo(command):
                text = f"not covered by undo: what `{one_line(command.command, 60)}` changed"
                lines += hanging([("       ! ", styles.warn)], [(text, styles.warn)], width, styles.text)
            elif selected:
                text = f"ran `{one_line(command.command, 60)}`"
                text += "; undo reverts the files above, nothing else it did" if _can_undo(row) else ""
                lines += hanging([("       $ ", styles.muted)], [(text, styles.muted)], width, styles.text)
        return lines

    def row_keys(self, row: Checkpoint) -> list[tuple[str, str]]:
        """Return the keys for a run."""
        actions = [pair for pair in ACTIONS if pair[0] != "undo" or _can_undo(row)]
        return [(self.KEYS.arrow_labels("up", "down", separator=""), "choose"), *self.KEYS.hints(actions)]

    def do(self, action: str, row: Checkpoint) -> None:
        """Close the panel and report the action."""
        self.dismiss()
        self._on_chosen(REWIND_SCOPES.get(action, action), row.run)


class RewindPanel(CheckpointsPanel):
    """Lists the messages of the conversation, newest first, with the file changes of their runs."""

    TITLE = "Edit an earlier message"
    KEYS = Keys("rewind")
    EMPTY = "No messages in this conversation yet."

    def row_keys(self, row: Checkpoint) -> list[tuple[str, str]]:
        """Return the keys for a message; those for files only if its run or a later one changed any."""
        rows = self.list_view.rows
        has_files = any(each.files for each in rows[: rows.index(row) + 1])
        lacking = [*([] if row.files else ["diff"]), *([] if _can_undo(row) else ["undo"])]
        actions = [pair for pair in REWIND_ACTIONS if has_files and pair[0] not in lacking]
        does = "edit it: conversation and files go back" if has_files else "edit it: the conversation goes back"
        moves = self.KEYS.arrow_labels("up", "down", separator="")
        return [(moves, "choose"), ("enter", does), *self.KEYS.hints(actions)]

    def act(self, event: events.Key) -> bool:
        """Enter edits the current message."""
        if event.key == "enter" and self.list_view.current is not None:
            self.do("rewind", self.list_view.current)
            return True
        return super().act(event)


def _can_undo(row: Checkpoint) -> bool:
    """Return whether there is something left to undo in a run."""
    return any(not file.undone and not file.cannot_undo for file in row.files)


def _file_line(file: CheckpointFile, width: int, styles: TextStyles) -> Line:
    counts = f"  +{file.added} −{file.removed}"
    by = "  by a command" if file.command else ""
    state = "  undone" if file.undone else "  can't be undone" if file.cannot_undo else ""
    name = one_line(file.display, max(8, width - 9 - len(counts) - len(by) - len(state)))
    return line(
        ("       ", styles.text),
        ({"create": "A ", "delete": "D "}.get(file.kind, "M "), styles.muted),
        (name, styles.muted if file.undone else styles.text),
        (counts + by, styles.muted),
        (state, styles.warn if file.cannot_undo and not file.undone else styles.muted),
    )


MAX_LINES = 2_000
"""Maximum painted lines; `tui-agent undo --diff` prints all."""


class CheckpointDiffs(Panel):
    """The diffs of a run."""

    def __init__(self, title: str, diffs: Sequence[Diff], problems: Sequence[str] = ()) -> None:
        """`title` is that of the run, `problems` the reasons why some files can't be shown."""
        super().__init__()
        self.title = title
        self.diffs = diffs
        self.problems = problems

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the diffs, then the problems."""
        lines: list[Line] = []
        for diff in self.diffs:
            counts = f"  +{diff.added} -{diff.removed}"
            name = one_line(diff.path, max(8, width - len(counts)))
            add_below(lines, [line((name, styles.strong), (counts, styles.muted))])
            number = number_width(diff)
            for row in diff_rows(diff):
                lines += paint_row(row, width, number, styles)
                if len(lines) > MAX_LINES:
                    more = f"… more; `tui-agent undo --diff` shows all of it after the first {MAX_LINES:,} lines"
                    return [*lines[:MAX_LINES], *wrap([(more, styles.muted)], width)]
        for problem in self.problems:
            lines += wrap([(problem, styles.warn)], width)
        return lines or [line(("No file changes.", styles.muted))]

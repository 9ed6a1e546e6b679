"""What the runs did to files, the newest first, to take one back or to go back before it (K1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.style import Style
from textual import events

from tui_agent.text import one_line
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, indent, line, wrap
from widgets.line_view import LinesView
from widgets.panel import Panel

NAMED = 6
"""Files of a run that are shown; of the chosen one all are."""
KEYS = Keys("checkpoints")
ACTS = {
    "undo": "undo",
    "rewind": "both",
    "files": "code",
    "conversation": "conversation",
    "keep": "keep",
    "diff": "diff",
}
"""Action of the panel → what to do."""


class File(NamedTuple):
    """A file of a run."""

    name: str
    created: bool
    added: int
    removed: int
    undone: bool = False
    unkept: str = ""
    """Why it can't be undone; empty when it can."""


class Row(NamedTuple):
    """One run."""

    run: str
    title: str
    files: Sequence[File]
    commands: Sequence[str] = ()
    """Commands whose changes can't be undone."""
    kept: bool = False


class CheckpointsPanel(Panel):
    """`choose` gets what to do (a value of ACTS) and the run."""

    def __init__(self, rows: Sequence[Row], choose: Callable[[str, str], None]) -> None:
        super().__init__()
        self.rows = list(rows)
        self.chosen = 0
        self._choose = choose

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("What the agent did to files", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """Run by run."""
        if not self.rows:
            return [line(("Nothing was done to files in this session.", ink.muted))]
        lines: list[Line] = []
        for place, row in enumerate(self.rows):
            lines += [Line([])] if lines else []
            lines += self._row(row, place == self.chosen, width, ink)
        return lines

    def _row(self, row: Row, chosen: bool, width: int, ink: Ink) -> list[Line]:
        mark: Span = ("▸ ", ink.accent) if chosen else ("  ", ink.text)
        name = f"{row.run.removeprefix('run-'):>3}  "
        title = one_line(row.title, max(10, width - 20)) or "(no message)"
        state = "  kept" if row.kept else ""
        lines = [
            line(mark, (name, ink.muted), (title, ink.strong if chosen else ink.text), (state, ink.muted))
        ]
        shown = list(row.files) if chosen else list(row.files)[:NAMED]
        for file in shown:
            lines += self._file(file, width, ink)
        if len(row.files) > len(shown):
            lines.append(line((f"       … {len(row.files) - len(shown)} more files", ink.muted)))
        for command in row.commands:
            text = f"can't be undone: what `{one_line(command, 60)}` changed"
            lines += indent(
                wrap([(text, ink.warn)], width - 9), [("       ! ", ink.warn)], [("         ", ink.text)]
            )
        return lines

    @staticmethod
    def _file(file: File, width: int, ink: Ink) -> list[Line]:
        counts = f"  +{file.added} -{file.removed}"
        state = "  undone" if file.undone else "  can't be undone" if file.unkept else ""
        name = one_line(file.name, max(8, width - 9 - len(counts) - len(state)))
        style: Style = ink.muted if file.undone else ink.text
        sign = "A " if file.created else "M "
        return [
            line(
                ("       ", ink.text),
                (sign, ink.muted),
                (name, style),
                (counts, ink.muted),
                (state, ink.warn if file.unkept and not file.undone else ink.muted),
            )
        ]

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """What can be done with the chosen run."""
        said = [
            ("diff", "diff"),
            ("undo", "undo this run"),
            ("rewind", "rewind to before it"),
            ("files", "files only"),
            ("conversation", "conversation only"),
            ("keep", "keep"),
        ]
        choose = KEYS.arrows("up", "down").replace("↑ ↓", "↑↓")
        offered = [*([(choose, "choose")] if choose else []), *KEYS.pairs(said), ("esc", "closes")]
        rows: list[list[Span]] = [[]]
        used = 0
        for key, does in offered if self.rows else offered[-1:]:
            size = len(key) + len(does) + 4
            if rows[-1] and used + size - 3 > width:
                rows.append([])
                used = 0
            rows[-1] += [(key, ink.accent), (f" {does}   ", ink.muted)]
            used += size
        return [line(*spans) for spans in rows]

    def on_key(self, event: events.Key) -> None:
        """Choose, act or close."""
        action = KEYS.does(event)
        if action in ("up", "down") and self.rows:
            event.stop()
            event.prevent_default()
            step = 1 if action == "down" else -1
            self.chosen = max(0, min(len(self.rows) - 1, self.chosen + step))
            body = self.query_one("#body", LinesView)
            body.relayout()
            body.scroll_to(y=max(0, self._top() - 1), animate=False)
        elif action in ACTS and self.rows:
            event.stop()
            event.prevent_default()
            self.dismiss()
            self._choose(ACTS[action], self.rows[self.chosen].run)
        else:
            super().on_key(event)

    def _top(self) -> int:
        """The line at which the chosen run begins."""
        body = self.query_one("#body", LinesView)
        sizes = [
            len(self._row(row, False, body.size.width, body.ink)) + 1 for row in self.rows[: self.chosen]
        ]
        return sum(sizes)

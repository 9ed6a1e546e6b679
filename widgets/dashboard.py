"""The dashboard: statistics of the journals of all sessions, with bars and curves (S4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta

from rich.cells import cell_len
from textual import events

from tui_agent.stats import report
from tui_agent.stats.numbers import Day, Tally, format_count, format_percent, share
from tui_agent.stats.report import Fact, Table
from tui_agent.text import pluralize
from widgets.dialog_keys import Keys
from widgets.line_view import LinesView
from widgets.panel import Panel
from widgets.styled_text import Line, Span, TextStyles, fit, hanging, line, share_bar, side_by_side, width_of, wrap

KEYS = Keys("statistics")
TWO_COLUMN_WIDTH = 92
"""Width from which two columns are used."""
NAME, VALUE, LONG_BAR, SHORT_BAR = 14, 7, 12, 8
"""Widths of the parts of a row."""
LONG_BAR_WIDTH = 60
"""Width from which long bars are used."""
MAX_NAME = 24
MAX_DAYS = 60
"""Maximum days of a curve."""
MAX_ROWS = 12
"""Maximum rows of a section or table."""
STEPS = "▁▂▃▄▅▆▇█"
NO_RUNS = "No session has run a task yet. Statistics appear here after the first run."


class Dashboard(Panel):
    """Statistics, or the progress of reading the journals until `show` is called."""

    def __init__(self, on_reload: Callable[[], None], on_close: Callable[[], None]) -> None:
        """`on_reload` is called to read the journals again, `on_close` when the dashboard closes."""
        super().__init__()
        self.tally: Tally | None = None
        self.notes: Sequence[str] = ()
        self.progress = (0, 0)
        self._on_reload = on_reload
        self._on_close = on_close

    def show(self, tally: Tally, notes: Sequence[str]) -> None:
        """Show the statistics, with notes about missing data."""
        self.tally, self.notes = tally, notes
        self._repaint()

    def advance(self, done: int, total: int) -> None:
        """Show that `done` of `total` sessions were read."""
        self.progress = (done, total)
        if self.tally is None:
            self._repaint()

    def _repaint(self) -> None:
        for part in self.query(LinesView):
            part.relayout()
        self.call_after_refresh(self.keys_view.relayout)

    def on_unmount(self) -> None:
        """Report that the dashboard closed."""
        self._on_close()

    def act(self, event: events.Key) -> bool:
        """Handle the reload key."""
        reload = KEYS.action_for(event) == "again"
        if reload:
            self.tally, self.progress = None, (0, 0)
            self._repaint()
            self._on_reload()
        return reload

    def key_pairs(self) -> list[tuple[str, str]]:
        """Add the reload key."""
        return [*super().key_pairs(), *KEYS.hints([("again", "reload")])]

    # --- what is shown ---

    def head(self, width: int, styles: TextStyles) -> list[Line]:
        """Title with the number of sessions and runs, and the date range."""
        title: list[Span] = [("Statistics", styles.heading)]
        if self.tally is not None and self.tally.total.runs:
            tally = self.tally
            parts = [
                pluralize(tally.sessions, "session"),
                pluralize(tally.total.runs, "run"),
                report.format_date_range(tally),
            ]
            room = width - width_of(title) - 2
            while len(parts) > 1 and cell_len(_joined(parts)) > room:
                parts.pop(0)
            title.append(("  " + fit(_joined(parts), room), styles.muted))
        return [line(*title)]

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Curves, sections, tables, notes."""
        tally = self.tally
        if tally is None:
            done, total = self.progress
            count = f" {done:,} of {total:,}" if total else ""
            return [line((f"reading the journals …{count}", styles.muted))]
        notes = [note_line for text in self.notes for note_line in _note(text, width, styles)]
        if not tally.total.runs:
            return [*wrap([(NO_RUNS, styles.muted)], width), *notes]
        lines = [*curves(tally, width, styles), *_sections(tally, width, styles)]
        for table in report.comparison_tables(tally):
            if table.rows:
                lines += [Line([]), *table_lines(table, width, styles)]
        return [*lines, *([Line([])] if notes else []), *notes]


def _joined(parts: Iterable[str]) -> str:
    return " · ".join(part for part in parts if part)


def _note(text: str, width: int, styles: TextStyles) -> list[Line]:
    return hanging([("! ", styles.warn)], [(text, styles.text)], width, styles.text)


# --- curves ---------------------------------------------------------------------------------


def curves(tally: Tally, width: int, styles: TextStyles) -> list[Line]:
    """Paint curves by day, the latest day on the right; empty for less than two days."""
    days = _days(tally.days, min(MAX_DAYS, width - NAME - 2 * VALUE - 2))
    if len(days) < 2:
        return []
    runs = [day.runs for day in days]
    rates = [share(day.first_try, day.runs) for day in days]
    tokens = [day.tokens for day in days]
    rows = (
        ("runs a day", spark(runs), f"most {max(runs):,}", styles.accent),
        ("first attempt", spark(rates, 1.0), f"last {format_percent(_last(rates))}", styles.ok),
        ("tokens a day", spark(tokens), f"most {format_count(max(tokens))}", styles.accent),
    )
    lines = [
        line((f"{name:<{NAME}}", styles.text), (curve, style), (f"  {note}", styles.muted))
        for name, curve, note, style in rows
    ]
    return [*lines, Line([])]  # fmt: skip


def _days(days_by_date: dict[str, Day], limit: int) -> list[Day]:
    """Return the latest `limit` days from the first to the last one, including days without runs."""
    days: dict[date, Day] = {}
    for text, day in days_by_date.items():
        try:
            days[date.fromisoformat(text)] = day
        except ValueError:
            continue
    if not days or limit < 2:
        return []
    last = max(days)
    count = min(limit, (last - min(days)).days + 1)
    return [days.get(last - timedelta(days=back), Day()) for back in range(count - 1, -1, -1)]


def _last(rates: Iterable[float | None]) -> float | None:
    measured = [rate for rate in rates if rate is not None]
    return measured[-1] if measured else None


def spark(values: Sequence[float | None], maximum: float | None = None) -> str:
    """Return a one-line curve, with a space for a missing value."""
    top = maximum or max((value for value in values if value is not None), default=0) or 1
    steps = len(STEPS) - 1
    return "".join(
        " " if value is None else STEPS[min(steps, round(max(0.0, value / top) * steps))] for value in values
    )


# --- sections -------------------------------------------------------------------------------


def _sections(tally: Tally, width: int, styles: TextStyles) -> list[Line]:
    """Paint the sections in one column, or in two of similar height."""
    sections = list(report.fact_sections(tally))
    if width < TWO_COLUMN_WIDTH:
        return _column(sections, width, styles)
    half = (width - 4) // 2
    sizes = [min(len(facts), MAX_ROWS) + 2 for _name, facts in sections]
    split = min(range(len(sizes) + 1), key=lambda at: max(sum(sizes[:at]), sum(sizes[at:])))
    left, right = _column(sections[:split], half, styles), _column(sections[split:], half, styles)
    return side_by_side([left, right], [half + 4], [], styles)


def _column(sections: Sequence[tuple[str, list[Fact]]], width: int, styles: TextStyles) -> list[Line]:
    lines: list[Line] = []
    for name, facts in sections:
        lines += [Line([])] if lines else []
        lines.append(line((name, styles.muted)))
        visible = facts[:MAX_ROWS]
        name_width = min(MAX_NAME, max(NAME, *(cell_len(fact.name) + 2 for fact in visible)))
        lines += [_row(fact, name_width, width, styles) for fact in visible]
        if len(facts) > MAX_ROWS:
            lines.append(line((f"… {len(facts) - MAX_ROWS:,} more in `tui-agent stats`", styles.muted)))
    return lines


def _row(fact: Fact, name_width: int, width: int, styles: TextStyles) -> Line:
    """Paint name, value, bar and note of a fact."""
    style = styles.strong if fact.goal_met is None else styles.ok if fact.goal_met else styles.warn
    name = fit(fact.name, name_width - 1)
    spans: list[Span] = [
        (name + " " * (name_width - cell_len(name)), styles.text),
        (f"{fact.value:>{VALUE}}", style),
        ("  ", styles.text),
    ]
    room = width - name_width - VALUE - 2
    if fact.share is not None:
        cells = min(LONG_BAR if width >= LONG_BAR_WIDTH else SHORT_BAR, max(0, room))
        bar = styles.accent if fact.goal_met is None else style
        spans += [*share_bar(fact.share, cells, bar, styles), ("  ", styles.text)]
        room -= cells + 2
    if fact.note and room > 3:
        spans.append((fit(fact.note, room), styles.muted))
    return line(*spans)


# --- tables ---------------------------------------------------------------------------------


def table_lines(table: Table, width: int, styles: TextStyles) -> list[Line]:
    """Paint a table, omitting its last columns if there is no room."""
    rows = table.rows[:MAX_ROWS]
    head = (table.title.lower(), *table.header[1:])
    widths = [max(cell_len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    widths[0] = min(widths[0], max(12, width // 3))
    while len(widths) > 2 and sum(widths) + 2 * (len(widths) - 1) > width:
        widths.pop()

    def cells(row: Sequence[str]) -> str:
        first = fit(row[0], widths[0])
        parts = [first + " " * (widths[0] - cell_len(first))]
        parts += [f"{row[at]:>{widths[at]}}" for at in range(1, len(widths))]
        return "  ".join(parts)

    lines = [line((cells(head), styles.muted))]
    lines += [line((cells(row), styles.text)) for row in rows]
    if len(table.rows) > MAX_ROWS:
        lines.append(line((f"… {len(table.rows) - MAX_ROWS:,} more in `tui-agent stats`", styles.muted)))
    return lines

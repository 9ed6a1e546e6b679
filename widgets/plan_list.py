"""The rows of the plan panel: their order, their lines, and the list that shows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from rich.style import Style
from textual import events

from tui_agent.keys.key_names import caret_label
from tui_agent.keys.keymap import key_of
from tui_agent.plan.state import time_label
from tui_agent.text import one_line
from widgets.blocks.base import SHORT, format_duration
from widgets.dialog_keys import Keys
from widgets.line_view import ListView
from widgets.lone_keys import TakesLetters
from widgets.markdown import plain_title
from widgets.plan_document import CustomSection, ListedValue, ListName, Mark, PlanContent, value_name
from widgets.plan_run import PlanRun, RunStep
from widgets.styled_text import (
    Line,
    Span,
    TextStyles,
    fit,
    highlighted_line,
    indent,
    justified_line,
    line,
    width_of,
    wrap,
)
from widgets.words import WORDS

Kind: TypeAlias = Literal[
    "gap", "heading", "message", "goal", "step", "done", "criterion", "decision", "entry", "older", "old", "custom"
]
"""`done` is the group of met criteria, `older` that of `old` log entries. Drafts on disk contain these names."""
GROUPS: tuple[Kind, ...] = ("done", "older")

KEYS = Keys("plan")
CHANGES = ("tick", "edit", "add", "remove", "undo", "accept", "discard")
"""Actions that change the plan."""
MAX_DONE = 5
"""Met criteria are collapsed if there are more than this."""
MAX_DONE_NAMES = 8
"""Maximum number of collapsed criteria that are named."""
RECENT_ENTRIES = 10
"""Number of log entries that are not collapsed (P5)."""
MAX_ROW_LINES = 6
MAX_VALUE_CHARACTERS = 2_000
"""Number of characters of a value that are shown."""
MAX_CUSTOM_LINES = 200
"""Number of lines of a custom section that are shown."""

RESULTS = {"✓": ("✓", "ok"), "🔄": ("●", "accent"), "❌": ("✗", "bad")}
"""Mark at the beginning of a result → symbol and role of its color."""
MARKS: dict[Mark, str] = {"": "", "added": "+ ", "changed": "~ ", "removed": "− "}


class PlanRow(msgspec.Struct, frozen=True):
    """A row; it has several lines if its text is long."""

    kind: Kind
    text: str = ""
    section: ListName | None = None
    listed: ListedValue | None = None
    newest: datetime | None = None
    """Time of the newest log entry; entries of that day are shown without a date."""
    goal_mark: Mark = ""
    """The proposed change of the goal."""
    step: RunStep | None = None
    placeholder: str = ""
    """Shown instead of an empty goal."""

    @property
    def value(self) -> Any:
        """The list item of the row, if any."""
        return self.listed.value if self.listed is not None else None

    @property
    def selectable(self) -> bool:
        """Whether the cursor stops here."""
        return self.kind in ("goal", "criterion", "decision", "entry", "old", *GROUPS)

    @property
    def mark(self) -> Mark:
        """The proposed change of the row."""
        return self.listed.mark if self.listed is not None else self.goal_mark

    @property
    def name(self) -> tuple[str, str, str]:
        """Identifies the row after the document changed."""
        return self.kind, self.section or "", value_name(self.value)


def plan_rows(
    content: PlanContent,
    *,
    run: PlanRun | None = None,
    expanded: Collection[Kind] = (),
    keep_visible: Collection[str] = (),
) -> list[PlanRow]:
    """Return all rows, with the steps of the newest `run` and with the `expanded` groups open. Criteria named in
    `keep_visible` are never collapsed."""
    run = run or PlanRun()
    rows = list(_goal_rows(content, run))
    if run.steps:
        rows += [PlanRow("gap"), PlanRow("heading", "Steps")]
        rows += [PlanRow("step", step.title, step=step) for step in run.steps]
    if criteria := content.lists["acceptance_criteria"]:
        rows += [PlanRow("gap"), *_criterion_rows(criteria, "done" in expanded, keep_visible)]
    decisions: tuple[ListName, ...] = ("decisions_made", "decisions_rejected")
    if any(content.lists[name] for name in decisions):
        rows += [PlanRow("gap"), PlanRow("heading", "Decisions")]
        rows += [PlanRow("decision", "", name, listed) for name in decisions for listed in content.lists[name]]
    rows += _log_rows(content.lists["execution_log"], "older" in expanded)
    for section in content.custom_sections:
        rows += _custom_rows(section)
    return rows


def _goal_rows(content: PlanContent, run: PlanRun) -> Iterator[PlanRow]:
    if content.problem:
        yield PlanRow("message", f"plan_doc.md can't be read as a plan: {content.problem}")
        yield PlanRow("gap")
    saved, proposed = content.saved.goal, content.plan.goal
    if saved == proposed and content.empty and not run.steps and not run.has_plan:
        yield PlanRow("message", "No plan yet.")
    placeholder = one_line(run.request, 200) or "no goal yet"
    if content.lists["execution_log"] and not run.request:
        placeholder = f"no goal set · {KEYS.label('edit')} sets one"
    mark: Mark = "" if saved == proposed else "changed" if saved else "added"
    yield PlanRow("goal", proposed, goal_mark=mark, placeholder=placeholder)


def _criterion_rows(
    criteria: Sequence[ListedValue], expanded: bool, keep_visible: Collection[str]
) -> Iterator[PlanRow]:
    done = [listed for listed in criteria if not listed.mark and getattr(listed.value, "completed", False)]
    collapsed = [listed for listed in done if len(done) > MAX_DONE and value_name(listed.value) not in keep_visible]
    if collapsed:
        names = [""] + [one_line(value_name(listed.value), 200) for listed in collapsed[:MAX_DONE_NAMES]]
        count = f"{len(collapsed)} done"
        yield PlanRow("done", f"▾ {count}" if expanded else f"▸ {count}" + " · ".join(names))
    hidden = set() if expanded else {id(listed) for listed in collapsed}
    for listed in criteria:
        if id(listed) not in hidden:
            yield PlanRow("criterion", "", "acceptance_criteria", listed)


def _log_rows(entries: Sequence[ListedValue], expanded: bool) -> Iterator[PlanRow]:
    if not entries:
        return
    newest = max((when for entry in entries if (when := getattr(entry.value, "when", None))), default=None)
    yield PlanRow("gap")
    yield PlanRow("heading", "Log")
    for entry in reversed(entries[-RECENT_ENTRIES:]):
        yield PlanRow("entry", "", "execution_log", entry, newest)
    if older := entries[:-RECENT_ENTRIES]:
        yield PlanRow("older", ("▾ " if expanded else "▸ ") + f"{len(older)} earlier")
        if expanded:
            for entry in reversed(older):
                yield PlanRow("old", "", "execution_log", entry, newest)


def _custom_rows(section: CustomSection) -> Iterator[PlanRow]:
    yield PlanRow("gap")
    yield PlanRow("heading", section.title)
    for text in section.lines[:MAX_CUSTOM_LINES]:
        yield PlanRow("custom", text) if text.strip() else PlanRow("gap")
    if len(section.lines) > MAX_CUSTOM_LINES:
        yield PlanRow("custom", f"… {len(section.lines) - MAX_CUSTOM_LINES} more lines in plan_doc.md")


# --- painting ---------------------------------------------------------------------------------------


@lru_cache(2_000)
def plan_row_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    """Paint a row; returns at least one line."""
    match row.kind:
        case "gap":
            return [line()]
        case "heading":
            return [line((fit(row.text, width), styles.muted + styles.strong.without_color))]
        case "message":
            return wrap([(row.text[:MAX_VALUE_CHARACTERS], styles.muted)], width)
        case "custom":
            return _capped(wrap([(row.text[:MAX_VALUE_CHARACTERS], styles.muted)], width), styles)
        case "done" | "older":
            return [line((fit(row.text, width), styles.muted))]
        case "goal":
            return _goal_lines(row, width, styles)
        case "step":
            return _step_lines(row, width, styles)
        case "criterion":
            return _criterion_lines(row, width, styles)
        case "decision":
            return _decision_lines(row, width, styles)
        case _:
            return _entry_lines(row, width, styles)


def is_single_line(row: PlanRow, width: int) -> bool:
    """Return True if the row certainly has one line, without painting it."""
    if row.kind in ("gap", "heading", "old", *GROUPS):
        return True
    if row.kind != "criterion" or row.value.notes:
        return False
    text = value_name(row.value)
    return len(text) + 2 + len(MARKS[row.mark]) <= width and text.isascii() and "\n" not in text


def _capped(lines: list[Line], styles: TextStyles, limit: int = MAX_ROW_LINES) -> list[Line]:
    return lines if len(lines) <= limit else [*lines[: limit - 1], line(("…", styles.muted))]


def _marked_lines(row: PlanRow, symbol: Span, spans: Sequence[Span], width: int, styles: TextStyles) -> list[Line]:
    """Paint the proposed change and a symbol, followed by text with a hanging indent."""
    head: list[Span] = [(MARKS[row.mark], styles.warn), symbol]
    inset = width_of(head)
    lines = _capped(wrap(spans, max(4, width - inset)), styles)
    return indent(lines, [span for span in head if span[0]], [(" " * inset, styles.text)]) if inset else lines


def _text_style(row: PlanRow, styles: TextStyles, unmarked: Style) -> Style:
    if row.mark == "removed":
        return styles.struck
    return styles.warn if row.mark else unmarked


def _goal_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    style = styles.warn + styles.strong.without_color if row.mark else styles.strong if row.text else styles.muted
    text = row.text[:MAX_VALUE_CHARACTERS] or row.placeholder
    return _marked_lines(row, ("", styles.text), [(text, style)], width, styles)


def _step_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    assert row.step is not None
    step = row.step
    symbol, role = WORDS.call_symbols[step.status]
    number = f"{step.number} " if step.number else ""
    spans: list[Span] = [(plain_title(row.text) or "step", styles.text if step.status == "running" else styles.muted)]
    if step.ms >= SHORT:
        spans.append((f"  {format_duration(step.ms)}", styles.muted))
    head: Span = (f"{symbol} ", getattr(styles, role))
    return _marked_lines(row, head, [(number, styles.muted), *spans], width, styles)


def _criterion_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    done, notes = row.value.completed, row.value.notes[:MAX_VALUE_CHARACTERS]
    open_style = _text_style(row, styles, styles.muted)
    symbol: Span = ("✓ ", styles.warn if row.mark else styles.ok) if done else ("○ ", open_style)
    style = open_style if done else _text_style(row, styles, styles.text)
    spans: list[Span] = [(row.value.description[:MAX_VALUE_CHARACTERS], style)]
    if notes:
        spans.append((f"  {notes}", styles.muted + styles.emphasis.without_color))
    return _marked_lines(row, symbol, spans, width, styles)


def _decision_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    made, why = row.section == "decisions_made", row.value.rationale[:MAX_VALUE_CHARACTERS]
    symbol = ("• ", styles.accent) if made else ("× ", styles.muted)
    style = _text_style(row, styles, styles.text if made else styles.struck)
    spans: list[Span] = [(row.value.title[:MAX_VALUE_CHARACTERS], style)]
    if why:
        spans.append((f" — {why}", styles.muted))
    return _marked_lines(row, symbol, spans, width, styles)


def _entry_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    action, result = row.value.action, row.value.result
    sign = next((prefix for prefix in RESULTS if result.startswith(prefix)), "")
    symbol, role = RESULTS.get(sign, ("·", "muted"))
    time = time_label(row.value.when, row.newest) if row.value.when is not None else ""
    head: list[Span] = [(MARKS[row.mark], styles.warn), (symbol + " ", getattr(styles, role))]
    inset = width_of(head)
    text = fit(one_line(action, MAX_VALUE_CHARACTERS), max(4, width - inset - len(time) - 1))
    style = _text_style(row, styles, styles.muted if row.kind == "old" else styles.text)
    gap = max(1, width - inset - width_of([(text, style)]) - len(time))
    lines = [line(*head, (text, style), (" " * gap, styles.text), (time, styles.muted))]
    reason = result.removeprefix(sign).strip()[:MAX_VALUE_CHARACTERS]
    if sign in ("❌", "🔄") and reason and row.kind != "old":
        below = wrap([(reason, styles.muted)], max(4, width - inset))
        lines += indent(_capped(below, styles, MAX_ROW_LINES - 1), [(" " * inset, styles.text)])
    return lines


def progress_bar(done: int, total: int, width: int, styles: TextStyles) -> Line:
    """Paint the share of met criteria; at least one cell is filled if one is met."""
    full = max(width * done // total, 1) if done else 0
    return line(("━" * full, styles.ok if done == total else styles.accent), ("━" * (width - full), styles.faint))


def plan_head_lines(
    content: PlanContent, state: tuple[str, str, str], width: int, styles: TextStyles, *, focused: bool = False
) -> list[Line]:
    """Paint the `state` of the work, progress and the number of proposed changes.

    `focused` shows the keys that decide on the proposal, otherwise the key that leads to the panel.
    """
    plan = content.plan
    symbol, role, words = state
    right = f"{plan.completed}/{len(plan.acceptance_criteria)}" if plan.acceptance_criteria else ""
    left: list[Span] = [("Plan  ", styles.heading), (f"{symbol} {words}", getattr(styles, role))]
    lines = [justified_line(left, [(right, styles.text)], width, styles)]
    if plan.acceptance_criteria:
        lines.append(progress_bar(plan.completed, len(plan.acceptance_criteria), width, styles))
    if content.change_count:
        spans: list[Span] = [(f"{content.change_count} proposed", styles.warn)]
        hints = [(caret_label(key), text) for key, text in KEYS.hints([("accept", "accept"), ("discard", "discard")])]
        for key, text in hints if focused else [(key_of("plan"), "decide")]:
            spans += [("  ", styles.text), (key, styles.accent), (f"\N{NO-BREAK SPACE}{text}", styles.muted)]
        lines += wrap(spans, width)
    return [*lines, line()]


class PlanList(TakesLetters, ListView[PlanRow]):
    """The rows, with a cursor. Gets the focus only when the user asks for it."""

    def __init__(self, unhandled_key: Callable[[events.Key], None], *, id: str | None = None) -> None:
        """`unhandled_key` is called with keys that do not move the cursor."""
        super().__init__(self._row_lines, id=id)
        self._unhandled_key = unhandled_key
        self.cursor_moved: Callable[[], None] = lambda: None
        self.activated: Callable[[], None] = lambda: None
        """Called for a click that ticks or expands the current row."""
        self.intercept: Callable[[events.Key], bool] = lambda event: False
        """Called before a key is handled; returns True if it was forwarded to another widget."""
        self.editing = False
        """Whether the current row is being edited: it stays highlighted without the focus."""
        self.expanded: set[Kind] = set()
        self._keep_visible: set[str] = set()
        """Criteria that were visible when they were ticked: they are collapsed when the user leaves."""
        self._content: PlanContent | None = None
        self._run = PlanRun()

    def show(self, content: PlanContent, run: PlanRun) -> None:
        """Show new content and the newest run; the cursor stays on its row."""
        self._run = run
        if self.follows_cursor:
            self._keep_visible |= {row.name[2] for row in self.rows if row.kind == "criterion"}
        self._content = content
        self._update_rows()

    def _update_rows(self) -> None:
        if self._content is None:
            return
        current, near = self.current, self.cursor
        keep_visible = () if "done" in self.expanded else self._keep_visible
        rows = plan_rows(self._content, run=self._run, expanded=self.expanded, keep_visible=keep_visible)
        same = [index for index, row in enumerate(rows) if current is not None and row.name == current.name]
        stops = same or [index for index, row in enumerate(rows) if row.selectable]
        self.set_rows(rows, min(stops, key=lambda index: abs(index - near), default=0))

    def select(self, name: tuple[str, str, str]) -> None:
        """Move the cursor to the row with this name, if it exists."""
        index = next((index for index, row in enumerate(self.rows) if row.name == name), None)
        if index is not None:
            self._go_to(index)

    # --- lines ---

    def selectable(self, row: PlanRow) -> bool:
        """See ListView."""
        return row.selectable

    @property
    def follows_cursor(self) -> bool:
        """Whether the user is in the panel; otherwise it does not scroll."""
        return self.has_focus or self.editing

    def row_height(self, row: PlanRow, width: int) -> int:
        """See ListView."""
        single = is_single_line(row, width) or not self.is_attached
        return 1 if single else len(plan_row_lines(row, width, self.text_styles))

    def on_resize(self) -> None:
        """While a row is edited, scroll to the top: the next layout shows the cursor at its usual place."""
        if self.editing:
            self.scroll_to(y=0, animate=False, immediate=True)

    def _row_lines(self, row: PlanRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        lines = plan_row_lines(row, width, styles)
        if not (selected and row.selectable and self.follows_cursor):
            return lines
        return [
            highlighted_line([(segment.text, segment.style or styles.text) for segment in painted.segments], styles)
            for painted in lines
        ]

    # --- keys ---

    def holds(self, event: events.Key) -> bool:
        """Return whether a key is a character that changes the plan if it stands alone."""
        return event.is_printable and not self.editing and KEYS.action_for(event) in CHANGES

    def take_text(self, event: events.Key) -> None:
        """Return to the composer with a typed character."""
        self.post_message(self.Left(event.character or "\n"))

    def on_key(self, event: events.Key) -> None:
        """Move the cursor, or pass the key to the panel."""
        if self.intercept(event) or (not self.editing and self.move_for(KEYS.action_for(event))):
            pass
        elif event.key in ("tab", "shift+tab"):
            return
        else:
            self._unhandled_key(event)
        event.stop()
        event.prevent_default()

    def move(self, by: int) -> None:
        """Move the cursor by a number of selectable rows; at either end, scroll on to the rows around them."""
        stops = [index for index, row in enumerate(self.rows) if row.selectable]
        if not stops:
            return
        place = stops.index(self.cursor) if self.cursor in stops else 0
        target = max(0, min(len(stops) - 1, place + by))
        self._go_to(stops[target])
        if target == place and by:
            self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def _go_to(self, index: int) -> None:
        self.move_to(index)
        self.show_cursor()
        self.cursor_moved()

    def toggle(self, group: Kind) -> None:
        """Expand or collapse a group."""
        self.expanded ^= {group}
        if group == "done":
            self._keep_visible.clear()
        self._update_rows()

    def collapse_done(self) -> None:
        """Collapse the criteria that were ticked since the user came here."""
        if self._keep_visible:
            self._keep_visible.clear()
            self._update_rows()

    def on_list_view_clicked(self, message: ListView.Clicked) -> None:
        """Select the row; a click on the box of a criterion or on a group also activates it."""
        message.stop()
        row = self.rows[message.index]
        if row.selectable:
            self.take_focus()
            self._go_to(message.index)
            if row.kind in GROUPS or (row.kind == "criterion" and message.x < 2):
                self.activated()

"""The rows of the plan panel: which there are, and how each is painted. Pure: a reading and a width in, lines out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from rich.style import Style
from textual import events

from tui_agent.keys.key_names import caret_label
from tui_agent.keys.keymap import key_of
from tui_agent.text import one_line
from widgets.dialog_keys import Keys
from widgets.line_view import ListView
from widgets.plan_document import ListedValue, ListName, Mark, OwnSection, PlanReading, Value
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
    "gap", "head", "text", "goal", "done", "criterion", "decision", "entry", "old", "older", "own"
]
FOLDS: tuple[Kind, ...] = ("done", "older")
"""Rows that stand for others, and open."""

KEYS = Keys("plan")
FINISHED = 5
"""Criteria that are done and stand among the others; more of them are folded."""
NAMED = 8
"""Of those that are folded, how many are named at most."""
RECENT = 10
"""Log entries that are shown; older ones are folded (P5's number)."""
TALLEST = 6
"""Lines that one row takes at most."""
LONG = 2_000
"""Characters of one value that are laid out."""
OWN_LINES = 200
"""Lines of a reader's own section that are shown."""

RESULTS = {"✓": ("✓", "ok"), "🔄": ("●", "accent"), "❌": ("✗", "bad")}
"""What a result begins with → how it is shown."""
DECISIONS: tuple[ListName, ListName] = ("decisions_made", "decisions_rejected")
MARKS: dict[Mark, str] = {"": "", "added": "+ ", "changed": "~ ", "removed": "− "}


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One row; several lines where its text is long."""

    kind: Kind
    text: str = ""
    section: ListName | None = None
    seen: ListedValue | None = None
    newest: datetime | None = None
    """For log entries: the day that needs no date."""
    noted: Mark = ""
    """What is proposed about a row that stands for no value of a list."""

    @property
    def value(self) -> Any:
        """The value that it shows; None for a row that stands for none."""
        return self.seen.value if self.seen is not None else None

    @property
    def selectable(self) -> bool:
        """True for what the cursor stops at."""
        return self.kind in ("goal", "criterion", "decision", "entry", "old", *FOLDS)

    @property
    def mark(self) -> Mark:
        """What is proposed about it."""
        return self.seen.mark if self.seen is not None else self.noted

    @property
    def name(self) -> tuple[str, str, str]:
        """By what the cursor finds it again in another reading."""
        return self.kind, self.section or "", caption(self.value)


def caption(value: Value) -> str:
    """What an entry of a list is called."""
    for field in ("description", "title", "action"):
        if (text := getattr(value, field, None)) is not None:
            return str(text)
    return ""


def plan_rows(reading: PlanReading, *, unfolded: Collection[Kind] = (), kept: Collection[str] = ()) -> list[PlanRow]:
    """All rows from the top; what is folded too if it is in `unfolded`. Criteria called as in `kept` are not folded."""
    result = list(_goal(reading))
    if criteria := reading.lists["acceptance_criteria"]:
        result += [PlanRow("gap"), *_criteria(criteria, "done" in unfolded, kept)]
    made, rejected = (reading.lists[name] for name in DECISIONS)
    if made or rejected:
        result += [PlanRow("gap"), PlanRow("head", "Decisions")]
        result += [PlanRow("decision", "", "decisions_made", decision) for decision in made]
        result += [PlanRow("decision", "", "decisions_rejected", decision) for decision in rejected]
    result += _log(reading.lists["execution_log"], "older" in unfolded)
    for own in reading.own:
        result += _own(own)
    return result


def _goal(reading: PlanReading) -> Iterator[PlanRow]:
    if reading.problem:
        yield PlanRow("text", f"plan_doc.md can't be read as a plan: {reading.problem}")
        yield PlanRow("gap")
    saved, wanted = reading.saved.goal, reading.plan.goal
    if saved == wanted and reading.empty:
        yield PlanRow("text", "No plan yet.")
    yield PlanRow("goal", wanted, noted="" if saved == wanted else "changed" if saved else "added")


def _criteria(criteria: Sequence[ListedValue], unfolded: bool, kept: Collection[str]) -> Iterator[PlanRow]:
    done = [criterion for criterion in criteria if not criterion.mark and getattr(criterion.value, "completed", False)]
    old = (
        {id(criterion) for criterion in done if caption(criterion.value) not in kept} if len(done) > FINISHED else set()
    )
    if old:
        names = [one_line(caption(criterion.value), 200) for criterion in done if id(criterion) in old][:NAMED]
        said = "" if unfolded else " · " + " · ".join(names)
        yield PlanRow("done", ("▾" if unfolded else "▸") + f" {len(old)} done{said}")
    for criterion in criteria:
        if unfolded or id(criterion) not in old:
            yield PlanRow("criterion", "", "acceptance_criteria", criterion)


def _log(entries: Sequence[ListedValue], unfolded: bool) -> Iterator[PlanRow]:
    if not entries:
        return
    newest = max((when for entry in entries if (when := getattr(entry.value, "when", None))), default=None)
    yield PlanRow("gap")
    yield PlanRow("head", "Log")
    recent = entries[-RECENT:]
    for entry in reversed(recent):
        yield PlanRow("entry", "", "execution_log", entry, newest)
    if older := entries[: -len(recent)]:
        yield PlanRow("older", ("▾ " if unfolded else "▸ ") + f"{len(older)} earlier")
        if unfolded:
            for entry in reversed(older):
                yield PlanRow("old", "", "execution_log", entry, newest)


def _own(own: OwnSection) -> Iterator[PlanRow]:
    yield PlanRow("gap")
    yield PlanRow("head", own.title)
    for text in own.lines[:OWN_LINES]:
        yield PlanRow("own", text) if text.strip() else PlanRow("gap")
    if len(own.lines) > OWN_LINES:
        yield PlanRow("own", f"… {len(own.lines) - OWN_LINES} more lines in plan_doc.md")


# --- painting ---------------------------------------------------------------------------------------


@lru_cache(2_000)
def plan_row_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    """The lines of one row; at least one."""
    match row.kind:
        case "gap":
            return [line()]
        case "head":
            return [line((fit(row.text, width), styles.muted + styles.strong.without_color))]
        case "text":
            return wrap([(row.text[:LONG], styles.muted)], width)
        case "own":
            return _capped(wrap([(row.text[:LONG], styles.muted)], width), styles)
        case "done" | "older":
            return [line((fit(row.text, width), styles.muted))]
        case "goal":
            return _goal_lines(row, width, styles)
        case "criterion":
            return _criterion(row, width, styles)
        case "decision":
            return _decision(row, width, styles)
        case _:
            return _entry(row, width, styles)


def _goal_lines(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    said: Span = (row.text[:LONG], styles.strong) if row.text else ("no goal yet", styles.muted)
    if not row.mark:
        return _capped(wrap([said], width), styles)
    lead = MARKS[row.mark]
    bold = styles.warn + styles.strong.without_color
    lines = _capped(wrap([(said[0], bold)], max(4, width - len(lead))), styles)
    return indent(lines, [(lead, styles.warn)], [(" " * len(lead), styles.text)])


def is_single_line(row: PlanRow, width: int) -> bool:
    """True for a row that takes one line for sure, so that it need not be painted to know."""
    if row.kind in ("gap", "head", "old", *FOLDS):
        return True
    if row.kind != "criterion" or row.value.notes:
        return False
    text = caption(row.value)
    return len(text) + 2 + len(MARKS[row.mark]) <= width and text.isascii() and "\n" not in text


def _capped(lines: list[Line], styles: TextStyles, most: int = TALLEST) -> list[Line]:
    return lines if len(lines) <= most else [*lines[: most - 1], line(("…", styles.muted))]


def _hung(symbol: tuple[str, Style], spans: Sequence[Span], row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    """Text hanging beside a symbol, and before that what is proposed about it."""
    plan_head_lines: list[Span] = [(MARKS[row.mark], styles.warn), (symbol[0] + " ", symbol[1])]
    rest = [(" " * width_of(plan_head_lines), styles.text)]
    return indent(_capped(wrap(spans, max(4, width - width_of(plan_head_lines))), styles), plan_head_lines, rest)


def _tone(row: PlanRow, styles: TextStyles, usual: Style) -> Style:
    if row.mark == "removed":
        return styles.struck
    return styles.warn if row.mark else usual


def _criterion(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    done = row.value.completed
    text, notes = row.value.description[:LONG], row.value.notes[:LONG]
    symbol = ("✓", styles.ok if not row.mark else styles.warn) if done else ("○", _tone(row, styles, styles.muted))
    spans: list[Span] = [(text, _tone(row, styles, styles.muted if done else styles.text))]
    if notes:
        spans.append((f"  {notes}", styles.muted + styles.emphasis.without_color))
    return _hung(symbol, spans, row, width, styles)


def _decision(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    made = row.section == "decisions_made"
    title, why = row.value.title[:LONG], row.value.rationale[:LONG]
    symbol = ("•", styles.accent) if made else ("×", styles.muted)
    spans: list[Span] = [(title, _tone(row, styles, styles.text if made else styles.struck))]
    if why:
        spans.append((f" — {why}", styles.muted))
    return _hung(symbol, spans, row, width, styles)


def _entry(row: PlanRow, width: int, styles: TextStyles) -> list[Line]:
    action, result = row.value.action, row.value.result
    sign = next((prefix for prefix in RESULTS if result.startswith(prefix)), "")
    symbol, role = RESULTS.get(sign, ("·", "muted"))
    when = _when(row.value.when, row.newest)
    plan_head_lines: list[Span] = [(MARKS[row.mark], styles.warn), (symbol + " ", getattr(styles, role))]
    room = max(4, width - width_of(plan_head_lines) - len(when) - 1)
    shown = fit(one_line(action, LONG), room)
    tone = _tone(row, styles, styles.muted if row.kind == "old" else styles.text)
    gap = max(1, width - width_of(plan_head_lines) - width_of([(shown, tone)]) - len(when))
    lines = [line(*plan_head_lines, (shown, tone), (" " * gap, styles.text), (when, styles.muted))]
    said = result.removeprefix(sign).strip()
    if sign in ("❌", "🔄") and said and row.kind != "old":
        below = (" " * width_of(plan_head_lines), styles.text)
        told = wrap([(said[:LONG], styles.muted)], max(4, width - width_of(plan_head_lines)))
        lines += indent(_capped(told, styles, TALLEST - 1), [below])
    return lines


def _when(when: datetime | None, newest: datetime | None) -> str:
    if when is None:
        return ""
    if newest is not None and when.date() == newest.date():
        return f"{when:%H:%M}"
    return f"{when:%d %b}".lstrip("0")


def progress_bar(done: int, of: int, width: int, styles: TextStyles) -> Line:
    """How far it is."""
    full = width * done // of if of else 0
    full = max(full, 1) if done else full
    return line(("━" * full, styles.ok if done == of else styles.accent), ("━" * (width - full), styles.faint))


def plan_head_lines(reading: PlanReading, width: int, styles: TextStyles, *, deciding: bool = False) -> list[Line]:
    """Status and progress; a proposal that waits, with the keys that decide it or the one that leads to them."""
    plan = reading.plan
    symbol, role, words = WORDS.plan_states.get(str(plan.status), WORDS.plan_states["planning"])
    right = f"{plan.completed}/{len(plan.acceptance_criteria)}" if plan.acceptance_criteria else ""
    left: list[Span] = [("Plan  ", styles.heading), (f"{symbol} {words}", getattr(styles, role))]
    lines = [justified_line(left, [(right, styles.text)], width, styles)]
    if plan.acceptance_criteria:
        lines.append(progress_bar(plan.completed, len(plan.acceptance_criteria), width, styles))
    if reading.proposed:
        spans: list[Span] = [(f"{reading.proposed} proposed", styles.warn)]
        decide = [
            (caret_label(key), does) for key, does in KEYS.hints((action, action) for action in ("accept", "discard"))
        ]
        for key, does in decide if deciding else [(key_of("plan"), "decide")]:
            spans += [("  ", styles.text), (key, styles.accent), (f"\N{NO-BREAK SPACE}{does}", styles.muted)]
        lines += wrap(spans, width)
    return [*lines, line()]


class PlanList(ListView[PlanRow]):
    """A cursor over what can be ticked, edited or opened. It has the focus only after the user asked for it."""

    def __init__(self, pressed: Callable[[events.Key], None], *, id: str | None = None) -> None:
        """`pressed` takes every key that is not about moving."""
        super().__init__(self._row_lines, id=id)
        self.pressed = pressed
        self.moved: Callable[[], None] = lambda: None
        """Told when the cursor has gone elsewhere."""
        self.clicked: Callable[[], None] = lambda: None
        """Told of a click that ticks or opens the chosen row."""
        self.passes: Callable[[events.Key], bool] = lambda event: False
        """True for a key that goes elsewhere."""
        self.held = False
        """True while the chosen row is edited elsewhere: it stays marked."""
        self.unfolded: set[Kind] = set()
        """Of the folds, those that are open."""
        self._kept: set[str] = set()
        """Criteria that the user had in sight when they were done: they are folded once he has left."""
        self._reading: PlanReading | None = None

    def show(self, reading: PlanReading) -> None:
        """Show another reading; the cursor stays at what it was at."""
        if self.follows_cursor:
            self._kept |= {row.name[2] for row in self.rows if row.kind == "criterion"}
        self._show(reading)

    def _show(self, reading: PlanReading) -> None:
        self._reading = reading
        kept = () if "done" in self.unfolded else self._kept
        rows, chosen, near = plan_rows(reading, unfolded=self.unfolded, kept=kept), self.current, self.cursor
        same = [at for at, row in enumerate(rows) if chosen is not None and row.name == chosen.name]
        stops = same or [at for at, row in enumerate(rows) if row.selectable]
        self.set_rows(rows, min(stops, key=lambda at: abs(at - near), default=0))

    def select(self, name: tuple[str, str, str]) -> None:
        """Put the cursor at the row of that name, if there is one."""
        index = next((at for at, row in enumerate(self.rows) if row.name == name), None)
        if index is not None:
            self._go(index)

    # --- lines ---

    def selectable(self, row: PlanRow) -> bool:
        """See ListView."""
        return row.selectable

    @property
    def follows_cursor(self) -> bool:
        """While the user is here; otherwise the view stays."""
        return self.has_focus or self.held

    def row_height(self, row: PlanRow, width: int) -> int:
        """See ListView."""
        known = is_single_line(row, width) or not self.is_attached
        return 1 if known else len(plan_row_lines(row, width, self.text_styles))

    def on_resize(self) -> None:
        """While a row is edited it comes to the same place whenever the room for it is known."""
        if self.held:
            self.scroll_to(y=0, animate=False, immediate=True)

    def _row_lines(self, row: PlanRow, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        lines = plan_row_lines(row, width, styles)
        if not (selected and row.selectable and self.follows_cursor):
            return lines
        spans = ([(segment.text, segment.style or styles.text) for segment in found.segments] for found in lines)
        return [highlighted_line(row_spans, styles) for row_spans in spans]

    # --- moving ---

    def on_key(self, event: events.Key) -> None:
        """Move; everything else is for the panel."""
        if self.passes(event) or (not self.held and self.move_for(KEYS.action_for(event))):
            pass
        elif event.key in ("tab", "shift+tab"):
            return
        else:
            self.pressed(event)
        event.stop()
        event.prevent_default()

    def move(self, by: int) -> None:
        """Move the cursor by so many selectable rows; at either end the rest comes into view."""
        places = [at for at, row in enumerate(self.rows) if row.selectable]
        if not places:
            return
        here = places.index(self.cursor) if self.cursor in places else 0
        there = max(0, min(len(places) - 1, here + by))
        self._go(places[there])
        if there == here and by:
            self.scroll_to(y=self.scroll_offset.y + by, animate=False)

    def _go(self, index: int) -> None:
        self.move_to(index)
        self.show_cursor()
        self.moved()

    def toggle(self, kind: Kind) -> None:
        """Open or close what is folded."""
        self.unfolded ^= {kind}
        if kind == "done":
            self._kept.clear()
        if self._reading is not None:
            self._show(self._reading)

    def fold(self) -> None:
        """Nobody looks any more: what was done meanwhile goes to the others that are."""
        if self._kept and self._reading is not None:
            self._kept.clear()
            self._show(self._reading)

    def on_list_view_clicked(self, message: ListView.Clicked) -> None:
        """Go there; the box of a criterion is ticked, what is folded opens."""
        message.stop()
        row = self.rows[message.index]
        if row.selectable:
            self.take_focus()
            self._go(message.index)
            if row.kind in FOLDS or (row.kind == "criterion" and message.x < 2):
                self.clicked()

"""The rows of the plan panel: which there are, and how each is painted. Pure: a reading and a width in, lines out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from rich.style import Style

from tui_agent.key_names import hat
from tui_agent.keymap import key_of
from tui_agent.text import one_line
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, fit, indent, line, width_of, wrap
from widgets.plan_reading import ListName, Mark, Own, Reading, Sighted, Value

Kind: TypeAlias = Literal[
    "gap", "head", "text", "goal", "done", "criterion", "decision", "entry", "old", "older", "own"
]
FOLDS: tuple[Kind, ...] = ("done", "older")
"""Rows that stand for others, and open."""

KEYS = Keys("plan")
FINISHED = 5
"""Criteria that are done and stand among the others; more of them are folded (R19.4)."""
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

STATES = {
    "planning": ("○", "muted", "planning"),
    "in_progress": ("●", "accent", "in progress"),
    "blocked": ("■", "warn", "blocked"),
    "completed": ("✓", "ok", "completed"),
    "failed": ("✗", "bad", "failed"),
}
RESULTS = {"✓": ("✓", "ok"), "🔄": ("●", "accent"), "❌": ("✗", "bad")}
"""What a result begins with → how it is shown."""
DECISIONS: tuple[ListName, ListName] = ("decisions_made", "decisions_rejected")
MARKS: dict[Mark, str] = {"": "", "added": "+ ", "changed": "~ ", "removed": "− "}


@dataclass(frozen=True, slots=True)
class Row:
    """One row; several lines where its text is long."""

    kind: Kind
    text: str = ""
    section: ListName | None = None
    seen: Sighted | None = None
    newest: datetime | None = None
    """For log entries: the day that needs no date."""
    noted: Mark = ""
    """What is proposed about a row that stands for no value of a list."""

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
        return self.kind, self.section or "", caption(self.seen.value) if self.seen is not None else ""


def caption(value: Value) -> str:
    """What an entry of a list is called."""
    for field in ("description", "title", "action"):
        if (text := getattr(value, field, None)) is not None:
            return str(text)
    return ""


def rows(reading: Reading, *, unfolded: Collection[Kind] = (), kept: Collection[str] = ()) -> list[Row]:
    """All rows from the top; what is folded too if it is in `unfolded`. Criteria called as in `kept` are not folded."""
    result = list(_goal(reading))
    if criteria := reading.lists["acceptance_criteria"]:
        result += [Row("gap"), *_criteria(criteria, "done" in unfolded, kept)]
    made, rejected = (reading.lists[name] for name in DECISIONS)
    if made or rejected:
        result += [Row("gap"), Row("head", "Decisions")]
        result += [Row("decision", "", "decisions_made", one) for one in made]
        result += [Row("decision", "", "decisions_rejected", one) for one in rejected]
    result += _log(reading.lists["execution_log"], "older" in unfolded)
    for own in reading.own:
        result += _own(own)
    return result


def _goal(reading: Reading) -> Iterator[Row]:
    if reading.problem:
        yield Row("text", f"plan_doc.md can't be read as a plan: {reading.problem}")
        yield Row("gap")
    saved, wanted = reading.saved.goal, reading.plan.goal
    if saved != wanted:
        yield Row("goal", wanted, noted="changed" if saved else "added")
    elif wanted:
        yield Row("goal", wanted)
    elif reading.empty:
        yield Row("text", "Nothing is planned yet.")
        yield Row("goal")
    else:
        yield Row("goal")


def _criteria(criteria: Sequence[Sighted], unfolded: bool, kept: Collection[str]) -> Iterator[Row]:
    done = [one for one in criteria if not one.mark and getattr(one.value, "completed", False)]
    old = {id(one) for one in done if caption(one.value) not in kept} if len(done) > FINISHED else set()
    if old:
        names = [one_line(caption(one.value), 200) for one in done if id(one) in old][:NAMED]
        said = "" if unfolded else " · " + " · ".join(names)
        yield Row("done", ("▾" if unfolded else "▸") + f" {len(old)} done{said}")
    for one in criteria:
        if unfolded or id(one) not in old:
            yield Row("criterion", "", "acceptance_criteria", one)


def _log(entries: Sequence[Sighted], unfolded: bool) -> Iterator[Row]:
    if not entries:
        return
    newest = max((when for one in entries if (when := getattr(one.value, "when", None))), default=None)
    yield Row("gap")
    yield Row("head", "Log")
    recent = entries[-RECENT:]
    for one in reversed(recent):
        yield Row("entry", "", "execution_log", one, newest)
    if older := entries[: -len(recent)]:
        yield Row("older", ("▾ " if unfolded else "▸ ") + f"{len(older)} earlier")
        if unfolded:
            for one in reversed(older):
                yield Row("old", "", "execution_log", one, newest)


def _own(own: Own) -> Iterator[Row]:
    yield Row("gap")
    yield Row("head", own.title)
    for text in own.lines[:OWN_LINES]:
        yield Row("own", text) if text.strip() else Row("gap")
    if len(own.lines) > OWN_LINES:
        yield Row("own", f"… {len(own.lines) - OWN_LINES} more lines in plan_doc.md")


# --- painting ---------------------------------------------------------------------------------------


def paint(row: Row, width: int, ink: Ink) -> list[Line]:
    """The lines of one row; at least one."""
    match row.kind:
        case "gap":
            return [line()]
        case "head":
            return [line((fit(row.text, width), ink.muted + ink.strong.without_color))]
        case "text":
            return wrap([(row.text[:LONG], ink.muted)], width)
        case "own":
            return _capped(wrap([(row.text[:LONG], ink.muted)], width), ink)
        case "done" | "older":
            return [line((fit(row.text, width), ink.muted))]
        case "goal":
            return _goal_lines(row, width, ink)
        case "criterion":
            return _criterion(row, width, ink)
        case "decision":
            return _decision(row, width, ink)
        case _:
            return _entry(row, width, ink)


def _goal_lines(row: Row, width: int, ink: Ink) -> list[Line]:
    said: Span = (row.text[:LONG], ink.strong) if row.text else ("no goal yet", ink.muted)
    if not row.mark:
        return _capped(wrap([said], width), ink)
    lead = MARKS[row.mark]
    bold = ink.warn + ink.strong.without_color
    lines = _capped(wrap([(said[0], bold)], max(4, width - len(lead))), ink)
    return indent(lines, [(lead, ink.warn)], [(" " * len(lead), ink.text)])


def single(row: Row, width: int) -> bool:
    """True for a row that takes one line for sure, so that it need not be painted to know."""
    if row.kind in ("gap", "head", "old", *FOLDS):
        return True
    if row.kind != "criterion" or row.seen is None or getattr(row.seen.value, "notes", None):
        return False
    text = caption(row.seen.value)
    return len(text) + 2 + len(MARKS[row.mark]) <= width and text.isascii() and "\n" not in text


def _capped(lines: list[Line], ink: Ink, most: int = TALLEST) -> list[Line]:
    return lines if len(lines) <= most else [*lines[: most - 1], line(("…", ink.muted))]


def _hung(symbol: tuple[str, Style], spans: Sequence[Span], row: Row, width: int, ink: Ink) -> list[Line]:
    """Text hanging beside a symbol, and before that what is proposed about it."""
    head: list[Span] = [(MARKS[row.mark], ink.warn), (symbol[0] + " ", symbol[1])]
    rest = [(" " * width_of(head), ink.text)]
    return indent(_capped(wrap(spans, max(4, width - width_of(head))), ink), head, rest)


def _tone(row: Row, ink: Ink, usual: Style) -> Style:
    if row.mark == "removed":
        return ink.struck
    return ink.warn if row.mark else usual


def _criterion(row: Row, width: int, ink: Ink) -> list[Line]:
    value = row.seen.value if row.seen is not None else None
    done = bool(getattr(value, "completed", False))
    text, notes = str(getattr(value, "description", ""))[:LONG], str(getattr(value, "notes", ""))[:LONG]
    symbol = ("✓", ink.ok if not row.mark else ink.warn) if done else ("○", _tone(row, ink, ink.muted))
    spans: list[Span] = [(text, _tone(row, ink, ink.muted if done else ink.text))]
    if notes:
        spans.append((f"  {notes}", ink.muted + ink.emphasis.without_color))
    return _hung(symbol, spans, row, width, ink)


def _decision(row: Row, width: int, ink: Ink) -> list[Line]:
    value = row.seen.value if row.seen is not None else None
    made = row.section == "decisions_made"
    title, why = str(getattr(value, "title", ""))[:LONG], str(getattr(value, "rationale", ""))[:LONG]
    symbol = ("•", ink.accent) if made else ("×", ink.muted)
    spans: list[Span] = [(title, _tone(row, ink, ink.text if made else ink.struck))]
    if why:
        spans.append((f" — {why}", ink.muted))
    return _hung(symbol, spans, row, width, ink)


def _entry(row: Row, width: int, ink: Ink) -> list[Line]:
    value = row.seen.value if row.seen is not None else None
    action, result = str(getattr(value, "action", "")), str(getattr(value, "result", ""))
    sign = next((one for one in RESULTS if result.startswith(one)), "")
    symbol, role = RESULTS.get(sign, ("·", "muted"))
    when = _when(getattr(value, "when", None), row.newest)
    head: list[Span] = [(MARKS[row.mark], ink.warn), (symbol + " ", getattr(ink, role))]
    room = max(4, width - width_of(head) - len(when) - 1)
    shown = fit(one_line(action, LONG), room)
    tone = _tone(row, ink, ink.muted if row.kind == "old" else ink.text)
    gap = max(1, width - width_of(head) - width_of([(shown, tone)]) - len(when))
    lines = [line(*head, (shown, tone), (" " * gap, ink.text), (when, ink.muted))]
    said = result.removeprefix(sign).strip()
    if sign in ("❌", "🔄") and said and row.kind != "old":
        below = (" " * width_of(head), ink.text)
        told = wrap([(said[:LONG], ink.muted)], max(4, width - width_of(head)))
        lines += indent(_capped(told, ink, TALLEST - 1), [below])
    return lines


def _when(when: datetime | None, newest: datetime | None) -> str:
    if when is None:
        return ""
    if newest is not None and when.date() == newest.date():
        return f"{when:%H:%M}"
    return f"{when:%d %b}".lstrip("0")


def bar(done: int, of: int, width: int, ink: Ink) -> Line:
    """How far it is."""
    full = width * done // of if of else 0
    full = max(full, 1) if done else full
    return line(("━" * full, ink.ok if done == of else ink.accent), ("━" * (width - full), ink.faint))


def head(reading: Reading, width: int, ink: Ink, *, deciding: bool = False) -> list[Line]:
    """Status and progress; a proposal that waits, with the keys that decide it or the one that leads to them."""
    plan = reading.plan
    symbol, role, words = STATES.get(str(plan.status), STATES["planning"])
    right = f"{plan.completed}/{len(plan.acceptance_criteria)}" if plan.acceptance_criteria else ""
    left: list[Span] = [("Plan  ", ink.heading), (f"{symbol} {words}", getattr(ink, role))]
    gap = max(1, width - width_of(left) - len(right))
    lines = [line(*left, (" " * gap, ink.text), (right, ink.text))]
    if plan.acceptance_criteria:
        lines.append(bar(plan.completed, len(plan.acceptance_criteria), width, ink))
    if reading.proposed:
        spans: list[Span] = [(f"{reading.proposed} proposed", ink.warn)]
        decide = [(hat(key), does) for key, does in KEYS.pairs((one, one) for one in ("accept", "discard"))]
        for key, does in decide if deciding else [(key_of("plan"), "decide")]:
            spans += [("  ", ink.text), (key, ink.accent), (f"\N{NO-BREAK SPACE}{does}", ink.muted)]
        lines += wrap(spans, width)
    return [*lines, line()]

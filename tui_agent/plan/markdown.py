"""Reading plan_doc.md: tolerant, never failing, and remembering where everything stands (P2, P3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan
from tui_agent.plan.grammar import (
    BLANK,
    BOX,
    BULLET,
    CRITERIA,
    DONE_MARKS,
    FIELD,
    FIELDS,
    GOAL,
    ITEM,
    LISTS,
    LOG,
    MADE,
    NAMES,
    PLACEHOLDER,
    REJECTED,
    RULE,
    STATUS,
    TITLE,
    criterion,
    field_value,
    plain,
    read_when,
    section_name,
    split_list,
    status_of,
)
from tui_agent.plan.layout import Front, Heading, commented, fenced, front_matter, headings, split_lines

Value = Criterion | Decision | LogEntry
_OF_ENTRIES = frozenset({"details", "tools", "result"})
_Number = TypeVar("_Number")


class Field(NamedTuple):
    """One field of a decision or log entry: the lines [start, end)."""

    name: str
    start: int
    end: int
    value: str | tuple[str, ...] | datetime | None


class Item(NamedTuple):
    """One value of a list with the lines [start, end) that are its own, up to the next item."""

    start: int
    end: int
    value: Value
    fields: tuple[Field, ...] = ()
    boxed: bool = True
    """Criteria: whether there is a box to tick."""


class Section(NamedTuple):
    """A part of the text under one heading: the lines (head, end)."""

    name: str
    """One of SECTIONS; '' for the reader's own."""
    head: int
    end: int
    items: tuple[Item, ...] = ()
    placeholders: tuple[int, ...] = ()
    text: tuple[int, int] = (0, 0)
    """GOAL: the lines of the goal's text, [start, end)."""


class Document(NamedTuple):
    """A plan with the very text that says it."""

    text: str
    plan: Plan
    raw: list[str]
    lines: list[str]
    front: Front | None
    title: int | None
    status: int | None
    sections: tuple[Section, ...]
    inside: frozenset[int]
    """The lines that belong to code fences."""
    problem: str
    """Why this is not taken for a plan (and so never overwritten, P3); '' when it is one."""

    @property
    def newline(self) -> str:
        """The line end that most lines have."""
        return "\r\n" if 2 * sum(line.endswith("\r\n") for line in self.raw) > len(self.raw) else "\n"


def parse(text: str) -> Document:
    """The plan that `text` says, whatever it looks like; `problem` tells when it hardly looks like one."""
    raw, lines = split_lines(text)
    front = front_matter(lines)
    start = front.end + 1 if front else 0
    inside = fenced(lines, start)
    found = headings(lines, start, inside)
    reader = _Reader(lines, inside, found)
    title, sections = reader.outline(start)
    preamble = range(start, sections[0].head if sections else len(lines))
    status = next((at for at in preamble if at not in inside and STATUS.match(lines[at])), None)
    values = front.values if front else {}
    goals = [goal for one in sections if one.name == GOAL and (goal := reader.goal(one))]
    if not goals and title is not None and not any(one.name == GOAL for one in sections):
        goals = [_title_goal(lines[title])]
    plan = Plan(
        status=status_of(_after(lines, status), values.get("status")),
        goal=goals[0] if goals else "",
        acceptance_criteria=_all(sections, CRITERIA),
        decisions_made=_all(sections, MADE),
        decisions_rejected=_all(sections, REJECTED),
        execution_log=_all(sections, LOG),
        created_at=_number(values, ("createdAt", "created_at"), _milliseconds, 0),
        updated_at=_number(values, ("updatedAt", "updated_at"), _milliseconds, 0),
        version=_number(values, ("version",), int, 1),
    )
    return Document(
        text, plan, raw, lines, front, title, status, sections, inside, _problem(text, front, title, sections)
    )


def _problem(text: str, front: Front | None, title: int | None, sections: Sequence[Section]) -> str:
    if not text.strip("\ufeff \t\r\n"):
        return "it is empty"
    if "\0" in text:
        return "it contains binary data"
    if front is not None:
        return front.problem
    if title is None and not any(one.name for one in sections):
        return "it has neither a title nor a section of a plan"
    return ""


def _all(sections: Sequence[Section], name: str) -> tuple[Any, ...]:
    return tuple(item.value for one in sections if one.name == name for item in one.items)


def _after(lines: Sequence[str], at: int | None) -> str | None:
    match = None if at is None else STATUS.match(lines[at])
    return match.group(1) if match else None


def _number(values: dict[str, Any], names: Sequence[str], read: Callable[[Any], _Number], default: _Number) -> _Number:
    for name in names:
        try:
            return read(values[name])
        except (KeyError, ValueError, TypeError, OverflowError, OSError):
            continue
    return default


def _milliseconds(value: Any) -> int:
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, str) and not value.strip().isdigit():
        return round(datetime.fromisoformat(value.strip()).timestamp() * 1000)
    return int(value)


def _title_goal(line: str) -> str:
    match = TITLE.match(line.lstrip(" #\t").rstrip(BLANK))
    said = match.group(1) if match else ""
    return "" if PLACEHOLDER.fullmatch(said) else plain(said)


class _Reader:
    """Goes over the lines of one text."""

    def __init__(self, lines: list[str], inside: frozenset[int], found: list[Heading]) -> None:
        self.lines = lines
        self.inside = inside
        self.headings = found

    def outline(self, start: int) -> tuple[int | None, tuple[Section, ...]]:
        """The title's line, and the sections."""
        title: int | None = None
        heads: list[tuple[int, str]] = []
        for one in self.headings:
            name = NAMES.get(section_name(one.text), "") if one.level <= 2 else ""
            if one.level > 2 or not (one.spaced or name or not one.text):
                continue
            if one.level == 1 and not name and title is None and not heads:
                title = one.line
            else:
                heads.append((one.line, name))
        thirds = [one for one in self.headings if one.level == 3 and (one.spaced or not one.text)]
        ends = [*(line for line, _ in heads[1:]), len(self.lines)]
        sections = []
        at = 0
        for (head, name), end in zip(heads, ends, strict=False):
            while at < len(thirds) and thirds[at].line < head:
                at += 1
            begin = at
            while at < len(thirds) and thirds[at].line < end:
                at += 1
            sections.append(self._section(name, head, end, thirds[begin:at]))
        return title, tuple(sections)

    def _section(self, name: str, head: int, end: int, thirds: list[Heading]) -> Section:
        if name == GOAL:
            return self._goal_section(head, end)
        if name == CRITERIA:
            return self._criteria(head, end)
        if not name:
            return Section(name, head, end)
        stops = [one.line for one in thirds[1:]] + [end]
        found: list[tuple[int, Value, tuple[Field, ...]]] = []
        for one, stop in zip(thirds, stops, strict=False):
            fields = self._fields(one.line + 1, stop)
            value = _entry(one.text, fields) if name == LOG else _decision(one.text, fields)
            if value is not None:
                found.append((one.line, value, fields))
        ends = [line for line, _, _ in found[1:]] + [end]
        items = tuple(Item(line, stop, value, fields) for (line, value, fields), stop in zip(found, ends, strict=False))
        before = items[0].start if items else end
        return Section(name, head, end, items, self._placeholders(head + 1, before))

    def _placeholders(self, start: int, end: int) -> tuple[int, ...]:
        return tuple(at for at in range(start, end) if PLACEHOLDER.fullmatch(self.lines[at].strip(BLANK)))

    def _goal_section(self, head: int, end: int) -> Section:
        begin, stop = head + 1, end
        while stop > begin and not self.lines[stop - 1].strip(BLANK):
            stop -= 1
            # A rule that parts the goal from the next section is no part of it.
            if stop > begin and RULE.match(self.lines[stop - 1]) and stop - 1 not in self.inside:
                before = self.lines[stop - 2].strip(BLANK) if stop - 2 > head else ""
                if not before:
                    stop -= 1
        while begin < stop and not self.lines[begin].strip(BLANK):
            begin += 1
        return Section(GOAL, head, end, text=(begin, stop))

    def goal(self, section: Section) -> str:
        """The goal's text; '' for none or a placeholder."""
        begin, stop = section.text
        lines = self.lines[begin:stop]
        if len(lines) == 1 and PLACEHOLDER.fullmatch(lines[0].strip(BLANK)):
            return ""
        said = [line if begin + at in self.inside else plain(line) for at, line in enumerate(lines)]
        if said and begin not in self.inside:
            said[0] = plain(lines[0].lstrip(BLANK)) if len(said) > 1 else plain(lines[0].strip(BLANK))
        if len(said) > 1 and stop - 1 not in self.inside:
            said[-1] = plain(lines[-1].rstrip(BLANK))
        return "\n".join(said)

    def _criteria(self, head: int, end: int) -> Section:
        items: list[Item] = []
        placeholders: list[int] = []
        loose: list[Item] = []
        boxes = False
        hidden = commented(self.lines, head + 1, end)
        for at in range(head + 1, end):
            line = self.lines[at]
            if at in self.inside or at in hidden or not line:
                continue
            if match := BOX.match(line):
                boxes, said, mark = True, match.group(4).rstrip(BLANK), match.group(2).strip("\ufe0f \t")
                kept = items
            elif bullet := BULLET.match(line):
                said, mark, kept = bullet.group(2).rstrip(BLANK), "", loose
            else:
                continue
            if PLACEHOLDER.fullmatch(said):
                placeholders.append(at)
            elif said:
                value = criterion(said, mark in DONE_MARKS)
                kept.append(Item(at, at + 1, value, boxed=kept is items))
        # Among boxes a plain bullet is a note; where nobody drew boxes it is a criterion.
        chosen = items if boxes else loose
        return Section(CRITERIA, head, end, tuple(chosen), tuple(placeholders))

    def _fields(self, start: int, end: int) -> tuple[Field, ...]:
        found: list[Field] = []
        at = start
        while at < end:
            match = self._field(at)
            if match is None:
                at += 1
                continue
            name = FIELDS[match.group(1).lower()]
            stop, value = self._value(name, match.group(2), at, end)
            found.append(Field(name, at, stop, value))
            at = stop
        return tuple(found)

    def _field(self, at: int) -> re.Match[str] | None:
        line = self.lines[at]
        if ("**" not in line and "__" not in line) or at in self.inside:
            return None
        match = FIELD.match(line)
        return match if match and match.group(1).lower() in FIELDS else None

    def _value(self, name: str, rest: str, at: int, end: int) -> tuple[int, str | tuple[str, ...] | datetime | None]:
        if name == "when":
            return at + 1, read_when(rest)[0]
        if name in LISTS:
            return self._list(rest, at + 1, end)
        stop = at + 1
        if not rest:
            return self._block(stop, end)
        lines = [rest]
        while lines[-1].endswith("\\") and stop < end and self._goes_on(stop):
            lines.append(self.lines[stop])
            stop += 1
        return stop, field_value(lines)

    def _goes_on(self, at: int) -> bool:
        line = self.lines[at]
        return at not in self.inside and self._field(at) is None and not line.lstrip(BLANK).startswith("#")

    def _list(self, rest: str, at: int, end: int) -> tuple[int, tuple[str, ...]]:
        if rest:
            return at, split_list(rest)
        items: list[str] = []
        while at < end and self._goes_on(at) and (match := ITEM.match(self.lines[at])):
            items.append(plain(match.group(1).strip(BLANK)))
            at += 1
        return at, tuple(items)

    def _block(self, begin: int, end: int) -> tuple[int, str]:
        """A value that begins on the line after its name: all lines up to a blank one or the next field."""
        at = begin
        while at < end and (at in self.inside or (self.lines[at].strip(BLANK) and self._goes_on(at))):
            at += 1
        said = [line if begin + n in self.inside else plain(line) for n, line in enumerate(self.lines[begin:at])]
        return at, "\n".join(said).strip(BLANK)


def _collect(fields: Sequence[Field]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for one in fields:
        if one.name in LISTS and one.name in values:
            values[one.name] = (*values[one.name], *(one.value if isinstance(one.value, tuple) else ()))
        elif one.value is not None:
            values.setdefault(one.name, one.value)
    return values


def _decision(head: str, fields: Sequence[Field]) -> Decision | None:
    values = _collect(fields)
    if PLACEHOLDER.fullmatch(head) or not (head or values):
        return None
    return Decision(
        title=plain(head),
        rationale=values.get("rationale", ""),
        alternatives=values.get("alternatives", ()),
        when=values.get("when"),
    )


def _entry(head: str, fields: Sequence[Field]) -> LogEntry | None:
    when, action = read_when(head)
    if when is None and not any(one.name in _OF_ENTRIES for one in fields):
        return None  # a heading of the reader's own
    values = _collect(fields)
    return LogEntry(
        action=plain(action.strip(BLANK)),
        details=values.get("details", ""),
        result=values.get("result", ""),
        tools=values.get("tools", ()),
        when=when,
    )

"""The parser of plan_doc.md: tolerant, never fails, records the line of every value (P2, P3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tui_agent.plan.document import Decision, LogEntry, Plan, PlanItem
from tui_agent.plan.grammar import (
    BLANK,
    CHECKBOX,
    CRITERIA,
    DONE_MARKS,
    FIELD_LINE,
    FIELDS,
    GOAL,
    LIST_FIELDS,
    LIST_ITEM,
    LIST_SECTIONS,
    LOG,
    PLACEHOLDER,
    SECTION_NAMES,
    STATUS_LINE,
    THEMATIC_BREAK,
    TITLE_PREFIX,
    parse_criterion,
    parse_field_value,
    parse_status,
    parse_time,
    section_key,
    split_list,
    unescape,
)
from tui_agent.plan.layout import Front, Heading, comment_lines, fenced_lines, find_headings, front_matter, split_lines


class Field(NamedTuple):
    """A field of a decision or log entry in the lines [start, end)."""

    name: str
    start: int
    end: int
    value: str | tuple[str, ...] | datetime | None


class Item(NamedTuple):
    """An item of a list and its lines [start, end), up to the next item."""

    start: int
    end: int
    value: PlanItem
    fields: tuple[Field, ...] = ()
    boxed: bool = True
    """False for a criterion without a checkbox."""


class Section(NamedTuple):
    """The part of the text under a heading at line `head`, up to line `end`."""

    name: str
    """One of SECTIONS; empty for a section of the user."""
    head: int
    end: int
    items: tuple[Item, ...] = ()
    placeholders: tuple[int, ...] = ()
    goal: str = ""
    """Text of a goal section; empty if it has none or a placeholder."""
    goal_lines: tuple[int, int] = (0, 0)
    """Lines [start, end) of that text."""


class Document(NamedTuple):
    """A plan and the text it was parsed from."""

    text: str
    plan: Plan
    raw: list[str]
    """Lines with line ends."""
    lines: list[str]
    front: Front | None
    title: int | None
    """Line of the title."""
    status: int | None
    """Line of the status."""
    sections: tuple[Section, ...]
    fenced: frozenset[int]
    """Lines in code fences."""
    problem: str
    """Why the text is not a plan, and is never overwritten (P3); empty if it is one."""

    @property
    def newline(self) -> str:
        """The line end of most lines."""
        return "\r\n" if 2 * sum(line.endswith("\r\n") for line in self.raw) > len(self.raw) else "\n"


def parse(text: str) -> Document:
    """Parse any text as a plan; `problem` is set if it does not look like one."""
    raw, lines = split_lines(text)
    front = front_matter(lines)
    start = front.end + 1 if front else 0
    fenced = fenced_lines(lines, start)
    title, sections = _Parser(lines, fenced).outline(start)
    preamble = range(start, sections[0].head if sections else len(lines))
    matches = ((at, STATUS_LINE.match(lines[at])) for at in preamble if at not in fenced)
    status, status_text = next(((at, match[1]) for at, match in matches if match), (None, ""))
    goal = next((section.goal for section in sections if section.goal), "")
    if not goal and title is not None and not any(section.name == GOAL for section in sections):
        goal = title_text(lines[title])
        goal = "" if PLACEHOLDER.fullmatch(goal) else unescape(goal)
    values = front.values if front else {}
    lists: dict[str, Any] = {
        field: tuple(item.value for section in sections if section.name == name for item in section.items)
        for name, field in LIST_SECTIONS.items()
    }
    plan = Plan(
        status=parse_status(status_text, values.get("status")),
        goal=goal,
        created_at=_number(values, 0, "createdAt", "created_at"),
        updated_at=_number(values, 0, "updatedAt", "updated_at"),
        version=_number(values, 1, "version"),
        **lists,
    )
    problem = _problem(text, front, title, sections)
    return Document(text, plan, raw, lines, front, title, status, sections, fenced, problem)


def _problem(text: str, front: Front | None, title: int | None, sections: Sequence[Section]) -> str:
    if not text.strip("\ufeff \t\r\n"):
        return "it is empty"
    if "\0" in text:
        return "it contains binary data"
    if front is not None:
        return front.problem
    if title is None and not any(section.name for section in sections):
        return "it has neither a title nor a section of a plan"
    return ""


def _number(values: dict[str, Any], default: int, *names: str) -> int:
    """Return the first readable number; times as milliseconds since the epoch."""
    for name in names:
        try:
            value = values[name]
            if isinstance(value, str) and not value.strip().isdigit():
                value = datetime.fromisoformat(value.strip())
            return round(value.timestamp() * 1000) if isinstance(value, datetime) else int(value)
        except (KeyError, ValueError, TypeError, OverflowError, OSError):
            continue
    return default


def title_text(line: str) -> str:
    """Return the text of a title without marks and `Plan:`, still escaped."""
    return TITLE_PREFIX.sub("", line.lstrip(" #\t").rstrip(BLANK))


class _Parser:
    """Parses the sections of a text."""

    def __init__(self, lines: list[str], fenced: frozenset[int]) -> None:
        self._lines = lines
        self._fenced = fenced

    def outline(self, start: int) -> tuple[int | None, tuple[Section, ...]]:
        """Return the line of the title, and the sections."""
        title: int | None = None
        heads: list[tuple[int, str, list[Heading]]] = []
        for heading in find_headings(self._lines, start, self._fenced):
            name = SECTION_NAMES.get(section_key(heading.text), "") if heading.level <= 2 else ""
            if heading.level > 3 or not (heading.spaced or name or not heading.text):
                continue
            if heading.level == 3:
                if heads:
                    heads[-1][2].append(heading)
            elif heading.level == 1 and not name and title is None and not heads:
                title = heading.line
            else:
                heads.append((heading.line, name, []))
        ends = [*(head for head, _, _ in heads[1:]), len(self._lines)]
        sections = (self._section(*head, end) for head, end in zip(heads, ends, strict=False))
        return title, tuple(sections)

    def _section(self, head: int, name: str, subheadings: list[Heading], end: int) -> Section:
        if name == GOAL:
            return self._goal(head, end)
        if name == CRITERIA:
            return self._criteria(head, end)
        if not name:
            return Section(name, head, end)
        parsed: list[tuple[int, PlanItem, tuple[Field, ...]]] = []
        stops = [*(heading.line for heading in subheadings[1:]), end]
        for heading, stop in zip(subheadings, stops, strict=False):
            fields = self._fields(heading.line + 1, stop)
            value = _log_entry(heading.text, fields) if name == LOG else _decision(heading.text, fields)
            if value is not None:
                parsed.append((heading.line, value, fields))
        stops = [*(line for line, _, _ in parsed[1:]), end]
        items = tuple(
            Item(line, stop, value, fields) for (line, value, fields), stop in zip(parsed, stops, strict=False)
        )
        before = range(head + 1, items[0].start if items else end)
        placeholders = tuple(at for at in before if PLACEHOLDER.fullmatch(self._lines[at].strip(BLANK)))
        return Section(name, head, end, items, placeholders)

    def _goal(self, head: int, end: int) -> Section:
        def is_blank(at: int) -> bool:
            return not self._lines[at].strip(BLANK)

        begin, stop = head + 1, end
        while stop > begin and (is_blank(stop - 1) or (stop < end and self._is_separator(stop - 1, head))):
            stop -= 1
        while begin < stop and is_blank(begin):
            begin += 1
        lines = self._lines[begin:stop]
        if len(lines) == 1 and PLACEHOLDER.fullmatch(lines[0].strip(BLANK)):
            lines = []
        return Section(GOAL, head, end, goal=self._value_text(lines, begin), goal_lines=(begin, stop))

    def _is_separator(self, at: int, head: int) -> bool:
        """Return True for a thematic break between blank lines, which separates the goal from the next section."""
        if at in self._fenced or not THEMATIC_BREAK.match(self._lines[at]):
            return False
        return at - 1 == head or not self._lines[at - 1].strip(BLANK)

    def _value_text(self, lines: Sequence[str], start: int) -> str:
        """Return the value in the lines from `start` on; code fences are not escaped."""
        texts = list(lines)
        if texts and start not in self._fenced:
            texts[0] = texts[0].lstrip(BLANK)
        if texts and start + len(texts) - 1 not in self._fenced:
            texts[-1] = texts[-1].rstrip(BLANK)
        return "\n".join(text if start + at in self._fenced else unescape(text) for at, text in enumerate(texts))

    def _criteria(self, head: int, end: int) -> Section:
        boxed: list[Item] = []
        unboxed: list[Item] = []
        placeholders: list[int] = []
        has_boxes = False
        comments = comment_lines(self._lines, head + 1, end)
        for at in range(head + 1, end):
            line = self._lines[at]
            if at in self._fenced or at in comments or not line:
                continue
            if match := CHECKBOX.match(line):
                has_boxes = True
                text, mark, items = match[4], match[2].strip("\ufe0f \t"), boxed
            elif line[0] not in BLANK and (match := LIST_ITEM.match(line)):
                text, mark, items = match[1], "", unboxed
            else:
                continue
            text = text.rstrip(BLANK)
            if PLACEHOLDER.fullmatch(text):
                placeholders.append(at)
            elif text:
                criterion = parse_criterion(text, mark in DONE_MARKS)
                items.append(Item(at, at + 1, criterion, boxed=items is boxed))
        # Bullets are notes if there are checkboxes, otherwise criteria.
        return Section(CRITERIA, head, end, tuple(boxed if has_boxes else unboxed), tuple(placeholders))

    # --- fields ---

    def _fields(self, start: int, end: int) -> tuple[Field, ...]:
        fields: list[Field] = []
        at = start
        while at < end:
            if match := self._match_field(at):
                fields.append(self._field(match, at, end))
                at = fields[-1].end
            else:
                at += 1
        return tuple(fields)

    def _match_field(self, at: int) -> re.Match[str] | None:
        line = self._lines[at]
        if ("**" not in line and "__" not in line) or at in self._fenced:
            return None
        match = FIELD_LINE.match(line)
        return match if match and match[1].lower() in FIELDS else None

    def _field(self, match: re.Match[str], start: int, end: int) -> Field:
        name, text, stop = FIELDS[match[1].lower()], match[2], start + 1
        if name == "when":
            return Field(name, start, stop, parse_time(text)[0])
        if name in LIST_FIELDS:
            items = list(split_list(text))
            while not text and stop < end and self._continues(stop) and (item := LIST_ITEM.match(self._lines[stop])):
                items.append(unescape(item[1].strip(BLANK)))
                stop += 1
            return Field(name, start, stop, tuple(items))
        if not text:  # the value begins on the next line and ends at a blank line or the next field
            while stop < end and (stop in self._fenced or (self._lines[stop].strip(BLANK) and self._continues(stop))):
                stop += 1
            return Field(name, start, stop, self._value_text(self._lines[start + 1 : stop], start + 1))
        lines = [text]
        while lines[-1].endswith("\\") and stop < end and self._continues(stop):
            lines.append(self._lines[stop])
            stop += 1
        return Field(name, start, stop, parse_field_value(lines))

    def _continues(self, at: int) -> bool:
        """Return True if the line can belong to the field before it."""
        line = self._lines[at]
        return at not in self._fenced and self._match_field(at) is None and not line.lstrip(BLANK).startswith("#")


def _collect(fields: Sequence[Field], *names: str) -> dict[str, Any]:
    """Return the values of the named fields: lists are joined, otherwise the first value counts."""
    values: dict[str, Any] = {}
    for field in fields:
        if field.name in names and field.value is not None:
            if isinstance(field.value, tuple):
                values[field.name] = (*values.get(field.name, ()), *field.value)
            else:
                values.setdefault(field.name, field.value)
    return values


def _decision(heading: str, fields: Sequence[Field]) -> Decision | None:
    values = _collect(fields, "rationale", "alternatives", "when")
    if PLACEHOLDER.fullmatch(heading) or not (heading or values):
        return None
    return Decision(title=unescape(heading), **values)


def _log_entry(heading: str, fields: Sequence[Field]) -> LogEntry | None:
    when, action = parse_time(heading)
    values = _collect(fields, "details", "tools", "result")
    if when is None and not values:
        return None  # a heading of the user
    return LogEntry(action=unescape(action.strip(BLANK)), when=when, **values)

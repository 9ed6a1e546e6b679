"""The writer of plan_doc.md: changes an existing text as little as possible (P2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tui_agent.common.workplan import plan_template
from tui_agent.plan.document import Criterion, LogEntry, Plan, PlanItem, format_time
from tui_agent.plan.grammar import (
    BLANK,
    CHECKBOX,
    CONTROL_CHARACTER,
    CRITERIA,
    EMPTY,
    GOAL,
    LIST_SECTIONS,
    LOG,
    MADE,
    PLACEHOLDER,
    REJECTED,
    SECTIONS,
    STATUS_LINE,
    THEMATIC_BREAK,
    escape,
    escape_edges,
    escape_first,
    escape_line,
    escape_placeholder,
    format_field_value,
    join_list,
    parse_time,
    unescape,
)
from tui_agent.plan.layout import fenced_lines
from tui_agent.plan.markdown import Document, Item, Section, parse, title_text
from tui_agent.plan.merge import align

SKELETON = plan_template(0)
"""The text of an empty plan, with placeholders."""
_MAX_TITLE = 80
_LABELS = {
    MADE: (("rationale", "Rationale"), ("alternatives", "Alternatives considered"), ("when", "Decided")),
    REJECTED: (("rationale", "Rationale"), ("alternatives", "Alternative"), ("when", "Rejected")),
    LOG: (("details", "Actions"), ("tools", "Tools"), ("result", "Result")),
}
_STRUCTURE = re.compile(r"[ \t]*(?:#|```|~~~)")


class PlanTextError(Exception):
    """A plan can't be written into a text such that parsing returns the same plan. The text was not changed."""


def rewrite(plan: Plan, over: Document) -> Document:
    """Return the document `over`, changed as little as necessary to have the content `plan`.

    Notes, the user's own sections, line ends and the wording of unchanged values stay as they are. Raises
    PlanTextError if parsing the result does not return `plan`.
    """
    if plan == over.plan:
        return over
    for keep_fences in (True, False):
        document = parse(_Writer(plan, over, keep_fences).text())
        if document.plan == plan:
            return document
    raise PlanTextError("The plan document is laid out in a way that changes can't be written into.")


# --- values as lines ---


def _format_title(goal: str) -> str:
    """Return the first line of the goal, shortened."""
    line = next((line.strip() for line in goal.split("\n") if line.strip()), "")
    if not line:
        return "[Goal to be defined]"
    return escape_placeholder(escape_line(line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1].rstrip() + "…"))


def _format_goal(goal: str, keep_fences: bool) -> list[str]:
    """Return the lines of a goal section. With `keep_fences`, closed code fences stay as they are."""
    if not goal:
        return ["[User will provide goal]"]
    blank = BLANK + "\n"
    core = goal.strip(blank)
    if not core:
        return [escape_edges(goal, blank)]
    head, tail = goal[: goal.index(core)], goal[goal.index(core) + len(core) :]
    texts = core.split("\n")
    last = len(texts) - 1
    fenced = fenced_lines(texts) if keep_fences else frozenset[int]()
    if (head and 0 in fenced) or (tail and last in fenced) or any(CONTROL_CHARACTER.search(texts[at]) for at in fenced):
        fenced = frozenset()
    lines = []
    for at, text in enumerate(texts):
        line = text if at in fenced else escape(text)
        is_structure = _STRUCTURE.match(line) or (at == last and THEMATIC_BREAK.match(line))
        lines.append(escape_first(line) if is_structure and at not in fenced else line)
    if len(lines) == 1:
        lines[0] = escape_placeholder(lines[0])
    lines[0] = escape_edges(head, blank) + lines[0]
    lines[-1] += escape_edges(tail, blank)
    return lines


def _format_criterion(value: Criterion) -> str:
    return f"- [{'x' if value.completed else ' '}] {_criterion_text(value)}"


def _criterion_text(value: Criterion) -> str:
    """Return description and notes, which follow the checkbox."""
    text = escape_line(value.description)
    if text.endswith(")*"):
        text = text[:-1] + "&#42;"
    if value.notes:
        return f"{text} *({escape_line(value.notes).replace('*(', '&#42;(')})*"
    return escape_placeholder(text)


def _format_heading(value: PlanItem) -> str:
    """Return the first line of a decision or log entry."""
    if isinstance(value, LogEntry):
        text = escape_line(value.action)
        if value.when is not None:
            return f"### {format_time(value.when)} - {text}"
        return f"### {escape_first(text) if parse_time(text)[0] else text}"
    assert not isinstance(value, Criterion)
    return f"### {escape_placeholder(escape_line(value.title))}"


def _format_item(section: str, value: PlanItem) -> list[str]:
    """Return the lines of an item of that section."""
    if isinstance(value, Criterion):
        return [_format_criterion(value)]
    lines = [_format_heading(value)]
    for field, label in _LABELS[section]:
        lines += _format_field(label, getattr(value, field))
    if len(lines) == 1 and isinstance(value, LogEntry) and value.when is None:
        lines.append(f"**Result:** {EMPTY}")  # without time or field it would be a heading of the user
    return lines


def _format_field(label: str, value: str | tuple[str, ...] | datetime | None) -> list[str]:
    """Return the lines of a field; none for an empty one."""
    if not value:
        return []
    if isinstance(value, str):
        first, *others = format_field_value(value)
        return [f"**{label}:** {first}", *others]
    if isinstance(value, datetime):
        return [f"**{label}:** {format_time(value)}"]
    if (line := join_list(value)) is not None:
        return [f"**{label}:** {line}"]
    items = [escape_line(item) for item in value]
    return [f"**{label}:**", *(f"- {escape_first(item) if item.startswith(('**', '__')) else item}" for item in items)]


# --- changing a text ---


class _Edit(NamedTuple):
    """A replacement of the lines [start, end)."""

    start: int
    end: int
    lines: list[str]
    is_block: bool = False
    """True to separate the new lines by blank lines."""


class _Writer:
    """Collects the edits that turn one document into another."""

    def __init__(self, plan: Plan, over: Document, keep_fences: bool) -> None:
        self._plan = plan
        self._over = over
        self._keep_fences = keep_fences
        self._edits: list[_Edit] = []

    def text(self) -> str:
        """Return the changed text."""
        self._write_front()
        if self._plan.goal != self._over.plan.goal:
            self._write_goal()
        for section, field in LIST_SECTIONS.items():
            old, new = getattr(self._over.plan, field), getattr(self._plan, field)
            if old != new:
                self._write_list(section, old, new)
        return self._apply_edits()

    def _replace(self, at: int, line: str) -> None:
        self._edits.append(_Edit(at, at + 1, [line]))

    def _insert(self, at: int, lines: list[str], *, is_block: bool = False) -> None:
        self._edits.append(_Edit(at, at, lines, is_block))

    def _delete(self, start: int, end: int) -> None:
        self._edits.append(_Edit(start, end, []))

    # --- front matter, status, goal ---

    def _write_front(self) -> None:
        """Write status, times and version."""
        old, new, over = self._over.plan, self._plan, self._over
        new_status = old.status != new.status
        if over.status is not None and new_status and (match := STATUS_LINE.match(over.lines[over.status])):
            self._replace(over.status, f"{over.lines[over.status][: match.start(1)].rstrip()} {new.status}")
        numbers = {"createdAt": "created_at", "updatedAt": "updated_at", "version": "version"}
        values = {key: str(getattr(new, field)) for key, field in numbers.items()}
        changed = {key: values[key] for key, field in numbers.items() if getattr(old, field) != getattr(new, field)}
        if over.front is None:
            if changed or (over.status is None and new_status):
                lines = [f"{key}: {value}" for key, value in {"status": new.status, **values}.items()]
                self._insert(0, ["---", *lines, "---"], is_block=True)
            return
        if new_status and ("status" in over.front.places or over.status is None):
            changed = {"status": str(new.status), **changed}
        for key, value in changed.items():
            place = over.front.places.get(key, over.front.places.get(numbers.get(key, "")))
            if place is None:
                self._insert(over.front.end, [f"{key}: {value}"])
                continue
            match = re.match(r"([^:]*:)[^#]*?([ \t]+#.*)?$", over.lines[place])
            self._replace(place, f"{match[1]} {value}{match[2] or ''}" if match else f"{key}: {value}")

    def _write_goal(self) -> None:
        over, goal = self._over, self._plan.goal
        lines = _format_goal(goal, self._keep_fences)
        sections = [section for section in over.sections if section.name == GOAL]
        if sections:
            section = next((section for section in sections if section.goal), sections[0])
            self._edits.append(_Edit(*section.goal_lines, lines))
        else:
            self._insert_section(GOAL, lines)
        if over.title is not None:
            title = title_text(over.lines[over.title])
            old_titles = (over.plan.goal, unescape(_format_title(over.plan.goal)))
            if PLACEHOLDER.fullmatch(title) or unescape(title) in old_titles:
                self._replace(over.title, f"# Plan: {_format_title(goal)}")

    # --- lists ---

    def _write_list(self, name: str, old: Sequence[PlanItem], new: Sequence[PlanItem]) -> None:
        is_block = name != CRITERIA
        sections = [section for section in self._over.sections if section.name == name]
        if not sections:
            lines = []
            for value in new:
                lines += [*([""] if is_block else []), *_format_item(name, value)]
            return self._insert_section(name, lines)
        first = sections[0]
        items = [item for section in sections for item in section.items]
        pairs: dict[int, int] = align(old, new)  # type: ignore[type-var]  # all items of a list are of one class
        unboxed = any(not item.boxed for item in items)
        for at, item in enumerate(items):
            if at not in pairs:
                self._remove(item)
            elif old[at] != new[pairs[at]] or unboxed:
                self._change(name, item, new[pairs[at]])
        if new and not old:
            for at in first.placeholders:
                self._delete(at, at + 1)
        old_places = {new_at: old_at for old_at, new_at in pairs.items()}
        previous: Item | None = None
        for at, value in enumerate(new):
            if at in old_places:
                previous = items[old_places[at]]
            else:
                place = self._place_of_block(first, previous) if is_block else self._place_of_criterion(first, previous)
                self._insert(place, _format_item(name, value), is_block=is_block)
        return None

    def _place_of_block(self, section: Section, previous: Item | None) -> int:
        if previous is not None:
            return previous.end
        return section.items[0].start if section.items else section.end

    def _place_of_criterion(self, section: Section, previous: Item | None) -> int:
        """Return the line after the previous criterion and its indented notes."""
        if previous is None:
            return section.placeholders[0] if section.placeholders else section.head + 1
        at = previous.end
        while at < len(self._over.lines):
            line = self._over.lines[at]
            if not line.strip(BLANK) or line[0] not in BLANK or CHECKBOX.match(line):
                break
            at += 1
            while at in self._over.fenced and at - 1 in self._over.fenced:  # never into a fence
                at += 1
        return at

    def _remove(self, item: Item) -> None:
        """Delete the lines of the value; notes between them stay."""
        self._delete(item.start, item.start + 1)
        for field in item.fields:
            self._delete(field.start, field.end)
        if item.fields and item.end - item.fields[-1].end == 1 and not self._over.lines[item.end - 1].strip(BLANK):
            self._delete(item.end - 1, item.end)

    def _change(self, section: str, item: Item, new: PlanItem) -> None:
        old = item.value
        if isinstance(new, Criterion) and isinstance(old, Criterion):
            return self._change_criterion(item.start, old, new)
        if _format_heading(old) != _format_heading(new):
            self._replace(item.start, _format_heading(new))
        after = item.start + 1
        has_fields = False
        for name, label in _LABELS[section]:
            fields = [field for field in item.fields if field.name == name]
            value = getattr(new, name)
            if value == getattr(old, name):
                has_fields = has_fields or bool(fields)
            else:
                lines = _format_field(label, value)
                has_fields = has_fields or bool(lines)
                for field in fields:
                    self._delete(field.start, field.end)
                self._insert(fields[0].start if fields else after, lines)
            after = fields[-1].end if fields else after
        if not has_fields and isinstance(new, LogEntry) and new.when is None:
            self._insert(after, [f"**Result:** {EMPTY}"])
        return None

    def _change_criterion(self, at: int, old: Criterion, new: Criterion) -> None:
        match = CHECKBOX.match(self._over.lines[at])
        if match is None:
            return self._replace(at, _format_criterion(new))
        before, mark, gap, text = match.groups()
        if (old.description, old.notes) != (new.description, new.notes):
            text, gap = _criterion_text(new), f"{gap.rstrip(BLANK)} "
        if old.completed != new.completed:
            mark = "x" if new.completed else " "
        return self._replace(at, f"{before}{mark}{gap}{text}")

    def _insert_section(self, name: str, lines: list[str]) -> None:
        later = SECTIONS[SECTIONS.index(name) + 1 :]
        place = next((section.head for section in self._over.sections if section.name in later), len(self._over.lines))
        self._insert(place, [f"## {name}", *lines], is_block=True)

    # --- applying the edits ---

    def _apply_edits(self) -> str:
        newline = self._over.newline
        bom = "\ufeff" if self._over.text.startswith("\ufeff") else ""
        raw = list(self._over.raw)
        if bom:
            raw[0] = raw[0].removeprefix(bom)
        out: list[str] = []
        needs_blank = False
        """The line before needs a blank line after it."""

        def put(line: str) -> None:
            if out and not out[-1].endswith("\n"):
                out[-1] += newline
            out.append(line)

        edits = sorted(self._edits, key=lambda edit: (edit.start, edit.end > edit.start))
        at = 0
        for edit in [*edits, _Edit(len(raw), len(raw), [])]:
            for line in raw[at : max(at, edit.start)]:
                if needs_blank and line.strip():
                    put(newline)
                needs_blank = False
                put(line)
            at = max(at, edit.end)
            if (edit.is_block and out and out[-1].strip()) or (needs_blank and edit.lines):
                put(newline)
            replaces_line = edit.end - edit.start == 1 == len(edit.lines)
            line_end = _line_end(raw[edit.start]) if replaces_line else newline
            for line in edit.lines:
                put(line + line_end)
            if edit.lines:
                # Separate inserted lines from a heading after them; replaced lines keep their place.
                before_heading = edit.start == edit.end < len(raw) and raw[edit.end].lstrip(" ").startswith("#")
                needs_blank = edit.is_block or before_heading
        return bom + "".join(out)


def _line_end(line: str) -> str:
    """Return the line end; empty for an incomplete last line."""
    return line[len(line.rstrip("\r\n")) :] if line.endswith("\n") else ""

"""The words and lines in which goal, criteria, decisions and log entries are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tui_agent.common.workplan import plan_template
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan, format_time
from tui_agent.plan.grammar import (
    BLANK,
    BOX,
    CRITERIA,
    EMPTY,
    GOAL,
    LOG,
    MADE,
    PLACEHOLDER,
    REJECTED,
    RULE,
    SECTIONS,
    STATUS,
    TITLE,
    UNSEEN,
    ends,
    field_lines,
    first_as_reference,
    guard,
    inline,
    joined_list,
    plain,
    read_when,
)
from tui_agent.plan.layout import fenced
from tui_agent.plan.markdown import Document, Item, Section, Value, parse
from tui_agent.plan.merge import align

_TITLE_LENGTH = 80
LABELS = {
    MADE: (("rationale", "Rationale"), ("alternatives", "Alternatives considered"), ("when", "Decided")),
    REJECTED: (("rationale", "Rationale"), ("alternatives", "Alternative"), ("when", "Rejected")),
    LOG: (("details", "Actions"), ("tools", "Tools"), ("result", "Result")),
}
_HEADINGS = re.compile(r"[ \t]*(?:#|```|~~~)")


def title(goal: str) -> str:
    """The goal as the heading of the whole text: its first line, cut."""
    line = next((one.strip() for one in goal.split("\n") if one.strip()), "")
    if not line:
        return "[Goal to be defined]"
    words = inline(line if len(line) <= _TITLE_LENGTH else line[: _TITLE_LENGTH - 1].rstrip() + "…")
    return first_as_reference(words) if PLACEHOLDER.fullmatch(words) else words


def goal_lines(goal: str, fences: bool = True) -> list[str]:
    """The lines under `## Goal`. With `fences`, code fences that are closed stay as they are."""
    if not goal:
        return ["[User will provide goal]"]
    blank = BLANK + "\n"
    core = goal.strip(blank)
    if not core:
        return [ends(goal, blank)]
    head, tail = goal[: goal.index(core)], goal[goal.index(core) + len(core) :]
    lines = core.split("\n")
    inside = fenced(lines) if fences else frozenset[int]()
    torn = (head and 0 in inside) or (tail and len(lines) - 1 in inside)
    if torn or any(UNSEEN.search(lines[at]) for at in inside):
        inside = frozenset()
    said = []
    for at, line in enumerate(lines):
        text = line if at in inside else guard(line)
        safe = at in inside or not (_HEADINGS.match(text) or (at == len(lines) - 1 and RULE.match(text)))
        said.append(text if safe else first_as_reference(text))
    if len(said) == 1 and PLACEHOLDER.fullmatch(said[0]):
        said[0] = first_as_reference(said[0])
    said[0] = (ends(head, blank) if head else "") + said[0]
    said[-1] += ends(tail, blank) if tail else ""
    return said


def criterion_line(value: Criterion) -> str:
    """One criterion as a line."""
    return f"- [{'x' if value.completed else ' '}] {criterion_words(value)}"


def criterion_words(value: Criterion) -> str:
    """What stands behind the box."""
    words = inline(value.description)
    if words.endswith(")*"):
        words = words[:-1] + "&#42;"
    if value.notes:
        return f"{words} *({inline(value.notes).replace('*(', '&#42;(')})*"
    return first_as_reference(words) if PLACEHOLDER.fullmatch(words) else words


def heading(value: Value) -> str:
    """The line that begins a decision or log entry."""
    if isinstance(value, LogEntry):
        words = inline(value.action)
        if value.when is not None:
            return f"### {format_time(value.when)} - {words}"
        return f"### {first_as_reference(words) if read_when(words)[0] else words}"
    words = inline(value.title) if isinstance(value, Decision) else ""
    return f"### {first_as_reference(words) if PLACEHOLDER.fullmatch(words) else words}"


def block(name: str, value: Value) -> list[str]:
    """A decision or log entry under the section `name` as lines."""
    lines = [heading(value)]
    for field, words in LABELS[name]:
        lines += field_block(words, getattr(value, field))
    if len(lines) == 1 and isinstance(value, LogEntry) and value.when is None:
        lines.append(f"**Result:** {EMPTY}")
    return lines


def field_block(words: str, value: object) -> list[str]:
    """A field under its name `words`; no lines for an empty one."""
    if not value:
        return []
    if isinstance(value, tuple):
        if (line := joined_list(value)) is not None:
            return [f"**{words}:** {line}"]
        items = [inline(one) for one in value]
        items = [first_as_reference(one) if one.startswith(("**", "__")) else one for one in items]
        return [f"**{words}:**", *(f"- {one}" for one in items)]
    if isinstance(value, str):
        first, *rest = field_lines(value)
        return [f"**{words}:** {first}", *rest]
    return [f"**{words}:** {format_time(value)}"]  # type: ignore[arg-type]  # what is left is a time


SKELETON = plan_template(0)
"""The empty plan: its bracketed lines read as nothing."""


class PlanTextError(Exception):
    """A plan can't be put into a text so that it would be read back. The text was left alone."""


def write(plan: Plan, over: Document) -> str:
    """The text that `rewrite` makes."""
    return rewrite(plan, over).text


def rewrite(plan: Plan, over: Document) -> Document:
    """The document `over`, its text changed as little as is needed to say `plan`.

    Notes, sections of the reader's own, line ends and the wording of unchanged values stay as they are. The result
    is read back before it is returned. Raises PlanTextError when it would say something else.
    """
    if plan == over.plan:
        return over
    for fences in (True, False):
        document = parse(_Writer(plan, over, fences).text())
        if document.plan == plan:
            return document
    raise PlanTextError("The plan document is laid out in a way that changes can't be written into.")


class _Edit(NamedTuple):
    """The lines [start, end) give way to others."""

    start: int
    end: int
    lines: list[str]
    block: bool = False
    """Stands between blank lines."""


class _Writer:
    """Gathers the edits that make one text say a plan."""

    def __init__(self, plan: Plan, over: Document, fences: bool) -> None:
        self.plan = plan
        self.over = over
        self.fences = fences
        self.edits: list[_Edit] = []

    def text(self) -> str:
        self._head()
        if self.plan.goal != self.over.plan.goal:
            self._goal()
        self._list(CRITERIA, self.over.plan.acceptance_criteria, self.plan.acceptance_criteria)
        self._list(MADE, self.over.plan.decisions_made, self.plan.decisions_made)
        self._list(REJECTED, self.over.plan.decisions_rejected, self.plan.decisions_rejected)
        self._list(LOG, self.over.plan.execution_log, self.plan.execution_log)
        return self._applied()

    def _replace(self, at: int, *lines: str) -> None:
        self.edits.append(_Edit(at, at + 1, list(lines)))

    # --- front matter, title, status ---

    def _head(self) -> None:
        old, new, over = self.over.plan, self.plan, self.over
        if over.status is not None and old.status != new.status and (match := STATUS.match(over.lines[over.status])):
            self._replace(over.status, f"{over.lines[over.status][: match.start(1)].rstrip()} {new.status}")
        numbers = {
            "createdAt": (old.created_at, new.created_at),
            "updatedAt": (old.updated_at, new.updated_at),
            "version": (old.version, new.version),
        }
        changed = {key: str(value) for key, (before, value) in numbers.items() if before != value}
        if over.front is None:
            if changed or (over.status is None and old.status != new.status):
                lines = [f"{key}: {value}" for key, (_, value) in numbers.items()]
                lines = ["---", f"status: {new.status}", *lines, "---"]
                self.edits.append(_Edit(0, 0, lines, block=True))
            return
        if old.status != new.status and ("status" in over.front.places or over.status is None):
            changed = {"status": str(new.status), **changed}
        for key, value in changed.items():
            snake = re.sub("[A-Z]", lambda match: "_" + match.group().lower(), key)
            place = over.front.places.get(key, over.front.places.get(snake))
            if place is None:
                self.edits.append(_Edit(over.front.end, over.front.end, [f"{key}: {value}"]))
                continue
            match = re.match(r"([^:]*:)[^#]*?([ \t]+#.*)?$", over.lines[place])
            self._replace(place, f"{match[1]} {value}{match[2] or ''}" if match else f"{key}: {value}")

    def _goal(self) -> None:
        over, goal = self.over, self.plan.goal
        lines = goal_lines(goal, self.fences)
        found = [one for one in over.sections if one.name == GOAL]
        # Of several sections the first one that says something is the goal.
        section = next((one for one in found if _says(over, one)), found[0] if found else None)
        if section is None:
            self._new_section(GOAL, lines)
        else:
            begin, stop = section.text
            self.edits.append(
                _Edit(begin, stop, lines) if begin < stop else _Edit(section.head + 1, section.head + 1, lines)
            )
        if over.title is None:
            return
        match = TITLE.match(over.lines[over.title].lstrip(" #\t").rstrip(BLANK))
        said = match.group(1) if match else ""
        if PLACEHOLDER.fullmatch(said) or plain(said) in (over.plan.goal, plain(title(over.plan.goal))):
            self._replace(over.title, f"# Plan: {title(goal)}")

    # --- lists ---

    def _list(self, name: str, old: Sequence[Value], new: Sequence[Value]) -> None:
        if tuple(old) == tuple(new):
            return None
        sections = [one for one in self.over.sections if one.name == name]
        if not sections:
            body: list[str] = []
            for value in new:
                body += [criterion_line(value)] if isinstance(value, Criterion) else ["", *block(name, value)]
            return self._new_section(name, body)
        items = [(section, item) for section in sections for item in section.items]
        pairs = align(old, new)  # type: ignore[type-var]  # all items of one list are of one kind
        partner = {b: a for a, b in pairs.items()}
        loose = any(not item.boxed for _, item in items)
        for at, (_, item) in enumerate(items):
            if at not in pairs:
                self._remove(item)
            elif old[at] != new[pairs[at]] or loose:
                self._change(name, item, new[pairs[at]])
        if new and not old:
            self.edits += [_Edit(at, at + 1, []) for at in sections[0].placeholders]
        previous = -1
        for b, value in enumerate(new):
            if b in partner:
                previous = partner[b]
            elif isinstance(value, Criterion):
                place = self._after_criterion(sections[0], items[previous][1] if previous >= 0 else None)
                self.edits.append(_Edit(place, place, [criterion_line(value)]))
            else:
                place = items[previous][1].end if previous >= 0 else _first_place(sections[0])
                self.edits.append(_Edit(place, place, block(name, value), block=True))
        return None

    def _after_criterion(self, section: Section, item: Item | None) -> int:
        if item is None:
            return section.placeholders[0] if section.placeholders else section.head + 1
        at = item.end
        while at < section.end or at < len(self.over.lines):
            line = self.over.lines[at]
            if not line.strip(BLANK) or line[0] not in BLANK or BOX.match(line):
                break
            if at in self.over.inside:  # never into a fence
                while at in self.over.inside:
                    at += 1
                continue
            at += 1
        return at

    def _remove(self, item: Item) -> None:
        """The value's own lines go; notes among them stay."""
        self.edits.append(_Edit(item.start, item.start + 1, []))
        self.edits += [_Edit(one.start, one.end, []) for one in item.fields]
        if item.fields and item.end - item.fields[-1].end == 1 and not self.over.lines[item.end - 1].strip(BLANK):
            self.edits.append(_Edit(item.end - 1, item.end, []))

    def _change(self, name: str, item: Item, new: Value) -> None:
        if isinstance(new, Criterion):
            return self._change_criterion(item, new)
        old = item.value
        if heading(old) != heading(new):
            self._replace(item.start, heading(new))
        after = item.start + 1
        kept = False
        for field, words in LABELS[name]:
            there = [one for one in item.fields if one.name == field]
            value = getattr(new, field)
            if value == getattr(old, field):
                kept = kept or bool(there)
            else:
                lines = field_block(words, value)
                kept = kept or bool(lines)
                self.edits += [_Edit(one.start, one.end, []) for one in there]
                place = there[0].start if there else after
                self.edits.append(_Edit(place, place, lines))
            after = there[-1].end if there else after
        if not kept and isinstance(new, LogEntry) and new.when is None:
            self.edits.append(_Edit(after, after, [f"**Result:** {EMPTY}"]))
        return None

    def _change_criterion(self, item: Item, new: Criterion) -> None:
        line = self.over.lines[item.start]
        old = item.value
        match = BOX.match(line)
        if match is None:
            return self._replace(item.start, criterion_line(new))
        said = match.group(4)
        gap = match.group(3)
        if isinstance(old, Criterion) and (old.description, old.notes) != (new.description, new.notes):
            said, gap = criterion_words(new), f"{gap.rstrip(BLANK)} "
        box = match.group(2)
        if isinstance(old, Criterion) and old.completed != new.completed:
            box = "x" if new.completed else " "
        return self._replace(item.start, f"{match.group(1)}{box}{gap}{said}")

    # --- putting it together ---

    def _new_section(self, name: str, body: list[str]) -> None:
        later = SECTIONS[SECTIONS.index(name) + 1 :]
        place = next((one.head for one in self.over.sections if one.name in later), len(self.over.lines))
        self.edits.append(_Edit(place, place, [f"## {name}", *body], block=True))

    def _applied(self) -> str:
        over, newline = self.over, self.over.newline
        bom = over.text.startswith("\ufeff")
        raw = [over.raw[0].removeprefix("\ufeff"), *over.raw[1:]] if bom else over.raw
        out: list[str] = []

        def put(line: str) -> None:
            if out and not out[-1].endswith("\n"):
                out[-1] += newline
            out.append(line)

        at = 0
        order = sorted(enumerate(self.edits), key=lambda pair: (pair[1].start, pair[1].end > pair[1].start, pair[0]))
        open_block = False
        for _, edit in order:
            for line in raw[at : edit.start] if at < edit.start else ():
                if open_block and line.strip():
                    put(newline)
                open_block = False
                put(line)
            at = max(at, edit.end)
            if (edit.block and out and out[-1].strip()) or (open_block and edit.lines):
                put(newline)
            same = raw[edit.start] if edit.end - edit.start == 1 == len(edit.lines) else ""
            for line in edit.lines:
                put(line + (_end_of(same) if same else newline))
            if edit.lines:
                # A heading must not follow on the heels of what we put in; what we only replace stays where it was.
                next_line = raw[edit.end] if edit.end < len(raw) else ""
                put_in = edit.start == edit.end
                open_block = edit.block or (put_in and next_line.lstrip(" ").startswith("#"))
        for line in raw[at:]:
            if open_block and line.strip():
                put(newline)
            open_block = False
            put(line)
        return ("\ufeff" if bom else "") + "".join(out)


def _end_of(line: str) -> str:
    """The line end of a line that another one takes the place of; the last line may have none."""
    return line[len(line.rstrip("\r\n")) :] if line.endswith("\n") else ""


def _says(over: Document, section: Section) -> bool:
    begin, stop = section.text
    return begin < stop and not (stop - begin == 1 and PLACEHOLDER.fullmatch(over.lines[begin].strip(BLANK)))


def _first_place(section: Section) -> int:
    return section.items[0].start if section.items else section.end

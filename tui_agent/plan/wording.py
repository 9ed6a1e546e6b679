"""The words and lines in which goal, criteria, decisions and log entries are written."""

from __future__ import annotations

import re

from tui_agent.plan.document import Criterion, Decision, LogEntry, shown
from tui_agent.plan.grammar import LOG, MADE, REJECTED, RULE, read_when
from tui_agent.plan.layout import fenced
from tui_agent.plan.markdown import Value
from tui_agent.plan.values import (
    BLANK,
    EMPTY,
    PLACEHOLDER,
    ends,
    field_lines,
    first_as_reference,
    guard,
    inline,
    joined_list,
)

_TITLE_LENGTH = 80
LABELS = {
    MADE: (("rationale", "Rationale"), ("alternatives", "Alternatives considered"), ("when", "Decided")),
    REJECTED: (("rationale", "Rationale"), ("alternatives", "Alternative"), ("when", "Rejected")),
    LOG: (("details", "Actions"), ("tools", "Tools"), ("result", "Result")),
}
_HEADINGS = re.compile(r"[ \t]*(?:#|```|~~~)")
_CODE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


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
    if torn or any(_CODE.search(lines[at]) for at in inside):
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
            return f"### {shown(value.when)} - {words}"
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
    return [f"**{words}:** {shown(value)}"]  # type: ignore[arg-type]  # what is left is a time

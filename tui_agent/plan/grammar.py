"""The syntax elements of plan_doc.md: section names, fields, checkboxes, times, status words and escapes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from tui_agent.plan.document import Criterion, PlanStatus, to_minute

GOAL = "Goal"
CRITERIA = "Acceptance Criteria"
MADE = "Decisions Made"
REJECTED = "Decisions Rejected"
LOG = "Execution Log"
LIST_SECTIONS = {
    CRITERIA: "acceptance_criteria",
    MADE: "decisions_made",
    REJECTED: "decisions_rejected",
    LOG: "execution_log",
}
"""Section → field of the plan."""
SECTIONS = (GOAL, *LIST_SECTIONS)
"""The plan's sections in the order in which they are written."""
SECTION_NAMES = {name.lower(): name for name in SECTIONS}

BLANK = " \t"
TITLE_PREFIX = re.compile(r"^plan[ \t]*:[ \t]*", re.I)
CHECKBOX = re.compile(
    r"([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]*)?\[)"
    r"([ \t]{0,3}[^\s\[\]]?\ufe0f?[ \t]{0,3})(\](?!\()[ \t]*)(.*)$"
)
"""Groups: text before the mark, the mark, gap, description."""
_NAME = r"[ \t]*(?:[-*+][ \t]+)?(?:\*\*|__)[ \t]*{}[ \t]*(?::[ \t]*(?:\*\*|__)|(?:\*\*|__)[ \t]*:)[ \t]*(.*)$"
FIELD_LINE = re.compile(_NAME.format("([A-Za-z]+(?: [A-Za-z]+)?)"))
STATUS_LINE = re.compile(_NAME.format("status"), re.I)
LIST_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:(?:[ \t]{0,3}T[ \t]{0,3}|[ \t]{1,8})"
    r"(\d{1,2}:\d{2})(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?(?!\w)"
    r"[ \t]*(?:[-–—:|][ \t]*)?(.*)$"
)
THEMATIC_BREAK = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")
PLACEHOLDER = re.compile(
    r"\[(?:[^\[\]]*\bto be (?:defined|added|decided|determined|filled in)|[^\[\]]*\bwill (?:provide|be added)\b[^\[\]]*"
    r"|no [^\[\]]*\byet|none(?: yet)?|tbd|goal|your goal|clear goal description)\.?\]",
    re.IGNORECASE,
)
"""Bracketed text that counts as empty."""
DONE_MARKS = frozenset("xX✓✔✅☑")
_STATUS_WORDS = {
    "done": PlanStatus.COMPLETED,
    "complete": PlanStatus.COMPLETED,
    **{status.value.replace("_", ""): status for status in PlanStatus},
}
_FIELD_NAMES = {
    "rationale": ["rationale"],
    "alternatives": ["alternatives considered", "alternatives", "alternative", "alternative considered"],
    "when": ["decided", "rejected", "date"],
    "details": ["actions", "action", "details"],
    "tools": ["tools", "tools used", "tool"],
    "result": ["result", "results"],
}
FIELDS = {name: field for field, names in _FIELD_NAMES.items() for name in names}
"""Accepted name in lower case → field."""
LIST_FIELDS = frozenset({"alternatives", "tools"})


def parse_status(*texts: Any) -> PlanStatus:
    """Return the first status that one of the texts names; `planning` by default."""
    for text in texts:
        words = re.sub(r"[^a-z ]", "", str(text or "").lower().replace("_", "").replace("-", "")).split()
        for candidate in ("".join(words), "".join(words[:2]), *words[:1]):
            if candidate in _STATUS_WORDS:
                return _STATUS_WORDS[candidate]
    return PlanStatus.PLANNING


def parse_time(text: str) -> tuple[datetime | None, str]:
    """Return the local time at the start of `text`, to the minute, and the remaining text; (None, text) without one."""
    match = _TIME.match(text)
    if match is None:
        return None, text
    day, clock, zone, remaining = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{(clock or '00:00').rjust(5, '0')}")
        if zone:
            offset = "+00:00" if zone == "Z" else zone
            moment = to_minute(datetime.fromisoformat(moment.isoformat() + offset))
        return moment, remaining
    except (ValueError, OverflowError, OSError):
        return None, text


def section_key(heading: str) -> str:
    """Normalize a heading for comparison: lower case, without numbers, marks and colon."""
    return re.sub(r"^[\W\d_]+", "", heading.rstrip("#: \t*_").lower())


def parse_criterion(text: str, completed: bool) -> Criterion:
    """Parse the text after a checkbox: a description, and notes as ` *(…)*`."""
    notes = ""
    if text.endswith(")*"):
        at = text.rfind("*(")
        if at > 0 and text[at - 1] in BLANK and text[:at].strip(BLANK):
            text, notes = text[:at].rstrip(BLANK), text[at + 2 : -2].strip(BLANK)
    return Criterion(description=unescape(text), completed=completed, notes=unescape(notes))


# --- escapes: characters that would change the structure, as numeric references ---

EMPTY = "<!-- -->"
"""Represents an empty value."""
_ESCAPED = frozenset(map(ord, " #&*+-[_`~<\\0123456789\u2028\u2029\ufeff")).union(range(32), range(127, 160))
_SURROGATES = range(0xD800, 0xE000)
"""With `_ESCAPED`, the code points that are ever escaped; references to others are text."""
_REFERENCE = re.compile(r"&#(\d{1,7});")
_REFERENCE_START = re.compile(r"&(?=#\d{1,7};)")
_CONTROLS = "\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"
CONTROL_CHARACTER = re.compile(f"[\x00-\x08\x0b-\x1f{_CONTROLS}]")
_NEEDS_ESCAPE = re.compile(f"[&<\x00-\x1f{_CONTROLS}]")
_STRUCTURE = re.compile(r"[ \t]*(?:#|```|~~~|\*\*|__|[-*+][ \t]+(?:\*\*|__))")


def _references(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


def escape(text: str) -> str:
    """Escape control characters, references and EMPTY; line breaks and tabs stay."""
    if _NEEDS_ESCAPE.search(text) is None:
        return text
    text = CONTROL_CHARACTER.sub(lambda match: _references(match[0]), _REFERENCE_START.sub("&#38;", text))
    return text.replace(EMPTY, "&#60;" + EMPTY[1:])


def escape_edges(text: str, blank: str = BLANK) -> str:
    """Escape blanks at both ends, which readers and editors drop."""
    core = text.strip(blank)
    if len(core) == len(text):
        return text
    start = len(text) - len(text.lstrip(blank))
    return _references(text[:start]) + core + _references(text[start + len(core) :])


def escape_first(text: str) -> str:
    """Escape the first character that is not blank."""
    start = len(text) - len(text.lstrip(BLANK))
    return text[:start] + _references(text[start : start + 1]) + text[start + 1 :]


def escape_placeholder(text: str) -> str:
    """Escape a text that would be read as a placeholder."""
    return escape_first(text) if PLACEHOLDER.fullmatch(text) else text


def escape_line(text: str) -> str:
    """Return a value on one line; EMPTY for an empty one."""
    return escape_edges(escape(text).replace("\n", "&#10;")) if text else EMPTY


def unescape(text: str) -> str:
    """Return the value of an escaped text."""
    if text == EMPTY:
        return ""
    return _REFERENCE.sub(_unescape_reference, text) if "&#" in text else text


def _unescape_reference(match: re.Match[str]) -> str:
    code = int(match[1])
    return chr(code) if code in _ESCAPED or code in _SURROGATES else match[0]


def format_field_value(text: str) -> list[str]:
    """Return a value as lines, of which all but the last end with a hard break (a backslash)."""
    first, *others = escape_edges(escape(text), BLANK + "\n").split("\n")
    lines = [first, *(escape_first(line) if _STRUCTURE.match(line) else line for line in others)]
    lines = [line[:-1] + "&#92;" if line.endswith("\\") else line for line in lines]
    return [line + "\\" for line in lines[:-1]] + lines[-1:]


def parse_field_value(lines: Sequence[str]) -> str:
    """Return the value of lines written by `format_field_value`."""
    *continued, last = lines
    return unescape("\n".join([*(line[:-1] for line in continued), last]).strip(BLANK))


_LIST_MARK = re.compile(r"[()\[\],]")


@lru_cache(maxsize=1024)
def split_list(text: str) -> tuple[str, ...]:
    """Split a line at commas outside of brackets."""
    text = text.strip(BLANK)
    if text.lower() in ("", "-", "–", "—", "none", "(none)", "n/a"):
        return ()
    pieces, start, depth = [], 0, 0
    for mark in _LIST_MARK.finditer(text):
        if mark[0] in "([":
            depth += 1
        elif mark[0] in ")]":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0:
            pieces.append(text[start : mark.start()])
            start = mark.end()
    pieces = text.split(",") if depth else [*pieces, text[start:]]  # unpaired brackets are ordinary text
    return tuple(unescape(item) for piece in pieces if (item := piece.strip(BLANK)))


def join_list(items: Sequence[str]) -> str | None:
    """Return the items on one line; None if they would be split differently and need a line each."""
    text = ", ".join(map(escape_line, items))
    return text if split_list(text) == tuple(items) else None

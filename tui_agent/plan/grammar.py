"""The small forms that plan_doc.md is made of: section names, fields, boxes, times, the words for a status."""

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
SECTIONS = (GOAL, CRITERIA, MADE, REJECTED, LOG)
"""The sections that we know, in the order in which we write them."""

NAMES = {name.lower(): name for name in SECTIONS}
TITLE = re.compile(r"(?:plan[ \t]*:[ \t]*)?(.*)$", re.I)
BOX = re.compile(
    r"([ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]*)?\[)"
    r"([ \t]{0,3}[^\s\[\]]?\ufe0f?[ \t]{0,3})(\](?!\()[ \t]*)(.*)$"
)
BULLET = re.compile(r"((?:[-*+]|\d{1,9}[.)])[ \t]+)(.*)$")
_NAME = r"[ \t]*(?:[-*+][ \t]+)?(?:\*\*|__)[ \t]*{}[ \t]*(?::[ \t]*(?:\*\*|__)|(?:\*\*|__)[ \t]*:)[ \t]*(.*)$"
FIELD = re.compile(_NAME.format("([A-Za-z]+(?: [A-Za-z]+)?)"))
STATUS = re.compile(_NAME.format("status"), re.I)
ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_WHEN = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:(?:[ \t]{0,3}T[ \t]{0,3}|[ \t]{1,8})"
    r"(\d{1,2}:\d{2})(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?(?!\w)"
    r"[ \t]*(?:[-–—:|][ \t]*)?(.*)$"
)
RULE = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")
DONE_MARKS = frozenset("xX✓✔✅☑")
_WORDS = {"done": PlanStatus.COMPLETED, "complete": PlanStatus.COMPLETED, "inprogress": PlanStatus.IN_PROGRESS}
_WORDS |= {status.value.replace("_", ""): status for status in PlanStatus}

FIELDS = {
    "rationale": "rationale",
    "alternatives considered": "alternatives",
    "alternatives": "alternatives",
    "alternative": "alternatives",
    "alternative considered": "alternatives",
    "decided": "when",
    "rejected": "when",
    "date": "when",
    "actions": "details",
    "action": "details",
    "details": "details",
    "tools": "tools",
    "tools used": "tools",
    "tool": "tools",
    "result": "result",
    "results": "result",
}
"""Names of fields as they are read, without regard to case."""
LISTS = frozenset({"alternatives", "tools"})


def status_of(*said: Any) -> PlanStatus:
    """The first status that is meant by one of the texts; `planning` without any."""
    for one in said:
        words = re.sub(r"[^a-z ]", "", str(one or "").lower().replace("_", "").replace("-", "")).split()
        for word in ("".join(words), "".join(words[:2]), *words[:1]):
            if word in _WORDS:
                return _WORDS[word]
    return PlanStatus.PLANNING


def read_when(text: str) -> tuple[datetime | None, str]:
    """The local time at the beginning of `text`, to the minute, and what follows it; (None, text) without one."""
    match = _WHEN.match(text)
    if match is None:
        return None, text
    day, clock, zone, rest = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{(clock or '00:00').rjust(5, '0')}")
        if zone:
            offset = "+00:00" if zone == "Z" else zone
            moment = to_minute(datetime.fromisoformat(moment.isoformat() + offset))
        return moment, rest
    except (ValueError, OverflowError, OSError):
        return None, text


def section_name(text: str) -> str:
    """A heading's text as section names are compared: without numbers, signs and colon."""
    text = text.rstrip("#: \t*_").lower()
    return re.sub(r"^[\W\d_]+", "", text)


def criterion(said: str, completed: bool) -> Criterion:
    """The criterion that stands behind a box: description, and notes as ` *(…)*`."""
    notes = ""
    if said.endswith(")*"):
        at = said.rfind("*(")
        if at > 0 and said[at - 1] in BLANK and said[:at].strip(BLANK):
            said, notes = said[:at].rstrip(BLANK), said[at + 2 : -2].strip(BLANK)
    return Criterion(description=plain(said), completed=completed, notes=plain(notes))


EMPTY = "<!-- -->"
"""Stands for a value that is there and empty."""

BLANK = " \t"

_WRITTEN = (
    frozenset({9, 10, 13, 32, 0x2028, 0x2029, 0xFEFF, *map(ord, "#&*+-[_`~<\\")})
    | frozenset(range(ord("0"), ord("9") + 1))
    | frozenset((*range(32), *range(127, 160)))
    | frozenset(range(0xD800, 0xE000))
)
"""Characters that are ever written as references; others are read as they stand."""

_REFERENCE = re.compile(r"&#(\d{1,7});")
_REFERENCE_LIKE = re.compile(r"&(?=#\d{1,7};)")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_ODD = re.compile("[&<\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_STRUCTURE = re.compile(r"[ \t]*(?:#|```|~~~|\*\*|__|[-*+][ \t]+(?:\*\*|__))")
PLACEHOLDER = re.compile(
    r"\[(?:[^\[\]]*\bto be (?:defined|added|decided|determined|filled in)|[^\[\]]*\bwill (?:provide|be added)\b[^\[\]]*"
    r"|no [^\[\]]*\byet|none(?: yet)?|tbd|goal|your goal|clear goal description)\.?\]",
    re.IGNORECASE,
)
"""Bracketed stand-ins of the empty document: they read as nothing."""


def _reference(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in match.group())


def guard(text: str) -> str:
    """Running `text` with what only its characters make odd written as references; line breaks and tabs stay."""
    if _ODD.search(text) is None:
        return text
    text = _REFERENCE_LIKE.sub("&#38;", text)
    return UNSEEN.sub(_reference, text).replace(EMPTY, "&#60;" + EMPTY[1:])


def ends(text: str, blank: str = BLANK) -> str:
    """Blanks at either end as references, since readers and editors drop them."""
    core = text.strip(blank)
    if len(core) == len(text):
        return text
    if not core:
        return "".join(f"&#{ord(char)};" for char in text)
    before = len(text) - len(text.lstrip(blank))
    head = "".join(f"&#{ord(char)};" for char in text[:before])
    tail = "".join(f"&#{ord(char)};" for char in text[before + len(core) :])
    return head + core + tail


def first_as_reference(text: str) -> str:
    """`text` with its first character that is no blank written as a reference."""
    core = text.lstrip(BLANK)
    return f"{text[: len(text) - len(core)]}&#{ord(core[0])};{core[1:]}" if core else text


def inline(text: str) -> str:
    """A value on one line; '' becomes EMPTY."""
    if not text:
        return EMPTY
    return ends(guard(text).replace("\n", "&#10;"))


def plain(text: str) -> str:
    """The value that was written with references."""
    if text == EMPTY:
        return ""
    if "&#" not in text:
        return text
    return _REFERENCE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = int(match.group(1))
    return chr(code) if code in _WRITTEN else match.group()


def field_lines(text: str) -> list[str]:
    """A value of one or more lines behind a field's name; all lines but the last end with a hard break."""
    text = ends(guard(text), BLANK + "\n")
    if "\n" not in text:
        return [text[:-1] + "&#92;" if text.endswith("\\") else text]
    lines = text.split("\n")
    first, *rest = lines
    lines = [first, *(first_as_reference(line) if _STRUCTURE.match(line) else line for line in rest)]
    lines = [line[:-1] + "&#92;" if line.endswith("\\") else line for line in lines]
    return [line + "\\" for line in lines[:-1]] + lines[-1:]


def field_value(lines: Sequence[str]) -> str:
    """What `field_lines` wrote."""
    if len(lines) == 1:
        return plain(lines[0].strip(BLANK))
    *broken, last = lines
    return plain("\n".join([*(line[:-1] for line in broken), last]).strip(BLANK))


_LIST_SIGN = re.compile(r"[()\[\],]")
_NOTHING = ("", "-", "–", "—", "none", "(none)", "n/a")


@lru_cache(maxsize=1024)
def split_list(text: str) -> tuple[str, ...]:
    """The items of a line, parted by commas that stand in no brackets."""
    text = text.strip(BLANK)
    if text.lower() in _NOTHING:
        return ()
    if "(" not in text and "[" not in text:
        return tuple(plain(part) for piece in text.split(",") if (part := piece.strip(BLANK)))
    parts, depth, begin = [], 0, 0
    for sign in _LIST_SIGN.finditer(text):
        char = sign.group()
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0:
            parts.append(text[begin : sign.start()])
            begin = sign.end()
    # Brackets that do not pair say nothing about commas.
    parts = [*parts, text[begin:]] if depth == 0 else text.split(",")
    return tuple(plain(part) for piece in parts if (part := piece.strip(BLANK)))


def joined_list(items: Sequence[str]) -> str | None:
    """Items on one line; None when they would not come back so and need a line each."""
    text = ", ".join(inline(item) for item in items)
    return text if split_list(text) == tuple(items) else None

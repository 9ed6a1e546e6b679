"""The small forms that plan_doc.md is made of: section names, fields, boxes, times, the words for a status."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from tui_agent.plan.document import Criterion, PlanStatus, minute
from tui_agent.plan.values import BLANK, plain

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
_WORDS = {
    "done": PlanStatus.COMPLETED,
    "complete": PlanStatus.COMPLETED,
    "inprogress": PlanStatus.IN_PROGRESS,
}
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
            moment = minute(datetime.fromisoformat(moment.isoformat() + offset))
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

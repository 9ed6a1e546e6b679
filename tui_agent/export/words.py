"""How an export says things."""

from __future__ import annotations

from tui_agent.domain import Answer, Scope
from tui_agent.text import clean, one_line, reveal


def shown(text: str) -> str:
    """Text as it may stand in a document: no terminal control, and nothing that can't be seen (R-30, R-31)."""
    return reveal(clean(text)).strip("\n")


def duration(ms: int) -> str:
    """How long something took, in words; empty below a tenth of a second."""
    if ms < 100:
        return ""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def noted(*parts: str) -> str:
    """Short things on one line."""
    return " · ".join(one_line(part, 300) for part in parts if part)


def verdict(answer: Answer | None) -> str:
    """What was decided, in words."""
    if answer is None:
        return "none"
    by = "" if answer.by in ("user", "") else f" by {shown(answer.by)}"
    said = shown(answer.text)
    match answer.verdict:
        case "approve":
            scope = {Scope.SESSION: " for the session", Scope.ALWAYS: " always"}.get(answer.scope, "")
            hunks = (answer.data or {}).get("hunks")
            part = f", {len(hunks)} of its hunks" if isinstance(hunks, list) else ""
            return f"approved{scope}{by}{part}" + (f": {said}" if said else "")
        case "reject":
            return f"rejected{by}" + (f": {said}" if said else "")
        case "reply":
            return said
        case _:
            return "withdrawn"

"""Whether a step came out as expected: facts first, a model only where they settle nothing (W7)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.leave import NOT_OTHERWISE
from tui_agent.engine.plan_reading import find_object
from tui_agent.protocols.repair import Unreadable
from tui_agent.workplan import PlanStep

RAN_COMMANDS = "run_terminal_command"
_TAIL = 400
"""Characters of a failed command's output that are quoted."""

ErrorClass = Literal[
    "authentication",
    "missing_program",
    "missing_module",
    "not_found",
    "permission",
    "network",
    "busy",
    "timeout",
    "refused",
    "interrupted",
    "already_exists",
    "bad_arguments",
    "not_unique",
    "test_failure",
    "syntax",
    "resource",
    "other",
]

_BY_CODE: dict[str, ErrorClass] = {
    "refused": "refused",
    "interrupted": "interrupted",
    "timeout": "timeout",
    "not_found": "not_found",
    "not_unique": "not_unique",
    "bad_arguments": "bad_arguments",
    "unknown_tool": "bad_arguments",
}
_WRITTEN: tuple[tuple[ErrorClass, str], ...] = (
    (
        "authentication",
        r"authenticat|unauthori[sz]ed|\b403 (client error|forbidden)|{status}(401|403)\b"
        r"|could not read (username|password)|invalid credentials"
        r"|permission denied \(publickey|access denied|login required|not logged in|bad credentials",
    ),
    ("missing_program", r"command not found|not found in path|\bexit code 127\b|executable file not found"),
    ("missing_module", r"modulenotfounderror|no module named|cannot find module|importerror"),
    (
        "network",
        r"could not resolve|name or service not known|connection (refused|reset|timed out)|network is unreach"
        r"|temporary failure in name resolution|no route to host|broken pipe|unexpected eof|tls handshake",
    ),
    (
        "busy",
        r"{status}(429|503)\b|too many requests|rate.?limit|try again later"
        r"|temporarily unavailable|could not (get|acquire) .{0,60}lock|unable to (lock|acquire)"
        r"|\.lock['\"]?: file exists|database is locked|resource busy|text file busy|address already in use",
    ),
    ("already_exists", r"already exists|file exists"),
    ("permission", r"permission denied|operation not permitted|eacces|read-only file system"),
    ("not_found", r"no such file|not found|does not exist|cannot find|{status}404\b"),
    ("timeout", r"timed? ?out|stopped after \d+ s"),
    ("resource", r"no space left|out of memory|cannot allocate|too many open files|disk quota"),
    ("syntax", r"syntaxerror|syntax error|unexpected token|parse error|indentationerror"),
    ("test_failure", r"assertionerror|\b(test|tests) failed|failures?[=:] ?\d|\d+ failed\b|\bFAILED\b"),
)
_STATUS = r"\b(http(/\d(\.\d)?)?|status|error|code)\W{0,3}"
"""What stands before a server's status; the same digits also occur in names and sizes."""
_BY_TEXT = tuple(
    (name, re.compile(pattern.replace("{status}", _STATUS), re.IGNORECASE)) for name, pattern in _WRITTEN
)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the facts, or a model, say of an outcome."""

    met: bool | None
    """None: the facts don't settle it."""
    actual: str
    """What was seen, in a line or two."""
    error_class: str = ""


def error_class(result: ToolResult) -> ErrorClass:
    """The kind of a failed call, by its code and by what programs write. No knowledge of any particular task."""
    text = f"{result.error or ''}\n{result.data if isinstance(result.data, str) else ''}"
    by_code = _BY_CODE.get(result.code or "")
    if by_code in ("refused", "interrupted", "timeout"):
        return by_code
    found: ErrorClass | None = next((name for name, pattern in _BY_TEXT if pattern.search(text)), None)
    return found or by_code or "other"


def by_facts(step: PlanStep, done: Sequence[tuple[ToolCall, ToolResult]], outcome: str) -> Verdict:
    """What the calls of a step say by themselves: a refusal, an error or a bad exit code that nothing made good."""
    if outcome in ("failed", "unreachable", "limit", "interrupted"):
        last = _last_failure(done)
        said = f"the step ended early ({outcome})" + (f": {brief(last)}" if last else "")
        return Verdict(met=False, actual=said, error_class=error_class(last) if last else "other")
    planned = [result for call, result in done if step.tool and call.name == step.tool]
    decisive = planned or [result for _, result in done]
    if not decisive:
        wants_tool = bool(step.tool) and step.tool != "show_diff"
        if wants_tool:
            return Verdict(met=False, actual=f"{step.tool} was never called", error_class="other")
        return Verdict(met=None, actual="no tool was needed")
    last = decisive[-1]
    if not last.success:
        return Verdict(met=False, actual=brief(last), error_class=error_class(last))
    # A call that went well says nothing about what was expected beyond its going well.
    settled = not step.expected.strip() or _only_expects_success(step)
    return Verdict(met=True if settled else None, actual=brief(last))


def _only_expects_success(step: PlanStep) -> bool:
    """Writes and reads: when the call went well the file is there or its text was seen; there is nothing to judge."""
    return step.tool in ("read_file", "write_file", "edit_file", "list_files", "show_diff")


def read_verdict(text: str, fallback: Verdict) -> Verdict:
    """A model's `{met, evidence}`. Unreadable: what went well counts as met, since nothing spoke against it."""
    try:
        given = find_object(text, ("met",))
    except Unreadable:
        return Verdict(met=True, actual=fallback.actual)
    met = given.get("met")
    if isinstance(met, str):
        met = met.strip().lower() in ("true", "yes", "1", "met")
    evidence = given.get("evidence")
    said = evidence.strip() if isinstance(evidence, str) and evidence.strip() else fallback.actual
    return Verdict(met=bool(met), actual=said[:_TAIL], error_class="" if met else "other")


def brief(result: ToolResult) -> str:
    """A result in a line or two: how it ended, and the end of what it printed; without what only a model is told."""
    text = result.data if isinstance(result.data, str) else ""
    tail = text.strip()[-_TAIL:]
    if result.success:
        return tail.splitlines()[-1] if tail else "it worked"
    return f"{(result.error or 'it failed').removesuffix(NOT_OTHERWISE)}" + (f"\n{tail}" if tail else "")


def _last_failure(done: Sequence[tuple[ToolCall, ToolResult]]) -> ToolResult | None:
    return next((result for _, result in reversed(done) if not result.success), None)

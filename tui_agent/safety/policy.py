"""Who is asked when: the matrix of A4 as a table, and the leave that stands (A2, A4, W11). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from tui_agent.domain import (
    Action,
    ApprovalMode,
    Editing,
    Grant,
    Mode,
    Reading,
    Running,
    Severity,
    Trusting,
)
from tui_agent.safety import standing
from tui_agent.settings import Settings

Decision: TypeAlias = Literal["run", "ask", "refuse"]
Row: TypeAlias = Literal[
    "reading",
    "reading_more",
    "edit",
    "sensitive",
    "protected",
    "outside",
    "unasked",
    "command",
    "high",
    "critical",
    "always_ask",
]

_COLUMNS = (ApprovalMode.ASK, ApprovalMode.AUTO_EDIT, ApprovalMode.AUTO, ApprovalMode.READ_ONLY)
_MATRIX: dict[Row, tuple[Decision, Decision, Decision, Decision]] = {
    "reading": ("run", "run", "run", "run"),
    "reading_more": ("ask", "ask", "ask", "refuse"),
    "edit": ("ask", "run", "run", "refuse"),
    "sensitive": ("ask", "ask", "ask", "refuse"),
    "protected": ("ask", "ask", "ask", "refuse"),
    "outside": ("ask", "ask", "ask", "refuse"),
    "unasked": ("run", "run", "run", "run"),
    "command": ("ask", "ask", "run", "refuse"),
    "high": ("ask", "ask", "ask", "refuse"),
    "critical": ("ask", "ask", "ask", "refuse"),
    "always_ask": ("ask", "ask", "ask", "refuse"),
}
_UNGRANTABLE: frozenset[Row] = frozenset({"protected", "critical", "always_ask"})
"""Rows that no standing leave covers."""

_STRICTNESS: tuple[Decision, ...] = ("run", "ask", "refuse")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is to happen with an action."""

    decision: Decision
    rule: str
    """Why, in a sentence without its full stop: shown to the user, journaled, told to the model when refused."""
    grants: tuple[Grant, ...] = ()
    """With `ask`: what "for this session" and "always" would store, at most one of each."""


def judge(
    action: Action,
    *,
    mode: Mode,
    approval_mode: ApprovalMode,
    settings: Settings,
    grants: Iterable[Grant] = (),
    may_ask: bool = True,
    sandboxed: bool = False,
) -> Verdict:
    """Whether `action` runs, is asked for or is refused.

    `grants` are the standing ones of session and user; `may_ask` False turns *ask* into *refuse* (nobody is there);
    `sandboxed` tells that the command would run in a sandbox.
    """
    if isinstance(action, Trusting):
        return _asked(Verdict(decision="ask", rule="A folder is interpreted only once you trust it"), may_ask)
    row = _row(action)
    decision = _decide(row, approval_mode, settings, sandboxed)
    why = _why(row, action, approval_mode)
    if mode.reads_only and not isinstance(action, Reading):
        in_mode = _in_mode(row, action, mode)
        if _STRICTNESS.index(in_mode) > _STRICTNESS.index(decision):
            decision, why = in_mode, _only_reads(f"{mode} mode", action)
    if decision == "ask" and row not in _UNGRANTABLE:
        exactly = row != "edit"
        leave = next((grant for grant in grants if standing.covers(grant, action, exactly=exactly)), None)
        if leave is not None:
            return Verdict(decision="run", rule=standing.sentence(leave))
        return _asked(
            Verdict(decision="ask", rule=why, grants=standing.offers(action, exactly=exactly)), may_ask
        )
    return _asked(Verdict(decision=decision, rule=why), may_ask)


def _asked(verdict: Verdict, may_ask: bool) -> Verdict:
    if verdict.decision != "ask" or may_ask:
        return verdict
    return Verdict(decision="refuse", rule=f"{verdict.rule}, and no user is present to be asked")


def _row(action: Reading | Editing | Running) -> Row:
    """The row of A4 that fits, the strictest first."""
    row: Row
    if isinstance(action, Reading):
        row = "reading_more" if action.outside or action.credentials else "reading"
    elif isinstance(action, Editing):
        if action.protected:
            row = "protected"
        elif action.outside:
            row = "outside"
        else:
            row = "sensitive" if action.sensitive else "edit"
    elif action.always_ask:
        row = "always_ask"
    elif action.severity is Severity.CRITICAL:
        row = "critical"
    elif action.severity is Severity.HIGH:
        row = "high"
    else:
        row = "unasked" if action.unasked and action.severity is Severity.NONE else "command"
    return row


def _decide(row: Row, approval_mode: ApprovalMode, settings: Settings, sandboxed: bool) -> Decision:
    """The cell of the matrix, with what the settings change in it."""
    decision = _MATRIX[row][_COLUMNS.index(approval_mode)]
    match row, approval_mode:
        case "unasked", ApprovalMode.ASK if not settings.auto_run:
            return "ask"
        case "sensitive", (ApprovalMode.AUTO_EDIT | ApprovalMode.AUTO) if (
            settings.auto_approve_sensitive_edits
        ):
            return "run"
        case "high", ApprovalMode.AUTO if settings.auto_approve_high and sandboxed:
            return "run"
    return decision


def _in_mode(row: Row, action: Editing | Running, mode: Mode) -> Decision:
    """What a mode that only reads allows: commands that can only read, in review alone (W11)."""
    if isinstance(action, Running) and mode is not Mode.REVIEW:
        return "refuse"
    return _MATRIX[row][_COLUMNS.index(ApprovalMode.READ_ONLY)]


def _why(row: Row, action: Reading | Editing | Running, approval_mode: ApprovalMode) -> str:
    if approval_mode is ApprovalMode.READ_ONLY and _MATRIX[row][-1] == "refuse":
        return _only_reads("Approval mode read-only", action)
    return {
        "reading": "Reading inside the workspace needs no leave",
        "reading_more": _why_reading(action),
        "edit": f"Approval mode {approval_mode}: edits inside the workspace",
        "sensitive": "This file is on the list of sensitive files",
        "protected": "This file is protected: its change is always asked for",
        "outside": "This file lies outside the workspace",
        "unasked": "This command can only read and print",
        "command": f"Approval mode {approval_mode}: {_commands(action)}",
        "high": "This command can do lasting harm (high severity)",
        "critical": "This command can destroy data beyond repair (critical severity)",
        "always_ask": "This kind of command is always asked for",
    }[row]


def _why_reading(action: Reading | Editing | Running) -> str:
    if isinstance(action, Reading) and action.credentials:
        return "This file holds credentials"
    return "This lies outside the workspace"


def _commands(action: Reading | Editing | Running) -> str:
    if not isinstance(action, Running):
        return ""
    if action.severity is Severity.NONE:
        return "commands that may do more than read and print"
    return f"commands of {action.severity} severity"


def _only_reads(who: str, action: Reading | Editing | Running) -> str:
    """Why a mode refuses, with what the model can do instead (W11)."""
    if isinstance(action, Reading):
        return f"{who} keeps to the workspace and to files without credentials; go on without this file"
    if isinstance(action, Editing) and who == f"{Mode.PLAN} mode":
        return f"{who} changes no file: propose the change in your reply, and what it means for the plan by update_plan"
    if isinstance(action, Editing):
        return f"{who} changes no file; describe the change in your reply, the user can switch modes to have it made"
    if who.endswith(" mode") and who != f"{Mode.REVIEW} mode":
        return f"{who} runs no commands; use the tools that read and search, or tell the user what to run"
    return (
        f"{who} runs only commands that read and print; use the reading tools, or tell the user what to run"
    )

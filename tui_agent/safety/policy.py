"""Who is asked when: the matrix of A4 as a table, and the grants that stand (A2, A4, W11)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import (
    Action,
    ApprovalMode,
    EditAction,
    Grant,
    Mode,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.safety import decision_files, globs
from tui_agent.safety.roots import safety_table
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
    cannot_undo: str = ""
    """Why an edit can't be undone: it is asked for, whatever the rules."""


def judge(
    action: Action,
    *,
    mode: Mode,
    approval_mode: ApprovalMode,
    settings: Settings,
    grants: Iterable[Grant] = (),
    sandboxed: bool = False,
) -> Verdict:
    """Whether `action` runs, is asked for or is refused.

    `grants` are the standing ones of session and user; `sandboxed` tells that the command would run in a sandbox.
    """
    if isinstance(action, TrustAction):
        return Verdict(decision="ask", rule="A folder is interpreted only once you trust it")
    row = _row(action)
    decision = _decide(row, approval_mode, settings, sandboxed)
    why = _why(row, action, approval_mode)
    if mode.reads_only and not isinstance(action, ReadAction):
        in_mode = _in_mode(row, action, mode)
        if _STRICTNESS.index(in_mode) > _STRICTNESS.index(decision):
            decision, why = in_mode, _only_reads(f"{mode} mode", action)
    if decision == "ask" and row not in _UNGRANTABLE:
        exactly = row != "edit"
        leave = next((grant for grant in grants if covers(grant, action, exactly=exactly)), None)
        if leave is not None:
            return Verdict(decision="run", rule=describe_grant(leave))
        return Verdict(decision="ask", rule=why, grants=offered_grants(action, exactly=exactly))
    return Verdict(decision=decision, rule=why)


def _row(action: ReadAction | EditAction | RunAction) -> Row:
    """The row of A4 that fits, the strictest first."""
    row: Row
    if isinstance(action, ReadAction):
        row = "reading_more" if action.outside or action.credentials else "reading"
    elif isinstance(action, EditAction):
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
        row = "unasked" if action.safe and action.severity is Severity.NONE else "command"
    return row


def _decide(row: Row, approval_mode: ApprovalMode, settings: Settings, sandboxed: bool) -> Decision:
    """The cell of the matrix, with what the settings change in it."""
    decision = _MATRIX[row][_COLUMNS.index(approval_mode)]
    match row, approval_mode:
        case "unasked", ApprovalMode.ASK if not settings.auto_run:
            return "ask"
        case "sensitive", (ApprovalMode.AUTO_EDIT | ApprovalMode.AUTO) if settings.auto_approve_sensitive_edits:
            return "run"
        case "high", ApprovalMode.AUTO if settings.auto_approve_high and sandboxed:
            return "run"
    return decision


def _in_mode(row: Row, action: EditAction | RunAction, mode: Mode) -> Decision:
    """What a mode that only reads allows: commands that can only read, in review alone (W11)."""
    if isinstance(action, RunAction) and mode is not Mode.REVIEW:
        return "refuse"
    return _MATRIX[row][_COLUMNS.index(ApprovalMode.READ_ONLY)]


def _why(row: Row, action: ReadAction | EditAction | RunAction, approval_mode: ApprovalMode) -> str:
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


def _why_reading(action: ReadAction | EditAction | RunAction) -> str:
    if isinstance(action, ReadAction) and action.credentials:
        return "This file holds credentials"
    return "This lies outside the workspace"


def _commands(action: ReadAction | EditAction | RunAction) -> str:
    if not isinstance(action, RunAction):
        return ""
    if action.severity is Severity.NONE:
        return "commands that may do more than read and print"
    return f"commands of {action.severity} severity"


def _only_reads(who: str, action: ReadAction | EditAction | RunAction) -> str:
    """Why a mode refuses, with what the model can do instead (W11)."""
    if isinstance(action, ReadAction):
        return f"{who} keeps to the workspace and to files without credentials; go on without this file"
    if isinstance(action, EditAction) and who == f"{Mode.PLAN} mode":
        return f"{who} changes no file: propose the change in your reply, and what it means for the plan by update_plan"
    if isinstance(action, EditAction):
        return f"{who} changes no file; describe the change in your reply, the user can switch modes to have it made"
    if who.endswith(" mode") and who != f"{Mode.REVIEW} mode":
        return f"{who} runs no commands; use the tools that read and search, or tell the user what to run"
    return f"{who} runs only commands that read and print; use the reading tools, or tell the user what to run"


# --- grants ---

_VERSIONED = re.compile(r"[\d.]+$")
_SYNTAX = re.compile(r"[<>$`(){}\[\]*?!~#\n\r\\]|(?<!&)&(?!&)")
_SEPARATORS = frozenset({"&&", "||", ";", "|"})
_STANDS_FOR = re.compile("[\u2400-\u2426]|<U\\+|⟨")
"""In a shown path: may stand for another character, so that two files can be shown alike."""


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(safety_table()[name].split())


def covers(grant: Grant, action: Action, *, exactly: bool) -> bool:
    """Whether `grant` is leave for `action`. With `exactly` only a grant for this very file counts, no wider glob."""
    if isinstance(action, RunAction):
        return (
            grant.kind == "run"
            and grant.pattern == action.command
            and grant.cwd == action.cwd
            and grant.env_changes == action.env_changes
            and (grant.scope is not Scope.ALWAYS or may_always(action.command))
        )
    if isinstance(action, ReadAction | EditAction):
        kind = "read" if isinstance(action, ReadAction) else "edit"
        if grant.kind != kind or _STANDS_FOR.search(action.display):
            return False
        return grant.pattern == literal_glob(action.display) or (
            not exactly and globs.matches(grant.pattern, action.display)
        )
    return False


def offered_grants(action: Action, *, exactly: bool) -> tuple[Grant, ...]:
    """What "for this session" and "always" would store for `action`."""
    if isinstance(action, RunAction):
        exact = Grant(
            kind="run", pattern=action.command, cwd=action.cwd, env_changes=action.env_changes, scope=Scope.SESSION
        )
        if action.env_changes or not may_always(action.command):
            return (exact,)
        return exact, msgspec.structs.replace(exact, scope=Scope.ALWAYS)
    if isinstance(action, ReadAction | EditAction) and _STANDS_FOR.search(action.display):
        return ()
    if isinstance(action, ReadAction):
        grants = [Grant(kind="read", pattern=literal_glob(action.display), scope=Scope.SESSION)]
        if not action.credentials:
            grants.append(Grant(kind="read", pattern=literal_glob(action.display), scope=Scope.ALWAYS))
        return tuple(grants)
    if isinstance(action, EditAction):
        same = literal_glob(action.display)
        wide = same if exactly else _neighbours(action.display)
        return (
            Grant(kind="edit", pattern=same, scope=Scope.SESSION),
            Grant(kind="edit", pattern=wide, scope=Scope.ALWAYS),
        )
    return ()


def describe_grant(grant: Grant) -> str:
    """A grant in words, for user and journal."""
    how = {Scope.ONCE: "once", Scope.SESSION: "for this session", Scope.ALWAYS: "always"}[grant.scope]
    what = {"read": "reading", "edit": "edits of", "run": "the command"}[grant.kind]
    where = f" in {grant.cwd}" if grant.cwd else ""
    given = f" with {', '.join(grant.env_changes)}" if grant.env_changes else ""
    return f"You allowed {how}: {what} {grant.pattern}{where}{given}"


def literal_glob(path: str) -> str:
    """A glob that matches `path` and nothing else."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def may_always(command: str) -> bool:
    """Whether `command` may be allowed once and for all: plain words, and no program that runs or fetches others."""
    if _SYNTAX.search(command) or not command.isprintable():
        return False
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return False
    commands: list[list[str]] = [[]]
    for word in words:
        if word in _SEPARATORS:
            commands.append([])
        elif set(word) <= set("|&;"):
            return False
        else:
            commands[-1].append(word)
    return all(_may_always(one) for one in commands)


def _may_always(words: list[str]) -> bool:
    if not words or "=" in words[0]:
        return False
    name, rest = os.path.basename(words[0]), words[1:]
    program = _VERSIONED.sub("", name)
    if program in _words("never_always") or name in _words("never_always"):
        return False
    if program == "git":
        return bool(rest) and rest[0] in _words("git")
    if program in _words("installers"):
        return bool(rest) and rest[0].partition(":")[0] in _words("harmless_arguments") and not _runs_other(rest)
    return True


def _runs_other(rest: list[str]) -> bool:
    """True for `uv run python …`: the installer starts a program that may not be allowed always itself."""
    programs = {_VERSIONED.sub("", os.path.basename(word)) for word in rest[1:]}
    return rest[0] == "run" and bool(programs & _words("never_always"))


def _neighbours(display: str) -> str:
    """The files of the same folder and kind as `display`; itself where that would be everything at the top."""
    folder, slash, name = display.rpartition("/")
    suffix = os.path.splitext(name)[1]
    if not slash or not suffix:
        return literal_glob(display)
    return f"{literal_glob(folder)}/*{literal_glob(suffix)}"


def load_grants(workspace: Path) -> tuple[Grant, ...]:
    """The grants that always hold in `workspace`. What can't be read, or may not be granted, is left out."""
    found: list[Grant] = []
    for entry in _entries(decision_files.read_decisions(paths.grants_file()), workspace):
        grant = _read(entry)
        if grant is not None and grant.scope is Scope.ALWAYS and _keepable(grant) and grant not in found:
            found.append(grant)
    return tuple(found)


def save_grant(workspace: Path, grant: Grant) -> None:
    """Keep `grant` for `workspace`. Raises DecisionsNotSaved, and ValueError for what may never be kept."""
    if grant.scope is not Scope.ALWAYS or not _keepable(grant):
        raise ValueError(f"this can't be allowed permanently: {grant.pattern}")

    def add(held: dict[str, Any]) -> None:
        known = _entries(held, workspace)
        if grant not in map(_read, known):
            _put(held, workspace, [*known, msgspec.to_builtins(grant)])

    decision_files.change_decisions(paths.grants_file(), add)


def revoke_grant(workspace: Path, grant: Grant) -> None:
    """Take `grant` back. Raises DecisionsNotSaved."""

    def remove(held: dict[str, Any]) -> None:
        _put(held, workspace, [one for one in _entries(held, workspace) if _read(one) != grant])

    decision_files.change_decisions(paths.grants_file(), remove)


def _read(entry: Any) -> Grant | None:
    try:
        return msgspec.convert(entry, Grant)
    except msgspec.ValidationError:
        return None


def _keepable(grant: Grant) -> bool:
    """Variables are those of one session's shell, so no lasting leave can depend on them."""
    return grant.kind != "run" or (grant.cwd is not None and not grant.env_changes and may_always(grant.pattern))


def _entries(held: dict[str, Any], workspace: Path) -> list[Any]:
    workspaces = held.get("workspaces")
    found = workspaces.get(os.path.realpath(workspace)) if isinstance(workspaces, dict) else None
    return found if isinstance(found, list) else []


def _put(held: dict[str, Any], workspace: Path, entries: list[Any]) -> None:
    workspaces = held.setdefault("workspaces", {})
    if not isinstance(workspaces, dict):
        raise ValueError('"workspaces" is not an object')
    if entries:
        workspaces[os.path.realpath(workspace)] = entries
    else:
        workspaces.pop(os.path.realpath(workspace), None)

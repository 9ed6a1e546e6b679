"""The approval policy: the matrix of A4, and the grants (A2, A4, W11)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
from tui_agent.events.grant_texts import DURATIONS, grant_text
from tui_agent.safety import decision_files, globs, tables
from tui_agent.safety.tables import Decision
from tui_agent.settings import Settings

_COLUMNS = (ApprovalMode.ASK, ApprovalMode.AUTO_EDIT, ApprovalMode.AUTO, ApprovalMode.READ_ONLY)
_UNGRANTABLE = frozenset(("protected", "critical", "always_ask"))
"""Rows of the matrix that no grant covers."""
_STRICTNESS: tuple[Decision, ...] = ("run", "ask", "refuse")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an action runs, needs approval or is refused."""

    decision: Decision
    rule: str
    """The reason, a sentence without a full stop: shown to the user, journaled, and sent to the model if refused."""
    grants: tuple[Grant, ...] = ()
    """With `ask`: the grants that "for this session" and "always" would save, at most one of each."""
    cannot_undo: str = ""
    """Why an edit can't be undone; it then always needs approval."""


def judge(
    action: Action,
    *,
    mode: Mode,
    approval_mode: ApprovalMode,
    settings: Settings,
    grants: Iterable[Grant] = (),
    sandboxed: bool = False,
) -> Verdict:
    """Return the verdict on an action.

    `grants` are those of session and user; `sandboxed`: the command would run in a sandbox.
    """
    if isinstance(action, TrustAction):
        return Verdict(decision="ask", rule="A folder is interpreted only once you trust it")
    row = _row(action)
    decision = _decide(row, approval_mode, settings, sandboxed)
    if approval_mode is ApprovalMode.READ_ONLY and decision == "refuse":
        reason = _refusal("Approval mode read-only", action)
    else:
        reason = tables.MATRIX[row][-1].format(approval_mode=approval_mode)
    if mode.reads_only and not isinstance(action, ReadAction):
        mode_decision = _read_only_decision(row, action, mode)
        if _STRICTNESS.index(mode_decision) > _STRICTNESS.index(decision):
            decision, reason = mode_decision, _refusal(f"{mode} mode", action)
    if decision == "ask" and row not in _UNGRANTABLE:
        exactly = row != "edit"
        grant = next((grant for grant in grants if covers(grant, action, exactly=exactly)), None)
        if grant is not None:
            return Verdict(decision="run", rule=describe_grant(grant))
        return Verdict(decision="ask", rule=reason, grants=offered_grants(action, exactly=exactly))
    return Verdict(decision=decision, rule=reason)


def _row(action: ReadAction | EditAction | RunAction) -> str:
    """Return the strictest row of A4's matrix that applies."""
    match action:
        case ReadAction():
            return "reading_credentials" if action.credentials else "reading_outside" if action.outside else "reading"
        case EditAction():
            return next((name for name in ("protected", "outside", "sensitive") if getattr(action, name)), "edit")
        case RunAction(always_ask=True):
            return "always_ask"
        case RunAction(severity=Severity.CRITICAL | Severity.HIGH):
            return str(action.severity)
        case RunAction() if action.credentials:
            return "command_credentials"
        case RunAction() if action.outside:
            return "command_outside"
        case RunAction(unfamiliar=True):
            return "unfamiliar"
        case RunAction(severity=Severity.NONE):
            return "safe_command" if action.safe else "command"
        case RunAction():
            return str(action.severity)


def _cell(row: str, approval_mode: ApprovalMode) -> Decision:
    return tables.MATRIX[row][:-1][_COLUMNS.index(approval_mode)]


def _decide(row: str, approval_mode: ApprovalMode, settings: Settings, sandboxed: bool) -> Decision:
    """Return the cell of the matrix, as changed by the settings."""
    match row, approval_mode:
        case "safe_command", ApprovalMode.ASK if not settings.auto_run:
            return "ask"
        case "sensitive", (ApprovalMode.AUTO_EDIT | ApprovalMode.AUTO) if settings.auto_approve_sensitive_edits:
            return "run"
        case "high", ApprovalMode.AUTO if settings.auto_approve_high and sandboxed:
            return "run"
    return _cell(row, approval_mode)


def _read_only_decision(row: str, action: EditAction | RunAction, mode: Mode) -> Decision:
    """Return what a read-only mode allows: safe commands only in review mode (W11)."""
    if isinstance(action, RunAction) and mode is not Mode.REVIEW:
        return "refuse"
    return _cell(row, ApprovalMode.READ_ONLY)


def _refusal(mode: str, action: ReadAction | EditAction | RunAction) -> str:
    """Return why a read-only mode refuses an action, and what the model can do instead (W11)."""
    if isinstance(action, ReadAction):
        kind = "reading"
    elif isinstance(action, EditAction):
        kind = "edit_in_plan_mode" if mode == f"{Mode.PLAN} mode" else "edit"
    else:
        kind = "any_command" if mode.endswith(" mode") and mode != f"{Mode.REVIEW} mode" else "command"
    return str(tables.REFUSALS[kind].format(mode=mode))


# --- grants ---

_VERSION_SUFFIX = re.compile(r"[\d.]+$")
_SHELL_SYNTAX = re.compile(r"[<>$`(){}\[\]*?!~#\n\r\\]|(?<!&)&(?!&)")
_SEPARATORS = frozenset({"&&", "||", ";", "|"})
_REPLACEMENT = re.compile("[\u2400-\u2426]|<U\\+|⟨")
"""Characters in a displayed path that may replace others, so that two files can look the same."""


def covers(grant: Grant, action: Action, *, exactly: bool) -> bool:
    """Return whether `grant` covers `action`; with `exactly` only if it is for this very file, not by a wider glob."""
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
        if grant.kind != kind or _REPLACEMENT.search(action.display):
            return False
        return grant.pattern == literal_glob(action.display) or (
            not exactly and globs.matches(grant.pattern, action.display)
        )
    return False


def offered_grants(action: Action, *, exactly: bool) -> tuple[Grant, ...]:
    """Return the grants that "for this session" and "always" would save for `action`."""
    if isinstance(action, RunAction):
        once = Grant(
            kind="run", pattern=action.command, cwd=action.cwd, env_changes=action.env_changes, scope=Scope.SESSION
        )
        if action.env_changes or action.credentials or not may_always(action.command):
            return (once,)
        return once, msgspec.structs.replace(once, scope=Scope.ALWAYS)
    if isinstance(action, ReadAction | EditAction) and _REPLACEMENT.search(action.display):
        return ()
    if isinstance(action, ReadAction):
        once = Grant(kind="read", pattern=literal_glob(action.display), scope=Scope.SESSION)
        return (once,) if action.credentials else (once, msgspec.structs.replace(once, scope=Scope.ALWAYS))
    if isinstance(action, EditAction):
        file = literal_glob(action.display)
        similar = file if exactly else _similar_files(action.display)
        return (
            Grant(kind="edit", pattern=file, scope=Scope.SESSION),
            Grant(kind="edit", pattern=similar, scope=Scope.ALWAYS),
        )
    return ()


def describe_grant(grant: Grant) -> str:
    """Return a grant in words, for user and journal."""
    return f"You allowed {DURATIONS[grant.scope]}: {grant_text(grant)}"


def literal_glob(path: str) -> str:
    """Return a glob that matches only `path`."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def may_always(command: str) -> bool:
    """Return whether `command` may be allowed permanently: plain words, and no program that runs or fetches others."""
    if _SHELL_SYNTAX.search(command) or not command.isprintable():
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
    return all(map(_is_grantable, commands))


def _is_grantable(words: list[str]) -> bool:
    if not words or "=" in words[0]:
        return False
    name, arguments = os.path.basename(words[0]), words[1:]
    program = _VERSION_SUFFIX.sub("", name)
    if program in tables.NEVER_ALWAYS or name in tables.NEVER_ALWAYS:
        return False
    if program == "git":
        return bool(arguments) and arguments[0] in tables.GIT
    if program in tables.INSTALLERS:
        is_harmless = bool(arguments) and arguments[0].partition(":")[0] in tables.HARMLESS_ARGUMENTS
        return is_harmless and not _runs_program(arguments)
    return True


def _runs_program(arguments: list[str]) -> bool:
    """Return whether an installer starts a program that may not be allowed permanently, as `uv run python` does."""
    programs = {_VERSION_SUFFIX.sub("", os.path.basename(word)) for word in arguments[1:]}
    return arguments[0] == "run" and bool(programs & tables.NEVER_ALWAYS)


def _similar_files(display: str) -> str:
    """Return a glob for the files of the same folder and suffix; only the file itself at the top of the workspace."""
    folder, slash, name = display.rpartition("/")
    suffix = os.path.splitext(name)[1]
    if not slash or not suffix:
        return literal_glob(display)
    return f"{literal_glob(folder)}/*{literal_glob(suffix)}"


def load_grants(workspace: Path) -> tuple[Grant, ...]:
    """Return the permanent grants of `workspace`, without entries that can't be read or may not be granted."""
    grants: list[Grant] = []
    for entry in _entries(decision_files.read_decisions(paths.grants_file()), workspace):
        grant = _read(entry)
        if grant is not None and grant.scope is Scope.ALWAYS and _may_save(grant) and grant not in grants:
            grants.append(grant)
    return tuple(grants)


def save_grant(workspace: Path, grant: Grant) -> None:
    """Save `grant` for `workspace`. Raises DecisionsNotSaved, and ValueError if it may not be saved."""
    if grant.scope is not Scope.ALWAYS or not _may_save(grant):
        raise ValueError(f"this can't be allowed permanently: {grant.pattern}")

    def add(decisions: dict[str, Any]) -> None:
        entries = _entries(decisions, workspace)
        if grant not in map(_read, entries):
            _set_entries(decisions, workspace, [*entries, msgspec.to_builtins(grant)])

    decision_files.change_decisions(paths.grants_file(), add)


def revoke_grant(workspace: Path, grant: Grant) -> None:
    """Revoke `grant`. Raises DecisionsNotSaved."""

    def remove(decisions: dict[str, Any]) -> None:
        entries = _entries(decisions, workspace)
        _set_entries(decisions, workspace, [entry for entry in entries if _read(entry) != grant])

    decision_files.change_decisions(paths.grants_file(), remove)


def _read(entry: Any) -> Grant | None:
    try:
        return msgspec.convert(entry, Grant)
    except msgspec.ValidationError:
        return None


def _may_save(grant: Grant) -> bool:
    """Return whether a grant may be permanent; one that depends on variables of a session's shell may not."""
    return grant.kind != "run" or (grant.cwd is not None and not grant.env_changes and may_always(grant.pattern))


def _entries(decisions: dict[str, Any], workspace: Path) -> list[Any]:
    workspaces = decisions.get("workspaces")
    entries = workspaces.get(os.path.realpath(workspace)) if isinstance(workspaces, dict) else None
    return entries if isinstance(entries, list) else []


def _set_entries(decisions: dict[str, Any], workspace: Path, entries: list[Any]) -> None:
    workspaces = decisions.setdefault("workspaces", {})
    if not isinstance(workspaces, dict):
        raise ValueError('"workspaces" is not an object')
    if entries:
        workspaces[os.path.realpath(workspace)] = entries
    else:
        workspaces.pop(os.path.realpath(workspace), None)

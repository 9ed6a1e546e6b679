"""The "always" grants: kept in the user's own folder, by the workspace's real path, never in the workspace (R-14)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import paths
from tui_agent.domain import Grant, Scope
from tui_agent.safety import kept
from tui_agent.safety.standing import may_always


def load(workspace: Path) -> tuple[Grant, ...]:
    """The grants that always hold in `workspace`. What can't be read, or may not be granted, is left out."""
    found: list[Grant] = []
    for entry in _entries(kept.read(paths.grants_file()), workspace):
        grant = _read(entry)
        if grant is not None and grant.scope is Scope.ALWAYS and _keepable(grant) and grant not in found:
            found.append(grant)
    return tuple(found)


def save(workspace: Path, grant: Grant) -> None:
    """Keep `grant` for `workspace`. Raises kept.CannotKeep, and ValueError for what may never be kept."""
    if grant.scope is not Scope.ALWAYS or not _keepable(grant):
        raise ValueError(f"this is never allowed for good: {grant.pattern}")

    def add(held: dict[str, Any]) -> None:
        known = _entries(held, workspace)
        if grant not in map(_read, known):
            _put(held, workspace, [*known, msgspec.to_builtins(grant)])

    kept.change(paths.grants_file(), add)


def revoke(workspace: Path, grant: Grant) -> None:
    """Take `grant` back. Raises kept.CannotKeep."""

    def remove(held: dict[str, Any]) -> None:
        _put(held, workspace, [one for one in _entries(held, workspace) if _read(one) != grant])

    kept.change(paths.grants_file(), remove)


def _read(entry: Any) -> Grant | None:
    try:
        return msgspec.convert(entry, Grant)
    except msgspec.ValidationError:
        return None


def _keepable(grant: Grant) -> bool:
    """Variables are those of one session's shell, so no lasting leave can depend on them."""
    return grant.kind != "run" or (
        grant.cwd is not None and not grant.env_changes and may_always(grant.pattern)
    )


def _entries(held: dict[str, Any], workspace: Path) -> list[Any]:
    workspaces = held.get("workspaces")
    found = workspaces.get(os.path.realpath(workspace)) if isinstance(workspaces, dict) else None
    return found if isinstance(found, list) else []


def _put(held: dict[str, Any], workspace: Path, entries: list[Any]) -> None:
    workspaces = held.setdefault("workspaces", {})
    if not isinstance(workspaces, dict):
        raise ValueError("«workspaces» is no object")
    if entries:
        workspaces[os.path.realpath(workspace)] = entries
    else:
        workspaces.pop(os.path.realpath(workspace), None)

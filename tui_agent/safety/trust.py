"""The folders that the user trusts, and what would be interpreted in a trusted folder (A8)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui_agent.common import paths
from tui_agent.safety import decision_files, globs
from tui_agent.safety.roots import safety_table

_MAX_NAMES = 40
"""Names in a survey."""

_MAX_ENTRIES = 10_000
"""Entries of a folder that a survey checks."""


def is_trusted(folder: Path) -> bool:
    """Return whether `folder`, by its real path, is trusted or inside of a trusted folder.

    Trust in the home folder or in `/` covers only that folder itself, as nearly everything is inside of them.
    """
    path = os.path.realpath(folder)
    not_inherited = {"/", _home()}
    trusted = decision_files.read_decisions(paths.trust_file()).get("trusted")
    if not isinstance(trusted, dict):
        return False
    return path in trusted or any(
        str(parent) in trusted and str(parent) not in not_inherited for parent in Path(path).parents
    )


def trust(folder: Path) -> None:
    """Save that the user trusts `folder`, by its real path. Raises decision_files.DecisionsNotSaved."""
    path = os.path.realpath(folder)

    def add(decisions: dict[str, Any]) -> None:
        trusted = decisions.setdefault("trusted", {})
        if not isinstance(trusted, dict):
            raise ValueError('"trusted" is not an object')
        trusted.setdefault(path, datetime.now(UTC).isoformat(timespec="seconds"))

    decision_files.change_decisions(paths.trust_file(), add)


def survey(folder: Path) -> tuple[str, ...]:
    """Return what would be interpreted in `folder`, as `name: purpose`. Checks only names and opens nothing."""
    findings: list[str] = []
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for _, entry in zip(range(_MAX_ENTRIES), entries, strict=False))
    except OSError:
        names = []
    for glob, purpose in safety_table()["interpreted"].items():
        findings += [f"{name}: {purpose}" for name in names if globs.matches(glob, name)]
    for parent in Path(os.path.realpath(folder)).parents:
        if os.path.lexists(parent / ".git"):
            findings.append(f"{parent / '.git'}: the git repository around this folder")
            break
    return tuple(findings[:_MAX_NAMES])


def _home() -> str:
    try:
        return os.path.realpath(paths.home_dir())
    except paths.HomeNotFoundError:
        return "/"

"""Which folders the user trusts, and what in a folder would be interpreted if they did (A8)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui_agent.common import paths
from tui_agent.safety import decision_files, globs
from tui_agent.safety.roots import safety_table

_MOST = 40
"""Names that a survey lists."""

_LOOKED_AT = 10_000
"""Entries of a folder that a survey looks at."""


def is_trusted(folder: Path) -> bool:
    """True when `folder`, by its real path, was trusted or lies inside a trusted folder.

    Trust in the home folder or in `/` covers just that folder: nearly everything lies inside them.
    """
    here = os.path.realpath(folder)
    broad = {"/", _home()}
    trusted = decision_files.read_decisions(paths.trust_file()).get("trusted")
    if not isinstance(trusted, dict):
        return False
    return here in trusted or any(str(above) in trusted and str(above) not in broad for above in Path(here).parents)


def trust(folder: Path) -> None:
    """Remember that the user trusts `folder`, by its real path. Raises decision_files.DecisionsNotSaved."""
    here = os.path.realpath(folder)

    def add(held: dict[str, Any]) -> None:
        _folders(held).setdefault(here, datetime.now(UTC).isoformat(timespec="seconds"))

    decision_files.change_decisions(paths.trust_file(), add)


def survey(folder: Path) -> tuple[str, ...]:
    """What in `folder` would be interpreted, as `name: what for`. Only names are looked at, nothing is opened."""
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for _, entry in zip(range(_LOOKED_AT), entries, strict=False))
    except OSError:
        names = []
    for glob, what_for in safety_table()["interpreted"].items():
        found += [f"{name}: {what_for}" for name in names if globs.matches(glob, name)]
    for above in Path(os.path.realpath(folder)).parents:
        if os.path.lexists(above / ".git"):
            found.append(f"{above / '.git'}: the git repository around this folder")
            break
    return tuple(found[:_MOST])


def _home() -> str:
    try:
        return os.path.realpath(paths.home_dir())
    except paths.HomeNotFoundError:
        return "/"


def _folders(held: dict[str, Any]) -> dict[str, Any]:
    trusted = held.setdefault("trusted", {})
    if not isinstance(trusted, dict):
        raise ValueError('"trusted" is not an object')
    return trusted

"""Which folders the user trusts, and what in a folder would be interpreted if they did (A8, R-01, R-03)."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tui_agent import paths
from tui_agent.safety import globs, kept

_MOST = 40
"""Names that a survey lists."""

_LOOKED_AT = 10_000
"""Entries of a folder that a survey looks at."""

# Names, as globs over the folder's own entries, and what would be done with them.
_INTERPRETED: tuple[tuple[str, str], ...] = (
    ("{AGENTS.md,AGENTS.override.md}", "rules for the agent"),
    (".tui-agent.{yaml,yml}", "settings (they can only tighten)"),
    (".tui-agent", "settings, commands and skills"),
    ("{.git,HEAD}", "git repository: branch and status are read"),
    (".{gitmodules,gitattributes}", "git settings"),
    (
        "{CLAUDE.md,GEMINI.md,.cursorrules,.cursor,.claude,.codex,.windsurfrules,.mcp.json}",
        "rules of other agents",
    ),
    (".env*", "environment variables"),
    ("{.vscode,.idea,*.code-workspace,.devcontainer}", "editor settings"),
    ("{package.json,tsconfig.json,jsconfig.json,node_modules}", "a language server may load code from here"),
    (
        "{pyproject.toml,setup.py,setup.cfg,conftest.py,pyrightconfig.json,.venv,venv}",
        "Python project settings",
    ),
    (
        "{Cargo.toml,build.rs,.cargo,go.mod,go.work,Gemfile,composer.json,pom.xml,build.gradle*}",
        "project settings",
    ),
    (
        "{Makefile,makefile,GNUmakefile,justfile,Justfile,Taskfile.yml,.husky,.pre-commit-config.yaml}",
        "commands",
    ),
)


def is_trusted(folder: Path) -> bool:
    """True when `folder`, by its real path, was trusted or lies inside a trusted folder.

    Trust in the home folder or in `/` covers just that folder: nearly everything lies inside them.
    """
    here = os.path.realpath(folder)
    broad = {"/", _home()}
    trusted = kept.read(paths.trust_file()).get("trusted")
    if not isinstance(trusted, dict):
        return False
    return here in trusted or any(
        str(above) in trusted and str(above) not in broad for above in Path(here).parents
    )


def trust(folder: Path) -> None:
    """Remember that the user trusts `folder`, by its real path. Raises kept.CannotKeep."""
    here = os.path.realpath(folder)

    def add(held: dict[str, Any]) -> None:
        _folders(held).setdefault(here, datetime.now(UTC).isoformat(timespec="seconds"))

    kept.change(paths.trust_file(), add)


def distrust(folder: Path) -> None:
    """Forget that `folder` was trusted. Raises kept.CannotKeep."""
    here = os.path.realpath(folder)

    def remove(held: dict[str, Any]) -> None:
        _folders(held).pop(here, None)

    kept.change(paths.trust_file(), remove)


def trusted_folders() -> tuple[str, ...]:
    """All folders that are trusted, sorted."""
    trusted = kept.read(paths.trust_file()).get("trusted")
    return tuple(sorted(map(str, trusted))) if isinstance(trusted, dict) else ()


def survey(folder: Path) -> tuple[str, ...]:
    """What in `folder` would be interpreted, as `name: what for`. Only names are looked at, nothing is opened."""
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for _, entry in zip(range(_LOOKED_AT), entries, strict=False))
    except OSError:
        names = []
    for glob, what_for in _INTERPRETED:
        found += [f"{name}: {what_for}" for name in names if globs.matches(glob, name)]
    for above in Path(os.path.realpath(folder)).parents:
        if os.path.lexists(above / ".git"):
            found.append(f"{above / '.git'}: the git repository around this folder")
            break
    return tuple(found[:_MOST])


def _home() -> str:
    try:
        return os.path.realpath(paths.home_dir())
    except paths.NoHome:
        return "/"


def _folders(held: dict[str, Any]) -> dict[str, Any]:
    trusted = held.setdefault("trusted", {})
    if not isinstance(trusted, dict):
        raise ValueError("«trusted» is no object")
    return trusted

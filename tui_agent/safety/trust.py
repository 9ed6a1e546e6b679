"""The folders that the user trusts, and what makes a folder unsafe to trust (A8)."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tui_agent.common import paths
from tui_agent.safety import decision_files

SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders in which every program and user may create files."""


class TrustEntry(NamedTuple):
    """A decision of the user to trust a folder."""

    folder: str
    """Real path."""
    since: str
    """ISO 8601, UTC; empty if it is not known."""


def find_trust(folder: Path) -> TrustEntry | None:
    """Return the decision that makes `folder` trusted: for its real path, or for a parent folder; None if untrusted.

    The nearest decision counts. Trust in a folder with risks (`folder_risks`) covers only that folder itself.
    """
    path = Path(os.path.realpath(folder))
    decisions = decision_files.read_decisions(paths.trust_file())
    trusted, revoked = _section(decisions, "trusted"), _section(decisions, "revoked")
    for candidate in (path, *path.parents):
        name = str(candidate)
        if name in revoked:
            return None
        if name in trusted and (candidate == path or not folder_risks(candidate)):
            return TrustEntry(name, _time(trusted[name]))
    return None


def is_trusted(folder: Path) -> bool:
    """Return whether `folder` is trusted, by `find_trust`."""
    return find_trust(folder) is not None


def trusted_folders() -> list[TrustEntry]:
    """Return the folders that the user trusted, sorted by path."""
    trusted = _section(decision_files.read_decisions(paths.trust_file()), "trusted")
    return [TrustEntry(folder, _time(since)) for folder, since in sorted(trusted.items())]


def trust(folder: Path) -> None:
    """Save that the user trusts `folder`, by its real path. Raises decision_files.DecisionsNotSaved."""
    path = os.path.realpath(folder)

    def add(decisions: dict[str, Any]) -> None:
        _checked(decisions, "trusted").setdefault(path, _now())
        _checked(decisions, "revoked").pop(path, None)

    _change(add)


def revoke(folder: Path) -> bool:
    """Save that the user trusts `folder` no longer, even if a parent folder is trusted; False if it was not trusted.

    Raises decision_files.DecisionsNotSaved.
    """
    path = os.path.realpath(folder)
    entry = find_trust(folder)
    if entry is None:
        return False

    def remove(decisions: dict[str, Any]) -> None:
        trusted = _checked(decisions, "trusted")
        trusted.pop(path, None)
        if any(str(parent) in trusted for parent in Path(path).parents):
            _checked(decisions, "revoked")[path] = _now()

    _change(remove)
    return True


def _change(edit: Callable[[dict[str, Any]], None]) -> None:
    def edit_and_tidy(decisions: dict[str, Any]) -> None:
        edit(decisions)
        if not decisions.get("revoked"):
            decisions.pop("revoked", None)

    decision_files.change_decisions(paths.trust_file(), edit_and_tidy)


def _checked(decisions: dict[str, Any], name: str) -> dict[str, Any]:
    section = decisions.setdefault(name, {})
    if not isinstance(section, dict):
        raise ValueError(f'"{name}" is not an object')
    return section


def _section(decisions: dict[str, Any], name: str) -> dict[str, Any]:
    section = decisions.get(name)
    return section if isinstance(section, dict) else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _time(value: object) -> str:
    return value if isinstance(value, str) else ""


# --- risks ----------------------------------------------------------------------------------


def folder_risks(folder: Path) -> tuple[str, ...]:
    """Return what makes a folder unsafe to trust, as sentences; empty for an ordinary folder of the user.

    Trust in a folder with risks does not cover the folders below it. Reads only metadata. Does file IO.
    """
    path = Path(os.path.realpath(folder))
    if path == path.parent:
        return ("This is the top of the file system: everything on this machine lies below it.",)
    risks: list[str] = []
    home = _home()
    if home is not None and path == home:
        risks.append("This is your home folder: rules and code in every folder below it would count, downloads too.")
    elif home is not None and path in home.parents:
        risks.append(f"This folder contains your home folder {home}, and those of others.")
    if path in _shared_folders():
        risks.append("This folder is for temporary files: every program and user can put files here.")
    return (*risks, *_access_risks(path))


def _access_risks(path: Path) -> list[str]:
    """Return who else can change what is in the folder."""
    try:
        status = path.stat()
        above = [(parent, parent.stat()) for parent in path.parents]
    except OSError as error:
        return [f"It can't be checked who may change this folder: {error.strerror}."]
    risks: list[str] = []
    if status.st_uid not in (os.geteuid(), 0):
        risks.append(f"This folder belongs to {_user_name(status.st_uid)}, who can change what is in it at any time.")
    if writers := _other_writers(status):
        risks.append(f"This folder can be changed by {writers}.")
    for parent, parent_status in above:
        if (writers := _other_writers(parent_status)) and not parent_status.st_mode & stat.S_ISVTX:
            risks.append(f"{writers[0].upper()}{writers[1:]} can replace this folder, as they can write to {parent}.")
            break
    return risks


def _other_writers(status: os.stat_result) -> str:
    """Return which others can create files in a folder, in words; empty if nobody can."""
    if status.st_mode & stat.S_IWOTH:
        return "every user of this machine"
    if status.st_mode & stat.S_IWGRP and status.st_gid != 0 and not _is_private_group(status.st_gid):
        return f"the members of the group {_group_name(status.st_gid)}"
    return ""


def _is_private_group(gid: int) -> bool:
    """Return whether a group is the user's own: their primary one, with no other members."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return gid == os.getegid()
    return gid == user.pw_gid and not set(group.gr_mem) - {user.pw_name} and group.gr_name == user.pw_name


def _user_name(uid: int) -> str:
    try:
        return f"the user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with the number {uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"number {gid}"


def _shared_folders() -> set[Path]:
    return {Path(os.path.realpath(name)) for name in (*SHARED_FOLDERS, tempfile.gettempdir())}


def _home() -> Path | None:
    try:
        return Path(os.path.realpath(paths.home_dir()))
    except paths.HomeNotFoundError:
        return None

"""Detecting files below the roots that a command changed, by their metadata, with limits.

Only files named by the command are read; nothing inside `.git` or a cache is examined. What can't be watched is
reported.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TypeAlias

import msgspec

MAX_FILES = 20_000
"""Files per survey."""
TIME_LIMIT = 0.5
"""Time limit of a survey in seconds."""
MAX_REPORTED = 100
"""Paths reported per kind of change."""
SKIPPED_FOLDERS = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"))
SKIPPED_FOLDERS |= {".mypy_cache", ".pytest_cache", ".ruff_cache"}
"""Folders that are skipped; a change inside is only detected by the folder's own timestamp."""

INCOMPLETE = "the whole workspace: it is too large, or the home folder"
"""Reported as unwatched if a survey is incomplete."""
MAX_COMPARED, MAX_COMPARED_SIZE = 200, 200_000
"""Files named by a command that are compared by content, and their maximum size."""

Stamp: TypeAlias = tuple[int, int, int, int]


class Survey(msgspec.Struct):
    """The files at one moment."""

    stamps: dict[str, Stamp]
    """Path → size, change time, inode, mode."""
    skipped: dict[str, int]
    """Skipped folders with their change time."""
    complete: bool = True
    """False if a limit was reached."""
    unreadable: tuple[str, ...] = ()
    """Folders that can't be listed."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The changes between two surveys. Paths are absolute."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    unwatched: tuple[str, ...] = ()
    """What could not be watched, in words."""

    @property
    def any(self) -> bool:
        """True if a file was changed."""
        return bool(self.created or self.changed or self.deleted)


def take_survey(roots: Iterable[Path], *, files: int = MAX_FILES, seconds: float = TIME_LIMIT) -> Survey:
    """Survey everything below `roots`, breadth first. Blocks up to `seconds`; never raises."""
    survey = Survey({}, {})
    deadline = monotonic() + seconds
    pending = [str(root) for root in roots]
    home = os.path.expanduser("~")
    if any(root in (os.sep, home) for root in pending):
        survey.complete = False
        return survey
    unreadable: list[str] = []
    for folder in pending:  # grows as folders are found
        if len(survey.stamps) >= files or monotonic() > deadline:
            survey.complete = False
            break
        try:
            with os.scandir(folder) as entries:
                pending.extend(_record_entries(entries, survey))
        except OSError:
            unreadable.append(folder)
    survey.unreadable = tuple(unreadable)
    return survey


def _record_entries(entries: Iterable[os.DirEntry[str]], survey: Survey) -> list[str]:
    """Record a folder's entries and return the subfolders to survey."""
    subfolders: list[str] = []
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # gone at this moment
        if stat.S_ISDIR(status.st_mode):
            if entry.name in SKIPPED_FOLDERS:
                survey.skipped[entry.path] = status.st_mtime_ns
            else:
                subfolders.append(entry.path)
        else:
            survey.stamps[entry.path] = (
                status.st_size,
                max(status.st_mtime_ns, status.st_ctime_ns),
                status.st_ino,
                status.st_mode,
            )
    return subfolders


def read_contents(survey: Survey, command: str) -> dict[str, bytes]:
    """Read the files that a command names, since it may rewrite them unchanged. Blocks briefly."""
    any_file = "*" in command
    paths = (path for path in survey.stamps if any_file or os.path.basename(path) in command)
    contents: dict[str, bytes] = {}
    for path in islice(paths, MAX_COMPARED):
        if survey.stamps[path][0] <= MAX_COMPARED_SIZE and stat.S_ISREG(survey.stamps[path][3]):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                contents[path] = file.read(MAX_COMPARED_SIZE + 1)
    return contents


def compare(before: Survey, after: Survey, contents: Mapping[str, bytes] | None = None) -> Changes:
    """Return the changes between two surveys. `contents` are those of files before, see `read_contents`."""
    old, new = before.stamps, after.stamps
    contents = contents or {}
    unwatched: list[str] = []
    if before.complete and after.complete:
        created = [path for path in new if path not in old]
        deleted = [path for path in old if path not in new]
    else:
        unwatched.append(INCOMPLETE)
        created, deleted = [], [path for path in old if path not in new and not os.path.lexists(path)]
    changed = [
        path
        for path, stamp in new.items()
        if old.get(path, stamp) != stamp
        and not (path in contents and _is_unchanged(path, contents[path], old[path], stamp))
    ]
    skipped = [path for path, time in after.skipped.items() if before.skipped.get(path) != time]
    unwatched += [f"{path} (something in it changed)" for path in skipped]
    unwatched += [f"{path} (it can't be listed)" for path in dict.fromkeys((*before.unreadable, *after.unreadable))]
    lists = [sorted(paths) for paths in (created, changed, deleted)]
    return Changes(
        created=tuple(lists[0][:MAX_REPORTED]),
        changed=tuple(lists[1][:MAX_REPORTED]),
        deleted=tuple(lists[2][:MAX_REPORTED]),
        more=sum(max(0, len(paths) - MAX_REPORTED) for paths in lists),
        unwatched=tuple(unwatched[:MAX_REPORTED]),
    )


def _is_unchanged(path: str, content: bytes, before: Stamp, now: Stamp) -> bool:
    """True if a file still has its size, mode and content."""
    if (before[0], before[3]) != (now[0], now[3]):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(MAX_COMPARED_SIZE + 1) == content
    except OSError:
        return False

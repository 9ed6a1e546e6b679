"""Detecting files below the roots that a command changed, by their metadata, with limits.

No file is read. Of `.git` only what makes git run programs is examined, of caches and installed packages nothing. What
can't be watched is reported.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic, time_ns
from typing import TypeAlias

import msgspec

MAX_FILES = 40_000
"""Files per survey."""
TIME_LIMIT = 1.0
"""Time limit of a survey in seconds."""
MAX_REPORTED = 100
"""Paths reported per kind of change."""
SKIPPED_FOLDERS = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"))
SKIPPED_FOLDERS |= {".mypy_cache", ".pytest_cache", ".ruff_cache"}
"""Folders that are skipped; a change inside is only detected by the folder's own timestamp."""

INCOMPLETE = "the whole workspace: it is too large, or the home folder"
"""Reported as unwatched if a survey is incomplete."""
CLOCK_STEP = 20_000_000
"""Nanoseconds by which the times of a file system may lag behind the clock."""
MAX_GIT_ENTRIES = 500
"""Entries of one git folder that are examined."""

Stamp: TypeAlias = tuple[int, int, int, int]


class Survey(msgspec.Struct):
    """The files at one moment."""

    stamps: dict[str, Stamp]
    """Path → size, change time, inode, mode."""
    skipped: dict[str, int]
    """Skipped folders with their change time."""
    folders: set[str] = msgspec.field(default_factory=set)
    """All folders, skipped ones included."""
    git: dict[str, Stamp] = msgspec.field(default_factory=dict)
    """As `stamps`, of files in git's folders that make git run programs: settings, hooks, attributes."""
    since: int = 0
    """When it began, in nanoseconds since the epoch."""
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
    survey = Survey({}, {}, since=time_ns())
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
        if not stat.S_ISDIR(status.st_mode):
            survey.stamps[entry.path] = stamp_of(status)
            continue
        survey.folders.add(entry.path)
        if entry.name not in SKIPPED_FOLDERS:
            subfolders.append(entry.path)
            continue
        survey.skipped[entry.path] = status.st_mtime_ns
        if entry.name == ".git":
            survey.git.update(_git_stamps(entry.path))
    return subfolders


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what changes whenever a file does: neither its size nor its times can hide that."""
    return (status.st_size, max(status.st_mtime_ns, status.st_ctime_ns), status.st_ino, status.st_mode)


_GIT_NAMES = frozenset(("config", "config.worktree", "commondir", "gitdir", "attributes", "git-rebase-todo"))
"""Files of a git folder, or of one in it, that decide what git runs."""
_GIT_FOLDERS = frozenset(("hooks", "info", "modules", "worktrees", "rebase-merge"))


def _git_stamps(git: str) -> Iterator[tuple[str, Stamp]]:
    pending, remaining = [git], MAX_GIT_ENTRIES
    for folder in pending:
        in_modules = os.path.basename(folder) in ("modules", "worktrees") or "/.git/modules/" in f"{folder}/"
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    remaining -= 1
                    if remaining < 0:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name in _GIT_FOLDERS or (in_modules and entry.name not in ("objects", "refs", "logs")):
                            pending.append(entry.path)
                    elif entry.name in _GIT_NAMES or (folder.endswith("/hooks") and not entry.name.endswith(".sample")):
                        with contextlib.suppress(OSError):
                            yield entry.path, stamp_of(entry.stat(follow_symlinks=False))
        except OSError:
            continue


class Differences(msgspec.Struct, frozen=True):
    """The files that differ between two surveys, sorted. Paths are absolute."""

    created: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    unwatched: tuple[str, ...] = ()
    """What could not be watched, in words."""


def differences(before: Survey, after: Survey, is_same: Callable[[str], bool] = lambda path: False) -> Differences:
    """Return what differs; `is_same(path)` is asked about files whose metadata differ."""
    old, new = before.stamps | before.git, after.stamps | after.git
    unwatched: list[str] = []
    created = [path for path in new if path not in old]
    deleted = [path for path in old if path not in new]
    if not (before.complete and after.complete):
        unwatched.append(INCOMPLETE)
        created = [path for path in created if new[path][1] >= before.since - CLOCK_STEP]
        deleted = [path for path in deleted if not os.path.lexists(path)]
    changed = [path for path, stamp in new.items() if old.get(path, stamp) != stamp and not is_same(path)]
    skipped = [path for path, time in after.skipped.items() if before.skipped.get(path) != time]
    unwatched += [f"{path} (something in it changed)" for path in skipped]
    unwatched += [f"{path} (it can't be listed)" for path in dict.fromkeys((*before.unreadable, *after.unreadable))]
    created, changed, deleted = (sorted(paths) for paths in (created, changed, deleted))
    return Differences(tuple(created), tuple(changed), tuple(deleted), tuple(unwatched))


def compare(before: Survey, after: Survey, is_same: Callable[[str], bool] = lambda path: False) -> Changes:
    """Return the differences of two surveys in the workspace proper, shortened for a report."""
    return report(differences(before, after, is_same))


def report(found: Differences) -> Changes:
    """Shorten differences for a report; git's own files are left out."""
    lists = [
        [path for path in paths if "/.git/" not in path] for paths in (found.created, found.changed, found.deleted)
    ]
    return Changes(
        created=tuple(lists[0][:MAX_REPORTED]),
        changed=tuple(lists[1][:MAX_REPORTED]),
        deleted=tuple(lists[2][:MAX_REPORTED]),
        more=sum(max(0, len(paths) - MAX_REPORTED) for paths in lists),
        unwatched=found.unwatched[:MAX_REPORTED],
    )

"""Which files below the roots are others than before a command, by their stamps, within bounds.

Only files that the command names are read; nothing inside `.git` or a cache is looked at. What can't be watched is
said.
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

FILES = 20_000
"""Names that one look takes in."""
SECONDS = 0.5
"""What one look may take."""
NAMED = 100
"""Files that are named of each kind."""
PASSED_OVER = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        ".tox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    }
)
"""Folders that are not looked into; that something in one of them changed is seen by its own stamp at most."""

WHOLE = "the whole workspace: it is too large, or the home folder"
"""What is said to be unwatched where a look did not take in everything."""
COMPARED, COMPARED_SIZE = 200, 200_000
"""Files that are compared by what is in them, and bytes of one: those that a command names."""

Stamp: TypeAlias = tuple[int, int, int, int]


class Survey(msgspec.Struct):
    """How it looked at one moment."""

    stamps: dict[str, Stamp]
    """Path → size, time of change, inode, mode."""
    passed: dict[str, int]
    """Folders that were passed over, with their time of change."""
    whole: bool = True
    """False when a bound was reached."""
    unread: tuple[str, ...] = ()
    """Folders that can't be listed."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What is other between two looks. Paths are absolute."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    unwatched: tuple[str, ...] = ()
    """In words."""

    @property
    def any(self) -> bool:
        """Whether a file is other."""
        return bool(self.created or self.changed or self.deleted)


def take(roots: Iterable[Path], *, files: int = FILES, seconds: float = SECONDS) -> Survey:
    """Look at everything below `roots`, breadth first; blocks for `seconds` at most, and never raises."""
    found = Survey({}, {})
    deadline = monotonic() + seconds
    waiting = [str(root) for root in roots]
    home = os.path.expanduser("~")
    if any(root in (os.sep, home) for root in waiting):
        found.whole = False
        return found
    unread: list[str] = []
    for place in waiting:  # grows as folders are found
        if len(found.stamps) >= files or monotonic() > deadline:
            found.whole = False
            break
        try:
            with os.scandir(place) as entries:
                waiting.extend(_note(entries, found))
        except OSError:
            unread.append(place)
    found.unread = tuple(unread)
    return found


def _note(entries: Iterable[os.DirEntry[str]], found: Survey) -> list[str]:
    """Stamps of a folder's entries; the folders among them that are to be looked into."""
    below: list[str] = []
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # gone at this moment
        if stat.S_ISDIR(status.st_mode):
            if entry.name in PASSED_OVER:
                found.passed[entry.path] = status.st_mtime_ns
            else:
                below.append(entry.path)
        else:
            found.stamps[entry.path] = (
                status.st_size,
                max(status.st_mtime_ns, status.st_ctime_ns),
                status.st_ino,
                status.st_mode,
            )
    return below


def contents(found: Survey, command: str) -> dict[str, bytes]:
    """What is in the files that a command names; it may write them anew as they were. Blocks for a moment."""
    every = "*" in command
    named = (path for path in found.stamps if every or os.path.basename(path) in command)
    read: dict[str, bytes] = {}
    for path in islice(named, COMPARED):
        if found.stamps[path][0] <= COMPARED_SIZE and stat.S_ISREG(found.stamps[path][3]):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                read[path] = file.read(COMPARED_SIZE + 1)
    return read


def compare(before: Survey, after: Survey, known: Mapping[str, bytes] | None = None) -> Changes:
    """What a command did between two looks, as far as they reach. `known`: what was in files before, see `contents`."""
    old, new = before.stamps, after.stamps
    known = known or {}
    unwatched: list[str] = []
    if before.whole and after.whole:
        created = [path for path in new if path not in old]
        deleted = [path for path in old if path not in new]
    else:
        unwatched.append(WHOLE)
        created, deleted = [], [path for path in old if path not in new and not os.path.lexists(path)]
    changed = [
        path
        for path, stamp in new.items()
        if old.get(path, stamp) != stamp and not (path in known and _holds(path, known[path], old[path], stamp))
    ]
    passed = [path for path, time in after.passed.items() if before.passed.get(path) != time]
    unwatched += [f"{path} (something in it changed)" for path in passed]
    unwatched += [f"{path} (it can't be listed)" for path in dict.fromkeys((*before.unread, *after.unread))]
    lists = [sorted(one) for one in (created, changed, deleted)]
    return Changes(
        created=tuple(lists[0][:NAMED]),
        changed=tuple(lists[1][:NAMED]),
        deleted=tuple(lists[2][:NAMED]),
        more=sum(max(0, len(one) - NAMED) for one in lists),
        unwatched=tuple(unwatched[:NAMED]),
    )


def _holds(path: str, content: bytes, before: Stamp, now: Stamp) -> bool:
    """Whether a file has its size, mode and content still."""
    if (before[0], before[3]) != (now[0], now[3]):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(COMPARED_SIZE + 1) == content
    except OSError:
        return False

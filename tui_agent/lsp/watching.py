"""Which source files of a root were written, created or deleted since the last look: what editors tell servers."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, TypeAlias

from tui_agent.lsp.languages import ENTRIES, code_files

FEW = 2_000
"""Changes that one look reports."""
KEPT = 2 * ENTRIES
"""Files that are known."""
CREATED, CHANGED, DELETED = 1, 2, 3
Stamp: TypeAlias = tuple[int, int]
"""Size and time of change."""


class Look(NamedTuple):
    """What a look found."""

    changes: list[tuple[str, int]]
    """Path and kind of each change since the look that was kept last; nothing where none was."""
    files: dict[str, Stamp]


class Watch:
    """Knows the files of one root that end in one of some suffixes, as far as `code_files` goes."""

    def __init__(self, root: Path, suffixes: frozenset[str], entries: int = ENTRIES) -> None:
        self._root = root
        self._suffixes = suffixes
        self._entries = entries
        self._known: dict[str, Stamp] | None = None

    def look(self) -> Look:
        """What is there, and what changed. Does file IO; may be done in a thread that nobody waits for any more."""
        now: dict[str, Stamp] = {}
        for entry in code_files(self._root, self._suffixes, self._entries):
            with contextlib.suppress(OSError):
                now[entry.path] = _stamp(entry.stat(follow_symlinks=False))
        before = self._known
        if before is None:
            return Look([], now)
        deleted = []
        for path in before.keys() - now.keys():
            # It may only have come to lie behind the end of the walk.
            if (stamp := _file_at(path)) is None:
                deleted.append((path, DELETED))
            elif len(now) < KEPT:
                now[path] = stamp
        changed = [
            (path, CHANGED if path in before else CREATED)
            for path, stamp in now.items()
            if before.get(path) != stamp
        ]
        return Look([*deleted, *changed][:FEW], now)

    def keep(self, look: Look) -> None:
        """Its changes were told: the next look starts from there."""
        self._known = look.files


def _stamp(stat: os.stat_result) -> Stamp:
    return stat.st_size, stat.st_mtime_ns


def _file_at(path: str) -> Stamp | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return _stamp(found) if S_ISREG(found.st_mode) else None

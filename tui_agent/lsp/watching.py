"""Which source files of a root were written, created or deleted since the last look: what editors tell servers."""

from __future__ import annotations

from pathlib import Path

from tui_agent.lsp.languages import code_files

FEW = 2_000
"""Changes that one look reports."""
CREATED, CHANGED, DELETED = 1, 2, 3


class Watch:
    """Knows the files of one root that end in one of some suffixes, as far as `code_files` goes."""

    def __init__(self, root: Path, suffixes: frozenset[str]) -> None:
        self._root = root
        self._suffixes = suffixes
        self._known: dict[str, tuple[int, int]] | None = None

    def changes(self) -> list[tuple[str, int]]:
        """Path and kind of each change; nothing at the first look. Does file IO."""
        now: dict[str, tuple[int, int]] = {}
        for entry in code_files(self._root, self._suffixes):
            try:
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            now[entry.path] = (stat.st_size, stat.st_mtime_ns)
        before, self._known = self._known, now
        if before is None:
            return []
        found = [(path, DELETED) for path in before if path not in now]
        found += [
            (path, CHANGED if path in before else CREATED)
            for path, stamp in now.items()
            if before.get(path) != stamp
        ]
        return found[:FEW]

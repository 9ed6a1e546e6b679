"""Finds the protected paths that exist in the roots, so that a sandbox can make them read-only (A2, A10)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from tui_agent.common.domain import FrozenValue

MAX_FOLDERS = 10_000
"""Folders that are searched, top folders first."""
_PATH_MATTERS = re.compile(r"/(?:\.|etc/|var/|Library/)")
"""Below these folders patterns depend on the path, elsewhere on the name only."""
EXCLUDED = {
    "node_modules": "",
    "__pycache__": "",
    ".tox": "",
    ".venv": "pyvenv.cfg",
    "venv": "pyvenv.cfg",
    "target": "CACHEDIR.TAG",
}
"""Generated folders, which are not searched, with the file that proves it if the name does not."""


class _Folder(FrozenValue, frozen=True, kw_only=True):
    version: tuple[int, int]
    """Inode and time of the last change of its entries, in nanoseconds."""
    protected: tuple[str, ...]
    folders: tuple[str, ...]
    """Paths of the folders to search next."""


class ProtectedPaths:
    """The search of a session. It remembers folders and reads again only those whose entries have changed."""

    def __init__(self, protects: Callable[[str], bool]) -> None:
        """`protects` says whether an absolute path is protected."""
        self._protects = protects
        self._by_name: dict[tuple[str, bool], bool] = {}
        """Name, and whether it is a folder → whether it is protected, as nearly all patterns depend only on names."""
        self._folders: dict[str, _Folder] = {}

    def find(self, roots: Sequence[str], limit: int) -> list[str]:
        """Return up to `limit` protected paths in the roots, top folders first.

        Blocks; call it from one thread at a time.
        """
        protected: list[str] = []
        folders, known = list(roots), self._folders
        self._folders = {}
        for path in folders:
            if len(protected) >= limit or len(self._folders) >= MAX_FOLDERS:
                break
            try:
                status = os.stat(path, follow_symlinks=False)
            except OSError:
                continue
            folder = known.get(path)
            version = status.st_ino, status.st_mtime_ns
            if folder is None or folder.version != version:
                folder = self._read(path, version)
            self._folders[path] = folder
            protected += folder.protected
            folders += folder.folders
        return protected[:limit]

    def _read(self, path: str, version: tuple[int, int]) -> _Folder:
        entries = _entries(path)
        protected = [entry for name, entry, is_folder in entries if self._is_protected(name, entry, is_folder)]
        folders = [
            entry
            for name, entry, is_folder in entries
            if is_folder and entry not in protected and not _is_generated(name, entry)
        ]
        return _Folder(version=version, protected=tuple(protected), folders=tuple(folders))

    def _is_protected(self, name: str, path: str, is_folder: bool) -> bool:
        tested = path + "/x" if is_folder else path
        if _PATH_MATTERS.search(path, 0, len(path) - len(name)):
            return self._protects(tested)
        key = (name, is_folder)
        if key not in self._by_name:
            self._by_name[key] = self._protects(tested)
        return self._by_name[key]


def _is_generated(name: str, path: str) -> bool:
    proof = EXCLUDED.get(name)
    return proof is not None and (not proof or os.path.lexists(os.path.join(path, proof)))


def _entries(folder: str) -> list[tuple[str, str, bool]]:
    """Return name, path and whether it is a folder, of all entries except links."""
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.name, entry.path, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.is_symlink()
            ]
    except OSError:
        return []

"""Evaluating .gitignore files, folder by folder, and listing what they leave (T1)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.platform.safe_open import open_folder

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

FILE_CAP = 256 * 1024
"""Bytes of a .gitignore; larger ones are ignored."""
PATTERN_CAP = 2000
"""Patterns of a .gitignore that are used."""
MAX_DEPTH = 100
"""Folders that are nested deeper are not listed."""


class GitIgnore:
    """The rules that apply in a folder: its .gitignore and those of its parents up to a root."""

    def __init__(self, rules: tuple[tuple[GitIgnoreSpec, int], ...], depth: int) -> None:
        self._rules = rules
        self._depth = depth

    @classmethod
    def at(cls, root: Path) -> GitIgnore:
        """Return the rules of `root` alone."""
        return cls((), 0)._with_file(root)

    @classmethod
    def for_request(cls, roots: Iterable[Path], folder: Path) -> tuple[GitIgnore, Path]:
        """Return the rules for a requested folder, and the folder that paths are relative to: its root, if any.

        A folder that is itself ignored is searched by its own rules.
        """
        root = current = next((root for root in roots if folder.is_relative_to(root)), folder)
        rules = cls.at(root)
        for part in folder.relative_to(root).parts:
            current = current / part
            if rules.ignores(current.relative_to(root).parts, True):
                return cls.at(folder), folder
            rules = rules.below(current)
        return rules, root

    def below(self, folder: Path) -> GitIgnore:
        """Return the rules for a subfolder."""
        return GitIgnore(self._rules, self._depth + 1)._with_file(folder)

    def ignores(self, parts: tuple[str, ...], is_folder: bool) -> bool:
        """True if an entry is ignored. `parts` is its path from the topmost folder."""
        for spec, depth in reversed(self._rules):
            verdict = spec.check_file("/".join(parts[depth:]) + ("/" if is_folder else "")).include
            if verdict is not None:
                return verdict
        return False

    def _with_file(self, folder: Path) -> GitIgnore:
        try:
            text = read_file(folder / ".gitignore", FILE_CAP, follow=False).data.decode("utf-8", "replace")
            from pathspec import GitIgnoreSpec  # slow to import, and not every folder has such a file

            spec = GitIgnoreSpec.from_lines(text.splitlines()[:PATTERN_CAP])
        except (FileFault, ValueError):
            return self
        return GitIgnore((*self._rules, (spec, self._depth)), self._depth) if len(spec) else self


def sorted_entries(fd: int) -> list[os.DirEntry[str]]:
    """Return the entries of an open folder by name, without `.git`."""
    with os.scandir(fd) as entries:
        visible = [entry for entry in entries if entry.name != ".git"]
        return sorted(visible, key=lambda entry: os.fsencode(entry.name))


def list_files(root: Path, skipped: Collection[str]) -> Iterator[str]:
    """Yield the files below `root`, breadth first, without links, unreadable folders, and the names in `skipped`."""
    queue = deque([("", GitIgnore.at(root), 0)])
    while queue:
        prefix, rules, depth = queue.popleft()
        try:
            with open_folder(root / prefix) as fd:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                    for entry in sorted_entries(fd)
                ]
        except OSError:
            continue
        parts = tuple(prefix.split("/")[:-1])
        for name, is_folder, is_file in entries:
            if not (is_folder or is_file) or name in skipped or rules.ignores((*parts, name), is_folder):
                continue
            if not is_folder:
                yield prefix + name
            elif depth < MAX_DEPTH:
                queue.append((f"{prefix}{name}/", rules.below(root / prefix / name), depth + 1))

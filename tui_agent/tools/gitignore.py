"""What .gitignore files leave out, folder by folder (T1)."""

from __future__ import annotations

import os
from pathlib import Path

from pathspec import GitIgnoreSpec

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file

FILE_CAP = 256 * 1024
"""Bytes of one .gitignore; a larger one is not read."""
PATTERN_CAP = 2000
"""Patterns of one .gitignore that count."""


class GitIgnore:
    """The rules that hold in one folder: its own .gitignore and those of the folders above it."""

    def __init__(self, rules: tuple[tuple[GitIgnoreSpec, int], ...], depth: int) -> None:
        self._rules = rules
        self._depth = depth

    @classmethod
    def at(cls, root: Path, folder: Path) -> GitIgnore:
        """The rules in `folder`, which lies in or is `root`; nothing above `root` counts."""
        rules = cls((), 0)._with(root)
        where = root
        for part in folder.relative_to(root).parts:
            where = where / part
            rules = rules.below(where)
        return rules

    @classmethod
    def asked(cls, root: Path, folder: Path) -> tuple[GitIgnore, Path]:
        """The rules for `folder`, which somebody named, and the folder that paths count from: one that is left out as a
        whole is gone through all the same, by its own rules."""
        rules, where = cls.at(root, root), root
        parts: tuple[str, ...] = ()
        for part in folder.relative_to(root).parts:
            parts = (*parts, part)
            if rules.ignores(parts, True):
                return cls.at(folder, folder), folder
            where = where / part
            rules = rules.below(where)
        return rules, root

    def below(self, folder: Path) -> GitIgnore:
        """The rules one folder further down."""
        return GitIgnore(self._rules, self._depth + 1)._with(folder)

    def ignores(self, parts: tuple[str, ...], is_folder: bool) -> bool:
        """True for an entry that is left out. `parts` leads to it from the topmost folder."""
        for spec, depth in reversed(self._rules):
            verdict = spec.check_file("/".join(parts[depth:]) + ("/" if is_folder else "")).include
            if verdict is not None:
                return verdict
        return False

    def _with(self, folder: Path) -> GitIgnore:
        try:
            text = read_file(folder / ".gitignore", FILE_CAP, follow=False).data.decode("utf-8", "replace")
            spec = GitIgnoreSpec.from_lines(text.splitlines()[:PATTERN_CAP])
        except (FileFault, ValueError):
            return self
        return GitIgnore((*self._rules, (spec, self._depth)), self._depth) if len(spec) else self


def sorted_entries(fd: int) -> list[os.DirEntry[str]]:
    """Entries of an open folder by name, without `.git`."""
    with os.scandir(fd) as entries:
        kept = [entry for entry in entries if entry.name != ".git"]
        return sorted(kept, key=lambda entry: os.fsencode(entry.name))

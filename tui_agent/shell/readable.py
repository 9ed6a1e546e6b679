"""Which files a command may read without approval: those in the workspace that hold no credentials (A2)."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from tui_agent.common import paths
from tui_agent.platform.safe_open import follow_links
from tui_agent.shell.safe_arguments import ArgumentShape, NotSafe, Unknown, require

MAX_ENTRIES = 20_000
"""Entries of a folder that are checked for credentials before a recursive search of it; with more, ask."""
MAX_LINKED = 200_000
"""Entries of the workspace among which other names of a file are looked for; with more, ask."""
MAX_MATCHES = 500
"""File names that a pattern may match."""
_HOME_CREDENTIALS = (".ssh/*", ".aws/*", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".kube/config")
"""Files of the home folder that a hard link in the workspace may lead to."""
_NAMES = (
    *(".env", ".env.local", ".env.production", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass"),
    *("id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "credentials.json", "secrets.yml", ".htpasswd", ".dockercfg"),
    *(".bash_history", ".zsh_history", ".vault-token", ".my.cnf"),
)
"""Names that a pattern may mean, also if no such file exists yet."""


class Readable:
    """The folders of the workspace, and what may be read there."""

    def __init__(self, roots: Sequence[Path], has_credentials: Callable[[Path], bool]) -> None:
        self.roots = tuple(Path(os.path.realpath(root)) for root in roots)
        self.has_credentials = has_credentials
        self._matches: dict[tuple[Path, str], list[str]] = {}
        self._clean: dict[object, bool] = {}
        self._plain: set[tuple[int, int]] = set()
        """Device and inode of files with several names, none of which means credentials."""

    def contains(self, path: Path) -> bool:
        """Whether a real path is in one of the roots."""
        return any(path.is_relative_to(root) for root in self.roots)

    def resolve(self, cwd: Path, name: str) -> Path:
        """Follow the links of a path. Raises NotSafe when it leads through /proc, /dev or /sys.

        Their content depends on the process that looks: our `/proc/self/cwd` is not the program's.
        """
        path, visited = follow_links(os.path.join(cwd, name))
        special = ("proc", "dev", "sys")
        require(all(step == os.devnull or step.split("/")[1] not in special for step in visited))
        return Path(path)

    def check(self, shape: ArgumentShape, cwd: Path, *, is_piped: bool) -> None:
        """Raise NotSafe unless all that a program reads may be read."""
        for name in shape.names:
            if not isinstance(name, Unknown) and name != "-":
                self.check_name(cwd, name)
        paths: list[Path] = []
        for name in shape.reads:
            if isinstance(name, Unknown):
                require(name.is_clean and not self.has_credentials(cwd / name.replace("\0", "x")))
            elif name != "-":
                path = self.resolve(cwd, name)
                require(self.may_read(path, files_only=shape.files_only) and (path.exists() or not shape.exists))
                paths.append(path)
        if shape.recursive:
            if not shape.reads and not (is_piped and shape.reads_pipe):
                paths = [cwd]
            require(all(self._tree_is_clean(path, shape) for path in paths))

    def check_name(self, cwd: Path, name: str) -> None:
        """Raise NotSafe unless names, sizes and the like of a path may be shown."""
        path = self.resolve(cwd, name)
        require(str(path) == os.devnull or self.contains(path))

    def may_read(self, path: Path, *, files_only: bool = False) -> bool:
        """Return whether the content of a real path may be shown."""
        if str(path) == os.devnull:
            return True
        if not self.contains(path) or self.has_credentials(path):
            return False
        try:
            status = path.stat()
        except FileNotFoundError:
            return True
        if stat.S_ISREG(status.st_mode):
            return status.st_nlink == 1 or not self._are_linked_credentials([status])
        return stat.S_ISDIR(status.st_mode) and not files_only

    def _are_linked_credentials(self, files: Iterable[os.stat_result]) -> bool:
        """Return whether one of the files, which have several names, may be a file with credentials by another one."""
        linked = {(status.st_dev, status.st_ino) for status in files if status.st_nlink > 1} - self._plain
        if linked & self._home_credentials:
            return True
        inodes = {inode for _, inode in linked}
        for root in self.roots if linked else ():
            for number, entry in enumerate(_walk(root)):
                if number > MAX_LINKED or (entry.inode() in inodes and self.has_credentials(Path(entry.path))):
                    return True
        self._plain |= linked
        return False

    @cached_property
    def _home_credentials(self) -> frozenset[tuple[int, int]]:
        """Device and inode of the home folder's files with credentials that have several names."""
        try:
            home = [name for pattern in _HOME_CREDENTIALS for name in glob.glob(f"{paths.home_dir()}/{pattern}")]
        except paths.HomeNotFoundError:
            return frozenset()
        found: set[tuple[int, int]] = set()
        for path in home:
            with contextlib.suppress(OSError):
                status = os.stat(path)
                found |= {(status.st_dev, status.st_ino)} if status.st_nlink > 1 else set()
        return frozenset(found)

    def _tree_is_clean(self, folder: Path, shape: ArgumentShape) -> bool:
        """Return whether a search through the folder reads no secrets; False also if it is too large to check."""
        files: list[os.stat_result] = []
        entries = _walk(folder, shape.includes_hidden, shape.exclude_folders) if folder.is_dir() else ()
        for number, entry in enumerate(entries):
            if number >= MAX_ENTRIES:
                return False
            if any(fnmatch.fnmatchcase(entry.name, name) for name in shape.exclude) and not entry.is_dir():
                continue
            if shape.include and not any(fnmatch.fnmatchcase(entry.name, name) for name in shape.include):
                continue
            if (shape.follows_links and entry.is_symlink()) or self.has_credentials(Path(entry.path)):
                return False
            files.append(entry.stat(follow_symlinks=False))
        return not self._are_linked_credentials(status for status in files if stat.S_ISREG(status.st_mode))

    def lists_cleanly(self, cwd: Path, folders: Sequence[str], patterns: Sequence[str]) -> bool:
        """Return whether a listing of the folders names no file with credentials.

        `patterns`: what all names match.
        """
        key = (cwd, tuple(folders), tuple(patterns))
        if key not in self._clean:
            self._clean[key] = self._lists_cleanly(cwd, folders, patterns)
        return self._clean[key]

    def _lists_cleanly(self, cwd: Path, folders: Sequence[str], patterns: Sequence[str]) -> bool:
        if any(may_name_credentials(pattern) for pattern in patterns):
            return False
        for name in folders or (".",):
            folder = self.resolve(cwd, name)
            if not folder.is_dir():
                if not self.may_read(folder):
                    return False
                continue
            files: list[os.stat_result] = []
            for number, entry in enumerate(_walk(folder)):
                if number >= MAX_ENTRIES:
                    return False
                if entry.is_dir() or not all(_matches(entry.name, pattern) for pattern in patterns):
                    continue
                if self.has_credentials(Path(entry.path)):
                    return False
                if entry.is_file(follow_symlinks=False):
                    files.append(entry.stat(follow_symlinks=False))
                elif not self.may_read(Path(os.path.realpath(entry.path))):
                    return False
            if self._are_linked_credentials(files):
                return False
        return True

    def expand(self, cwd: Path, pattern: str) -> list[str]:
        """Return the names that a pattern matches, as a shell would: looked up once. Raises NotSafe."""
        key = (cwd, pattern)
        if key not in self._matches:
            require("[^" not in pattern and "[!" not in pattern and pattern.count("/") <= 8)
            require("\\" not in pattern)
            start = self.resolve(cwd, os.path.dirname(re.split(r"[*?\[]", pattern)[0]) or ".")
            require(self.contains(start))
            names = sorted(glob.glob(pattern, root_dir=cwd))
            require(len(names) <= MAX_MATCHES)
            require(all(name.isprintable() and not name.startswith(("-", "@")) for name in names))
            for folder in {os.path.dirname(name) for name in names}:
                self.check_name(cwd, folder or ".")
            require(bool(names) or not may_name_credentials(pattern))
            self._matches[key] = names or [pattern]
        return self._matches[key]


def may_name_credentials(pattern: str) -> bool:
    """Return whether a file name pattern is likely meant for files with credentials."""
    name = pattern.rpartition("/")[2]
    start = re.split(r"[*?\[]", name)[0]
    return len(start) >= 2 and any(secret.startswith(start) and fnmatch.fnmatchcase(secret, name) for secret in _NAMES)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), pattern.rpartition("/")[2].lower())


def _walk(folder: Path, hidden: bool = True, excluded: Sequence[str] = ()) -> Iterator[os.DirEntry[str]]:
    """Yield everything below `folder` without following links.

    Names that begin with a dot only with `hidden`; folders with a name that matches `excluded` are left out. Raises
    NotSafe for a folder that can't be read.
    """
    remaining = [str(folder)]
    while remaining:
        try:
            with os.scandir(remaining.pop()) as listing:
                entries = list(listing)
        except OSError as error:
            raise NotSafe from error
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not hidden and entry.name.startswith("."):
                continue
            if is_folder and any(fnmatch.fnmatchcase(entry.name, name) for name in excluded):
                continue
            yield entry
            if is_folder:
                remaining.append(entry.path)

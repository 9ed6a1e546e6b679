"""Which files a command may read without approval: those in the workspace that hold no credentials (A2).

The same rules find what any other command names or reads, for the reasons that the user is shown.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

from tui_agent.common import paths
from tui_agent.platform.safe_open import follow_links
from tui_agent.shell.familiar import matches_any, words
from tui_agent.shell.safe_arguments import EVERYTHING, ArgumentShape, NotSafe, Selection, Unknown, require
from tui_agent.shell.targets import ENVIRONMENT, NamedPath

MAX_ENTRIES = 20_000
"""Entries of a folder that are checked for credentials before a recursive search of it; with more, ask."""
MAX_LINKED = 200_000
"""Entries of the workspace among which other names of a file are looked for; with more, ask."""
MAX_MATCHES = 500
"""File names that a pattern may match."""
_PASSED_OVER = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__"))
"""Folders of data that no user wrote: what a command that is not run safely reads there is not reported."""
_PATTERN = re.compile(r"[*?\[]")
_WALKERS = ("find", "du", "tree", "rg", "grep", "fd", "ag")
"""Programs that show what is below a folder."""
_HOME_CREDENTIALS = (".ssh/*", ".aws/*", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".kube/config")
"""Files of the home folder that a hard link in the workspace may lead to."""
_NAMES = (
    *(".env", ".env.local", ".env.production", ".envrc", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass"),
    *("id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "credentials.json", "secrets.yml", ".htpasswd", ".dockercfg"),
    *(".bash_history", ".zsh_history", ".vault-token", ".my.cnf"),
)
"""Names that a pattern may mean, also if no such file exists yet."""


class Readable:
    """The folders of the workspace, and what may be read there.

    `names_credentials` tells whether a path, of which no part is a symbolic link, is that of a file with secrets.
    """

    def __init__(self, roots: Sequence[Path], names_credentials: Callable[[str], bool]) -> None:
        self.roots = tuple(Path(os.path.realpath(root)) for root in roots)
        self.names_credentials = names_credentials
        self._matches: dict[tuple[Path, str], list[str]] = {}
        self._clean: dict[object, bool] = {}
        self._plain: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
        """Device and inode of files with several names, none of which means credentials: in a report, and strictly."""

    def has_credentials(self, path: str | Path, parents: dict[str, list[str]] | None = None) -> bool:
        """Return whether an absolute path, or one that its links lead through, is that of a file with credentials.

        `parents`: where the links of folders lead, as far as it is known already; added to.
        """
        folder, _, name = str(path).rpartition("/")
        if "\0" in name:
            return True
        known = {} if parents is None else parents
        try:
            if folder not in known:
                known[folder] = _locations(folder)
            locations = [f"{location}/{name}" for location in known[folder]]
            if name in ("", ".", "..") or os.path.islink(locations[-1]):
                locations = _locations(str(path))
        except (OSError, ValueError):  # a loop of links, or no possible path
            return True
        return any(map(self.names_credentials, locations))

    def have_credentials(self, paths: Iterable[str]) -> bool:
        """Return whether one of the paths is that of a file with credentials."""
        parents: dict[str, list[str]] = {}
        return any(self.has_credentials(path, parents) for path in paths)

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
        if shape.search is not None:
            if not shape.reads and not (is_piped and shape.reads_pipe):
                paths = [cwd]
            require(not any(self._secret_below(str(path), shape.search) for path in paths if path.is_dir()))

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

    def _are_linked_credentials(self, files: Iterable[os.stat_result], *, is_report: bool = False) -> bool:
        """Return whether one of the files, which have several names, may be a file with credentials by another one."""
        linked = {(status.st_dev, status.st_ino) for status in files if status.st_nlink > 1} - self._plain[is_report]
        if linked & self._home_credentials:
            return True
        inodes = {inode for _, inode in linked}
        for root in self.roots if linked else ():
            for number, entry in enumerate(_walk(str(root), is_report=is_report)):
                if number > MAX_LINKED or (entry.inode() in inodes and self.has_credentials(entry.path)):
                    return True
        self._plain[is_report] |= linked
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

    def _secret_below(self, folder: str, search: Selection, *, is_report: bool = False) -> str:
        """Return a file with credentials that a search through the folder reads, else an empty string.

        It is the folder itself if that is too large to check. `is_report`: some folders are passed over, and those that
        can't be read; else they raise NotSafe.
        """
        files: list[os.stat_result] = []
        follows = search.links == "followed" and not is_report
        try:
            prefixes = [location.rstrip("/") for location in _locations(folder)]
            for number, entry in enumerate(_walk(prefixes[-1] or "/", search, is_report=is_report)):
                if number >= MAX_ENTRIES:
                    return folder
                if entry.is_dir(follow_symlinks=not follows) or not search.selects(entry.name):
                    continue
                if entry.is_symlink():
                    is_secret = follows or self.has_credentials(entry.path)
                    is_secret |= search.links == "read" and not self.may_read(Path(os.path.realpath(entry.path)))
                else:
                    inner = entry.path[len(prefixes[-1]) :]
                    is_secret = any(self.names_credentials(prefix + inner) for prefix in prefixes)
                if is_secret:
                    return entry.path
                files.append(entry.stat(follow_symlinks=False))
        except OSError:
            return folder
        regular = [status for status in files if stat.S_ISREG(status.st_mode)]
        return folder if self._are_linked_credentials(regular, is_report=is_report) else ""

    def lists_cleanly(self, cwd: Path, folders: Sequence[str], patterns: Sequence[str]) -> bool:
        """Return whether a listing of the folders names no file with credentials.

        `patterns`: what all names match.
        """
        key = (cwd, tuple(folders), tuple(patterns))
        if key not in self._clean:
            self._clean[key] = self._lists_cleanly(cwd, folders, Selection(all_of=tuple(patterns), links="read"))
        return self._clean[key]

    def _lists_cleanly(self, cwd: Path, folders: Sequence[str], search: Selection) -> bool:
        if any(likely_secrets(pattern) for pattern in search.all_of):
            return False
        paths = [self.resolve(cwd, name) for name in folders or (".",)]
        return all(
            not self._secret_below(str(path), search) if path.is_dir() else self.may_read(path) for path in paths
        )

    def expand(self, cwd: Path, pattern: str) -> list[str]:
        """Return the names that a pattern matches, as a shell would: looked up once. Raises NotSafe."""
        key = (cwd, pattern)
        if key not in self._matches:
            require("[^" not in pattern and "[!" not in pattern and pattern.count("/") <= 8)
            require("\\" not in pattern)
            start = self.resolve(cwd, os.path.dirname(_PATTERN.split(pattern)[0]) or ".")
            require(self.contains(start))
            names = sorted(glob.glob(pattern, root_dir=cwd))
            require(len(names) <= MAX_MATCHES)
            require(all(name.isprintable() and not name.startswith(("-", "@")) for name in names))
            for folder in {os.path.dirname(name) for name in names}:
                self.check_name(cwd, folder or ".")
            require(bool(names) or not likely_secrets(pattern))
            self._matches[key] = names or [pattern]
        return self._matches[key]

    # --- what any other command names ---

    def findings(self, named: Iterable[NamedPath]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the files with credentials that a command reads by the paths that it names, and those outside."""
        credentials: list[str] = []
        outside: list[str] = []
        parents: dict[str, list[str]] = {}
        for path, program, search in dict.fromkeys(named):
            if program == ENVIRONMENT:
                credentials.append(path)
                continue
            meant = _meant(path)
            if search is not None:
                folders = [name for name in meant if name.startswith("/")]
                credentials += filter(None, (self._secret_below(name, search, is_report=True) for name in folders))
                continue
            if program not in words("names_only"):
                guessed = _guessed(path) if _PATTERN.search(path) else []
                secrets = ([name for name in names if self._is_secret(name, parents)] for names in (meant, guessed))
                credentials += next(filter(None, secrets), [])
            listed = ("/", "/etc") if program in _WALKERS else ()
            outside += [name for name in meant if name in listed or self._is_outside(name)]
        return tuple(dict.fromkeys(credentials)), tuple(dict.fromkeys(outside))

    def _is_secret(self, path: str, parents: dict[str, list[str]]) -> bool:
        if not path.startswith("/"):
            return False
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return self.has_credentials(path, parents)
        is_linked = stat.S_ISREG(status.st_mode) and self._are_linked_credentials([status], is_report=True)
        return not stat.S_ISDIR(status.st_mode) and (is_linked or self.has_credentials(path, parents))

    def _is_outside(self, path: str) -> bool:
        if not path.startswith("/"):
            return path.startswith("~")
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return True
        return not self.contains(Path(real)) and not any(matches_any(name, "system_reads") for name in (path, real))


def _locations(path: str) -> list[str]:
    """Return an absolute path, and those that its links lead through, the real one last."""
    real, visited = follow_links(path or "/")
    return [*(location for location in dict.fromkeys(visited) if location != real), real]


def _meant(path: str) -> list[str]:
    """Return the paths that a name stands for: itself, and what its pattern matches as in a shell."""
    if not _PATTERN.search(path):
        return [path]
    return [path, *islice(glob.iglob(path.replace("[^", "[!")), MAX_ENTRIES)]


def _guessed(pattern: str) -> list[str]:
    """Return a file with credentials that a pattern is likely meant for, also if it does not exist yet."""
    folder, _, name = pattern.rpartition("/")
    return [f"{folder}/{secret}" for secret in likely_secrets(name, least=1 if name.startswith(".") else 2)[:1]]


def likely_secrets(pattern: str, *, least: int = 2) -> list[str]:
    """Return names of files with credentials that a pattern likely means; it begins with `least` of their letters."""
    name = pattern.rpartition("/")[2]
    start = _PATTERN.split(name)[0]
    if len(start) < least:
        return []
    return [secret for secret in _NAMES if secret.startswith(start) and fnmatch.fnmatchcase(secret, name)]


def _walk(folder: str, search: Selection = EVERYTHING, *, is_report: bool = False) -> Iterator[os.DirEntry[str]]:
    """Yield everything below `folder` that a search may come to, without following links.

    Raises NotSafe for a folder that can't be read; for a report it is passed over.
    """
    remaining = [folder]
    while remaining:
        try:
            with os.scandir(remaining.pop()) as listing:
                entries = list(listing)
        except OSError as error:
            if is_report:
                continue
            raise NotSafe from error
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not search.hidden and entry.name.startswith("."):
                continue
            if is_folder and (
                (is_report and entry.name in _PASSED_OVER)
                or any(fnmatch.fnmatchcase(entry.name, name) for name in search.exclude_folders)
            ):
                continue
            yield entry
            if is_folder:
                remaining.append(entry.path)

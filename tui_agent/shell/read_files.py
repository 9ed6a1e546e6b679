"""Which of the files that a command names hold credentials or lie outside the roots (A2), as for `read_file`."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from tui_agent.shell.familiar import ENVIRONMENT, words

MAX_ENTRIES = 20_000
"""Files in a folder that are looked at; with more, the folder counts as one with credentials."""
_PASSED_OVER = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__"))
_COMMON_SECRETS = (".env", ".env.local", ".npmrc", ".netrc", "id_rsa", "credentials.json")
_MAX_MATCHES = 500
"""File names that a pattern may match before it counts as one with credentials."""


def read_files(
    named: Iterable[tuple[str, str]], roots: Sequence[Path], has_credentials: Callable[[Path], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the named files with credentials, and those outside the roots. Reads the disk: call it in a thread."""
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    credentials: list[str] = []
    outside: list[str] = []
    for path, program in dict.fromkeys(named):
        if program == ENVIRONMENT:
            credentials.append(path)
            continue
        if program.startswith("tree:"):
            credentials += _secrets_below(path, program.removeprefix("tree:"), has_credentials)
            continue
        names = _matches(path)
        if program not in words("names_only"):
            credentials += [name for name in names if _is_secret(name, real_roots, has_credentials)]
        walks = program in ("find", "du", "tree", "rg", "grep", "fd", "ag")
        outside += [
            name
            for name in names
            if name.startswith(("/", "~")) and ((walks and name in ("/", "/etc")) or _is_outside(name, real_roots))
        ]
    return tuple(dict.fromkeys(credentials)), tuple(dict.fromkeys(outside))


def _secrets_below(folder: str, pattern: str, has_credentials: Callable[[Path], bool]) -> list[str]:
    """Return a file with credentials below a folder that the glob matches; the folder itself if it is too large."""
    if not pattern or not folder.startswith("/"):
        return []
    count = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _PASSED_OVER]
        count += len(files)
        if count > MAX_ENTRIES:
            return [folder]
        for name in fnmatch.filter(files, pattern):
            if has_credentials(Path(parent, name)):
                return [os.path.join(parent, name)]
    return []


def _matches(path: str) -> list[str]:
    """Return the files that a name stands for: itself, or what its pattern matches as in a shell."""
    if not any(character in path for character in "*?["):
        return [path]
    folder, _, name = path.rpartition("/")
    guessed = [
        f"{folder}/{secret}" for secret in _COMMON_SECRETS if name[:1] == secret[:1] and fnmatch.fnmatch(secret, name)
    ]
    found = guessed + list(islice(glob.iglob(path, recursive=False), _MAX_MATCHES))
    return [path, *found]


def _is_secret(path: str, roots: Sequence[Path], has_credentials: Callable[[Path], bool]) -> bool:
    if not path.startswith("/"):
        return False
    if has_credentials(Path(path)):
        return not os.path.isdir(path)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return status.st_nlink > 1 and not os.path.isdir(path) and _is_linked_secret(path, status, roots, has_credentials)


def _is_linked_secret(
    path: str, status: os.stat_result, roots: Sequence[Path], has_credentials: Callable[[Path], bool]
) -> bool:
    """Return whether a file with several names has one that holds credentials, in its folder or in a root."""
    folders = [os.path.dirname(path), *map(str, roots)]
    for folder in dict.fromkeys(folders):
        try:
            entries = list(islice(os.scandir(folder), 5000))
        except OSError:
            continue
        if any(entry.inode() == status.st_ino and has_credentials(Path(entry.path)) for entry in entries):
            return True
    return False


def _is_outside(path: str, roots: Sequence[Path]) -> bool:
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in words("system_reads")):
        return False
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return True
    if any(Path(real).is_relative_to(root) for root in roots):
        return False
    return not any(fnmatch.fnmatchcase(real, pattern) for pattern in words("system_reads"))

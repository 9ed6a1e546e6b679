"""Where a new file lies until it gets its name: outside the project, so that a killed process leaves nothing in it.

Each write has a folder of its own below `paths.staging_dir()`, locked while its process lives. A symbolic link in it
leads to the file that is written. From the swap on, the link's name holds the hashes of the new and of the expected
content, so that the next start can tell a leftover from what another program has saved.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tui_agent.common import paths
from tui_agent.platform.syscalls import close_quietly

STAGED = "file"
"""Name of the temporary file in its folder."""
_ENTRY = re.compile(r"[0-9a-f]{16}")
_RECORD = re.compile(r"new|[0-9a-f]{64}\.[0-9a-f]{64}")
_NEW = "new"
"""The link's name while the temporary file holds nothing but our content, or a part of it."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def temp_name(key: str) -> str:
    """Return the name of a temporary file that has to lie next to its target."""
    return f".{key}.tua-tmp"


class Staging:
    """A locked folder for one write."""

    def __init__(self, path: Path, target: Path) -> None:
        """Make the folder `path`. Raises OSError."""
        self.path = path
        os.mkdir(path, 0o700)
        self.folder = os.open(path, _FOLDER)
        """Open while the write lasts."""
        try:
            fcntl.flock(self.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.symlink(target, _NEW, dir_fd=self.folder)
        except OSError:
            self.close()
            raise

    @property
    def key(self) -> str:
        """Names the folder, and a temporary file next to the target."""
        return self.path.name

    def note_swap(self, ours: str, expected: str) -> None:
        """Note that the temporary file may hold another program's content from now on. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):  # noted before
            os.rename(_NEW, f"{ours}.{expected}", src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def note_new(self) -> None:
        """Note that the temporary file holds only our content again, as it is written anew. Raises OSError."""
        for record in os.listdir(self.folder):
            if _RECORD.fullmatch(record):
                os.rename(record, _NEW, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def close(self) -> None:
        """Remove the folder, unless a temporary file was left. Never raises."""
        _remove(self.folder, self.path)
        close_quietly(self.folder)


@contextlib.contextmanager
def staging_for(target: Path) -> Iterator[Staging | None]:
    """Make a folder for the write of `target`; finally it is removed. Yields None if no folder can be made."""
    staging = None
    with contextlib.suppress(OSError, paths.HomeNotFoundError):
        staging = Staging(paths.ensure_private_dir(paths.staging_dir()) / secrets.token_hex(8), target)
    try:
        yield staging
    finally:
        if staging is not None:
            staging.close()


def _remove(folder: int, path: Path) -> None:
    """Remove a folder with its record, unless there is a file in it or, of that key, next to the target."""
    with contextlib.suppress(OSError):
        for record in os.listdir(folder):
            target = Path(os.readlink(record, dir_fd=folder))
            if not os.path.lexists(target.parent / temp_name(path.name)):
                os.unlink(record, dir_fd=folder)
        os.rmdir(path)


class DisplacedFile(msgspec.Struct, frozen=True):
    """A version of `target` by another program, which a killed write had displaced; it is kept at `path`."""

    target: Path
    path: Path


def remove_abandoned() -> list[DisplacedFile]:
    """Remove what killed processes left, and return what is neither their content nor what they replaced.

    Such a version gets its name back if nothing has that name. Blocks; never raises.
    """
    found: list[DisplacedFile] = []
    with contextlib.suppress(OSError, paths.HomeNotFoundError):
        root = paths.staging_dir()
        for name in os.listdir(root):
            if _ENTRY.fullmatch(name):
                with contextlib.suppress(OSError, ValueError):
                    found += _clean(root / name)
    return found


def _clean(entry: Path) -> list[DisplacedFile]:
    folder = os.open(entry, _FOLDER)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []  # a live process is writing
        record = next((name for name in os.listdir(folder) if _RECORD.fullmatch(name)), "")
        if not record:
            os.rmdir(entry)  # fails if there is anything in it
            return []
        target = Path(os.readlink(record, dir_fd=folder))
        known = None if record == _NEW else record.split(".")
        places = (entry / STAGED, target.parent / temp_name(entry.name))
        left = [path for path in places if _is_kept(path, target, known)]
        _remove(folder, entry)
        return [DisplacedFile(target, path) for path in left]
    finally:
        close_quietly(folder)


def _is_kept(path: Path, target: Path, known: list[str] | None) -> bool:
    """Remove a temporary file of ours, or with a known hash; put another one back in its place, or return True."""
    if not os.path.lexists(path) or not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    if known is not None and _hash(path) not in known:
        try:
            os.link(path, target, follow_symlinks=False)
        except OSError:
            return True
    os.unlink(path)
    return False


def _hash(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

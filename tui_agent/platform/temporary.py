"""Temporary folders of the program, removed at the end, or by the next start if the process was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

_NAME = re.compile(r"tui-agent-(?:demo|sh|scratch|edit|export|window)-[\w-]+")
"""Names of the folders, for the purposes that there are."""


class TemporaryFolder:
    """A private folder in the system's folder for temporary files, locked while this process lives.

    `path` has no symlinks. A context manager that removes it.
    """

    def __init__(self, purpose: str) -> None:
        """Create `tui-agent-<purpose>-…`. Raises OSError."""
        while True:
            self.path = Path(os.path.realpath(tempfile.mkdtemp(prefix=f"tui-agent-{purpose}-")))
            lock = _lock(self.path)
            if lock is not None or self.path.is_dir():
                break
            # another process took it for a leftover before it was locked
        self._lock = lock

    def remove(self) -> None:
        """Remove the folder with its content. Errors are ignored: the next start tries again."""
        shutil.rmtree(self.path, ignore_errors=True)  # does not follow symlinks
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()


def remove_stale_folders() -> int:
    """Remove the temporary folders of processes that were killed. Returns how many; never raises."""
    count = 0
    with contextlib.suppress(OSError):
        folder = Path(os.path.realpath(tempfile.gettempdir()))
        for name in os.listdir(folder):
            if _NAME.fullmatch(name) and (lock := _lock(folder / name)) is not None:
                shutil.rmtree(folder / name, ignore_errors=True)
                os.close(lock)
                count += 1
    return count


def _lock(path: Path) -> int | None:
    """Return a descriptor that locks the user's own folder; None if another process has it or it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and os.path.samestat(status, os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None

"""Files that we replaced: an editor that had one open before may write into it long after (P4, FAULTS 5.3)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tui_agent.platform.files import sha256_of

KEPT = 16
"""Files that stay open: the writer may be several saves of ours behind."""
QUIET = 0.12
"""Seconds without a write after which what was written is whole."""
_PATIENCE = 0.5
_STEP = 0.01


@dataclass
class _Old:
    fd: int
    sha256: str


class Replaced:
    """The last files that lay under a name. Blocks, as the disk does."""

    def __init__(self) -> None:
        self.unreadable: OSError | None = None
        """Why what may have been written into one of them is not known; None while all can be read."""
        self._olds: list[_Old] = []
        self._unread: list[bytes] = []

    @contextmanager
    def replacing(self, path: Path, sha256: str | None) -> Iterator[None]:
        """The file at `path`, whose bytes have that hash, is replaced meanwhile; kept when nothing is raised."""
        try:
            fd = None if sha256 is None else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            fd = None
        try:
            yield
        except BaseException:
            if fd is not None:
                _close(fd)
            raise
        if fd is not None and sha256 is not None:
            self._olds.append(_Old(fd, sha256))
        while len(self._olds) > KEPT:
            self._unread += self._seen(self._olds[0], last=True)
            _close(self._olds.pop(0).fd)

    def written_late(self, *, last: bool = False) -> list[bytes]:
        """What was written into them since the last look; with `last` also what may be torn. Never raises: a file
        that can't be read is looked at again the next time, and `unreadable` tells of it."""
        found, self._unread = self._unread, []
        for old in self._olds:
            found += self._seen(old, last=last)
        return found

    def close(self) -> None:
        """Let go of all. Never raises."""
        while self._olds:
            _close(self._olds.pop().fd)

    def _seen(self, old: _Old, *, last: bool) -> list[bytes]:
        try:
            return self._of(old, last=last)
        except OSError as error:
            self.unreadable = error
            return []

    @staticmethod
    def _of(old: _Old, *, last: bool) -> list[bytes]:
        began = time.monotonic()
        while (data := _all_of(old.fd)) and (sha256 := sha256_of(data)) != old.sha256:
            quiet = time.time() - os.fstat(old.fd).st_mtime > QUIET
            if last or quiet or time.monotonic() - began > _PATIENCE:
                old.sha256 = sha256
                return [data]
            time.sleep(_STEP)  # somebody is in the middle of it
        return []


def _close(fd: int) -> None:
    with suppress(OSError):  # it was only read, and the descriptor is gone whatever `close` reports
        os.close(fd)


def _all_of(fd: int) -> bytes:
    data = bytearray()
    while piece := os.pread(fd, 1 << 20, len(data)):
        data += piece
    return bytes(data)

"""Appending to a file so that nothing acknowledged is lost, doubled or glued together."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from tui_agent.platform.syscalls import OS, OsCalls, close_quietly

FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
WRITE_AT_ONCE = 1 << 20
"""Bytes handed to one write call at most."""


class AppendError(OSError):
    """Bytes could not be written or made durable; they are kept and tried again by the next call.

    `errno` is the system's, `str()` one line that names the file and the cause.
    """

    def __init__(self, path: Path, what: str, cause: OSError) -> None:
        why = os.strerror(cause.errno) if cause.errno else str(cause)
        super().__init__(cause.errno, f"{what} {path.name} failed: {why}")
        self.path = path

    def __str__(self) -> str:
        return str(self.strerror)


def sync_folder(folder: Path, calls: OsCalls = OS) -> None:
    """Make the names inside `folder` durable."""
    fd = calls.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        calls.fsync(fd)
    finally:
        close_quietly(fd, calls)


class Appender:
    """One file, opened once, that only grows. Safe to use from one writing and one syncing thread.

    With `lines` each piece given to `append` is one record that ends in a newline: after a failed write the whole
    record is written again on a line of its own. Without, the file is a stream of bytes: writing goes on at the very
    byte where it stopped.
    """

    def __init__(self, path: Path, *, lines: bool = True, calls: OsCalls = OS) -> None:
        """Open or create `path` (0600, never through a symlink). Raises AppendError."""
        self.path = path
        self._lines = lines
        self._os = calls
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._unsynced: list[bytes] = []
        self._suspect = False
        self._fd, clean = self._open()
        self.tail_dirty = lines and not clean
        """The file ends within a line, which must be closed before the next record."""

    # --- writing ---------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Bytes taken but not yet written."""
        return sum(map(len, self._queue))

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes of the file from `offset` on."""
        return os.pread(self._fd, size, offset)

    def append(self, pieces: Iterable[bytes]) -> None:
        """Write all pieces, in order, after those still waiting. On return they survive the death of the process.

        Raises AppendError; what is not written yet stays queued and `append(())` tries again.
        """
        with self._lock:
            self._queue.extend(piece for piece in pieces if piece)
            self._drain()

    def _drain(self) -> None:
        while self._queue:
            batch: list[bytes] = []
            size = 0
            while self._queue and (not batch or size + len(self._queue[0]) <= WRITE_AT_ONCE):
                size += len(self._queue[0])
                batch.append(self._queue.popleft())
            self._write(batch)

    def _write(self, batch: list[bytes]) -> None:
        head = b"\n" if self.tail_dirty else b""
        data = memoryview(head + b"".join(batch))
        done = 0
        try:
            while done < len(data):
                count = self._os.write(self._fd, bytes(data[done:]))
                if count <= 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                done += count
        except OSError as error:
            self._keep(batch, done - len(head))
            raise AppendError(self.path, "Writing", error) from error
        self.tail_dirty = False
        self._unsynced.extend(batch)

    def _keep(self, batch: list[bytes], done: int) -> None:
        """After a failed write: remember what got through of `batch` and queue the rest again."""
        if done < 0:
            self._queue.extendleft(reversed(batch))
            return
        index = 0
        while index < len(batch) and done >= len(batch[index]):
            done -= len(batch[index])
            index += 1
        self._unsynced.extend(batch[:index])
        rest = batch[index:]
        if self._lines:
            self.tail_dirty = done > 0
        elif done and rest:
            self._unsynced.append(rest[0][:done])
            rest[0] = rest[0][done:]
        self._queue.extendleft(reversed(rest))

    # --- syncing ---------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything written before this call survive a loss of power.

        A failed sync leaves the system's view of the old descriptor worthless, so it is never tried again on it:
        the file is opened anew and every byte since the last good sync is appended once more (readers drop
        doubled records). Raises AppendError when that fails too.
        """
        if not self._suspect:
            with self._lock:
                count = len(self._unsynced)
                fd = self._fd
            try:
                self._os.datasync(fd)
            except OSError:
                self._suspect = True
            else:
                with self._lock:
                    del self._unsynced[:count]
                return
        with self._lock:
            self._rescue()

    def _rescue(self) -> None:
        try:
            fd, clean = self._open()
            self._close_fd()
            self._fd = fd
            if self._lines:
                again, self._unsynced = self._unsynced, []
                self.tail_dirty = not clean
                # what follows goes through the queue, so that a failure in the middle keeps the rest
                self._queue.extendleft(reversed(again))
                self._drain()
            self._os.datasync(self._fd)
        except AppendError:
            raise
        except OSError as error:
            raise AppendError(self.path, "Saving", error) from error
        self._unsynced.clear()
        self._suspect = False

    # --- the descriptor --------------------------------------------------------------------

    def moved(self) -> bool:
        """True when the name no longer leads to the open file: it was deleted, renamed or replaced."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        here = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def reopen(self) -> None:
        """Go on in the file that the name leads to now, made anew if need be. Raises AppendError."""
        with self._lock:
            fd, clean = self._open()
            self._close_fd()
            self._fd = fd
            self._unsynced.clear()
            self.tail_dirty = self._lines and not clean

    def heal(self) -> bool:
        """Close a line that a crash left open, durably. True when there was one. Raises AppendError."""
        with self._lock:
            if not self.tail_dirty:
                return False
            try:
                self._os.write(self._fd, b"\n")
            except OSError as error:
                raise AppendError(self.path, "Writing", error) from error
            self.tail_dirty = False
        self.sync()
        return True

    def ends_clean(self) -> bool:
        """True when the file is empty or ends with a newline."""
        return _ends_clean(self._fd)

    def close(self) -> None:
        """Close the descriptor; nothing is written or synced."""
        with self._lock:
            self._close_fd()

    def _open(self) -> tuple[int, bool]:
        """The file, its name durable, and whether it ends with a whole line."""
        try:
            fd = self._os.open(self.path, FLAGS)
            try:
                self._os.fsync(fd)
                sync_folder(self.path.parent, self._os)
                clean = _ends_clean(fd)
            except OSError:
                close_quietly(fd, self._os)
                raise
        except OSError as error:
            raise AppendError(self.path, "Opening", error) from error
        return fd, clean

    def _close_fd(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            close_quietly(fd, self._os)


def _ends_clean(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"

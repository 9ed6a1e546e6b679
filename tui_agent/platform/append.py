"""Append to files such that no acknowledged record is lost, duplicated or merged with another."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from tui_agent.platform.syscalls import OS, OsCalls, close_quietly, retrying

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
MAX_WRITE = 1 << 20
"""Bytes of one write call."""


class AppendError(OSError):
    """Bytes could not be written or made durable; they stay queued for the next call.

    `str()` is one line with the file and the cause.
    """

    def __init__(self, path: Path, action: str, cause: OSError) -> None:
        reason = os.strerror(cause.errno) if cause.errno else str(cause)
        super().__init__(cause.errno, f"{action} {path.name} failed: {reason}")
        self.path = path

    def __str__(self) -> str:
        return str(self.strerror)


def sync_folder(folder: Path, calls: OsCalls = OS) -> None:
    """Make the names in `folder` durable."""
    fd = calls.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        calls.fsync(fd)
    finally:
        close_quietly(fd, calls)


class Appender:
    """An open file that only grows. Safe to use from one writing and one syncing thread.

    With `lines` each piece given to `append` is one record that ends in a newline: after a failed write the whole
    record is written again on a new line. Without, the file is a stream of bytes: writing continues at the byte where
    it failed.
    """

    def __init__(self, path: Path, *, lines: bool = True, calls: OsCalls = OS) -> None:
        """Open or create `path` (0600, never through a symlink). Raises AppendError."""
        self.path = path
        self._lines = lines
        self._os = retrying(calls)
        self._lock = threading.Lock()
        self._queue: deque[bytes] = deque()
        self._unsynced: list[bytes] = []
        self._sync_failed = False
        self._fd = -1
        self.has_partial_line = not self._open() and lines
        """Whether the file ends within a line, which must be ended before the next record."""

    # --- writing ---

    @property
    def queued_bytes(self) -> int:
        """Number of bytes that are not written yet."""
        return sum(map(len, self._queue))

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes of the file from `offset` on."""
        return os.pread(self._fd, size, offset)

    def append(self, pieces: Iterable[bytes]) -> None:
        """Write all pieces after those still queued. On return they survive the death of the process.

        Raises AppendError; what is not written stays queued, and `append(())` tries again.
        """
        with self._lock:
            self._queue.extend(piece for piece in pieces if piece)
            self._drain()

    def _drain(self) -> None:
        while self._queue:
            batch: list[bytes] = []
            size = 0
            while self._queue and (not batch or size + len(self._queue[0]) <= MAX_WRITE):
                size += len(self._queue[0])
                batch.append(self._queue.popleft())
            self._write(batch)

    def _write(self, batch: list[bytes]) -> None:
        head = b"\n" if self.has_partial_line else b""
        data = memoryview(head + b"".join(batch))
        done = 0
        try:
            while done < len(data):
                count = self._os.write(self._fd, bytes(data[done:]))
                if count <= 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                done += count
        except OSError as error:
            self._requeue(batch, done - len(head))
            raise AppendError(self.path, "Writing", error) from error
        self.has_partial_line = False
        self._unsynced.extend(batch)

    def _requeue(self, batch: list[bytes], done: int) -> None:
        """After a failed write of which `done` bytes were written: queue the rest of the batch again."""
        if done < 0:
            self._queue.extendleft(reversed(batch))
            return
        index = 0
        while index < len(batch) and done >= len(batch[index]):
            done -= len(batch[index])
            index += 1
        self._unsynced.extend(batch[:index])
        remaining = batch[index:]
        if self._lines:
            self.has_partial_line = done > 0
        elif done and remaining:
            self._unsynced.append(remaining[0][:done])
            remaining[0] = remaining[0][done:]
        self._queue.extendleft(reversed(remaining))

    # --- syncing ---

    def sync(self) -> None:
        """Make everything that was written durable.

        After a failed sync the system no longer reports lost bytes for the old descriptor. The file is therefore
        reopened, and every byte since the last successful sync is appended again (readers drop duplicate records).
        Raises AppendError if that fails too.
        """
        if not self._sync_failed:
            with self._lock:
                count = len(self._unsynced)
                fd = self._fd
            try:
                self._os.datasync(fd)
            except OSError:
                self._sync_failed = True
            else:
                with self._lock:
                    del self._unsynced[:count]
                return
        with self._lock:
            self._write_again()

    def _write_again(self) -> None:
        try:
            is_complete = self._open()
            if self._lines:
                unsynced, self._unsynced = self._unsynced, []
                self.has_partial_line = not is_complete
                # by the queue, so that a failure in the middle keeps the rest
                self._queue.extendleft(reversed(unsynced))
                self._drain()
            self._os.datasync(self._fd)
        except AppendError:
            raise
        except OSError as error:
            raise AppendError(self.path, "Saving", error) from error
        self._unsynced.clear()
        self._sync_failed = False

    # --- the descriptor ---

    def is_replaced(self) -> bool:
        """Return whether the path no longer leads to the open file: it was deleted, renamed or replaced."""
        try:
            current = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        opened = os.fstat(self._fd)
        return (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino)

    def reopen(self) -> None:
        """Continue in the file that the path leads to now, created if necessary. Raises AppendError."""
        with self._lock:
            self.has_partial_line = not self._open() and self._lines
            self._unsynced.clear()

    def end_line(self) -> bool:
        """Durably end a line that a crash left incomplete; return whether there was one. Raises AppendError."""
        with self._lock:
            if not self.has_partial_line:
                return False
            try:
                self._os.write(self._fd, b"\n")
            except OSError as error:
                raise AppendError(self.path, "Writing", error) from error
            self.has_partial_line = False
        self.sync()
        return True

    def is_complete(self) -> bool:
        """Return whether the file is empty or ends with a newline."""
        return _is_complete(self._fd)

    def close(self) -> None:
        """Close the file without writing or syncing."""
        with self._lock:
            self._close_fd()

    def _open(self) -> bool:
        """Open or reopen the file, make its name durable, and return whether it ends with a complete line."""
        try:
            fd = self._os.open(self.path, _FLAGS)
            try:
                self._os.fsync(fd)
                sync_folder(self.path.parent, self._os)
                is_complete = _is_complete(fd)
            except OSError:
                close_quietly(fd, self._os)
                raise
        except OSError as error:
            raise AppendError(self.path, "Opening", error) from error
        self._close_fd()
        self._fd = fd
        return is_complete

    def _close_fd(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            close_quietly(fd, self._os)


def _is_complete(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"

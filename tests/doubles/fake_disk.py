from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from tui_agent.platform.syscalls import OsCalls


class FakeDisk(OsCalls):
    """Real files behind calls that misbehave as told. `fired` counts the faults that came to pass."""

    def __init__(self) -> None:
        self.fired = 0
        self.writes = 0
        self.syncs: list[int] = []
        self.opens: list[int] = []
        self.short: Callable[[int, bytes], int | None] = lambda number, data: None
        """How many bytes of the numbered write get through; None for all."""
        self.write_error: Callable[[int], int | None] = lambda number: None
        """The errno with which the numbered write fails, after what `short` let through was written before."""
        self.sync_error: Callable[[int], int | None] = lambda number: None
        self.room: int | None = None
        """Bytes that still fit on the disk."""
        self.gate = threading.Event()
        self.gate.set()
        """Syncs wait for it."""
        self.syncing = threading.Event()
        self.write_gate = threading.Event()
        self.write_gate.set()
        """Writes wait for it."""
        self.writing = threading.Event()
        self.only: str = ""
        """The end of the names of the files that are concerned; all when empty."""
        self._named: dict[int, str] = {}

    def open(self, name: str | Path, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        fd = super().open(name, flags, mode, dir_fd=dir_fd)
        self._named[fd] = str(name)
        self.opens.append(fd)
        return fd

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if not self._concerns(fd):
            return super().write(fd, data)
        self.writes += 1
        self.writing.set()
        self.write_gate.wait()
        code = self.write_error(self.writes)
        if code is not None:
            self.fired += 1
            raise OSError(code, os.strerror(code))
        allowed = self.short(self.writes, bytes(data))
        if allowed is not None and allowed < len(data):
            self.fired += 1
            return super().write(fd, data[:allowed])
        if self.room is not None:
            if self.room == 0:
                self.fired += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: self.room]
            self.room -= len(data)
        return super().write(fd, data)

    def datasync(self, fd: int) -> None:
        if not self._concerns(fd):
            return
        self.syncs.append(fd)
        number = len(self.syncs)
        self.syncing.set()
        self.gate.wait()
        code = self.sync_error(number)
        if code is not None:
            self.fired += 1
            raise OSError(code, os.strerror(code))
        super().datasync(fd)

    def _concerns(self, fd: int) -> bool:
        return self._named.get(fd, "").endswith(self.only)


class FakeHaste(OsCalls):
    """Real files on a disk whose syncs cost nothing."""

    def datasync(self, fd: int) -> None:
        pass

    def fsync(self, fd: int) -> None:
        pass

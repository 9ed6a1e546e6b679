"""A program in a terminal of its own. The kernel hangs it up when we are gone, however we ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

CHUNK = 1 << 16
"""Bytes that are read at once."""
LEAVING = 6.0
"""Seconds that a program has to end after a hang-up; then it is killed."""
LARGEST = 1000
"""Columns or rows."""

_SEAT = (
    "import fcntl,os,sys,termios;"
    "fcntl.ioctl(0,termios.TIOCSCTTY,0);"  # so that keys such as Ctrl+Z work, and the hang-up reaches it
    "os.execv(sys.argv[1],sys.argv[1:])"
)

Size = tuple[int, int]
"""Columns, rows."""


def fitting(columns: int, rows: int) -> Size:
    """The size that a terminal can have next to the one that is asked for."""
    return min(max(columns, 2), LARGEST), min(max(rows, 2), LARGEST)


class TerminalProgram:
    """A running program and our end of its terminal. Lives on the event loop that started it."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self._process = process
        self._master = master
        self._ended: asyncio.Future[int] = asyncio.ensure_future(process.wait())
        self._writing = asyncio.Lock()

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], size: Size
    ) -> Self:
        """Start `argv`, whose first is an absolute path, as the leader of a session. Raises OSError."""
        master, slave = os.openpty()
        try:
            _resize(master, size)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", _SEAT, *argv,
                stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=dict(environment), start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        os.set_blocking(master, False)
        return cls(process, master)

    @property
    def pid(self) -> int:
        """Its process id, which is that of its session too."""
        return self._process.pid

    async def read(self) -> bytes:
        """What it writes next; empty when it has ended and all is read."""
        while self._master >= 0:
            try:
                return os.read(self._master, CHUNK)
            except BlockingIOError:
                if self._ended.done():
                    return b""
                await self._until(asyncio.get_running_loop().add_reader, write=False)
            except OSError:  # nobody holds the other end any more
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Type; waits while the program takes nothing. What an ended program is told is lost."""
        async with self._writing:
            while data and self._master >= 0 and not self._ended.done():
                try:
                    data = data[os.write(self._master, data) :]
                except BlockingIOError:
                    await self._until(asyncio.get_running_loop().add_writer, write=True)
                except OSError:
                    return

    async def _until(self, watch: Callable[..., None], *, write: bool) -> None:
        loop, master = asyncio.get_running_loop(), self._master
        ready: asyncio.Future[None] = loop.create_future()

        def readied() -> None:
            if not ready.done():
                ready.set_result(None)

        watch(master, readied)
        waited: list[asyncio.Future[Any]] = [ready, self._ended]
        try:
            await asyncio.wait(waited, return_when="FIRST_COMPLETED")
        finally:
            if self._master == master:
                (loop.remove_writer if write else loop.remove_reader)(master)

    def resize(self, size: Size) -> None:
        """Give the terminal another size, of which the program is told."""
        if self._master >= 0:
            _resize(self._master, size)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def look_again(self) -> None:
        """Tell who has the terminal at the moment, it or a program of its own, to paint it anew in its size."""
        with contextlib.suppress(OSError):  # ProcessLookupError too, and a terminal that nobody has
            if (group := os.tcgetpgrp(self._master)) > 0:  # 0 would be our own
                os.killpg(group, signal.SIGWINCH)

    async def wait(self) -> int:
        """Its exit code, once it has ended; negative the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def end(self) -> int:
        """Hang up as a terminal window does that is closed; returns its exit code, within LEAVING seconds."""
        master, self._master = self._master, -1
        if master >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(master)
            loop.remove_writer(master)
            os.close(master)
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self.wait(), LEAVING)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return await self.wait()


def _resize(master: int, size: Size) -> None:
    columns, rows = fitting(*size)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

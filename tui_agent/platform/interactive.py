"""Programs we talk to: over pipes (bytes in, bytes out, errors to the debug log) or in a terminal of their own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import struct
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tui_agent.platform.output import Capture
from tui_agent.platform.pipes import CHUNK, read_chunk
from tui_agent.platform.proc import Child, ProcessError, Stage
from tui_agent.text import clean

log = logging.getLogger(__name__)

SEND_CAP = 16 << 20
"""Bytes that may wait for a program that does not read them."""
ERROR_LINES = 2_000
"""Lines of its errors that go to the debug log."""
ERROR_WIDTH = 500


class WriteBlocked(Exception):
    """The program does not read what it is sent."""


class _Sink(asyncio.BaseProtocol):
    """Knows whether the pipe is closed: a closed one can't be aborted."""

    lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class DuplexProcess(Child):
    """A running program on the event loop that started it; its whole tree is dead within 2 s of `stop`."""

    def __init__(self, capture: Capture) -> None:
        super().__init__(capture)
        self._on_output: Callable[[bytes], None] = lambda data: None
        self._on_end: Callable[[], None] = lambda: None
        self._sending: asyncio.WriteTransport | None = None
        self._sink = _Sink()
        self._source = -1
        self._errors = -1
        self._error_lines = 0
        self._unread = bytearray()
        """Output that came before anybody listened."""
        self._name = ""

    @classmethod
    async def with_program(
        cls,
        program: Path,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        on_output: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> Self:
        """Start `program`. `on_output` gets its output on the event loop, `on_end` is called once when that has ended.

        Raises ProcessError.
        """
        stage = Stage(program=str(program), argv=tuple(argv))
        start = cls.start([stage], cwd=cwd, environment=environment, capture=Capture())
        starting = asyncio.ensure_future(start)
        try:
            talk = await asyncio.shield(starting)
            talk._name = program.name
            await talk._connect()
        except BaseException:
            # Nobody else knows of it: whoever gave up waiting waits until nothing of it is left.
            with contextlib.suppress(ProcessError):
                talk = await starting
                talk.stop()
                await talk.gone()
            raise
        talk._on_output, talk._on_end = on_output, on_end
        if talk._unread:
            on_output(bytes(talk._unread))
            talk._unread.clear()
        if talk._eof.is_set():
            talk._hang_up()
        return talk

    async def _connect(self) -> None:
        pipe = os.fdopen(self._source, "wb", 0)
        self._source = -1
        try:
            self._sending, self._sink = await self._loop.connect_write_pipe(_Sink, pipe)
        except BaseException:
            pipe.close()
            raise

    def _open(self, *ends: int) -> None:
        with contextlib.ExitStack() as closing:
            theirs, self._source = os.pipe()
            closing.callback(os.close, theirs)
            try:
                self._errors, said = os.pipe()
                closing.callback(os.close, said)
                super()._open(theirs, said)
            except OSError:
                self._shut()
                raise
        os.set_blocking(self._errors, False)
        self._loop.add_reader(self._errors, self._complains)

    def send(self, data: bytes) -> None:
        """Hand `data` on. Raises WriteBlocked when too much waits already; what is sent to a dead program is lost."""
        if self._sending is None or self._sending.is_closing():
            return
        if self._sending.get_write_buffer_size() > SEND_CAP:
            raise WriteBlocked
        self._sending.write(data)

    def _take(self, data: bytes) -> None:
        if self._sending is None:
            self._unread += data[: CHUNK * 16 - len(self._unread)]
        else:
            self._on_output(data)

    def _end_of_output(self) -> None:
        ended = self._eof.is_set()
        super()._end_of_output()
        if not ended and self._sending is not None:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._sending is not None and not self._sink.lost:
            self._sending.abort()
        self._on_end()

    async def _close(self) -> None:
        await super()._close()
        self._shut()

    def _shut(self) -> None:
        """Close the ends of pipes that are still held."""
        if self._source >= 0:
            os.close(self._source)
            self._source = -1
        self._silence()

    def _complains(self) -> None:
        data = read_chunk(self._errors)
        if data is None:
            return
        if not data:
            self._silence()
            return
        for line in data.splitlines():
            self._error_lines += 1
            if self._error_lines <= ERROR_LINES:
                text = clean(line[:ERROR_WIDTH].decode("utf-8", "replace"))
                log.debug("%s: %s", self._name or "a program", text)

    def _silence(self) -> None:
        if self._errors >= 0:
            self._loop.remove_reader(self._errors)
            with contextlib.suppress(OSError):
                os.close(self._errors)
            self._errors = -1


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


def fitting_size(columns: int, rows: int) -> Size:
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
    async def start(cls, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], size: Size) -> Self:
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
    columns, rows = fitting_size(*size)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

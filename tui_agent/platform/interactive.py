"""Interactive programs: over pipes, with their errors in the debug log, or in a pseudo-terminal."""

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

MAX_PENDING = 16 << 20
"""Bytes that may wait for a program to read them."""
MAX_ERROR_LINES = 2_000
"""Lines of its errors that are logged."""
MAX_ERROR_WIDTH = 500


class WriteBlocked(Exception):
    """The program does not read what it is sent."""


class _WriteProtocol(asyncio.BaseProtocol):
    """Notes whether the pipe is closed: then it can't be aborted."""

    is_closed = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True


class DuplexProcess(Child):
    """A program that reads and writes pipes, on the event loop that started it."""

    def __init__(self, capture: Capture) -> None:
        super().__init__(capture)
        self._on_output: Callable[[bytes], None] = lambda data: None
        self._on_end: Callable[[], None] = lambda: None
        self._transport: asyncio.WriteTransport | None = None
        self._protocol = _WriteProtocol()
        self._input = -1
        self._errors = -1
        self._error_lines = 0
        self._unread = bytearray()
        """Output that came before the start was complete."""
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
            process = await asyncio.shield(starting)
            process._name = program.name
            await process._connect()
        except BaseException:
            # Wait until no process is left, as the caller never gets this one.
            with contextlib.suppress(ProcessError):
                process = await starting
                process.stop()
                await process.gone()
            raise
        process._on_output, process._on_end = on_output, on_end
        if process._unread:
            on_output(bytes(process._unread))
            process._unread.clear()
        if process._eof.is_set():
            process._finish()
        return process

    async def _connect(self) -> None:
        pipe = os.fdopen(self._input, "wb", 0)
        self._input = -1
        try:
            self._transport, self._protocol = await self._loop.connect_write_pipe(_WriteProtocol, pipe)
        except BaseException:
            pipe.close()
            raise

    def _open(self, stdin: int = -1, stderr: int = -1) -> None:
        with contextlib.ExitStack() as closing:
            stdin, self._input = os.pipe()
            closing.callback(os.close, stdin)
            try:
                self._errors, stderr = os.pipe()
                closing.callback(os.close, stderr)
                super()._open(stdin, stderr)
            except OSError:
                self._close_pipes()
                raise
        os.set_blocking(self._errors, False)
        self._loop.add_reader(self._errors, self._on_errors_ready)

    def send(self, data: bytes) -> None:
        """Send `data`; ignored after the program has ended. Raises WriteBlocked if too much is pending."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > MAX_PENDING:
            raise WriteBlocked
        self._transport.write(data)

    def _add_output(self, data: bytes) -> None:
        if self._transport is None:
            self._unread += data[: CHUNK * 16 - len(self._unread)]
        else:
            self._on_output(data)

    def _close_output(self) -> None:
        ended = self._eof.is_set()
        super()._close_output()
        if not ended and self._transport is not None:
            self._finish()

    def _finish(self) -> None:
        if self._transport is not None and not self._protocol.is_closed:
            self._transport.abort()
        self._on_end()

    async def _close(self) -> None:
        await super()._close()
        self._close_pipes()

    def _close_pipes(self) -> None:
        """Close our ends of its standard input and standard error."""
        if self._input >= 0:
            os.close(self._input)
            self._input = -1
        self._close_errors()

    def _on_errors_ready(self) -> None:
        data = read_chunk(self._errors)
        if data is None:
            return
        if not data:
            self._close_errors()
            return
        for line in data.splitlines():
            self._error_lines += 1
            if self._error_lines <= MAX_ERROR_LINES:
                text = clean(line[:MAX_ERROR_WIDTH].decode("utf-8", "replace"))
                log.debug("%s: %s", self._name or "a program", text)

    def _close_errors(self) -> None:
        if self._errors >= 0:
            self._loop.remove_reader(self._errors)
            with contextlib.suppress(OSError):
                os.close(self._errors)
            self._errors = -1


HANGUP_TIMEOUT = 6.0
"""Seconds that a program has to end after a hang-up before it is killed."""
MAX_SIZE = 1000
"""Columns or rows."""

_LAUNCHER = (
    "import fcntl,os,sys,termios;"
    "fcntl.ioctl(0,termios.TIOCSCTTY,0);"  # for keys such as Ctrl+Z, and for the hang-up
    "os.execv(sys.argv[1],sys.argv[1:])"
)

Size = tuple[int, int]
"""Columns, rows."""


def clamp_size(columns: int, rows: int) -> Size:
    """Return the nearest size that a terminal can have."""
    return min(max(columns, 2), MAX_SIZE), min(max(rows, 2), MAX_SIZE)


class TerminalProgram:
    """A program in a pseudo-terminal, on the event loop that started it."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self._process = process
        self._master = master
        self._ended: asyncio.Future[int] = asyncio.ensure_future(process.wait())
        self._write_lock = asyncio.Lock()

    @classmethod
    async def start(cls, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], size: Size) -> Self:
        """Start `argv`, which begins with an absolute path, as the leader of a session. Raises OSError."""
        master, slave = os.openpty()
        try:
            _resize(master, size)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-c", _LAUNCHER, *argv,
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
        """Its process id, which is also its session id."""
        return self._process.pid

    async def read(self) -> bytes:
        """Return its next output; empty when it has ended and everything is read."""
        while self._master >= 0:
            try:
                return os.read(self._master, CHUNK)
            except BlockingIOError:
                if self._ended.done():
                    return b""
                await self._wait_ready(asyncio.get_running_loop().add_reader, write=False)
            except OSError:  # the other end is closed
                return b""
        return b""

    async def write(self, data: bytes) -> None:
        """Write input; waits while the program does not read. Ignored after it has ended."""
        async with self._write_lock:
            while data and self._master >= 0 and not self._ended.done():
                try:
                    data = data[os.write(self._master, data) :]
                except BlockingIOError:
                    await self._wait_ready(asyncio.get_running_loop().add_writer, write=True)
                except OSError:
                    return

    async def _wait_ready(self, add: Callable[..., None], *, write: bool) -> None:
        loop, master = asyncio.get_running_loop(), self._master
        ready: asyncio.Future[None] = loop.create_future()

        def on_ready() -> None:
            if not ready.done():
                ready.set_result(None)

        add(master, on_ready)
        futures: list[asyncio.Future[Any]] = [ready, self._ended]
        try:
            await asyncio.wait(futures, return_when="FIRST_COMPLETED")
        finally:
            if self._master == master:
                (loop.remove_writer if write else loop.remove_reader)(master)

    def resize(self, size: Size) -> None:
        """Change the size of the terminal; the program is notified."""
        if self._master >= 0:
            _resize(self._master, size)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the program has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def request_redraw(self) -> None:
        """Make the foreground program of the terminal draw its screen again."""
        with contextlib.suppress(OSError):  # also if there is no foreground program
            if (group := os.tcgetpgrp(self._master)) > 0:  # 0 would be our own group
                os.killpg(group, signal.SIGWINCH)

    async def wait(self) -> int:
        """Wait for its end and return the exit code; negative for a signal."""
        return await asyncio.shield(self._ended)

    async def end(self) -> int:
        """Hang up like a terminal window that is closed, and return the exit code within HANGUP_TIMEOUT seconds."""
        master, self._master = self._master, -1
        if master >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(master)
            loop.remove_writer(master)
            os.close(master)
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self.wait(), HANGUP_TIMEOUT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return await self.wait()


def _resize(master: int, size: Size) -> None:
    columns, rows = clamp_size(*size)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

"""What confines a command: said by the one that knows the workspace, carried out by the supervisor (A10)."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from tui_agent.common.domain import CommandOutcome, FrozenValue
from tui_agent.common.errors import CodedError
from tui_agent.platform import supervisor
from tui_agent.platform.output import Capture
from tui_agent.platform.pipes import read_chunk, waiting


class SandboxSpec(FrozenValue, frozen=True, kw_only=True):
    """What a command may do; `landlock` 0 without namespaces confines nothing here: the command is wrapped."""

    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    """Within what is writable, yet read only."""
    hidden: tuple[str, ...] = ()
    """Folders that look empty."""
    placed: tuple[str, ...] = ()
    """Folders that are made for as long as the command runs, so that they can be guarded although absent."""
    network: bool = False
    namespaces: bool = False
    landlock: int = 0
    """The kernel's ABI."""

    def said(self) -> tuple[supervisor.SandboxSpec | None, list[bytes]]:
        """The last two parts of a supervisor's request."""
        placed = [os.fsencode(path) for path in self.placed]
        if not self.landlock and not self.namespaces:
            return None, placed
        paths = ([os.fsencode(one) for one in some] for some in (self.writable, self.guarded, self.hidden))
        writable, guarded, hidden = paths
        return (writable, guarded, hidden, self.network, self.namespaces, self.landlock), placed


class Confinement(Protocol):
    """Confines one command. Making one may look through the workspace; using it costs nothing."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the command gets besides its own."""
        ...

    def confine(
        self, stages: Sequence[Stage], cwd: Path, more: Sequence[Path] = ()
    ) -> tuple[Sequence[Stage], SandboxSpec]:
        """The programs to start instead, and their sandbox_spec; `more` are further folders that may be written."""
        ...


DRAIN = 0.2
"""Seconds that output is still read after the command itself has ended."""
STUCK = 8.0
"""Seconds after which a supervisor that does not answer a stop is itself killed."""
STARTING = 15.0
"""Seconds until a command must have been started."""


class Stage(FrozenValue, frozen=True, kw_only=True):
    """One program of a pipeline."""

    program: str
    """Absolute path of the executable."""
    argv: tuple[str, ...]
    """With the name it is called by as the first."""
    discards_stdout: bool = False
    """Standard output goes to /dev/null."""
    discards_stderr: bool = False


class ProcessError(CodedError):
    """A program that can't be started. `code`: `not_found`, `denied`, `folder` or `failed`."""


class Child:
    """A running command together with its supervisor. Lives on the event loop that started it."""

    def __init__(self, capture: Capture) -> None:
        self._loop = asyncio.get_running_loop()
        self._capture = capture
        self._said = bytearray()
        self._read = 0
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._output = -1
        self._due = 0
        self._caught_up = asyncio.Event()
        self._eof = asyncio.Event()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._started.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._ended: asyncio.Future[int | None] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._tidy = False
        self._closing: asyncio.Task[None] | None = None
        self._relief: asyncio.Task[None] | None = None
        self.began = time.monotonic()
        self.leaders: tuple[int, ...] = ()
        """Process ids of the stages."""
        self.left_over = False
        """Whether processes remained when the command itself had ended."""

    @classmethod
    async def start(
        cls,
        stages: Sequence[Stage],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        capture: Capture,
        keep: bool = False,
        sandbox_spec: SandboxSpec | None = None,
    ) -> Self:
        """Start a pipeline: own session, stdin from /dev/null, no tty, only descriptors 0, 1 and 2.

        `keep`: what the command leaves running may stay until `stop`; else it is killed when the command ends.
        `sandbox_spec` confines it; when that can't be done, it is not started.
        Raises ProcessError.
        """
        child = cls(capture)
        request = marshal.dumps(
            (
                [
                    (os.fsencode(s.program), list(map(os.fsencode, s.argv)), s.discards_stdout, s.discards_stderr)
                    for s in stages
                ],
                os.fsencode(cwd),
                {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
                keep,
                *(sandbox_spec or SandboxSpec()).said(),
            )
        )
        try:
            child._open()
            assert child._control is not None
            await child._loop.sock_sendall(child._control, len(request).to_bytes(8, "big") + request)
            async with asyncio.timeout(STARTING):
                await asyncio.shield(child._started)
        except (OSError, TimeoutError) as error:
            child.stop()
            raise ProcessError(f"The command could not be started: {error or 'time-out'}.", "failed") from error
        except asyncio.CancelledError:
            child.stop()
            raise
        return child

    def _open(self, *ends: int) -> None:
        """`ends`: what becomes the command's standard input and standard error."""
        kept = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # some Pythons do not start without
        with contextlib.ExitStack() as closing:
            ours, theirs = socket.socketpair()
            closing.callback(theirs.close)
            try:
                self._output, output = os.pipe()
                closing.callback(os.close, output)
                # Not in a thread: the kernel tells the supervisor of its parent's death when that thread ends.
                self._popen = subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, *map(str, ends)],
                    pass_fds=ends,
                    stdin=theirs.fileno(),
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={name: os.environ[name] for name in kept if name in os.environ},
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                self._end_of_output()
                self._gone.set()
                raise
        ours.setblocking(False)
        os.set_blocking(self._output, False)
        self._control = ours
        self._loop.add_reader(ours, self._heard)
        self._loop.add_reader(self._output, self._readable)

    @property
    def pid(self) -> int:
        """The supervisor's process id: everything that comes of the command is below it."""
        return self._popen.pid if self._popen else -1

    @property
    def alive(self) -> bool:
        """Whether any process of the command may still be there."""
        return not self._gone.is_set()

    # --- what the supervisor says ----------------------------------------------------------

    def _heard(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._said += data
        *lines, rest = bytes(self._said).split(b"\n")
        self._said = bytearray(rest)
        for line in lines:
            self._told(line.decode().split(" "))
        if not data:
            self._loop.remove_reader(self._control)
            self._closing = self._loop.create_task(self._close())

    def _told(self, words: list[str]) -> None:
        match words:
            case ["started", *pids]:
                self.leaders = tuple(int(pid) for pid in pids)
                if not self._started.done():
                    self._started.set_result(None)
            case ["failed", number, what] if not self._started.done():
                self._started.set_exception(_start_error(int(number), what))
            case ["exited", status, left] if not self._ended.done():
                self.left_over = left == "1"
                self._ended.set_result(int(status))
            case ["gone", *_]:
                self._tidy = True

    async def _close(self) -> None:
        """The supervisor has ended; so has, if all went well, everything below it."""
        assert self._popen is not None and self._control is not None
        if not self._tidy:
            _kill_sessions(self.leaders)
        if not self._started.done():
            self._started.set_exception(ProcessError("The command could not be supervised.", "failed"))
        await asyncio.to_thread(self._popen.wait)
        if not self._ended.done():
            self._ended.set_result(None)
        self._control.close()
        # Whoever escaped may hold the pipe open; nobody is asked to wait for that.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._eof.wait()
        self._end_of_output()
        self._gone.set()

    # --- output ----------------------------------------------------------------------------

    def _readable(self) -> None:
        data = read_chunk(self._output)
        if data is None:
            return
        if data:
            self._take(data)
        else:
            self._end_of_output()

    def _take(self, data: bytes) -> None:
        self._read += len(data)
        self._capture.add(data)
        if self._read >= self._due:
            self._caught_up.set()
        if self._capture.pressed and self._relief is None:
            self._loop.remove_reader(self._output)
            self._relief = self._loop.create_task(self._relieve(self._capture))

    async def _relieve(self, capture: Capture) -> None:
        await capture.relieve()
        self._relief = None
        if self._output >= 0:
            self._loop.add_reader(self._output, self._readable)

    def _end_of_output(self) -> None:
        if self._output >= 0:
            self._loop.remove_reader(self._output)
            os.close(self._output)
            self._output = -1
        self._eof.set()
        self._caught_up.set()

    async def _drain(self) -> None:
        """After the command has ended: to the end of its output, but no longer than DRAIN for what it left behind.

        What was in the pipe when it ended is read in any case.
        """
        self._due = self._read + (waiting(self._output) if self._output >= 0 else 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._eof.wait()
        if self._read < self._due:
            self._caught_up.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._caught_up.wait()

    # --- what the owner does -----------------------------------------------------------------

    async def wait(self, timeout: float | None) -> int | None:
        """The command's status once it has ended and its output is read; None after a stop.

        Raises TimeoutError, and then still runs. A cancelled wait stops the command: it is dead within 2 s.
        """
        try:
            async with asyncio.timeout(timeout):  # wait_for of 3.11 can swallow a cancellation
                status = await asyncio.shield(self._ended)
            await self._drain()
        except asyncio.CancelledError:
            self._capture.mute()
            self.stop()
            raise
        return status

    def hand_over(self, capture: Capture) -> None:
        """What is written from now on goes to another place."""
        self._capture = capture

    def stop(self) -> None:
        """Begin to kill the whole tree; returns at once. It is dead within 2 s (GRACE and a little)."""
        if self._control is None or self._gone.is_set():
            return
        with contextlib.suppress(OSError):
            self._control.send(b"k")
        with contextlib.suppress(OSError):  # its end means the same, and arrives behind an unfinished request, too
            self._control.shutdown(socket.SHUT_WR)
        if self._popen is not None:
            self._loop.call_later(STUCK, self._stuck)

    def _stuck(self) -> None:
        if self._popen is not None and not self._gone.is_set() and self._popen.returncode is None:
            self._popen.kill()

    async def gone(self) -> None:
        """Until nothing of the command is left."""
        await self._gone.wait()


async def finished_process(
    capture: Capture, status: int | None, *, cwd: Path | None = None, timed_out: bool = False
) -> CommandOutcome:
    """How a command ended: what was captured, its exit code as a shell counts it (128+n for signal n), the folder."""
    presented, spill = await capture.finish()
    code = 128 - status if status is not None and status < 0 else status
    return CommandOutcome(
        exit_code=None if timed_out else code,
        output=presented.text,
        total_bytes=capture.rings.total_bytes,
        total_lines=capture.rings.total_lines,
        timed_out=timed_out,
        cwd=str(cwd or ""),
        note=presented.note,
        spill=str(spill) if spill else None,
    )


def signal_name(code: int | None) -> str:
    """`SIGSEGV` for 139 and so on; empty when the exit code stands for no signal."""
    try:
        return signal.Signals((code or 0) - 128).name
    except ValueError:
        return ""


def _start_error(number: int, what: str) -> ProcessError:
    if what == "folder":
        return ProcessError(f"The folder can't be entered: {os.strerror(number)}.", "folder")
    if what == "sandbox":
        return ProcessError(f"The sandbox could not be set up: {os.strerror(number)}.", "sandbox")
    codes = {2: "not_found", 13: "denied"}
    return ProcessError(f"The program can't be started: {os.strerror(number)}.", codes.get(number, "failed"))


def _kill_sessions(leaders: Sequence[int]) -> None:
    """The supervisor was killed: its command dies with it, and here what shares the command's session."""
    for pid in supervisor.process_table():
        with contextlib.suppress(OSError):
            if os.getsid(pid) in leaders:
                os.kill(pid, signal.SIGKILL)

"""Run commands below a supervisor process, which confines them (A10) and kills everything that they started."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias

import msgspec

from tui_agent.common.domain import CommandOutcome, FrozenValue
from tui_agent.common.errors import CodedError
from tui_agent.platform import supervisor
from tui_agent.platform.output import Capture
from tui_agent.platform.pipes import pending_bytes, read_chunk

Sockets: TypeAlias = Literal["asked", "denied", "open"]
"""What becomes of sockets with a path: connections are judged, none can be made, or they are not restricted."""


class Mounts(FrozenValue, frozen=True, kw_only=True):
    """What a command in namespaces sees, as absolute paths. What is not `writable` is read-only."""

    writable: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    """What can be read even if it is in /tmp, /var/tmp or /run, which are the command's own."""
    guarded: tuple[str, ...] = ()
    """Read-only paths within the writable ones."""
    hidden: tuple[str, ...] = ()
    """Folders that appear empty."""
    temporary: str = ""
    """The folder that is its /tmp and /var/tmp; if empty, they are new."""


class SandboxSpec(FrozenValue, frozen=True, kw_only=True):
    """What a command may do. The default restricts nothing: the command itself may run a sandbox program."""

    mounts: Mounts | None = None
    """None if it gets no namespaces."""
    landlock: int = 0
    """The kernel's ABI; 0 for no Landlock."""
    writable: tuple[str, ...] = ()
    """What may be written to; only Landlock needs it."""
    placed: tuple[str, ...] = ()
    """Missing folders that exist while the command runs, so that they can be guarded."""
    network: bool = False
    own_network: bool = False
    """Whether it has a network namespace. Without one, and without `network`, it can't make TCP and UDP sockets."""
    sockets: Sockets = "open"
    reachable: tuple[str, ...] = ()
    """Folders, as the command sees them, whose sockets it may connect to."""

    def encode(self) -> tuple[supervisor.SandboxSpec | None, list[bytes]]:
        """Return the last two parts of a request to the supervisor."""
        placed = [os.fsencode(path) for path in self.placed]
        if not self.landlock and self.mounts is None and self.sockets == "open":
            return None, placed
        return _with_bytes(self), placed


def _with_bytes(value: FrozenValue) -> dict[str, Any]:
    """Return the fields of a structure, paths as bytes."""
    fields = msgspec.structs.asdict(value)
    for name, field in fields.items():
        if isinstance(field, tuple):
            fields[name] = list(map(os.fsencode, field))
        elif isinstance(field, Mounts):
            fields[name] = {**_with_bytes(field), "temporary": os.fsencode(field.temporary)}
    return fields


class Confinement(Protocol):
    """Confines one command. Creating one may search the workspace; using it is cheap."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Additional variables for the command."""
        ...

    def confine(
        self, stages: Sequence[Stage], cwd: Path, writable: Sequence[Path] = ()
    ) -> tuple[Sequence[Stage], SandboxSpec]:
        """Return the programs to start instead and their sandbox; `writable` are additional writable folders."""
        ...


DRAIN = 0.2
"""Seconds that output is read after the command itself has ended."""
STOP_TIMEOUT = 8.0
"""Seconds after which a supervisor that does not end after a stop is killed."""
START_TIMEOUT = 15.0
"""Seconds that the start of a command may take."""


class Stage(FrozenValue, frozen=True, kw_only=True):
    """One program of a pipeline."""

    program: str
    """Absolute path of the executable."""
    argv: tuple[str, ...]
    """The first is the name that it is called by."""
    discards_stdout: bool = False
    discards_stderr: bool = False
    joins_stderr: bool = False
    """Whether its error messages go where its output goes."""
    redirects_stdout: bool = False
    """Whether its output goes where error messages go."""


def _request(
    stages: Sequence[Stage],
    cwd: Path,
    environment: Mapping[str, str],
    keep: bool,
    sandbox_spec: SandboxSpec,
    memory: int,
) -> bytes:
    """Return what the supervisor is asked for."""
    return marshal.dumps(
        (
            [(os.fsencode(s.program), list(map(os.fsencode, s.argv)), _target(s, 1), _target(s, 2)) for s in stages],
            os.fsencode(cwd),
            {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
            keep,
            *sandbox_spec.encode(),
            memory,
        )
    )


def _target(stage: Stage, descriptor: int) -> int:
    """Return where a descriptor of a stage leads: 0 for /dev/null, 1 for its output, 2 for its error messages."""
    if descriptor == 1:
        return 0 if stage.discards_stdout else 2 if stage.redirects_stdout else 1
    return 0 if stage.discards_stderr else 1 if stage.joins_stderr else 2


class ProcessError(CodedError):
    """A program that can't be started. `code`: `not_found`, `denied`, `folder` or `failed`."""


class Child:
    """A running command and its supervisor, on the event loop that started it."""

    def __init__(self, capture: Capture) -> None:
        self._loop = asyncio.get_running_loop()
        self._capture = capture
        self._messages = bytearray()
        self._bytes_read = 0
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._output = -1
        self._drain_target = 0
        self._drained = asyncio.Event()
        self._eof = asyncio.Event()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._started.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._ended: asyncio.Future[int | None] = self._loop.create_future()
        self._gone = asyncio.Event()
        self._all_gone = False
        self._closing: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self.leaders: tuple[int, ...] = ()
        """Process ids of the stages."""
        self.left_over = False
        """Whether processes remained when the command itself ended."""

    @classmethod
    async def start(
        cls,
        stages: Sequence[Stage],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        capture: Capture,
        keep: bool = False,
        confinement: Confinement | None = None,
        writable: Sequence[Path] = (),
        stdin: int = -1,
        stderr: int = -1,
        memory: int = 0,
    ) -> Self:
        """Start a pipeline in a session of its own, with no tty and only descriptors 0, 1 and 2.

        `stdin`: a descriptor to read, instead of /dev/null; `stderr`: one for error messages, which are otherwise part
        of the output.

        `memory`: bytes that each process may use; 0 for all.

        `keep`: processes that the command leaves may run until `stop`; otherwise they are killed when it ends.
        A command that can't be confined is not started; `writable` are additional folders that it may write to. Raises
        ProcessError.
        """
        child = cls(capture)
        sandbox_spec = SandboxSpec()
        if confinement is not None:
            environment = {**environment, **confinement.environment}
            stages, sandbox_spec = confinement.confine(stages, cwd, writable)
        request = _request(stages, cwd, environment, keep, sandbox_spec, memory)
        try:
            child._open(stdin, stderr)
            assert child._control is not None
            await child._loop.sock_sendall(child._control, len(request).to_bytes(8, "big") + request)
            async with asyncio.timeout(START_TIMEOUT):
                await asyncio.shield(child._started)
        except (OSError, TimeoutError) as error:
            child.stop()
            raise ProcessError(f"The command could not be started: {error or 'time-out'}.", "failed") from error
        except asyncio.CancelledError:
            child.stop()
            raise
        return child

    def _open(self, stdin: int = -1, stderr: int = -1) -> None:
        """Start the supervisor; the descriptors are those of `start`."""
        passed = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # some Pythons do not start without them
        with contextlib.ExitStack() as closing:
            control, remote = socket.socketpair()
            closing.callback(remote.close)
            try:
                self._output, output = os.pipe()
                closing.callback(os.close, output)
                ends = [end for end in (stdin, stderr) if end >= 0]
                # Not in a thread: the kernel would report the parent's death to the supervisor when that thread ends.
                self._popen = subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, str(stdin), str(stderr)],
                    pass_fds=ends,
                    stdin=remote.fileno(),
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={name: os.environ[name] for name in passed if name in os.environ},
                    start_new_session=True,
                )
            except OSError:
                control.close()
                self._close_output()
                self._gone.set()
                raise
        control.setblocking(False)
        os.set_blocking(self._output, False)
        self._control = control
        self._loop.add_reader(control, self._on_message)
        self._loop.add_reader(self._output, self._on_output_ready)

    @property
    def pid(self) -> int:
        """The supervisor's process id: all processes of the command are below it."""
        return self._popen.pid if self._popen else -1

    @property
    def alive(self) -> bool:
        """Whether any process of the command may still exist."""
        return not self._gone.is_set()

    # --- messages of the supervisor ---

    def _on_message(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._messages += data
        *lines, incomplete = bytes(self._messages).split(b"\n")
        self._messages = bytearray(incomplete)
        for line in lines:
            self._handle_message(line.decode().split(" "))
        if not data:
            self._loop.remove_reader(self._control)
            self._closing = self._loop.create_task(self._close())

    def _handle_message(self, fields: list[str]) -> None:
        match fields:
            case ["started", *pids]:
                self.leaders = tuple(int(pid) for pid in pids)
                if not self._started.done():
                    self._started.set_result(None)
            case ["failed", code, step] if not self._started.done():
                self._started.set_exception(_start_error(int(code), step))
            case ["exited", status, remaining] if not self._ended.done():
                self.left_over = remaining == "1"
                self._ended.set_result(int(status))
            case ["gone", *_]:
                self._all_gone = True

    async def _close(self) -> None:
        """Clean up after the supervisor has ended, and with it normally everything below it."""
        assert self._popen is not None and self._control is not None
        if not self._all_gone:
            _kill_sessions(self.leaders)
        if not self._started.done():
            self._started.set_exception(ProcessError("The command could not be supervised.", "failed"))
        await asyncio.to_thread(self._popen.wait)
        if not self._ended.done():
            self._ended.set_result(None)
        self._control.close()
        # A process that escaped may hold the pipe open; do not wait for it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._eof.wait()
        self._close_output()
        self._gone.set()

    # --- output ---

    def _on_output_ready(self) -> None:
        data = read_chunk(self._output)
        if data is None:
            return
        if data:
            self._add_output(data)
        else:
            self._close_output()

    def _add_output(self, data: bytes) -> None:
        self._bytes_read += len(data)
        self._capture.add(data)
        if self._bytes_read >= self._drain_target:
            self._drained.set()
        if self._capture.needs_flush and self._flushing is None:
            self._loop.remove_reader(self._output)
            self._flushing = self._loop.create_task(self._flush(self._capture))

    async def _flush(self, capture: Capture) -> None:
        await capture.flush()
        self._flushing = None
        if self._output >= 0:
            self._loop.add_reader(self._output, self._on_output_ready)

    def _close_output(self) -> None:
        if self._output >= 0:
            self._loop.remove_reader(self._output)
            os.close(self._output)
            self._output = -1
        self._eof.set()
        self._drained.set()

    async def _drain(self) -> None:
        """Read the output of an ended command, but at most for DRAIN what the processes that it left write.

        What is in the pipe by now is read in any case.
        """
        self._drain_target = self._bytes_read + (pending_bytes(self._output) if self._output >= 0 else 0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._eof.wait()
        if self._bytes_read < self._drain_target:
            self._drained.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._drained.wait()

    # --- control ---

    async def wait(self, timeout: float | None) -> int | None:
        """Return the command's status once it has ended and its output is read; None after a stop.

        After a TimeoutError the command still runs. Cancelling stops the command: it is dead within 2 s.
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

    def redirect(self, capture: Capture) -> None:
        """Send further output to another capture."""
        self._capture = capture

    def stop(self) -> None:
        """Start to kill the whole process tree, and return at once. It is dead within 2 s."""
        if self._control is None or self._gone.is_set():
            return
        with contextlib.suppress(OSError):
            self._control.send(b"k")
        with contextlib.suppress(OSError):  # means the same, and is also noticed after an incomplete request
            self._control.shutdown(socket.SHUT_WR)
        if self._popen is not None:
            self._loop.call_later(STOP_TIMEOUT, self._kill_supervisor)

    def _kill_supervisor(self) -> None:
        if self._popen is not None and not self._gone.is_set() and self._popen.returncode is None:
            self._popen.kill()

    async def gone(self) -> None:
        """Wait until no process of the command is left."""
        await self._gone.wait()


async def finished_process(
    capture: Capture, status: int | None, *, cwd: Path | None = None, timed_out: bool = False
) -> CommandOutcome:
    """Return the outcome of an ended command: its output, and its exit code as in a shell (128+n for signal n)."""
    presented, spill = await capture.finish()
    exit_code = 128 - status if status is not None and status < 0 else status
    return CommandOutcome(
        exit_code=None if timed_out else exit_code,
        output=presented.text,
        total_bytes=capture.rings.total_bytes,
        total_lines=capture.rings.total_lines,
        timed_out=timed_out,
        cwd=str(cwd or ""),
        note=presented.note,
        spill=str(spill) if spill else None,
    )


def signal_name(code: int | None) -> str:
    """Return the signal of an exit code, such as `SIGSEGV` for 139; empty if there is none."""
    try:
        return signal.Signals((code or 0) - 128).name
    except ValueError:
        return ""


def _start_error(code: int, step: str) -> ProcessError:
    if step == "folder":
        return ProcessError(f"The folder can't be entered: {os.strerror(code)}.", "folder")
    if step == "sandbox":
        return ProcessError(f"The sandbox could not be set up: {os.strerror(code)}.", "sandbox")
    codes = {2: "not_found", 13: "denied"}
    return ProcessError(f"The program can't be started: {os.strerror(code)}.", codes.get(code, "failed"))


def _kill_sessions(leaders: Sequence[int]) -> None:
    """Kill the processes in the command's sessions after the supervisor was killed; the command died with it."""
    for pid in supervisor.process_table():
        with contextlib.suppress(OSError):
            if os.getsid(pid) in leaders:
                os.kill(pid, signal.SIGKILL)

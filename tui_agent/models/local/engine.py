"""The local engine, as sessions use it: started on first need, shared, and stopped with its last user (L1).

Processes agree through a folder for each model: whoever holds a shared lock on `users.lock` uses the engine, and
`start.lock` is held while one is started. engine_process.py describes the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.models.local import engine_process
from tui_agent.platform.environment import child_environment
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.platform.locks import FileLock, InUse
from tui_agent.platform.syscalls import close_quietly
from tui_agent.text import one_line

MODULE = "xllamacpp"
"""The package with llama.cpp; only the engine's process imports it."""
INSTALL = "pip install 'tui-agent[local]'"
"""The command that installs it."""
IDLE_SECONDS = 1_800
"""Seconds without a request after which the engine frees the model's memory; the next request loads it again."""
POLL_SECONDS = 0.05
"""Interval in which the state of an engine that loads is read."""
LEAVE_SECONDS = 10.0
"""Seconds in which an engine whose last user has gone must have ended."""
LOG = "engine.log"
_STATE_LIMIT = 64 * 1024
_LOG_TAIL = 4_000
_VARIABLES = ("CUDA_", "GGML_", "HIP_", "ROCR_", "HSA_", "GPU_", "VK_", "METAL_", "OMP_", "KMP_", "PYTHONPATH")
"""Beginnings of variables that the engine gets in addition to those of every child."""


class EngineError(Exception):
    """The engine can't run a model; `str()` is a sentence for the user, `advice` says what to do."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class EnginePlan(FrozenValue, frozen=True, kw_only=True):
    """How to run a model, if no engine runs it yet."""

    model: Path
    name: str
    """The model's name in the API."""
    window: int
    """Context window of each slot, in tokens."""
    slots: int = 1
    """Requests that are answered at the same time, each with its own cache."""
    cache_mib: int = 1_024
    """Memory for prompts of earlier requests, in MiB."""


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine's process says about itself."""

    phase: Literal["loading", "ready", "failed"]
    key: str
    model: str
    name: str
    window: int
    slots: int
    address: str = ""
    problem: str = ""


def engine_installed() -> bool:
    """Return whether the package of the engine is there. It is not imported."""
    return importlib.util.find_spec(MODULE) is not None


def engine_folder(model: Path) -> Path:
    """Return the folder of the engine that runs this file, as it is now: another content has another engine."""
    real = os.path.realpath(model)
    try:
        status = os.stat(real)
        version = f"{real}\0{status.st_size}\0{status.st_mtime_ns}"
    except OSError:
        version = real
    return paths.data_dir() / "engines" / hashlib.sha256(os.fsencode(version)).hexdigest()[:16]


def running_status(model: Path) -> EngineStatus | None:
    """Return the state of the engine that runs this file, or None. Does file IO."""
    return _read_state(engine_folder(model))


def _read_state(folder: Path) -> EngineStatus | None:
    try:
        data = read_file(folder / engine_process.STATE, _STATE_LIMIT).data
        state = msgspec.json.decode(data, type=EngineStatus)
    except (FileFault, OSError, msgspec.MsgspecError):
        return None
    return state if state.phase == "failed" or _is_held(folder / engine_process.ENGINE) else None


def _is_held(path: Path) -> bool:
    """Return whether a process holds the exclusive lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        close_quietly(fd)
    return False


class EngineUse:
    """The use of one engine by this process, until `release` or the end of the process."""

    def __init__(self, folder: Path, fd: int) -> None:
        self.folder = folder
        self._fd = fd

    @property
    def state(self) -> EngineStatus | None:
        """The engine's state as of now, or None if it does not run. Does file IO."""
        return _read_state(self.folder)

    @property
    def runs(self) -> bool:
        """Whether the engine is loading or ready. Does file IO."""
        state = self.state
        return state is not None and state.phase != "failed"

    def is_alive(self) -> bool:
        """Return whether a process of the engine is left, whatever its state. Does file IO."""
        return _is_held(self.folder / engine_process.ENGINE)

    def is_unused(self) -> bool:
        """Return whether the engine still runs although no session uses it: it is about to end. Does file IO."""
        return self.is_alive() and not self._has_user()

    def _has_user(self) -> bool:
        fd = os.open(self.folder / engine_process.USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return not _is_held(self.folder / engine_process.USERS)
        finally:
            close_quietly(fd)
        return False

    def release(self) -> None:
        """Stop using the engine; the last one who does so ends it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_quietly(fd)


async def use_engine(
    plan: EnginePlan, *, log: Path | None = None, on_loading: Callable[[], object] = lambda: None
) -> tuple[EngineUse, EngineStatus]:
    """Use the engine that runs a model, and start it if there is none; returns once it is ready. Raises EngineError.

    `on_loading` is called once if there is anything to wait for. `log` is the file for the output of an engine that is
    started; default: one in its folder.
    """
    starting = asyncio.create_task(asyncio.to_thread(_start, plan, log))
    try:
        use = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_release_result)  # a thread can't be cancelled
        raise
    except OSError as error:
        raise EngineError(f"The local engine can't be started: {error.strerror or error}.") from error
    is_announced = False
    try:
        while True:
            state = await asyncio.to_thread(_read_state, use.folder)
            if (state is None and not await asyncio.to_thread(use.is_alive)) or (state and state.phase == "failed"):
                raise await asyncio.to_thread(_failure, plan, state, log or use.folder / LOG)
            if state and state.phase == "ready":
                return use, state
            if not is_announced:
                is_announced = True
                on_loading()
            await asyncio.sleep(POLL_SECONDS)
    except BaseException:
        use.release()
        raise


def _release_result(starting: asyncio.Task[EngineUse]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().release()


async def ended(use: EngineUse) -> None:
    """Wait until the engine of a released use has ended, so that its memory is free, or another session uses it."""
    for _ in range(round(LEAVE_SECONDS / POLL_SECONDS)):
        if not await asyncio.to_thread(use.is_unused):
            return
        await asyncio.sleep(POLL_SECONDS)


def _start(plan: EnginePlan, log: Path | None) -> EngineUse:
    """Become a user of the engine, and start one if none runs. Blocks. Raises EngineError or OSError."""
    folder = paths.ensure_private_dir(engine_folder(plan.model))
    try:
        lock = FileLock(folder / "start.lock", timeout=LEAVE_SECONDS)
    except InUse as error:
        raise EngineError("Another process is starting the local engine.", "Try again.") from error
    with lock:
        use = EngineUse(folder, _become_user(folder))
        try:
            if not use.runs:
                _spawn(plan, folder, log)
        except BaseException:
            use.release()
            raise
        return use


def _become_user(folder: Path) -> int:
    """Get the shared lock; waits for an engine that is ending, since its last user has gone."""
    import time

    fd = os.open(folder / engine_process.USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LEAVE_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > deadline:
                close_quietly(fd)
                raise EngineError("The previous local engine does not end.", "Try again.") from None
            time.sleep(0.01)


def _spawn(plan: EnginePlan, folder: Path, log: Path | None) -> None:
    if not engine_installed():
        raise _not_installed()
    key = secrets.token_urlsafe(24)
    request: dict[str, Any] = {**msgspec.to_builtins(plan, enc_hook=str), "idle": IDLE_SECONDS, "key": key}
    request["model"] = os.path.realpath(plan.model)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder / engine_process.STATE)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    output = os.open(log or folder / LOG, flags, 0o600)
    try:
        process = subprocess.Popen(
            (sys.executable, "-P", engine_process.__file__, str(folder)),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=_environment(os.environ),
            start_new_session=True,
        )
    finally:
        os.close(output)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps(request).encode())
    _await_state(folder, process)


def _await_state(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has written its first state, or has ended. It is reaped when it ends."""
    import threading
    import time

    while process.poll() is None and not (folder / engine_process.STATE).exists():
        time.sleep(0.005)
    threading.Thread(target=process.wait, daemon=True, name="local-engine").start()


def _environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the engine: those of every child, and those of graphics cards and threads."""
    own = {name: value for name, value in source.items() if name.startswith(_VARIABLES)}
    return child_environment(source) | own


def _not_installed() -> EngineError:
    message = "The local engine is not installed."
    return EngineError(message, f"Install it with `{INSTALL}`, or use a model server such as Ollama.")


def _failure(plan: EnginePlan, state: EngineStatus | None, log: Path) -> EngineError:
    if state is not None and state.problem == "not installed":
        return _not_installed()
    try:
        tail = read_file(log, 1 << 30).data[-_LOG_TAIL:].decode("utf-8", "replace")
    except (FileFault, OSError):
        tail = ""
    errors = [line.partition(" E ")[2] for line in tail.splitlines() if " E " in line]
    why = one_line(errors[0] if errors else state.problem if state else "its process ended", 200)
    advice = f"{log} says more. If memory is short, choose a smaller `context_window` or a smaller model."
    return EngineError(f"The local engine could not load {one_line(plan.name, 100)}: {why.rstrip('.')}.", advice)

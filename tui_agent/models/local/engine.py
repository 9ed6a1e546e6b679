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
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.models.local import engine_process
from tui_agent.platform.environment import child_environment, is_secret
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
_KEPT_SECONDS = 30 * 86_400
_MAX_LOG = 1 << 20
"""Size in bytes from which a log is emptied when the engine is started again."""
_START = b"starting the engine"
"""First line that is written to the log for each start."""
_VARIABLES = ("CUDA_", "GGML_", "HIP_", "ROCR_", "HSA_", "GPU_", "VK_", "METAL_", "OMP_", "KMP_", "PYTHONPATH")
"""Beginnings of variables that the engine gets in addition to those of every child."""


Identity: TypeAlias = tuple[tuple[int, ...], ...]


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
    files: tuple[str, ...] = ()
    """All files of the model."""
    identity: Identity = ()
    """See `gguf.weights_identity`: that of the files when they were checked. The engine loads no others."""


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine's process says about itself."""

    phase: Literal["loading", "ready", "failed"]
    key: str
    model: str
    name: str
    window: int
    slots: int
    log: str
    """Path of the engine's log."""
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
    """Return the status of the engine that runs this file, loading or ready; None if there is none. Does file IO."""
    return _running_status(engine_folder(model))


def _running_status(folder: Path) -> EngineStatus | None:
    status = _read_status(folder)
    return status if status is not None and status.phase != "failed" and _is_alive(folder) else None


def _read_status(folder: Path) -> EngineStatus | None:
    """Return what the engine's process has written last, even if it has ended since."""
    try:
        data = read_file(folder / engine_process.STATE, _STATE_LIMIT).data
        return msgspec.json.decode(data, type=EngineStatus)
    except (FileFault, OSError, msgspec.MsgspecError):
        return None


def _is_alive(folder: Path) -> bool:
    """Return whether a process of the engine is left."""
    return _is_held(folder / engine_process.ENGINE)


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
        self.is_own = False
        """This process has started the engine."""
        self._fd = fd

    @property
    def status(self) -> EngineStatus | None:
        """The engine's status as of now, or None if it does not run. Does file IO."""
        return _running_status(self.folder)

    def is_unused(self) -> bool:
        """Return whether the engine still runs although no session uses it: it is about to end. Does file IO."""
        return _is_alive(self.folder) and not self._has_user()

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
    while True:
        use = await _in_thread(plan, log)
        try:
            status = await _ready(use, on_loading)
        except BaseException:
            use.release()
            raise
        if status is not None and status.phase == "ready":
            return use, status
        use.release()
        if use.is_own:
            raise await asyncio.to_thread(_failure, plan, status, log or use.folder / LOG)
        # the engine of another session ended just now


async def _in_thread(plan: EnginePlan, log: Path | None) -> EngineUse:
    starting = asyncio.create_task(asyncio.to_thread(_start, plan, log))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_release_result)  # a thread can't be cancelled
        raise
    except OSError as error:
        raise EngineError(f"The local engine can't be started: {error.strerror or error}.") from error


async def _ready(use: EngineUse, on_loading: Callable[[], object]) -> EngineStatus | None:
    """Wait while the engine loads; return its last status, None if it has ended without one."""
    is_announced = False
    while True:
        status, is_alive = await asyncio.to_thread(_look, use.folder)
        if not is_alive:
            return status if status is not None and status.phase == "failed" else None
        if status is not None and status.phase != "loading":
            return status
        if not is_announced:
            is_announced = True
            on_loading()
        await asyncio.sleep(POLL_SECONDS)


def _look(folder: Path) -> tuple[EngineStatus | None, bool]:
    """Return the last status, and whether a process of the engine was left just before."""
    is_alive = _is_alive(folder)
    return _read_status(folder), is_alive


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
            if not _runs(folder):
                _spawn(plan, folder, log or folder / LOG)
                use.is_own = True
        except BaseException:
            use.release()
            raise
        return use


def _runs(folder: Path) -> bool:
    """Return whether an engine runs; waits for one that is ending. Raises EngineError."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while (status := _running_status(folder)) is None and _is_alive(folder):
        if time.monotonic() > deadline:
            raise EngineError(
                "Another version of tui-agent may be running this model.", "Close its sessions, and try again."
            )
        time.sleep(0.01)
    return status is not None


def _become_user(folder: Path) -> int:
    """Get the shared lock; waits for an engine that is ending, since its last user has gone."""
    fd = os.open(folder / engine_process.USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not engine_process.lock_within(fd, fcntl.LOCK_SH, LEAVE_SECONDS):
        close_quietly(fd)
        raise EngineError("The previous local engine does not end.", "Try again.")
    return fd


def _spawn(plan: EnginePlan, folder: Path, log: Path) -> None:
    if not engine_installed():
        raise _not_installed()
    key = secrets.token_urlsafe(24)
    request: dict[str, Any] = {**msgspec.to_builtins(plan, enc_hook=str), "idle": IDLE_SECONDS, "key": key}
    request["log"] = str(log)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder / engine_process.STATE)
    _remove_old(folder.parent)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(output).st_size > _MAX_LOG:
            os.ftruncate(output, 0)
        os.write(output, _START + b"\n")
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


def _remove_old(engines: Path) -> None:
    """Remove the folders of engines that have not run for a month."""
    for folder in engines.iterdir():
        with contextlib.suppress(OSError, InUse):
            if time.time() - folder.stat().st_mtime > _KEPT_SECONDS:
                with FileLock(folder / "start.lock"):
                    if not _is_alive(folder):
                        shutil.rmtree(folder)


def _await_state(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process has written its first state, or has ended. It is reaped when it ends."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while process.poll() is None and not (folder / engine_process.STATE).exists():
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.005)
    threading.Thread(target=process.wait, daemon=True, name="local-engine").start()


def _environment(source: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the engine: those of every child, and those of graphics cards and threads."""
    own = {name: value for name, value in source.items() if name.startswith(_VARIABLES) and not is_secret(name)}
    return child_environment(source) | own


def _not_installed() -> EngineError:
    message = "The local engine is not installed."
    return EngineError(message, f"Install it with `{INSTALL}`, or use a model server such as Ollama.")


def _failure(plan: EnginePlan, status: EngineStatus | None, log: Path) -> EngineError:
    if status is not None and status.problem == "not installed":
        return _not_installed()
    log = Path(status.log) if status is not None else log
    try:
        printed = read_file(log, 8 * _MAX_LOG).data.rpartition(_START)[2].decode("utf-8", "replace")
    except (FileFault, OSError):
        printed = ""
    errors = [line.partition(" E ")[2] for line in printed.splitlines() if " E " in line]
    problem = status.problem if status is not None else ""
    why = one_line(errors[0] if errors else problem or "its process ended", 200)
    advice = f"{log} says more. If memory is short, choose a smaller `context_window` or a smaller model."
    return EngineError(f"The local engine could not load {one_line(plan.name, 100)}: {why.rstrip('.')}.", advice)

"""The process of the local engine: runs llama.cpp's server on one model until the last session that uses it ends (L1).

It runs as a script with the standard library and xllamacpp only: `python -P engine_process.py FOLDER`, with a JSON
object (`Request`) on standard input; what it prints is the engine's log. There are two processes: the watcher, which
this one is, and below it the engine, whose threads hold Python's global lock while it loads.

Each session holds a shared lock on `users.lock` in FOLDER. The kernel releases it when the session ends, however that
happens; the watcher then gets the exclusive lock, and kills the engine. The engine also ends with the watcher, and the
watcher with the engine. `state.json` says how far it is (`State`); it counts only while both, or one of them, hold
`engine.lock`.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False  # that of `typing` would take some milliseconds
if TYPE_CHECKING:
    from typing import Any, NoReturn

Request = dict[str, "Any"]
"""`model`: path of the GGUF file; `files`: all parts of it; `identity`: their `file_identity` when they were checked;
`name`: the model's name in the API; `window` of each slot in tokens; `slots`; `cache_mib`: memory for prompts of
earlier requests; `idle`: seconds without a request after which the model is unloaded; `key`: the API key; `log`: path
of the file that this process prints to."""
State = dict[str, "Any"]
"""`phase`: `loading`, `ready` or `failed`; `address` of the server when it is ready; `problem` when it failed; `key`,
`model`, `name`, `window`, `slots` and `log` as requested."""
USERS = "users.lock"
ENGINE = "engine.lock"
STATE = "state.json"
LOCK_SECONDS = 5.0
"""Seconds in which an engine that is ending must have ended."""
FLUSH_SECONDS = 0.3
"""Time for llama.cpp's thread to write the reason of a failure to the log."""
_DEATHSIG = 1  # PR_SET_PDEATHSIG


def publish_state(folder: str, state: State) -> None:
    """Replace the state at once; only the user can read it."""
    path = os.path.join(folder, STATE)
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def watch(folder: str, request: Request) -> int:
    """Start the engine, and end with it, or kill it when no session uses it any more. Returns the exit code."""
    users, own = (
        os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for name in (USERS, ENGINE)
    )
    if not lock_within(own, fcntl.LOCK_EX, LOCK_SECONDS):  # it is released when this process and the engine have ended
        print("another engine runs this model", flush=True)
        return 1
    alive, write_end = os.pipe()
    state = {name: request[name] for name in ("key", "model", "name", "window", "slots", "log")}
    publish_state(folder, {**state, "phase": "loading"})
    watcher = os.getpid()
    engine = os.fork()
    if engine == 0:
        os.close(write_end)
        os.close(users)
        _run_engine(folder, request, state, watcher, alive)
    os.close(alive)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _kill(engine))
    threading.Thread(target=_await_last_user, args=(users, engine), daemon=True).start()
    _, status = os.waitpid(engine, 0)
    if _phase(folder) != "failed":
        _remove(os.path.join(folder, STATE))
    code = os.waitstatus_to_exitcode(status)
    print(f"the engine ended with status {code}", flush=True)
    return 0 if code == -signal.SIGKILL else abs(code)


def lock_within(fd: int, operation: int, seconds: float) -> bool:
    """Get a lock by `fcntl.flock`; return whether that worked in time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, operation | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)


def _await_last_user(users: int, engine: int) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)  # until no session holds a shared lock
    print("no session uses the engine", flush=True)
    _kill(engine)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _phase(folder: str) -> str:
    try:
        with open(os.path.join(folder, STATE), encoding="utf-8") as file:
            return str(json.load(file).get("phase", ""))
    except (OSError, ValueError):
        return ""


# --- the engine -----------------------------------------------------------------------------


def _run_engine(folder: str, request: Request, state: State, watcher: int, alive: int) -> NoReturn:
    """Load the model and serve it until killed. Never returns."""
    code = 1
    try:
        _end_with(watcher, alive)
        server = _serve(request)
        publish_state(folder, {**state, "phase": "ready", "address": server.listening_address})
        while True:
            time.sleep(3600)
    except Exception as error:  # of xllamacpp, whatever its type
        print(f"{type(error).__name__}: {error}", flush=True)
        time.sleep(FLUSH_SECONDS)
        missing = isinstance(error, ModuleNotFoundError)
        publish_state(folder, {**state, "phase": "failed", "problem": "not installed" if missing else str(error)[:500]})
    finally:
        os._exit(code)


def _end_with(watcher: int, alive: int) -> None:
    """Make this process end with the watcher: at once on Linux, elsewhere when its thread runs again."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != watcher:
        os._exit(1)

    def wait() -> None:
        os.read(alive, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def file_identity(files: list[str]) -> list[list[int]]:
    """Return device, inode, size, and times of change in nanoseconds (content, status) of files."""
    found = map(os.stat, files)
    return [[one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns] for one in found]


def _serve(request: Request) -> Any:
    """Start llama.cpp's server on a free port of the loopback interface; returns it once the model is loaded."""
    xllamacpp = importlib.import_module("xllamacpp")
    if file_identity(request["files"]) != request["identity"]:
        raise ValueError("the file has changed since it was checked")
    params = xllamacpp.CommonParams()
    params.model.path = request["model"]
    params.model_alias = {request["name"]}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [request["key"]]
    params.n_ctx, params.n_parallel = request["window"] * request["slots"], request["slots"]
    params.cache_ram_mib, params.sleep_idle_seconds = request["cache_mib"], request["idle"]
    params.use_jinja, params.warmup = True, False
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.offline = True
    return xllamacpp.Server(params)


if __name__ == "__main__":
    sys.exit(watch(sys.argv[1], json.load(sys.stdin)))

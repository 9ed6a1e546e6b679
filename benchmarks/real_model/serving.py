"""The model server: a running one, or one that is started for the benchmark."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.real_model.weights import VARIABLE, WEIGHTS, ModelUnavailable, is_complete, python_of

PORT = 18080
WINDOW = 16_384
"""Context window in tokens."""
LOAD_SECONDS = 300.0
"""Time limit for a started server to get ready, in seconds."""
STOP_SECONDS = 10.0


def status(port: int) -> int | None:
    """The status of /health: 200 ready, 503 loading; None if nothing listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except TimeoutError:
        return 503
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@contextmanager
def model_server(folder: Path, port: int = PORT) -> Iterator[str]:
    """Yield the address, with /v1, of an OpenAI-compatible server. Raises ModelUnavailable."""
    process = None if status(port) else _start(folder, port)
    try:
        _wait_until_ready(port, process, folder)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        if process and process.poll() is None:
            _stop(process)


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    if not is_complete(folder):
        raise ModelUnavailable(
            f"There is no model in {folder}. `python -m benchmarks.real_model fetch` gets it; "
            f"{VARIABLE} names another folder."
        )
    script = Path(__file__).with_name("llama_server.py")
    argv = [str(python_of(folder)), str(script), str(folder / WEIGHTS)]
    argv += ["--port", str(port), "--window", str(WINDOW)]
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes] | None, folder: Path) -> None:
    deadline = time.monotonic() + LOAD_SECONDS
    while (code := status(port)) in (None, 503):
        if process and process.poll() is not None:
            raise ModelUnavailable(f"The model server ended at once; {folder / 'server.log'} says why.")
        if (code is None and process is None) or time.monotonic() > deadline:
            raise ModelUnavailable(f"The model server on port {port} does not get ready.")
        time.sleep(0.2)


def _stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

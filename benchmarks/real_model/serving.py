"""The model server: the one that listens already, or one that is started and stopped again."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.real_model.weights import VARIABLE, WEIGHTS, NoModel, complete, python_of

PORT = 18080
WINDOW = 16_384
"""Tokens."""
LOADING = 300.0
"""Seconds until a started server must answer."""
STOPPING = 10.0


def status(port: int) -> int | None:
    """What /health answers: 200 ready, 503 loading; None where nothing listens."""
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
def served(folder: Path, port: int = PORT) -> Iterator[str]:
    """The address of a server of OpenAI's protocol, with its /v1. Raises NoModel when there is none and none starts."""
    process = None if status(port) else _start(folder, port)
    try:
        _wait(port, process, folder)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        if process and process.poll() is None:
            _stop(process)


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    if not complete(folder):
        raise NoModel(
            f"There is no model in {folder}. `python -m benchmarks.real_model fetch` gets it; "
            f"{VARIABLE} names another folder."
        )
    script = Path(__file__).with_name("llama_server.py")
    words = [str(python_of(folder)), str(script), str(folder / WEIGHTS)]
    words += ["--port", str(port), "--window", str(WINDOW)]
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _wait(port: int, process: subprocess.Popen[bytes] | None, folder: Path) -> None:
    until = time.monotonic() + LOADING
    while (found := status(port)) in (None, 503):
        if process and process.poll() is not None:
            raise NoModel(f"The model server ended at once; {folder / 'server.log'} says why.")
        if (found is None and process is None) or time.monotonic() > until:
            raise NoModel(f"The model server on port {port} does not get ready.")
        time.sleep(0.2)


def _stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOPPING)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

"""One job: a fresh home, a fresh project, a program that works there, and what came of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks.real_model.agents import Agent, fill
from benchmarks.real_model.counting import Row, cost, verdict
from benchmarks.real_model.jobs import Job
from benchmarks.real_model.ollama_face import OllamaFace
from benchmarks.real_model.relay import Relay, running

LIMIT = 900.0
"""Seconds of a job, after which the program is stopped."""
_KEPT_VARIABLES = ("PATH", "LANG")


def work(
    agent: Agent, job: Job, server: str, model: str, *, repeat: int = 1, limit: float = LIMIT, keep: Path | None = None
) -> Row:
    """Let the agent do the job on the model `server` (its address, with /v1).

    `keep` is a folder for all requests and replies, the answer, and what became of the project.
    """
    root = Path(tempfile.mkdtemp(prefix="real-model-"))
    try:
        place = _Place(root)
        with _counted(agent, server, model) as (relay, address):
            texts = place.texts(job, address, model)
            row = _worked(agent, job, relay, place, texts, repeat, limit)
        if keep:
            place.keep(keep / f"{agent.name}-{job.name}-{time.time_ns()}", row, relay)
        return row
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _counted(agent: Agent, server: str, model: str) -> Iterator[tuple[Relay, str]]:
    """A relay, and the address for the agent: the relay's, or that of an Ollama in front of it."""
    with ExitStack() as stack:
        relay = Relay(server)
        stack.enter_context(running(relay))
        address = relay.url
        if agent.wants_ollama:
            face = OllamaFace(relay.url, model)
            stack.enter_context(running(face))
            address = face.url
        yield relay, address


class _Place:
    """The folders of one job, below a fresh one."""

    def __init__(self, root: Path) -> None:
        self.project, self.home, self.answer = root / "work", root / "home", root / "answer.txt"
        self.project.mkdir()
        self.home.mkdir()

    def texts(self, job: Job, address: str, model: str) -> dict[str, str]:
        """What stands for the places in an agent's texts."""
        parts = urlsplit(address)
        return {
            "prompt": job.prompt,
            "base_url": address,
            "root_url": f"{parts.scheme}://{parts.netloc}",
            "model": model,
            "home": str(self.home),
            "ws": str(self.project),
        }

    def furnish(self, agent: Agent) -> None:
        """Put the agent's files into its home."""
        for name, text in agent.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def keep(self, folder: Path, row: Row, relay: Relay) -> None:
        """Copy what tells how it went."""
        shutil.copytree(self.project, folder / "work", ignore=shutil.ignore_patterns(".git"), symlinks=True)
        shutil.copy(self.answer, folder / "answer.txt")
        lines = [msgspec.json.encode(exchange) for exchange in relay.exchanges]
        (folder / "requests.jsonl").write_bytes(b"\n".join([*lines, b""]))
        (folder / "row.json").write_bytes(msgspec.json.encode(row) + b"\n")


def _worked(
    agent: Agent, job: Job, relay: Relay, place: _Place, texts: Mapping[str, str], repeat: int, limit: float
) -> Row:
    env = environment(agent, place.home, texts)
    job.set_up(place.project, env)
    place.furnish(agent)
    date, began = time.strftime("%Y-%m-%d"), time.monotonic()
    exit_code = run([fill(word, texts) for word in agent.words], place.project, env, place.answer, limit)
    seconds = round(time.monotonic() - began, 1)
    relay.settle()
    changed = job.changed(place.project)  # before the check, which may leave files
    fault = job.fault(place.project, place.answer, env)
    judged = verdict(exit_code, fault is None, changed)
    return Row(
        job=job.name,
        repeat=repeat,
        agent=agent.name,
        strategy=agent.strategy,
        mode=agent.mode,
        provider=agent.provider,
        exit_code=exit_code,
        seconds=seconds,
        commit=agent.commit,
        date=date,
        model=texts["model"],
        why="" if judged.done else fault or "stopped at the limit",
        **msgspec.structs.asdict(judged),
        **cost(relay.calls),
    )


def environment(agent: Agent, home: Path, places: Mapping[str, str]) -> dict[str, str]:
    """All that a program gets to know: little of ours, and its own."""
    env = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    env |= {"HOME": str(home), "TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return env | {name: fill(value, places) for name, value in agent.env.items()}


def run(words: list[str], folder: Path, env: Mapping[str, str], answer: Path, limit: float) -> int | None:
    """Run a program, with its output in the file `answer`. Returns its exit code; None when it was stopped."""
    with answer.open("wb") as out:
        process = subprocess.Popen(
            words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

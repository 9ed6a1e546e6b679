"""Runs one job: a program works on a fresh project with a fresh home, and its result is checked."""

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

from benchmarks.real_model.agents import Agent, fill_placeholders
from benchmarks.real_model.counting import Row, calls_in_journals, cost, judge
from benchmarks.real_model.jobs import Job
from benchmarks.real_model.ollama_server import OllamaServer
from benchmarks.real_model.relay import Relay, serving_in_thread

LIMIT = 900.0
"""Seconds after which the program is stopped."""
_INHERITED_VARIABLES = ("PATH", "LANG")


def run_job(
    agent: Agent, job: Job, server: str, model: str, *, repeat: int = 1, limit: float = LIMIT, save: Path | None = None
) -> Row:
    """Run the agent on the job with the model at `server`, an address with /v1.

    `save` is a folder for requests, replies, the answer and the resulting project.
    """
    root = Path(tempfile.mkdtemp(prefix="real-model-"))
    try:
        folders = _JobFolders(root)
        with _relay(agent, server, model) as (relay, address):
            values = folders.values(job, address, model)
            row = _run(agent, job, relay, folders, values, repeat, limit)
        if save:
            folders.save(save / f"{agent.name}-{job.name}-{time.time_ns()}", row, relay)
        return row
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _relay(agent: Agent, server: str, model: str) -> Iterator[tuple[Relay, str]]:
    """Yield a relay and the address for the agent: the relay's, or that of an Ollama server in front of it."""
    with ExitStack() as stack:
        relay = Relay(server)
        stack.enter_context(serving_in_thread(relay))
        address = relay.url
        if agent.wants_ollama:
            ollama = OllamaServer(relay.url, model)
            stack.enter_context(serving_in_thread(ollama))
            address = ollama.url
        yield relay, address


class _JobFolders:
    """The folders of one job."""

    def __init__(self, root: Path) -> None:
        self.project, self.home, self.answer = root / "work", root / "home", root / "answer.txt"
        self.project.mkdir()
        self.home.mkdir()

    def values(self, job: Job, address: str, model: str) -> dict[str, str]:
        """The values of the placeholders in an agent's texts."""
        parts = urlsplit(address)
        return {
            "prompt": job.prompt,
            "base_url": address,
            "root_url": f"{parts.scheme}://{parts.netloc}",
            "model": model,
            "home": str(self.home),
            "ws": str(self.project),
        }

    def write_agent_files(self, agent: Agent) -> None:
        """Write the agent's files to its home."""
        for name, text in agent.files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def save(self, folder: Path, row: Row, relay: Relay) -> None:
        """Copy the results of the run."""
        shutil.copytree(self.project, folder / "work", ignore=shutil.ignore_patterns(".git"), symlinks=True)
        shutil.copy(self.answer, folder / "answer.txt")
        lines = [msgspec.json.encode(exchange) for exchange in relay.exchanges]
        (folder / "requests.jsonl").write_bytes(b"\n".join([*lines, b""]))
        (folder / "row.json").write_bytes(msgspec.json.encode(row) + b"\n")


def _run(
    agent: Agent, job: Job, relay: Relay, folders: _JobFolders, values: Mapping[str, str], repeat: int, limit: float
) -> Row:
    env = environment(agent, folders.home, values)
    job.set_up(folders.project, env)
    folders.write_agent_files(agent)
    date, started = time.strftime("%Y-%m-%d"), time.monotonic()
    exit_code = run(
        [fill_placeholders(word, values) for word in agent.argv], folders.project, env, folders.answer, limit
    )
    seconds = round(time.monotonic() - started, 1)
    relay.wait_for_exchanges()
    changed = job.changed(folders.project)  # before the check, which may create files
    failure = job.failure(folders.project, folders.answer, env)
    result = judge(exit_code, failure is None, changed)
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
        model=values["model"],
        why="" if result.done else failure or "stopped at the limit",
        **msgspec.structs.asdict(result),
        **cost(calls_in_journals(folders.home) if agent.runs_model else relay.calls),
    )


def environment(agent: Agent, home: Path, values: Mapping[str, str]) -> dict[str, str]:
    """The environment of the program: a few of our variables, and its own."""
    env = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    env |= {"HOME": str(home), "TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return env | {name: fill_placeholders(value, values) for name, value in agent.env.items()}


def run(argv: list[str], folder: Path, env: Mapping[str, str], answer: Path, limit: float) -> int | None:
    """Run a program with its output in the file `answer`; return its exit code, None if it was stopped."""
    with answer.open("wb") as out:
        process = subprocess.Popen(
            argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

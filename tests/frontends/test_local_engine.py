"""A session whose model the program runs itself, from the command line on (L1). llama.cpp is a double."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.doubles.gguf import QWEN, write_gguf
from tests.doubles.local_engine import DOUBLES, processes
from tests.frontends.test_exec import ExecRunner
from tests.waiting import wait_for

TASK = ("--trust", "--mode", "chat", "ping")


@pytest.fixture
async def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ExecRunner]:
    program = ExecRunner(tmp_path)
    program.env["PYTHONPATH"] = str(DOUBLES)
    monkeypatch.setenv("TUI_AGENT_HOME", program.env["TUI_AGENT_HOME"])
    yield program
    await program.close()


async def test_a_file_as_model_needs_no_server_and_leaves_no_process(run: ExecRunner) -> None:
    weights = write_gguf(run.home / "small.gguf")
    done = await run.process("--model", "small.gguf", *TASK)
    assert (done.code, done.out.strip()) == (0, "pong"), done.err
    assert processes(weights) == []
    (log,) = run.home.rglob("engine.log")
    assert log.with_name("events.jsonl").is_file() and "no session uses the engine" in log.read_text()


async def test_a_hostile_file_ends_with_a_sentence(run: ExecRunner) -> None:
    weights = write_gguf(run.home / "evil.gguf", QWEN | {"tokenizer.chat_template": "{{ x.__class__ }}"})
    done = await run.process("--model", str(weights), *TASK)
    assert done.code != 0 and "so the file is refused" in done.err and "Traceback" not in done.err
    assert list(run.home.rglob("engine.log")) == []


async def test_a_killed_session_leaves_no_process(run: ExecRunner) -> None:
    weights = write_gguf(run.home / "small.gguf")
    session = await run.start("--model", str(weights), *TASK, GGML_FAKE_HOLD=str(run.home / "never"))
    await wait_for(lambda: len(processes(weights)) == 2)
    os.kill(session.pid, signal.SIGKILL)
    await wait_for(lambda: processes(weights) == [])

"""With the real model: TUI_AGENT_REAL_MODEL names the folder that `python -m benchmarks.real_model fetch` filled."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from benchmarks.real_model import agents
from benchmarks.real_model.jobs import select_jobs
from benchmarks.real_model.running import run_job
from benchmarks.real_model.serving import model_server
from benchmarks.real_model.weights import MODEL, VARIABLE, is_complete

FOLDER = os.environ.get(VARIABLE, "").strip()
pytestmark = [
    pytest.mark.real_model,
    pytest.mark.slow,
    pytest.mark.needs("git"),
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not (FOLDER and is_complete(Path(FOLDER))), reason=f"{VARIABLE} names no folder with the model"),
]
LIMIT = 400.0


def test_two_jobs_with_the_real_model():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    value, guard = select_jobs(["dev-json-value", "dev-guard"])
    with model_server(Path(FOLDER).absolute(), port) as server:
        reference = run_job(agents.reference("reference-files"), value, server, MODEL, limit=LIMIT)
        tui_agent = run_job(agents.tui_agent(model=MODEL, provider="ollama"), guard, server, MODEL, limit=LIMIT)
    assert reference.done, reference
    assert tui_agent.done and tui_agent.exit_code == 0, tui_agent
    for row in (reference, tui_agent):
        assert row.calls >= 1
        assert 0 < row.evaluated_tokens <= row.prompt_tokens
        assert row.written_tokens > 0

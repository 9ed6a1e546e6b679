"""With the real model: TUI_AGENT_REAL_MODEL names the folder that `python -m benchmarks.real_model fetch` filled."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from benchmarks.real_model import agents
from benchmarks.real_model.jobs import chosen_jobs
from benchmarks.real_model.running import work
from benchmarks.real_model.serving import served
from benchmarks.real_model.weights import MODEL, VARIABLE, complete

FOLDER = os.environ.get(VARIABLE, "").strip()
pytestmark = [
    pytest.mark.real_model,
    pytest.mark.slow,
    pytest.mark.needs("git"),
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not (FOLDER and complete(Path(FOLDER))), reason=f"{VARIABLE} names no folder with the model"),
]
LIMIT = 400.0


def test_two_jobs_with_the_real_model():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    value, guard = chosen_jobs(["dev-json-value", "dev-guard"])
    with served(Path(FOLDER).absolute(), port) as server:
        reference = work(agents.reference("reference-files"), value, server, MODEL, limit=LIMIT)
        ours = work(agents.ours(model=MODEL, provider="ollama"), guard, server, MODEL, limit=LIMIT)
    assert reference.done, reference
    assert ours.done and ours.exit_code == 0, ours
    for row in (reference, ours):
        assert row.calls >= 1
        assert 0 < row.evaluated_tokens <= row.prompt_tokens
        assert row.written_tokens > 0

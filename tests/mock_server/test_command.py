from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import httpx
import pytest

from tui_agent.frontends.demo_workspace import DEMO_TASK
from tui_agent.mock_server.__main__ import run_mock_server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_command_serves_until_a_signal(tmp_path: Path, number: signal.Signals):
    log = tmp_path / "log.jsonl"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tui_agent.mock_server", "--port", "0", "--pace", "0", "--log", str(log)),
        *("--fault", "503:times=1", "--strict", "--model", "coder:7b=completion,tools"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said = (await process.stdout.readline()).decode()
    assert said.startswith("mock-llm-server listening on http://127.0.0.1:")
    async with httpx.AsyncClient(base_url=said.split()[3]) as http:
        body = {
            "model": "coder:7b",
            "messages": [{"role": "user", "content": DEMO_TASK}],
            "tools": [{}],
            "stream": False,
        }
        assert (await http.post("/api/chat", json=body)).status_code == 503
        reply = (await http.post("/api/chat", json=body)).json()
        assert reply["message"]["tool_calls"][0]["function"]["name"] == "read_file"
        assert (await http.post("/v1/chat/completions", json=body | {"model": "x"})).status_code == 404
    process.send_signal(number)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert json.loads(log.read_text(encoding="utf-8").splitlines()[0])["path"] == "/api/chat"


async def test_taken_port_is_said_in_a_line():
    async with asyncio.timeout(30):
        taken = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tui_agent.mock_server", "--port", str(port)), stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        taken.close()
    assert process.returncode == 1
    assert b"Traceback" not in errors
    assert b"mock-llm-server: " in errors


def test_bad_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bad = tmp_path / "bad.json"
    bad.write_text('{"scenarios": 3}', encoding="utf-8")
    assert run_mock_server(["--scenarios", str(bad)]) == 2
    assert capsys.readouterr().err == f"mock-llm-server: {bad}: $.scenarios: Expected `array`, got `int`\n"


@pytest.mark.parametrize("argv", [["--fault", "boom"], ["--port", "x"], ["--model", "=tools"]])
def test_wrong_usage_is_explained(argv: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        run_mock_server(argv)
    assert caught.value.code == 2
    assert "mock-llm-server: error: " in capsys.readouterr().err

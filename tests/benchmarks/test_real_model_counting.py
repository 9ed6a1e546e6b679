from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.real_model import agents
from benchmarks.real_model.__main__ import main
from benchmarks.real_model.counting import Call, Row, call_of, cost, judge
from benchmarks.real_model.jobs import all_jobs, select_jobs
from benchmarks.real_model.relay import Relay, serving_in_thread
from benchmarks.real_model.running import run_job
from benchmarks.real_model.serving import model_server
from benchmarks.real_model.table import cached_share, read_rows, table
from benchmarks.real_model.weights import ModelUnavailable, is_complete, python_of
from tests.doubles.llama import USAGE, FakeLlama, stream_chunk

ENV = {"PATH": os.environ["PATH"]}
CONFIG = '{\n  "name": "demo",\n  "port": 9090,\n  "debug": false\n}\n'

REQUEST_SCRIPT = """
import sys, urllib.request
for _ in range(2):
    request = urllib.request.Request(sys.argv[1] + "/chat/completions", b'{"messages": []}')
    urllib.request.urlopen(request).read()
if sys.argv[2]:
    open("config.json", "w").write(sys.argv[2])
print("changed")
sys.exit(int(sys.argv[3]))
"""


def row(**fields: Any) -> Row:
    defaults: dict[str, Any] = {
        "job": "dev-rename", "repeat": 1, "agent": "tui-agent", "strategy": "default", "mode": "default",
        "provider": "openai", "done": False, "hollow": False, "wrong": False, "exit_code": 0, "calls": 1,
        "prompt_tokens": 100, "evaluated_tokens": 100, "first_prompt_tokens": 100, "later_cached_share": None,
        "written_tokens": 10, "seconds": 3.0, "commit": "abcd1234", "date": "2026-11-23", "model": "m",
    }  # fmt: skip
    return Row(**defaults | fields)


def agent(content: str, exit_code: int, script: str = "") -> agents.Agent:
    argv = (sys.executable, "-c", script or REQUEST_SCRIPT, "{base_url}", content, str(exit_code))
    return agents.Agent(name="requester", argv=argv)


# --- counting -------------------------------------------------------------------------------


def test_a_streamed_reply_is_counted_by_its_last_lines():
    body = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in (stream_chunk(content="x"), USAGE))
    result = call_of(body + b"data: [DONE]\n\n")
    assert result == Call(prompt=31, cached=24, written=4)
    assert result.evaluated == 7


def test_usage_alone_counts_and_a_cache_that_is_not_told_is_none():
    assert call_of(b'{"usage": {"prompt_tokens": 5, "completion_tokens": 2}}') == Call(5, 0, 2)
    join_lines = {"choices": [{"message": {"content": "a\u2028b\nc"}}], "usage": {"prompt_tokens": 5}}
    assert call_of(json.dumps(join_lines, ensure_ascii=False).encode()) == Call(5, 0, 0)


@pytest.mark.parametrize("body", [b"", b"data: [DONE]", b'{"error": {"message": "no"}}', b"{broken"])
def test_what_holds_no_counts_is_no_call(body):
    assert call_of(body) is None


@pytest.mark.parametrize(
    ("exit_code", "is_correct", "changed", "expected"),
    [
        (0, True, True, (True, False, False)),
        (0, True, False, (True, False, False)),
        (5, True, True, (True, False, False)),
        (0, False, False, (False, True, False)),
        (0, False, True, (False, False, True)),
        (1, False, True, (False, False, False)),
        (None, True, True, (False, False, False)),
    ],
)
def test_verdicts(exit_code, is_correct, changed, expected):
    assert msgspec.structs.astuple(judge(exit_code, is_correct, changed)) == expected


def test_the_cached_share_leaves_out_the_first_request():
    result = cost([Call(1000, 900, 5), Call(1100, 1000, 6), Call(1200, 1070, 7)])
    assert result == {
        "calls": 3,
        "prompt_tokens": 3300,
        "evaluated_tokens": 330,
        "first_prompt_tokens": 1000,
        "later_cached_share": 0.9,
        "written_tokens": 18,
    }
    assert cost([])["later_cached_share"] is cost([Call(9, 3, 1)])["later_cached_share"] is None


# --- the table ------------------------------------------------------------------------------


def test_repeats_are_averaged_over_their_jobs():
    rows = [
        row(job="a", repeat=1, done=True),
        row(job="a", repeat=2, hollow=True),
        row(job="b", repeat=1, wrong=True, calls=5, seconds=30.0, written_tokens=40),
        row(job="b", repeat=2, done=True, calls=3),
        row(job="b", repeat=1, mode="direct", date="2026-11-24"),
    ]
    lines = table(rows).splitlines()
    assert len(lines) == 4
    label = "tui-agent, openai, strategy default, default mode"
    assert lines[2] == f"| {label} | 1 of 2 | 0.5 | 0.5 | 2 | 100 | – | 10 | 3 | 2026-11-23 | abcd1234 |"
    assert "direct mode | 0 of 1 |" in lines[3]


def test_the_share_of_a_table_weighs_by_tokens():
    rows = [row(prompt_tokens=200, later_cached_share=0.5), row(prompt_tokens=400, later_cached_share=0.9), row()]
    assert cached_share(rows) == pytest.approx(0.8)


def test_a_bad_line_of_a_results_file_is_named(tmp_path, capsys):
    file = tmp_path / "results.jsonl"
    file.write_bytes(msgspec.json.encode(row()) + b"\n\n" + b'{"job": 3}\n')
    with pytest.raises(ValueError, match="line 3"):
        read_rows(file)
    with pytest.raises(SystemExit):
        main(["table", str(file)])
    assert "line 3" in capsys.readouterr().err


# --- the jobs -------------------------------------------------------------------------------


def test_there_are_twelve_jobs_and_a_stranger_is_named():
    assert len({job.name for job in all_jobs()}) == 12
    assert [job.name for job in select_jobs(["dev-guard"])] == ["dev-guard"]
    with pytest.raises(ValueError, match="dev-nothing"):
        select_jobs(["dev-guard", "dev-nothing"])


@pytest.mark.needs("git")
@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: job.name)
def test_no_job_is_done_at_its_beginning(tmp_path, job):
    project, answer = tmp_path / "work", tmp_path / "answer.txt"
    project.mkdir()
    answer.write_text("I am done.")
    job.set_up(project, ENV)
    assert job.failure(project, answer, ENV)
    assert not job.changed(project)
    next(path for path in project.rglob("*.*") if ".git" not in path.parts).write_text("")
    assert job.changed(project)


# --- a job from end to end ------------------------------------------------------------------


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("content", "exit_code", "expected"),
    [
        (CONFIG, 0, (True, False, False)),
        (CONFIG, 5, (True, False, False)),
        ("", 0, (False, True, False)),
        ("{}", 0, (False, False, True)),
        ("", 3, (False, False, False)),
    ],
)
def test_a_job_is_worked_on_counted_and_judged(tmp_path, content, exit_code, expected):
    (job,) = select_jobs(["dev-json-value"])
    server = FakeLlama([stream_chunk(content="x"), USAGE])
    with serving_in_thread(server):
        result = run_job(agent(content, exit_code), job, server.url, "m", repeat=2, save=tmp_path / "saved")
    assert (result.done, result.hollow, result.wrong) == expected
    assert (result.exit_code, result.calls, result.repeat) == (exit_code, 2, 2)
    assert (result.prompt_tokens, result.evaluated_tokens, result.written_tokens) == (62, 14, 8)
    assert bool(result.why) is not result.done
    (saved,) = (tmp_path / "saved").iterdir()
    assert (saved / "answer.txt").read_text() == "changed\n"
    assert len((saved / "requests.jsonl").read_bytes().splitlines()) == 2
    assert msgspec.json.decode((saved / "row.json").read_bytes(), type=Row) == result


@pytest.mark.needs("git")
def test_a_program_that_does_not_end_is_stopped_and_has_done_nothing():
    (job,) = select_jobs(["dev-json-value"])
    server = FakeLlama([USAGE])
    with serving_in_thread(server):
        result = run_job(agent("", 0, "import time; time.sleep(600)"), job, server.url, "m", limit=0.5)
    assert (result.exit_code, result.done, result.hollow, result.wrong) == (None, False, False, False)


def test_a_server_that_is_gone_is_no_call():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        relay = Relay(f"http://127.0.0.1:{bound.getsockname()[1]}/v1")
        with serving_in_thread(relay):
            connection = http.client.HTTPConnection("127.0.0.1", relay.server_port, timeout=5)
            connection.request("POST", "/v1/chat/completions", b"{}")
            with pytest.raises((http.client.HTTPException, OSError)):
                connection.getresponse()
            relay.wait_for_exchanges()
    assert relay.calls == []
    assert relay.exchanges[0].error


# --- the programs ---------------------------------------------------------------------------


def test_a_strategy_stands_in_models_json_and_a_mode_on_the_command_line():
    default, configured = agents.tui_agent(model="m"), agents.tui_agent(model="m", strategy="files", mode="direct")
    assert default.files == {} and "--mode" not in default.argv
    assert {"--trust", "--accept-plan", "--accept-summary"} < set(default.argv)
    (text,) = configured.files.values()
    assert json.loads(text) == {"models": {"m": {"options": {"strategy": "files"}}}}
    assert configured.argv[-3:] == ("--mode", "direct", "{prompt}")


def test_the_provider_is_chosen_by_the_environment():
    assert agents.tui_agent(model="m").env["LLM_BASE_URL"] == "{base_url}"
    ollama = agents.tui_agent(model="m", provider="ollama")
    assert ollama.wants_ollama
    assert ollama.env["OLLAMA_HOST"] == "{root_url}" and "LLM_BASE_URL" not in ollama.env


@pytest.mark.parametrize(
    "agent_", [agents.tui_agent(model="m"), *map(agents.reference, agents.REFERENCES)], ids=lambda agent_: agent_.name
)
def test_the_programs_of_this_tree_start(tmp_path, agent_):
    env = {**ENV, "HOME": str(tmp_path)}
    command = [*agent_.argv[: agent_.argv.index("-c") + 2], "--help"]
    process = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert "usage:" in process.stdout


def test_braces_that_are_no_place_stay():
    assert agents.fill_placeholders("{a} {b} {x}", {"a": "{b}", "x": "1"}) == "{b} {b} 1"
    with pytest.raises(ValueError, match="NAME=VALUE"):
        agents.custom_agent("x", "x {prompt}", ["PATH"])


# --- the model ------------------------------------------------------------------------------


SERVER_SCRIPT = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Health).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def model_folder(folder: Path, script: str) -> Path:
    python = python_of(folder)
    python.parent.mkdir(parents=True)
    (folder / "server.py").write_text(script)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {folder / "server.py"} "$@"\n')
    python.chmod(0o755)
    (folder / "qwen.gguf").write_bytes(b"")
    assert is_complete(folder)
    return folder


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_is_started_used_and_stopped(tmp_path):
    folder, port = model_folder(tmp_path, SERVER_SCRIPT), free_port()
    with model_server(folder, port) as url:
        assert url == f"http://127.0.0.1:{port}/v1"
        with model_server(tmp_path / "nothing", port) as existing:
            assert existing == url
        assert is_listening(port)
    assert not is_listening(port)


def test_a_server_that_ends_at_once_and_a_model_that_is_not_there_are_told(tmp_path):
    with (
        pytest.raises(ModelUnavailable, match=r"server\.log"),
        model_server(model_folder(tmp_path, "1 / 0"), free_port()),
    ):
        pass
    with pytest.raises(ModelUnavailable, match="fetch"), model_server(tmp_path / "nothing", free_port()):
        pass

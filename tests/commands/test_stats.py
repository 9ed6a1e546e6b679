from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.stats.journals import Journal, three_runs
from tui_agent.__main__ import main
from tui_agent.common.domain import Usage
from tui_agent.events import ReplyEnded

FIRST_SESSION, SECOND_SESSION = "2026-01-05T09:00:00.000Z", "2026-01-06T09:00:00.000Z"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path))
    return tmp_path


def test_text(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_runs().write(home, FIRST_SESSION)
    assert main(["stats"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("1 session · 3 runs · 2026-01-05 to 2026-01-06\n")
    rows = {line.split("  ")[1]: " ".join(line.split()) for line in captured.out.splitlines() if line.startswith("  ")}
    assert rows["first attempt"] == "first attempt 33% 1 of 3"
    assert rows["p95"] == "p95 9.0 s"
    assert rows["from cache"] == "from cache 33% 1 of 3"
    assert rows["passed"] == "passed 75% 3 of 4"
    assert rows["tool · not found"] == "tool · not found 2"
    assert re.search(r"large +1 +0%", captured.out)
    assert "rules aaaa" in captured.out and "tools tttt" not in captured.out
    assert "\x1b" not in captured.out and captured.err == ""


def test_how_fast_the_server_was(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cold = Usage(prompt_tokens=2_000, cached_tokens=0, prompt_ms=40_000, completion_tokens=100, generate_ms=10_000)
    warm = Usage(prompt_tokens=3_000, cached_tokens=2_500, prompt_ms=10_000, completion_tokens=50, generate_ms=5_000)
    silent = Usage(prompt_tokens=5_000, completion_tokens=10)
    journal = Journal().begin()
    for usage in (cold, warm, silent):
        journal.put(ReplyEnded(text="x", usage=usage))
    journal.end().write(home, FIRST_SESSION)
    assert main(["stats"]) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "reading 50 tokens/s 2.5k tokens in 50.0 s" in rows
    assert "writing 10 tokens/s 150 tokens in 15.0 s" in rows
    assert "not read again 50% 2.5k of 5.0k tokens, by the server's cache" in rows
    assert main(["stats", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["speed"] == {"read_per_second": 50, "written_per_second": 10, "cached_rate": 0.5}


def test_json_is_the_same_and_more(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_runs().write(home, FIRST_SESSION)
    broken = Journal().begin().end().write(home, SECOND_SESSION)
    broken.write_bytes(b"no journal\n" + broken.read_bytes())
    assert main(["stats", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["sessions"], data["runs"]) == (2, 4)
    assert data["damaged_sessions"] == [SECOND_SESSION] and data["skipped"] == {}
    assert data["models"]["large"]["planning"]["p95_ms"] == 9_000
    assert data["prompts"]["rules"]["bbbb"]["runs"] == 1
    assert data["days"]["2026-01-05"] == {"runs": 2, "first_try": 2, "tokens": 1_440}
    assert main(["stats"]) == 0
    assert f"not counted, in {SECOND_SESSION}." in capsys.readouterr().err


def test_one_session_run_by_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three_runs().write(home, FIRST_SESSION)
    assert main(["stats", "2026-01-05"]) == 0
    head, _, rows = capsys.readouterr().out.partition("Run by run\n")
    assert "stopped 1" in head and "stop 1" in head and "interrupt" not in head
    table = rows.splitlines()
    assert [row.split()[:4] for row in table[1:]] == [
        ["run-1", "done", "4", "2"],
        ["run-2", "refused", "6", "3"],
        ["run-3", "stopped", "1", "0"],
    ]
    assert main(["stats", FIRST_SESSION, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["each"]
    assert [(run["run"], run["parse_errors"], run["retries"]) for run in runs] == [
        ("run-1", 0, 0),
        ("run-2", 1, 1),
        ("run-3", 0, 0),
    ]
    assert main(["stats", "1999"]) == 2
    assert "No session" in capsys.readouterr().err


def test_nothing_yet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 1
    assert "no statistics yet" in capsys.readouterr().err
    Journal().write(home, FIRST_SESSION)
    assert main(["stats", FIRST_SESSION]) == 1
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["first_attempt"]["rate"] is None

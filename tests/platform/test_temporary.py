"""Folders for temporary files are removed at the end, or by the next start (T6)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tui_agent.platform.temporary import TemporaryFolder, remove_stale_folders

HOLD = """
import sys
from tui_agent.platform.temporary import TemporaryFolder
folder = TemporaryFolder("demo")
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_a_folder_is_removed_by_the_next_start_once_its_process_was_killed(temporary: Path) -> None:
    (temporary / "tui-agent-demo-old").mkdir()
    (temporary / "tui-agent-demo-link").symlink_to(temporary)
    (temporary / "other").mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        with TemporaryFolder("sh") as own:
            assert remove_stale_folders() == 1  # of an older version
            assert path.is_dir() and own.is_dir()
            process.kill()
            process.wait()
            assert remove_stale_folders() == 1
            assert not path.exists() and own.is_dir()
    assert sorted(os.listdir(temporary)) == ["other", "tui-agent-demo-link"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_folder_of_a_demo_does_not_stay(temporary: Path, tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tui_agent", "repl", "--demo"]
    environment = {**os.environ, "TUI_AGENT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True, env=environment) as process:
        assert process.stdout is not None and process.stderr is not None
        assert "session" in process.stdout.readline()
        assert [name for name in os.listdir(temporary) if "-demo-" in name]
        process.send_signal(number)
        process.wait(20)
        message = process.stderr.read()
    if number == signal.SIGKILL:
        assert remove_stale_folders() == 1
    else:
        assert "The demo's folder was removed." in message
    assert os.listdir(temporary) == []


def test_a_demo_in_a_chosen_folder_stays(temporary: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    command = [sys.executable, "-m", "tui_agent", "repl", "--demo", "-C", str(chosen)]
    environment = {**os.environ, "TUI_AGENT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    for code in (0, 2):
        ended = subprocess.run(command, input="", capture_output=True, text=True, env=environment, check=False)
        assert ended.returncode == code, ended.stderr
        assert (chosen / "wordcount" / "counting.py").is_file()
    assert "Use an empty folder." in ended.stderr
    assert os.listdir(temporary) == []


@pytest.mark.slow
def test_a_temporary_demo_is_independent_of_the_settings_and_leaves_no_session(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("model: coder:7b\nsmall_model: tiny:1b\nroles:\n  planning: planner:70b\n")
    (home / "models.json").write_text('{"models": {}, "selectionRules": {"default": "coder:7b"}}')
    command = [sys.executable, "-m", "tui_agent", "exec", "--demo", "--approve", "all", "--mode", "agent"]
    environment = {**os.environ, "TUI_AGENT_HOME": str(home), "HOME": str(tmp_path)}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    for name in ("coder:7b", "tiny:1b", "planner:70b"):
        assert name not in done.stderr
    assert "Summary not reviewed." in done.stderr and "next interactive start" not in done.stderr
    assert list((home / "sessions").iterdir()) == []
    assert not (home / "plans.json").exists()

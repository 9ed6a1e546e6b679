"""Ctrl+C at any moment ends the program without a traceback or a warning, on every surface (L6)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.job import environment, make_workspace
from tests.doubles.terminal import ROOT, Terminal
from tests.nightly import sampled

MOMENTS = (1, 300, 3_000, 20_000, 60_000, 150_000)
"""Function calls after which the signal arrives: in the first imports, in those of the front end, in its work."""
NOISE = ("Traceback", "KeyboardInterrupt", "never awaited", "Exception ignored", "was destroyed", "RuntimeWarning")
COMMANDS = {
    "help": ("--help",),
    "doctor": ("doctor",),
    "sessions": ("sessions", "list", "--all"),
    "exec": ("exec", "--demo"),
    "pipe": ("repl", "--demo"),
}
AT_TERMINAL = {"screen": ("--demo",), "repl": ("repl", "--demo")}
IDLE = {"screen": "Enter starts the demo", "repl": "You: "}


def assert_interrupted(code: int, output: str) -> None:
    assert [noise for noise in NOISE if noise in output] == [], output
    assert code in (-signal.SIGINT, 128 + signal.SIGINT), output


def environment_in(folder: Path) -> dict[str, str]:
    return {**environment(folder), "PYTHONPATH": str(ROOT), "PYTHONDEVMODE": "1", "TMPDIR": str(folder)}


@pytest.mark.parametrize("moment", sampled(MOMENTS, (300, 20_000)))
@pytest.mark.parametrize("name", COMMANDS)
def test_at_any_moment_of_a_command(tmp_path: Path, name: str, moment: int) -> None:
    reached = tmp_path / "reached"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.doubles.interrupt_at", str(moment), str(reached), *COMMANDS[name]],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env=environment_in(tmp_path), cwd=make_workspace(tmp_path / "work"),
    )  # fmt: skip
    if reached.exists():
        assert_interrupted(ended.returncode, ended.stdout + ended.stderr)
    else:
        assert name in ("help", "sessions") and moment > MOMENTS[0]


@pytest.mark.slow
@pytest.mark.parametrize("moment", sampled((*MOMENTS, 0), (20_000, 0)))
@pytest.mark.parametrize("name", AT_TERMINAL)
def test_at_any_moment_of_the_start_and_at_idle_at_a_terminal(tmp_path: Path, name: str, moment: int) -> None:
    arguments = ("-m", "tests.doubles.interrupt_at", str(moment), str(tmp_path / "reached"), *AT_TERMINAL[name])
    workspace = make_workspace(tmp_path / "work")
    terminal = Terminal(*arguments, env=environment_in(tmp_path), cwd=workspace, whole_env=True)
    try:
        if not moment:
            terminal.shows(IDLE[name])
            for _second in range(1 if name == "screen" else 2):
                os.killpg(terminal.process.pid, signal.SIGINT)
                terminal.read(0.5)
        code = terminal.wait()
        output = terminal.bytes.decode("utf-8", "replace")
        assert [noise for noise in NOISE if noise in output] == []
        assert terminal.is_sane()
        assert code in (-signal.SIGINT, 128 + signal.SIGINT, *((0,) if name == "repl" else ()))
    finally:
        terminal.close()

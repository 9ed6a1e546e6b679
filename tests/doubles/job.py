"""The job of most end-to-end tests: read a file, fix it, run its test, report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.doubles.mock import call, scenario, step

TASK = "mend the adder"
BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
TEST = "import unittest\nfrom adder import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
COMMAND = "python3 -B -m unittest -q"
"""-B, since an edit of the same size within the same second would be run from stale bytecode."""
REPORT = "Mended: add() adds now, and its test passes."


def make_workspace(folder: Path, *, tests: bool = True) -> Path:
    """Write the files; without `tests`, there is no test that the agent could run after a change."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adder.py").write_text(BROKEN, encoding="utf-8")
    if tests:
        (folder / "test_adder.py").write_text(TEST, encoding="utf-8")
    return folder


def job_scenario() -> dict[str, Any]:
    return scenario(
        TASK,
        step("I look at it first.", call("read_file", path="adder.py")),
        step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")),
        step("Now its test.", call("run_terminal_command", command=COMMAND)),
        REPORT,
    )


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return a minimal environment: no server, no token, a separate home.

    The mode is direct, since its requests are predictable, unless `TUI_AGENT_MODE` is given.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "TUI_AGENT_HOME": str(home / "tui-agent"),
        "TZ": "UTC",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "TERM": "xterm-256color",
        "TUI_AGENT_MODE": "direct",
        "TUI_AGENT_LANGUAGE_SERVERS_ON": "false",
        "TUI_AGENT_TITLES": "false",
        "TUI_AGENT_CALIBRATE": "false",
        **more,
    }

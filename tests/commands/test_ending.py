from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NO_SPACE = "tui-agent: the output can't be written: No space left on device\n"


def run(home: Path, out: int, *args: str, unbuffered: bool) -> tuple[int, str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
    if unbuffered:
        env["PYTHONUNBUFFERED"] = "1"
    process = subprocess.run(
        [sys.executable, "-m", "tui_agent", *args],
        env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    return process.returncode, process.stderr.decode()


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("command", ["rules", "doctor --no-probe --provider scripted"])
def test_a_reader_that_left_and_a_full_disk_are_no_traceback(tmp_path: Path, command: str, unbuffered: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert run(tmp_path, writing, *command.split(), unbuffered=unbuffered) == (0, "")
        assert run(tmp_path, full, *command.split(), unbuffered=unbuffered) == (1, NO_SPACE)
    finally:
        os.close(writing)
        os.close(full)

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT, pytest_runtest_setup


def item_that_needs(*programs: str) -> Any:
    return SimpleNamespace(iter_markers=lambda name: [pytest.mark.needs(*programs).mark], stash=pytest.Stash())


def test_a_missing_program_skips_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUI_AGENT_CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program"):
        pytest_runtest_setup(item_that_needs("sh", "no-such-program"))


def test_in_ci_a_missing_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUI_AGENT_CI", "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-program"):
        pytest_runtest_setup(item_that_needs("no-such-program"))


def test_a_program_that_is_there_is_no_matter() -> None:
    pytest_runtest_setup(item_that_needs("sh"))


LEAKY = """
import asyncio, gc, socket
from tests.conftest import ROOT, pytest_runtest_setup, pytest_runtest_teardown

class Holder: ...

async def test_leaks_a_socket():
    one = Holder()
    one.me, one.socket = one, socket.socket()  # only the collector finds it

async def test_leaks_a_coroutine():
    one = Holder()
    one.me, one.work = one, asyncio.sleep(0)

async def test_is_innocent():
    pass
"""


def test_what_a_test_leaves_open_is_its_own_fault(tmp_path: Path) -> None:
    hooks = "from tests.conftest import pytest_runtest_setup, pytest_runtest_teardown\n"
    (tmp_path / "conftest.py").write_text(hooks)
    (tmp_path / "test_leaky.py").write_text(LEAKY)
    errors = [
        "-W",
        "error::ResourceWarning",
        "-W",
        "error::RuntimeWarning",
        "-W",
        "error::pytest.PytestUnraisableExceptionWarning",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-c", "/dev/null", "--rootdir", str(tmp_path), *errors, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.findall(r"^ERROR \S*::(\w+)", done.stdout, re.M) == ["test_leaks_a_socket", "test_leaks_a_coroutine"], (
        done.stdout
    )
    assert "3 passed, 2 errors" in done.stdout


def test_the_world_is_still_and_empty() -> None:
    assert "NO_COLOR" not in os.environ
    assert os.environ["TZ"] == "UTC"
    assert os.listdir(os.environ["HOME"]) in ([], ["tui-agent"])

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.doubles.job import FIXED, REPORT, TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import serve
from tests.doubles.terminal import Terminal
from tests.nightly import sampled


@asynccontextmanager
async def started(folder: Path, *args: str, **more: str) -> AsyncIterator[Terminal]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    program = Terminal(
        "-m", "tui_agent", *args, env=environment(home, **more), whole_env=True, cwd=home, size=(100, 32)
    )
    try:
        yield program
    finally:
        program.close()


@pytest.mark.parametrize("provider", sampled(["openai", "ollama"], 1))
async def test_the_screen_does_the_job_by_keys_alone(tmp_path: Path, provider: str) -> None:
    workspace = make_workspace(tmp_path / "work")
    async with serve(job_scenario(), strict=True) as server:
        url = server.url + ("/v1" if provider == "openai" else "")
        flags = ["-C", str(workspace), "--provider", provider, "--base-url", url, "--model", "mock-model"]
        async with started(tmp_path, *flags) as program:
            await program.wait_for_dialog("Trust this folder")
            program.type("a")
            await program.wait_for_text("Ask for a change")
            program.type(TASK)
            await program.wait_for_text(TASK)
            program.type("\r")
            await program.wait_for_dialog("Edit adder.py")
            program.type("a")
            await program.wait_for_dialog("Run a command")
            program.type("a")
            await program.wait_for_text(REPORT)
            await program.wait_for_text("· Done ·")
            assert (workspace / "adder.py").read_text() == FIXED
            program.type("\x03")
            await program.wait_for_text("again quits")
            program.type("\x03")
            assert await program.end() == 0
            assert b"--resume" in program.bytes
            assert b"\x1b[?1049l" in program.bytes


@pytest.mark.nightly  # `test_demo_pty` goes through it by the same keys, and to the exit
async def test_the_shipped_demo_runs(tmp_path: Path) -> None:
    async with started(tmp_path, "--demo", TUI_AGENT_MODE="agent") as program:
        await program.wait_for_text("Find the bug")
        program.type("\r")
        await program.wait_for_dialog("Plan · 3 steps")
        program.type("a")
        await program.wait_for_dialog("Edit wordcount/counting.py")
        program.type("a")
        await program.wait_for_dialog("python3 -m unittest")
        program.type("a")
        await program.wait_for_text("all tests pass")

"""`exec` sends no command of the screen to the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.mock import scenario, serve
from tests.frontends.test_exec import ExecRunner, server_flags


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ("/undo", "/undo is a command of the screen."),
        ("/mdoel x", "unknown command /mdoel; did you mean /model?"),
        ("/", "type the name of a command after the /"),
    ],
)
async def test_exec_takes_a_task_and_no_command(tmp_path: Path, task: str, problem: str) -> None:
    run = ExecRunner(tmp_path)
    async with serve(strict=True) as server:
        result = await run(task, *server_flags(server, "openai"))
        assert not server.requests
    assert result.code == 2
    assert f"exec takes a task: {problem}" in result.err and "A leading space sends it." in result.err


async def test_exec_sends_a_task_without_the_leading_space_that_makes_it_a_message(tmp_path: Path) -> None:
    run = ExecRunner(tmp_path)
    async with serve(scenario("", "done")) as server:
        assert (await run(" /mdoel is a word", *server_flags(server, "openai"))).code == 0
        assert server.requests[-1].messages[-1]["content"] == "/mdoel is a word"

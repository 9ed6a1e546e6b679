"""`exec` sends no command of the screen to the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doubles.mock import serve
from tests.frontends.test_exec import ExecRunner, server_flags


@pytest.mark.parametrize("task", ["/undo", "/mdoel x", "/"])
async def test_exec_takes_a_task_and_no_command(tmp_path: Path, task: str) -> None:
    run = ExecRunner(tmp_path)
    async with serve(strict=True) as server:
        result = await run(task, *server_flags(server, "openai"))
        assert not server.requests
    assert result.code == 2
    assert f"{task.split()[0]} is a command of the screen. A leading space sends it." in result.err

"""Runs commands in a thread, since they have their own event loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tui_agent.__main__ import main


class CommandResult:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    def states(self) -> dict[str, str]:
        return {finding["name"]: finding["state"] for finding in self.data["findings"]}

    def text_of(self, name: str) -> str:
        return " ".join(
            f"{finding['text']} {finding['advice']}" for finding in self.data["findings"] if finding["name"] == name
        )


async def run_command(capsys: pytest.CaptureFixture[str], *argv: str) -> CommandResult:
    code = await asyncio.to_thread(main, argv)
    captured = capsys.readouterr()
    return CommandResult(code, captured.out, captured.err)

"""Commands that talk to a server, run beside the test's own loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tui_agent.__main__ import main


class Ran:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.data["findings"]}

    def text_of(self, name: str) -> str:
        return " ".join(f"{one['text']} {one['advice']}" for one in self.data["findings"] if one["name"] == name)


async def run(capsys: pytest.CaptureFixture[str], *argv: str) -> Ran:
    code = await asyncio.to_thread(main, argv)
    said = capsys.readouterr()
    return Ran(code, said.out, said.err)

"""Plays back answers of model servers from the files in `recorded`, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script

FOLDER = Path(__file__).with_name("recorded")
ROUTER, LLAMA, VLLM = "llama.cpp/router", "llama.cpp/server", "vllm/server"
STUDIO, OLD_STUDIO, OLLAMA = "lmstudio/v1", "lmstudio/v0", "ollama/server"


def recording(name: str) -> dict[str, Any]:
    """Return the content of a file."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return content


def answer_script(answer: dict[str, Any]) -> Script:
    """Return a script that sends a recorded answer with its status, headers and body."""
    body = answer["body"]
    kind = answer["headers"].get("content-type", "")
    more = {name: value for name, value in answer["headers"].items() if name != "content-type"}

    async def script(connection: FakeConnection) -> None:
        if isinstance(body, dict) and "events" in body:
            await connection.head(answer["status"], kind, chunked=True, **more)
            await connection.events(*body["events"])
            await connection.end()
        else:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            await connection.answer(answer["status"], data, kind=kind, **more)

    return script


def played(name: str, *answers: str) -> FakeRawServer:
    """Return a server that gives these answers of a file; several of the same path come in turn, the last one stays."""
    scripts: dict[str, list[Script]] = {}
    recorded = recording(name)["answers"]
    for key in answers:
        scripts.setdefault(recorded[key]["path"].partition("?")[0], []).append(answer_script(recorded[key]))

    def in_turn(left: list[Script]) -> Script:
        async def script(connection: FakeConnection) -> None:
            await (left.pop(0) if len(left) > 1 else left[0])(connection)

        return script

    return FakeRawServer({path: in_turn(left) for path, left in scripts.items()})

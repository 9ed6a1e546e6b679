"""Run where nothing but the loopback interface is there: a model server and one front end, through a whole small job.

Arguments: the front end, a folder to work in. Writes one JSON object: the ports that it may reach, and what was done.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.doubles.job import REPORT, TASK, environment, job, make_workspace
from tests.doubles.mock import MockServer, serve
from tests.doubles.terminal import Terminal
from tests.web.kit import Stream, log_in

PATIENCE = 120.0


class Place:
    """A home and a workspace, and how a program is started there."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.workspace = make_workspace(folder / "work")
        self.server = server
        # By its name: who looks that up has to find it without asking anybody.
        url = f"http://localhost:{urlsplit(server.url).port}/v1"
        self.flags = ["--provider", "openai", "--base-url", url, "--model", "mock-model"]
        self.flags += ["-C", str(self.workspace)]

    async def start(self, *args: str, given: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", *args, env=environment(self.home), cwd=self.home, stdin=given,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, limit=2**24,
        )  # fmt: skip

    async def run(self, *args: str, given: str | None = None) -> tuple[int | None, str]:
        pipe = asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE
        process = await self.start(*args, given=pipe)
        out, _ = await process.communicate(None if given is None else given.encode())
        return process.returncode, out.decode()


async def exec_(place: Place) -> dict[str, Any]:
    code, said = await place.run("exec", TASK, "--trust", "--approve", "all", *place.flags)
    return {"code": code, "said": said}


async def demo(place: Place) -> dict[str, Any]:
    code, said = await place.run("exec", "--demo", "--approve", "all", "--accept-plan", "--mode", "agent")
    return {"code": code, "said": said}


async def repl(place: Place) -> dict[str, Any]:
    flags = ["--trust", "--approval-mode", "auto", *place.flags]
    code, said = await place.run("repl", *flags, given=f"{TASK}\n/quit\n")
    return {"code": code, "said": said}


async def doctor(place: Place) -> dict[str, Any]:
    code, said = await place.run("doctor", "--json", *place.flags)
    return {"code": code, "said": said}


async def screen(place: Place) -> dict[str, Any]:
    program = Terminal(
        "-m", "tui_agent", *place.flags, env=environment(place.home), whole_env=True, cwd=place.home, size=(100, 32)
    )  # fmt: skip
    try:
        await program.asks("Trust this folder", PATIENCE)
        program.type("a")
        await program.sees("Ask for a change", PATIENCE)
        program.type(TASK)
        await program.sees(TASK, PATIENCE)
        program.type("\r")
        for asked in ("Edit adder.py", "Run a command"):
            await program.asks(asked, PATIENCE)
            program.type("a")
        await program.sees(REPORT, PATIENCE)
        await program.sees("· Done ·", PATIENCE)
        program.type("\x04")
        return {"code": await program.end(PATIENCE), "said": REPORT}
    finally:
        program.close()


async def web(place: Place) -> dict[str, Any]:
    program = await place.start("web", "--port", "0", "--trust", *place.flags)
    try:
        return await visited(program)
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


async def visited(program: asyncio.subprocess.Process) -> dict[str, Any]:
    assert program.stdout is not None
    told = ""
    while "Ctrl+C" not in told:
        line = await program.stdout.readline()
        assert line, told
        told += line.decode()
    found = re.search(r"(http://127\.0\.0\.1:(\d+))/#(\S+)", told)
    assert found is not None, told
    async with httpx.AsyncClient(base_url=found[1], timeout=PATIENCE, trust_env=False) as client:
        page = await client.get("/")
        parts = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
        assert parts and {(await client.get(part)).status_code for part in parts} == {200}, parts
        await log_in(client, found[1], found[3])
        async with Stream(client, "GET", "/events", {}, None) as events:
            headers = {"Accept": "application/json"}
            assert (await client.post("/chat", json={"message": TASK}, headers=headers)).status_code == 202
            for _ in range(2):
                asked = await events.until("approval.asked")
                answer = {"id": asked.data["data"]["id"], "verdict": "approve"}
                assert (await client.post("/answer", json=answer)).status_code == 200
            ended = await events.until("run.ended")
    program.terminate()
    await program.communicate()
    return {"code": program.returncode, "said": ended.data["data"]["text"], "page": int(found[2])}


async def leaky(place: Place) -> dict[str, Any]:
    """Asks for a name and calls an address, to show that neither goes unseen."""
    code = (
        "import socket, contextlib\n"
        "with contextlib.suppress(OSError): socket.getaddrinfo('elsewhere.test', 80)\n"
        "with contextlib.suppress(OSError): socket.create_connection(('192.0.2.7', 443), 5)\n"
        "with contextlib.suppress(OSError):\n"
        "    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.8', 53))\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    return {"code": await process.wait(), "said": ""}


SURFACES = {
    "exec": exec_, "demo": demo, "repl": repl, "doctor": doctor, "screen": screen, "web": web, "leaky": leaky,
}  # fmt: skip


async def main(surface: str, folder: Path) -> None:
    async with serve(job(), strict=True) as server:
        place = Place(folder, server)
        done = await SURFACES[surface](place)
        adder = (place.workspace / "adder.py").read_text(encoding="utf-8")
        asked = len(server.requests)
        print(json.dumps({"model": urlsplit(server.url).port, "page": 0, "adder": adder, "asked": asked, **done}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

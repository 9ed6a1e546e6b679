"""Run a model server and one front end through a whole small job, where only the loopback interface exists.

Arguments: the front end, a folder. Prints one JSON object: the ports that may be reached, and the results.
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

from tests.doubles.job import REPORT, TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import MockServer, serve
from tests.doubles.terminal import Terminal
from tests.web.kit import Stream, log_in

TIMEOUT = 120.0


class Setup:
    """A home and a workspace in which programs are started."""

    def __init__(self, folder: Path, server: MockServer) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.workspace = make_workspace(folder / "work")
        self.server = server
        # By name: it must be resolved without a request.
        url = f"http://localhost:{urlsplit(server.url).port}/v1"
        self.flags = ["--provider", "openai", "--base-url", url, "--model", "mock-model"]
        self.flags += ["-C", str(self.workspace)]

    async def start(self, *args: str, stdin: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", *args, env=environment(self.home), cwd=self.home, stdin=stdin,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, limit=2**24,
        )  # fmt: skip

    async def run(self, *args: str, stdin: str | None = None) -> tuple[int | None, str]:
        pipe = asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE
        process = await self.start(*args, stdin=pipe)
        out, _ = await process.communicate(None if stdin is None else stdin.encode())
        return process.returncode, out.decode()


async def exec_(setup: Setup) -> dict[str, Any]:
    code, output = await setup.run("exec", TASK, "--trust", "--approve", "all", *setup.flags)
    return {"code": code, "output": output}


async def demo(setup: Setup) -> dict[str, Any]:
    code, output = await setup.run("exec", "--demo", "--approve", "all", "--accept-plan", "--mode", "agent")
    return {"code": code, "output": output}


async def repl(setup: Setup) -> dict[str, Any]:
    flags = ["--trust", "--approval-mode", "auto", *setup.flags]
    code, output = await setup.run("repl", *flags, stdin=f"{TASK}\n/quit\n")
    return {"code": code, "output": output}


async def doctor(setup: Setup) -> dict[str, Any]:
    code, output = await setup.run("doctor", "--json", *setup.flags)
    return {"code": code, "output": output}


async def screen(setup: Setup) -> dict[str, Any]:
    program = Terminal(
        "-m", "tui_agent", *setup.flags, env=environment(setup.home), whole_env=True, cwd=setup.home, size=(100, 32)
    )  # fmt: skip
    try:
        await program.wait_for_dialog("Trust this folder", TIMEOUT)
        program.type("a")
        await program.wait_for_text("Ask for a change", TIMEOUT)
        program.type(TASK)
        await program.wait_for_text(TASK, TIMEOUT)
        program.type("\r")
        for request in ("Edit adder.py", "Run a command"):
            await program.wait_for_dialog(request, TIMEOUT)
            program.type("a")
        await program.wait_for_text(REPORT, TIMEOUT)
        await program.wait_for_text("· Done ·", TIMEOUT)
        program.type("\x04")
        return {"code": await program.end(TIMEOUT), "output": REPORT}
    finally:
        program.close()


async def web(setup: Setup) -> dict[str, Any]:
    program = await setup.start("web", "--port", "0", "--trust", *setup.flags)
    try:
        return await use_page(program)
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


async def use_page(program: asyncio.subprocess.Process) -> dict[str, Any]:
    assert program.stdout is not None
    output = ""
    while "Ctrl+C" not in output:
        line = await program.stdout.readline()
        assert line, output
        output += line.decode()
    link = re.search(r"(http://127\.0\.0\.1:(\d+))/#(\S+)", output)
    assert link is not None, output
    async with httpx.AsyncClient(base_url=link[1], timeout=TIMEOUT, trust_env=False) as client:
        page = await client.get("/")
        parts = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
        assert parts and {(await client.get(part)).status_code for part in parts} == {200}, parts
        await log_in(client, link[1], link[3])
        async with Stream(client, "GET", "/events", {}, None) as events:
            headers = {"Accept": "application/json"}
            assert (await client.post("/chat", json={"message": TASK}, headers=headers)).status_code == 202
            for _ in range(2):
                request = await events.until("approval.asked")
                answer = {"id": request.data["data"]["id"], "verdict": "approve"}
                assert (await client.post("/answer", json=answer)).status_code == 200
            ended = await events.until("run.ended")
    program.terminate()
    await program.communicate()
    return {"code": program.returncode, "output": ended.data["data"]["text"], "page": int(link[2])}


async def leak(setup: Setup) -> dict[str, Any]:
    """Resolve a name and connect to addresses, to show that both are detected."""
    code = (
        "import socket, contextlib\n"
        "with contextlib.suppress(OSError): socket.getaddrinfo('elsewhere.test', 80)\n"
        "with contextlib.suppress(OSError): socket.create_connection(('192.0.2.7', 443), 5)\n"
        "with contextlib.suppress(OSError):\n"
        "    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.8', 53))\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    return {"code": await process.wait(), "output": ""}


SURFACES = {
    "exec": exec_, "demo": demo, "repl": repl, "doctor": doctor, "screen": screen, "web": web, "leaky": leak,
}  # fmt: skip


async def main(surface: str, folder: Path) -> None:
    async with serve(job_scenario(), strict=True) as server:
        setup = Setup(folder, server)
        result = await SURFACES[surface](setup)
        adder = (setup.workspace / "adder.py").read_text(encoding="utf-8")
        requests = len(server.requests)
        print(
            json.dumps({"model": urlsplit(server.url).port, "page": 0, "adder": adder, "requests": requests, **result})
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

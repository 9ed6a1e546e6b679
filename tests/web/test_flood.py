"""A flood of connections changes nothing for the session (X4)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.doubles.job import environment
from tests.doubles.mock import scenario, serve, step
from tests.doubles.terminal import Terminal
from tests.web.kit import log_in

TIMEOUT = 180.0
DESCRIPTORS = 1024
"""The usual limit of a process."""
FLOOD = 2_500
LIMITED = (
    f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS})); "
    "os.execv(sys.executable, [sys.executable, '-m', 'tui_agent', *sys.argv[1:]])"
)


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    """Allow this process as many open files as it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FLOOD + 500:
        pytest.skip(f"needs {FLOOD + 500} descriptors, and {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD + 500), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Flood:
    """Keeps many connections to a port open that send nothing, or half of a request."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sockets: list[socket.socket] = []
        self.opened = 0

    async def run(self) -> None:
        """Open connections, and again as they are dropped, until it is cancelled."""
        try:
            while True:
                while len(self.sockets) < FLOOD:
                    self._open()
                await asyncio.sleep(0.05)
                alive = [each for each in self.sockets if self._is_open(each)]
                for each in set(self.sockets) - set(alive):
                    each.close()
                self.sockets = alive
        finally:
            for each in self.sockets:
                each.close()

    def _open(self) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        code = connection.connect_ex(("127.0.0.1", self.port))
        assert code in (0, errno.EINPROGRESS, errno.EAGAIN), code
        self.opened += 1
        self.sockets.append(connection)

    def _is_open(self, connection: socket.socket) -> bool:
        try:
            if self.opened % 2:
                connection.send(b"GET / HTTP/1.1\r\nHost: ")
            return connection.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError as error:
            return error.errno in (errno.ENOTCONN, errno.EAGAIN)


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_flood_of_connections_changes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    slow = scenario("long", step("word " * 150 + "end", pace=0.02))
    with many_descriptors():
        async with serve(slow, scenario("more", "still here")) as server, asyncio.timeout(TIMEOUT):
            flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
            program = await asyncio.create_subprocess_exec(
                sys.executable, "-c", LIMITED, "web", "--port", "0", *flags, cwd=home, env=environment(home),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert program.stdout is not None
            output = b""
            while b"Ctrl+C" not in output:
                output += await program.stdout.readline()
            link = re.search(r"(http://127\.0\.0\.1:(\d+))/#(\S+)", output.decode())
            assert link is not None
            async with httpx.AsyncClient(base_url=link[1], timeout=TIMEOUT, trust_env=False) as client:
                await log_in(client, link[1], link[3])
                async with client.stream("POST", "/chat", json={"message": "long"}) as response:
                    lines = response.aiter_lines()
                    async for line in lines:
                        if line == "event: text":
                            break
                    flood = Flood(int(link[2]))
                    flooding = asyncio.create_task(flood.run())
                    rest = [line async for line in lines]
                assert any('"outcome":"done"' in line for line in rest), rest[-4:]
                answer = await client.post("/chat", json={"message": "more"})
                assert "still here" in answer.text
                assert flood.opened >= FLOOD and not flooding.done()
                flooding.cancel()
                await asyncio.wait([flooding])
            program.terminate()
            _, err = await program.communicate()
    assert (program.returncode, err) == (143, b""), err[-2000:]
    log = home / "tui-agent" / "debug.log"
    assert not log.exists() or b"Traceback" not in log.read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_flood_of_the_screens_page_leaves_the_keys_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with many_descriptors():
        async with (
            serve(scenario("long", step("word " * 60 + "last-word", pace=0.02))) as server,
            asyncio.timeout(TIMEOUT),
        ):
            flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
            program = Terminal("-c", LIMITED, *flags, env=environment(home), whole_env=True, cwd=home, size=(120, 36))
            try:
                await program.wait_for_text("mock-model", TIMEOUT)
                program.type("/web stop\r")
                await program.wait_for_text("not shown in a browser", TIMEOUT)
                program.type("/web\r")
                await program.wait_for_text(
                    lambda: re.search(r"127\.0\.0\.1:(\d+)/", program.text) is not None, TIMEOUT
                )
                port = re.search(r"127\.0\.0\.1:(\d+)/", program.text)
                assert port is not None
                program.type("\x1b")
                await program.wait_for_text(lambda: "127.0.0.1" not in program.text, TIMEOUT)
                flood = Flood(int(port[1]))
                flooding = asyncio.create_task(flood.run())
                program.type("long\r")
                await program.wait_for_text("word word", TIMEOUT)
                for text in ("typed while", "typed while it is flooded"):
                    program.type(text if text == "typed while" else " it is flooded")
                    await program.wait_for_text(text, TIMEOUT)
                await program.wait_for_text("last-word", TIMEOUT)  # "word" may be on the line above
                assert flood.opened >= FLOOD and not flooding.done()
                flooding.cancel()
                await asyncio.wait([flooding])
            finally:
                program.close()
    log = home / "tui-agent" / "debug.log"
    assert not log.exists() or b"Traceback" not in log.read_bytes()

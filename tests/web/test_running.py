from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests.doubles.job import environment
from tests.doubles.mock import scenario, serve
from tests.web.kit import log_in
from tui_agent.frontends.web.addresses import listen

TIMEOUT = 90.0


async def start(home: Path, *args: str, stdin: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
    home.mkdir(exist_ok=True)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", *args, env=environment(home), cwd=home, stdin=stdin,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def printed_link(program: asyncio.subprocess.Process) -> str:
    """Wait for the link to the page that `tui-agent web` prints."""
    assert program.stdout is not None
    output = ""
    while "Ctrl+C" not in output:
        line = await program.stdout.readline()
        assert line, await program.communicate()
        output += line.decode()
    link = re.search(r"http://\S+/#\S+", output)
    assert link is not None
    return link[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl+c", "term"])
async def test_it_shows_a_link_serves_and_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "home"
    async with serve(scenario("hi", "hello there")) as server, asyncio.timeout(TIMEOUT):
        flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
        program = await start(home, "web", "--port", "0", *flags)
        assert program.stdout is not None
        output = ""
        while "Ctrl+C" not in output:
            line = await program.stdout.readline()
            assert line, await program.communicate()
            output += line.decode()
        link = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", output)
        assert link is not None
        async with httpx.AsyncClient(base_url=link[1], timeout=TIMEOUT, trust_env=False) as client:
            await log_in(client, link[1], link[2])
            response = await client.post("/chat", json={"message": "hi"})
            assert "hello there" in response.text and response.text.rstrip().endswith("data: {}")
            (token,) = client.cookies.values()
        program.send_signal(number)
        out, err = await program.communicate()
    assert (program.returncode, err) == (0 if number == signal.SIGINT else 143, b"")
    id = re.search(r"--resume (\S+)", out.decode())
    assert id is not None
    assert len(list((home / "tui-agent" / "sessions").iterdir())) == 1
    stored = b"".join(path.read_bytes() for path in (home / "tui-agent").rglob("*") if path.is_file())
    assert b'"session.closed"' in stored
    assert token.encode() not in stored and link[2].encode() not in stored, "H13: stored nowhere"


async def test_a_session_of_the_page_goes_on_in_repl_and_then_in_exec(tmp_path: Path) -> None:
    home = tmp_path / "home"
    talk = [scenario(f"word {number}", f"reply {number}") for number in range(1, 4)]
    async with serve(*talk, strict=True) as server, asyncio.timeout(TIMEOUT):
        flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
        program = await start(home, "web", "--port", "0", *flags)
        assert program.stdout is not None
        output = b""
        while b"Ctrl+C" not in output:
            output += await program.stdout.readline()
        link = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", output.decode())
        assert link is not None
        async with httpx.AsyncClient(base_url=link[1], timeout=TIMEOUT, trust_env=False) as client:
            await log_in(client, link[1], link[2])
            assert "reply 1" in (await client.post("/chat", json={"message": "word 1"})).text
        program.send_signal(signal.SIGINT)
        out, _ = await program.communicate()
        resume = re.search(r"--resume (\S+)", out.decode())
        assert resume is not None
        for args, line, reply in ((["repl"], b"word 2\n", b"reply 2"), (["exec", "word 3"], b"", b"reply 3")):
            program = await start(home, *args, "--resume", resume[1], *flags, stdin=asyncio.subprocess.PIPE)
            out, err = await program.communicate(line)
            assert program.returncode == 0 and reply in out, out.decode() + err.decode()
        histories = [
            [
                (message["role"], message["content"])
                for message in request.messages
                if message["role"] in ("user", "assistant")
            ]
            for request in server.requests
            if "word 3" in str(request.messages)
        ]
    assert histories, "exec called the model"
    history = str(histories[-1])
    positions = [history.find(f"{kind} {number}") for number in (1, 2) for kind in ("word", "reply")]
    assert -1 not in positions and positions == sorted(positions) and positions[-1] < history.find("word 3")
    assert len(list((home / "tui-agent" / "sessions").iterdir())) == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--host", "0.0.0.0"], "this machine only"),
        (["--port", "70000"], "not a port"),
        (["--resume"], "needs the id"),
        (["--resume", "nonsense", "--port", "0"], "nonsense"),
    ],
    ids=["host", "port", "resume", "unknown"],
)
async def test_what_can_not_be_is_said(tmp_path: Path, args: list[str], says: str) -> None:
    program = await start(tmp_path / "home", "web", *args)
    async with asyncio.timeout(TIMEOUT):
        out, err = await program.communicate()
    assert program.returncode == 2 and says in err.decode()
    assert "Traceback" not in err.decode() and out == b""


async def test_a_taken_port_is_said_before_a_session_is_made(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        program = await start(tmp_path / "home", "web", "--port", str(taken.getsockname()[1]))
        async with asyncio.timeout(TIMEOUT):
            _, err = await program.communicate()
    assert program.returncode == 2 and "Use another --port" in err.decode()
    assert not (tmp_path / "home" / "tui-agent" / "sessions").exists()

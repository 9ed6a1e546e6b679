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
from tests.web.kit import let_in
from tui_agent.frontends.web.addresses import listen

PATIENCE = 90.0


async def start(home: Path, *args: str, stdin: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
    home.mkdir(exist_ok=True)
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", *args, env=environment(home), cwd=home, stdin=stdin,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl+c", "term"])
async def test_it_shows_a_link_serves_and_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "home"
    async with serve(scenario("hi", "hello there")) as server, asyncio.timeout(PATIENCE):
        flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
        program = await start(home, "web", "--port", "0", *flags)
        assert program.stdout is not None
        told = ""
        while "Ctrl+C" not in told:
            line = await program.stdout.readline()
            assert line, await program.communicate()
            told += line.decode()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", told)
        assert found is not None
        async with httpx.AsyncClient(base_url=found[1], timeout=PATIENCE, trust_env=False) as client:
            await let_in(client, found[1], found[2])
            said = await client.post("/chat", json={"message": "hi"})
            assert "hello there" in said.text and said.text.rstrip().endswith("data: {}")
            (token,) = client.cookies.values()
        program.send_signal(number)
        out, err = await program.communicate()
    assert (program.returncode, err) == (0 if number == signal.SIGINT else 143, b"")
    id = re.search(r"--resume (\S+)", out.decode())
    assert id is not None
    assert len(list((home / "tui-agent" / "sessions").iterdir())) == 1
    kept = b"".join(path.read_bytes() for path in (home / "tui-agent").rglob("*") if path.is_file())
    assert b'"session.closed"' in kept
    assert token.encode() not in kept and found[2].encode() not in kept, "H13: written down nowhere"


async def test_a_session_of_the_page_goes_on_in_repl_and_then_in_exec(tmp_path: Path) -> None:
    home = tmp_path / "home"
    talk = [scenario(f"word {number}", f"reply {number}") for number in range(1, 4)]
    async with serve(*talk, strict=True) as server, asyncio.timeout(PATIENCE):
        flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
        program = await start(home, "web", "--port", "0", *flags)
        assert program.stdout is not None
        told = b""
        while b"Ctrl+C" not in told:
            told += await program.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#(\S+)", told.decode())
        assert found is not None
        async with httpx.AsyncClient(base_url=found[1], timeout=PATIENCE, trust_env=False) as client:
            await let_in(client, found[1], found[2])
            assert "reply 1" in (await client.post("/chat", json={"message": "word 1"})).text
        program.send_signal(signal.SIGINT)
        out, _ = await program.communicate()
        left = re.search(r"--resume (\S+)", out.decode())
        assert left is not None
        for args, said, reply in ((["repl"], b"word 2\n", b"reply 2"), (["exec", "word 3"], b"", b"reply 3")):
            program = await start(home, *args, "--resume", left[1], *flags, stdin=asyncio.subprocess.PIPE)
            out, err = await program.communicate(said)
            assert program.returncode == 0 and reply in out, out.decode() + err.decode()
        told_to = [
            [(one["role"], one["content"]) for one in request.messages if one["role"] in ("user", "assistant")]
            for request in server.requests
            if "word 3" in str(request.messages)
        ]
    assert told_to, "exec asked the model"
    flat = str(told_to[-1])
    places = [flat.find(f"{what} {number}") for number in (1, 2) for what in ("word", "reply")]
    assert -1 not in places and places == sorted(places) and places[-1] < flat.find("word 3")
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
    async with asyncio.timeout(PATIENCE):
        out, err = await program.communicate()
    assert program.returncode == 2 and says in err.decode()
    assert "Traceback" not in err.decode() and out == b""


async def test_a_taken_port_is_said_before_a_session_is_made(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as taken:
        program = await start(tmp_path / "home", "web", "--port", str(taken.getsockname()[1]))
        async with asyncio.timeout(PATIENCE):
            _, err = await program.communicate()
    assert program.returncode == 2 and "Use another --port" in err.decode()
    assert not (tmp_path / "home" / "tui-agent" / "sessions").exists()

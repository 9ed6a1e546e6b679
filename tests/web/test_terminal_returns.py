from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pyte
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.web.kit import let_in
from tests.web.test_terminal import PATIENCE, closed, shown, started, until
from tui_agent.frontends.web import terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOOD = """
import os, signal
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"painted anew\\n"))
while True:
    os.write(1, os.urandom(3000).hex().encode())
"""
SILENT = """
import os, signal, tty
signal.signal(signal.SIGCONT, signal.SIG_IGN)
signal.signal(signal.SIGWINCH, signal.SIG_IGN)
tty.setraw(0)
os.write(1, b"here\\n")
while data := os.read(0, 65536):
    os.write(1, b"got " + data)
"""


async def test_a_browser_that_takes_nothing_keeps_the_screen_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "SEND_SECONDS", 4 * PATIENCE)
    async with shown(program=FLOOD) as one, one.socket(max_size=None, compression=None) as first:
        first.transport.pause_reading()
        sending = None
        async with asyncio.timeout(PATIENCE):
            while sending is None or sending is not one.screen._sending:
                sending = one.screen._sending
                await asyncio.sleep(0.3)
        async with one.socket(compression=None) as second:
            seen = await until(second, b"painted anew")
            assert seen.startswith(b"\x1bc")
            first.transport.resume_reading()
            assert await closed(first) == terminal.TAKEN_OVER, "it is told as soon as it takes something"


async def test_what_is_typed_before_anything_is_shown_is_not_taken_but_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(program=SILENT) as one:
        async with one.socket() as first:
            await until(first, b"here")
        async with one.socket() as second:
            await second.send('["stdin", "early"]')
            monkeypatch.setattr(terminal, "REPAINT_SECONDS", 0.0)
        async with one.socket() as third:
            await third.send('["stdin", "late"]')
            assert b"early" not in await until(third, b"got late")


@contextlib.asynccontextmanager
async def entered(link: str) -> AsyncIterator[tuple[str, dict[str, str]]]:
    address, _, ticket = link.partition("/#")
    async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
        await let_in(client, address, ticket)
        ((name, token),) = client.cookies.items()
    yield (
        f"{address}/terminal?width=120&height=40".replace("http", "ws"),
        {"Origin": address, "Cookie": f"{name}={token}"},
    )


class Seen:
    """What a browser was sent, as a person would see it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._screen = pyte.Screen(120, 40)
        self._stream = pyte.ByteStream(self._screen)

    async def until(self, text: str, *, lit: bool = False) -> None:
        """Until that is shown; `lit` when its first letter has to be a key that works."""
        async with asyncio.timeout(PATIENCE):
            while not self.shows(text, lit):
                part = await self._socket.recv()
                self._stream.feed(part if isinstance(part, bytes) else b"")

    def shows(self, text: str, lit: bool = False) -> bool:
        for number, row in enumerate(self._screen.display):
            if (at := row.find(text)) >= 0:
                cells = self._screen.buffer[number]
                return not lit or cells[at].fg != cells[at + len(text) - 1].fg
        return False


@pytest.mark.slow
async def test_a_key_that_comes_with_a_browser_answers_no_question_that_it_did_not_see(tmp_path: Path) -> None:
    async with started(tmp_path) as (program, link), entered(link) as (address, headers):
        async with connect(address, additional_headers=headers, proxy=None) as first:
            seen = Seen(first)
            await seen.until("word counter")
            await first.send('["stdin", "\\r"]')
            await seen.until("a approve", lit=True)
        async with connect(address, additional_headers=headers, proxy=None) as second:
            await second.send('["stdin", "a"]')
            seen = Seen(second)
            await seen.until("a approve", lit=True)
            assert seen.shows("plans need your approval")
            await second.send('["stdin", "a"]')
            await seen.until("Edit wordcount/counting.py")
        program.terminate()
        await program.wait()

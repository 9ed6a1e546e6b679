from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pyte
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.web.kit import log_in
from tests.web.test_terminal import TIMEOUT, read_until, serve_screen, start_command, wait_for_close
from tui_agent.frontends.web import terminal

pytestmark = pytest.mark.asyncio(loop_scope="module")

FLOOD = """
import os, signal
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"repainted\\n"))
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
    monkeypatch.setattr(terminal, "SEND_SECONDS", 4 * TIMEOUT)
    async with serve_screen(program=FLOOD) as served, served.socket(max_size=None, compression=None) as first:
        first.transport.pause_reading()
        sending = None
        async with asyncio.timeout(TIMEOUT):
            while sending is None or sending is not served.screen._sending:
                sending = served.screen._sending
                await asyncio.sleep(0.3)
        async with served.socket(compression=None) as second:
            output = await read_until(second, b"repainted")
            assert output.startswith(b"\x1bc")
            first.transport.resume_reading()
            assert await wait_for_close(first) == terminal.TAKEN_OVER, "closed as soon as it reads again"


async def test_what_is_typed_before_anything_is_shown_is_not_taken_but_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serve_screen(program=SILENT) as served:
        async with served.socket() as first:
            await read_until(first, b"here")
        async with served.socket() as second:
            await second.send('["stdin", "early"]')
            monkeypatch.setattr(terminal, "REPAINT_SECONDS", 0.0)
        async with served.socket() as third:
            await third.send('["stdin", "late"]')
            assert b"early" not in await read_until(third, b"got late")


@contextlib.asynccontextmanager
async def logged_in(link: str) -> AsyncIterator[tuple[str, dict[str, str]]]:
    address, _, ticket = link.partition("/#")
    async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
        await log_in(client, address, ticket)
        ((name, token),) = client.cookies.items()
    yield (
        f"{address}/terminal?width=120&height=40".replace("http", "ws"),
        {"Origin": address, "Cookie": f"{name}={token}"},
    )


class SocketDisplay:
    """The screen contents that a browser receives."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._screen = pyte.Screen(120, 40)
        self._stream = pyte.ByteStream(self._screen)

    async def wait_for_text(self, text: str, *, lit: bool = False) -> None:
        """Wait until the text is shown; with `lit`, until its first letter is highlighted as an active key."""
        async with asyncio.timeout(TIMEOUT):
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
    async with start_command(tmp_path) as (program, link), logged_in(link) as (address, headers):
        async with connect(address, additional_headers=headers, proxy=None) as first:
            display = SocketDisplay(first)
            await display.wait_for_text("word counter")
            await first.send('["stdin", "\\r"]')
            await display.wait_for_text("a approve", lit=True)
        async with connect(address, additional_headers=headers, proxy=None) as second:
            await second.send('["stdin", "a"]')
            display = SocketDisplay(second)
            await display.wait_for_text("a approve", lit=True)
            assert display.shows("plans need your approval")
            await second.send('["stdin", "a"]')
            await display.wait_for_text("Edit wordcount/counting.py")
        program.terminate()
        await program.wait()

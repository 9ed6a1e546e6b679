from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection

from tests.web.test_terminal import TIMEOUT, read_until, serve_screen
from tests.web.windows import BrowserPages, browser_test, wait_for
from tui_agent.frontends.web.terminal import MAX_TITLE, MAX_TITLE_BYTES, TitleParser

NAMED = r"""
import os, signal, tty
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"repainted"))
tty.setraw(0)
os.write(1, "\x1b[22;2t\x1b]2;● <b>ada</b> waits “for” you\a here".encode())
while data := os.read(0, 1):
    os.write(1, {
        b"1": b"\x1b]0;</title><script>window.pwned=1</script>\x1b\\",
        b"2": "\x1b]2;turned \u202e round\x9b31m and \tlong\u200b ".encode() + b"x" * 300 + b"\a",
        b"3": b"\x1b]1;an icon\a\x1b]52;c;AAAA\a\x1b]2;" + b"y" * 5000 + b"\a",
        b"4": b"\x1b]2;tui-agent\a\x1b[23;2t",
    }.get(data, b""))
"""
"""Takes the place of the screen: each key sets another title."""

TITLES = (
    (b"\x1b]2;one\a", "one"),
    (b"text \x1b]0;one\x1b\\ text", "one"),
    (b"\x1b]2;one\a\x1b[2J\x1b]2;two\x1b]1;icon\a", "two"),
    ("\x1b]2;“a”\n b\a".encode(), "“a” b"),
    (b"\x1b]3;x\a\x1b]20;x\a\x1b]2;never ended", ""),
    (b"\x1b]2;was\a\x1b]2;given up\x18\x1b]2;" + b"x" * (MAX_TITLE_BYTES + 1) + b"\a", "was"),
)


@given(st.sampled_from(TITLES), st.data())
def test_any_split_gives_the_same_title(case: tuple[bytes, str], draw: st.DataObject) -> None:
    data, title = case
    cuts = sorted(draw.draw(st.sets(st.integers(0, len(data)), max_size=6)))
    titles = TitleParser()
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        titles.feed(data[begin:end])
    assert titles.text == title


async def next_title(socket: ClientConnection) -> str:
    async with asyncio.timeout(TIMEOUT):
        while not isinstance(part := await socket.recv(), str):
            pass
    kind, text = json.loads(part)
    assert kind == "title"
    return str(text)


@browser_test
async def test_the_tab_is_called_what_the_screen_calls_its_window(pages: BrowserPages) -> None:
    async with serve_screen(program=NAMED) as served:
        async with served.socket() as socket:
            assert await next_title(socket) == "● <b>ada</b> waits “for” you"
            await socket.send('["stdin", "2"]')
            text = await next_title(socket)
            assert text.startswith("turned <U+202E> round and long<U+200B> xxx") and len(text) == MAX_TITLE
            await socket.send('["stdin", "3"]')  # not a window title
            await socket.send('["stdin", "1"]')
            assert await next_title(socket) == "</title><script>window.pwned=1</script>"
        page = await pages.window()
        await page.goto(served.page_server.link())
        await page.wait_for_selector("#terminal")  # after the entrance page
        await wait_for(page, "document.title === '</title><script>window.pwned=1</script>'")
        await page.reload()
        await wait_for(page, "document.title === '</title><script>window.pwned=1</script>'")
        assert await page.evaluate("window.pwned") is None
        async with served.socket() as other:  # the latest browser gets the screen and its title
            assert "script" in await next_title(other)
            await wait_for(page, "document.title === 'tui-agent'")
            await read_until(other, b"repainted")
            await other.send('["stdin", "4"]')
            assert await next_title(other) == "tui-agent"
    pages.messages[:] = [message for message in pages.messages if message != "CLOSED"]

"""A page comes back: after a restart of the program, a reload in the middle of an approval, and beside another page (X4)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.doubles.mock import call, scenario, serve, step
from tests.web.kit import serve_session
from tests.web.test_running import start
from tests.web.windows import (
    BROWSER_MARKS,
    TIMEOUT,
    BrowserPages,
    open_link,
    send_message,
    wait_for,
    wait_until_answerable,
)
from tui_agent.frontends.web.addresses import listen

pytestmark = BROWSER_MARKS

LINK = re.compile(r"http://\S+/#\S+")
RESUME = re.compile(r"--resume (\S+)")


@contextlib.asynccontextmanager
async def web(home: Path, *args: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Run `tui-agent web`; yield its link and a list that gets all it has printed at its end."""
    program = await start(home, "web", *args)
    assert program.stdout is not None
    printed: list[str] = []
    try:
        async with asyncio.timeout(TIMEOUT / 1000):
            while not (printed and LINK.search(printed[-1])):
                line = await program.stdout.readline()
                assert line, await program.communicate()
                printed.append(line.decode())
        yield LINK.findall(printed[-1])[0], printed
    finally:
        program.terminate()
        out, _ = await program.communicate()
        printed.append(out.decode())


async def test_a_page_says_what_to_do_after_a_restart_and_the_resumed_session_goes_on(
    tmp_path: Path, pages: BrowserPages
) -> None:
    with listen("127.0.0.1", 0) as free:
        port = str(free.getsockname()[1])
    talk = [scenario(f"word {number}", f"reply {number}") for number in (1, 2)]
    async with serve(*talk, strict=True) as server:
        flags = ["--trust", "--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
        async with web(tmp_path / "home", "--port", port, *flags) as (link, printed):
            page = await pages.open(link)
            await send_message(page, "word 1")
            await page.wait_for_selector(".reply >> text=reply 1")
            await page.wait_for_selector(".outcome.done")
            await page.fill("#message", "not sent yet")
        await page.wait_for_selector("#connection >> text=/lost|closed/")
        session = RESUME.findall("".join(printed))[0]
        async with web(tmp_path / "home", "--port", port, "--resume", session, *flags) as (link, _):
            await page.wait_for_selector("#connection >> text=Open it again with a new link")
            assert await page.input_value("#message") == "not sent yet"
            await page.goto("about:blank")
            await open_link(page, link)
            await page.wait_for_selector(".reply >> text=reply 1")
            assert await page.input_value("#message") == "not sent yet"
            await send_message(page, "word 2")
            await page.wait_for_selector(".reply >> text=reply 2")
            sent = str([request.messages for request in server.requests if "word 2" in str(request.messages)][-1])
            assert sent.index("word 1") < sent.index("reply 1") < sent.index("word 2")
    pages.messages[:] = [message for message in pages.messages if "ERR_" not in message and "401" not in message]


WRITES = scenario(
    "Make it", step(None, call("write_file", path="new.txt", content="first\nsecond\n")), step("It is made.")
)


async def test_one_of_two_browsers_answers_and_the_other_says_so(tmp_path: Path, pages: BrowserPages) -> None:
    async with serve(WRITES) as server, serve_session(server, tmp_path) as client:
        first = await pages.open(client.page_server.link())
        second = await pages.open(client.page_server.link(), size=(390, 844), look="light")
        await send_message(first, "Make it")
        for page in (first, second):
            await wait_until_answerable(page)
        approve = "document.querySelector('.request button.approve')?.click()"
        await asyncio.gather(first.evaluate(approve), second.evaluate(approve))
        for page in (first, second):
            await page.wait_for_selector(".request", state="detached")
            await page.wait_for_selector(".reply >> text=It is made.")
            assert await page.locator("#items .tool").count() == 1
        assert (tmp_path / "new.txt").read_text(encoding="utf-8") == "first\nsecond\n"
        await send_message(second, "and now from the phone")
        await first.wait_for_selector(".user >> text=and now from the phone")
    pages.messages[:] = [message for message in pages.messages if "409" not in message]


async def test_a_reload_in_the_middle_of_an_approval_asks_the_same_again(tmp_path: Path, pages: BrowserPages) -> None:
    async with serve(WRITES) as server, serve_session(server, tmp_path) as client:
        page: Any = await pages.open(client.page_server.link())
        await send_message(page, "Make it")
        await wait_until_answerable(page)
        asked = await page.inner_text(".request")
        await page.fill("#message", "half a message")
        await page.reload()
        await wait_until_answerable(page)
        assert await page.inner_text(".request") == asked and await page.locator(".request").count() == 1
        assert await page.input_value("#message") == "half a message"
        assert not (tmp_path / "new.txt").exists(), "a reload decides nothing"
        await page.click("#scroll")
        await page.keyboard.press("a")
        await page.wait_for_selector(".reply >> text=It is made.")
        assert (tmp_path / "new.txt").exists()
        await wait_for(page, "!document.querySelector('.request')")

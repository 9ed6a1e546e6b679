"""The page follows the end, resumes and reconnects (X4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.doubles.page_session import OPENED, FakePageSession
from tests.web.kit import serve_fake_session
from tests.web.test_running import printed_link, start
from tests.web.windows import BROWSER_MARKS, TIMEOUT, BrowserPages, wait_for, wait_until_answerable
from tui_agent import events as e

pytestmark = BROWSER_MARKS

AT_END = "(() => { const it = document.getElementById('scroll'); return it.scrollHeight - it.scrollTop - it.clientHeight < 2; })()"
LAST_IN_VIEW = """(() => {
  const view = document.getElementById('scroll').getBoundingClientRect();
  const last = document.getElementById('items').lastElementChild.getBoundingClientRect();
  return last.bottom <= view.bottom + 1 && last.bottom > view.top;
})()"""


def talk(count: int) -> list[e.Event]:
    """Messages and their replies."""
    events: list[e.Event] = []
    for number in range(count):
        events += [
            e.UserMessageAdded(id=f"m-{number}", text=f"message {number}"),
            e.ReplyEnded(text=f"reply {number}\n\n" + "Some more words about it. " * 12),
        ]
    return events


async def settled(page: Any) -> None:
    """Wait until the browser has painted twice, and so has told of every scroll."""
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def test_a_resumed_session_is_open_and_tells_of_a_lost_connection(pages: BrowserPages) -> None:
    session = FakePageSession(*talk(1), e.SessionClosed(reason="user"))
    session.tell(
        e.SessionOpened(**{**{name: getattr(OPENED, name) for name in OPENED.__struct_fields__}, "resumed": True})
    )
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector("#items >> text=Session resumed")
        assert await page.is_hidden("#connection")
        session.tell(*talk(1))
        await wait_for(page, "document.querySelectorAll('.user').length === 2")
        client.page_server.drop()
        await page.wait_for_selector("#connection >> text=Connection lost")
    pages.messages[:] = [message for message in pages.messages if "ERR_" not in message]


async def test_a_session_that_is_closed_says_so(pages: BrowserPages) -> None:
    session = FakePageSession(*talk(1))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".user")
        session.tell(e.SessionClosed(reason="user"))
        await page.wait_for_selector("#connection >> text=The session was closed and saved")
    pages.messages[:] = [message for message in pages.messages if "ERR_" not in message]


async def test_only_the_user_leaves_the_end(pages: BrowserPages) -> None:
    session = FakePageSession(*talk(12))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await wait_for(page, "document.querySelectorAll('.user').length === 12")
        await wait_for(page, AT_END)
        for height in (500, 800, 420, 800):  # as when a request appears and goes, or a phone's keyboard
            await page.set_viewport_size({"width": 1280, "height": height})
            session.tell(e.ReplyEnded(text="more\n\n" * 30), node=f"n{height}")
            await settled(page)
            await wait_for(page, AT_END)
        await page.mouse.move(500, 300)
        await page.mouse.wheel(0, -700)
        await wait_for(page, "!document.getElementById('to-end').hidden")
        place = await page.evaluate("document.getElementById('scroll').scrollTop")
        session.tell(e.ReplyEnded(text="even more\n\n" * 30), node="n")
        await page.wait_for_selector("text=even more", state="attached")
        await settled(page)
        assert await page.evaluate("document.getElementById('scroll').scrollTop") == place
        await page.click("#to-end")
        await wait_for(page, AT_END)
        await page.mouse.wheel(0, -700)
        await wait_for(page, "!document.getElementById('to-end').hidden")
        place = await page.evaluate("document.getElementById('scroll').scrollTop")
        session.tell(e.UserMessageAdded(id="other", text="from another browser"))
        await page.wait_for_selector("text=from another browser", state="attached")
        await settled(page)
        assert await page.evaluate("document.getElementById('scroll').scrollTop") == place
        await page.fill("#message", "my own message")
        await page.press("#message", "Enter")
        await wait_for(page, AT_END)
        session.tell(e.UserMessageAdded(id="m", text="my own message"))
        await page.wait_for_selector("text=my own message")
        await wait_for(page, AT_END)


async def test_the_demonstration_ends_with_its_answer_in_view(tmp_path: Path, pages: BrowserPages) -> None:
    async with asyncio.timeout(2 * TIMEOUT / 1000):
        program = await start(tmp_path / "home", "web", "--port", "0", "--demo")
        try:
            page = await pages.open(await printed_link(program), size=(1280, 720))
            await wait_for(page, "document.getElementById('message').value.length > 10")
            await page.press("#message", "Enter")
            while await page.locator(".outcome").count() == 0:
                if await page.locator(".request").count():
                    await wait_until_answerable(page)
                    approve = page.locator(".request button.approve:enabled").first
                    if await approve.count():
                        await approve.click()
                await page.wait_for_timeout(100)
            await settled(page)
            await wait_for(page, LAST_IN_VIEW)
        finally:
            program.terminate()
            await program.communicate()
    pages.messages[:] = [message for message in pages.messages if "ERR_" not in message]

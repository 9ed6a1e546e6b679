from __future__ import annotations

import asyncio
from typing import Any

from tests.doubles.page_session import AnsweredPageSession
from tests.scenes import load
from tests.web.kit import serve_fake_session
from tests.web.windows import BROWSER_MARKS, BrowserPages, wait_for, wait_until_answerable

pytestmark = BROWSER_MARKS

AT = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"


class HeldRequest:
    """A request of the browser that is held until `response` is set: None passes it on, else it is the answer."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.response: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()

    async def __call__(self, route: Any) -> None:
        self.arrived.set()
        answer = await self.response
        await (route.continue_() if answer is None else route.fulfill(**answer))


async def test_what_is_typed_before_the_page_is_ready_or_while_a_message_is_refused_stays(pages: BrowserPages) -> None:
    session = AnsweredPageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        script = HeldRequest()
        await page.route("**/main.js", script)
        await page.reload(wait_until="commit")
        await page.fill("#message", "typed early")
        assert await page.is_disabled("#send")  # it would only load the page anew
        script.response.set_result(None)
        await wait_for(page, "!document.getElementById('send').disabled")
        assert await page.input_value("#message") == "typed early"

        sent = HeldRequest()
        await page.route("**/chat", sent)
        await page.press("#message", "Enter")
        await page.keyboard.type("and this")
        await sent.arrived.wait()
        sent.response.set_result({"status": 500, "json": {"error": "no room left"}})
        await page.wait_for_selector("#activity >> text=no room left")
        assert await page.input_value("#message") == "typed early\nand this"
    pages.messages[:] = [message for message in pages.messages if "500" not in message]


async def test_the_focus_stays_with_what_is_being_decided_and_then_goes_to_the_composer(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("summary_waits"))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        for status in (500, 200):
            answered = HeldRequest()
            await page.route("**/answer", answered)
            await wait_until_answerable(page)
            keep = page.locator(".request button.primary")
            await keep.focus()
            await page.keyboard.press("Enter")
            await answered.arrived.wait()
            await page.screenshot()  # painted: a browser drops the focus of a disabled button only then
            assert "request" in await page.evaluate(AT)
            if status == 500:
                answered.response.set_result({"status": 500, "json": {"error": "not now"}})
                await page.wait_for_selector("#activity >> text=not now")
                assert await keep.evaluate("(it) => document.activeElement === it")
            else:
                answered.response.set_result(None)
                await wait_for(page, "document.activeElement.id === 'message'")
            await page.unroute("**/answer")
    pages.messages[:] = [message for message in pages.messages if "500" not in message]

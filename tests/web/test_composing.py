from __future__ import annotations

import asyncio
from typing import Any

from tests.doubles.page_session import AnsweredPageSession
from tests.scenes import load
from tests.web.kit import faced
from tests.web.windows import IN_BROWSER, Pages, still, when

pytestmark = IN_BROWSER

AT = "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"


class Held:
    """A request of the browser that is let go later: `go` with nothing, or with what shall be answered to it."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self.go: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()

    async def __call__(self, route: Any) -> None:
        self.came.set()
        answer = await self.go
        await (route.continue_() if answer is None else route.fulfill(**answer))


async def test_what_is_typed_before_the_page_is_ready_or_while_a_message_is_refused_stays(pages: Pages) -> None:
    door = AnsweredPageSession()
    async with faced(door) as one:
        page = await pages.open(one.serving.link())
        script = Held()
        await page.route("**/main.js", script)
        await page.reload(wait_until="commit")
        await page.fill("#say", "typed early")
        assert await page.is_disabled("#send")  # it would only load the page anew
        script.go.set_result(None)
        await when(page, "!document.getElementById('send').disabled")
        assert await page.input_value("#say") == "typed early"

        sent = Held()
        await page.route("**/chat", sent)
        await page.press("#say", "Enter")
        await page.keyboard.type("and this")
        await sent.came.wait()
        sent.go.set_result({"status": 500, "json": {"error": "no room left"}})
        await page.wait_for_selector("#activity >> text=no room left")
        assert await page.input_value("#say") == "typed early\nand this"
    pages.said[:] = [one for one in pages.said if "500" not in one]


async def test_the_focus_stays_with_what_is_being_decided_and_then_goes_to_the_composer(pages: Pages) -> None:
    door = AnsweredPageSession(records=load("summary_waits"))
    async with faced(door) as one:
        page = await pages.open(one.serving.link())
        for status in (500, 200):
            answered = Held()
            await page.route("**/answer", answered)
            await still(page)
            keep = page.locator(".request button.primary")
            await keep.focus()
            await page.keyboard.press("Enter")
            await answered.came.wait()
            await page.screenshot()  # painted: a browser drops the focus of a disabled button only then
            assert "request" in await page.evaluate(AT)
            if status == 500:
                answered.go.set_result({"status": 500, "json": {"error": "not now"}})
                await page.wait_for_selector("#activity >> text=not now")
                assert await keep.evaluate("(it) => document.activeElement === it")
            else:
                answered.go.set_result(None)
                await when(page, "document.activeElement.id === 'say'")
            await page.unroute("**/answer")
    pages.said[:] = [one for one in pages.said if "500" not in one]

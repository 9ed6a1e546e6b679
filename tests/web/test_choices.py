"""The page offers the server's models and the sessions of the folder (X4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from tests.doubles.mock import scenario, serve
from tests.doubles.page_session import FakePageSession
from tests.engine.kit import session_options
from tests.web.kit import PageClient, serve_session
from tests.web.windows import BROWSER_MARKS, BrowserPages, screenshot, send_message
from tui_agent.engine.opening import open_session
from tui_agent.frontends.web.addresses import listen
from tui_agent.frontends.web.app import SessionPage


async def test_models_and_sessions_are_shown_only_to_who_was_let_in(tmp_path: Path) -> None:
    async with serve(scenario("one", "first reply")) as server, serve_session(server, tmp_path) as page:
        for path in ("/models", "/sessions", "/open"):
            assert (await page.http.post(path, json={})).status_code == 401
        await page.enter()
        models = (await page.post("/models")).json()
        assert "mock-model" in [row["id"] for row in models["rows"]] and models["current"] == "mock-model"
        async with page.chat("one") as stream:
            await stream.rest()
        sessions = (await page.post("/sessions")).json()
        assert [(row["id"], row["label"]) for row in sessions["rows"]] == [(page.session.id, "one")]
        assert not sessions["can_open"]
        answer = await page.post("/open", id=page.session.id)
        assert answer.status_code == 409 and f"tui-agent --resume {page.session.id}" in answer.text


async def test_another_session_is_not_opened_while_something_would_end() -> None:
    session = FakePageSession()
    session.jobs = ("npm run dev", "make watch")
    opened: list[ClosedSession] = []

    async def opener(_: str) -> Any:
        opened.append(ClosedSession())
        if not session.jobs:
            session.busy = True  # a message from another browser
        return opened[-1]

    page_server = SessionPage(session, listen("127.0.0.1", 0), opener=opener)
    await page_server.start()
    client = await PageClient(session, page_server).enter()
    answer = await client.post("/open", id="s-2")
    assert answer.status_code == 409 and "npm run dev and 1 more still runs" in answer.text and not opened
    session.jobs = ()
    answer = await client.post("/open", id="s-2")
    assert answer.status_code == 409 and "the run has to end first" in answer.text
    assert opened[0].reason == "it was not shown"
    await client.http.aclose()
    await session.close()
    await page_server.stop()


class ClosedSession(FakePageSession):
    """Notes why it was closed."""

    reason = ""

    async def close(self, reason: str = "user") -> None:
        self.reason = reason
        await super().close()


class TestInBrowser:
    pytestmark = BROWSER_MARKS

    async def test_the_model_is_chosen_from_a_list(self, tmp_path: Path, pages: BrowserPages) -> None:
        async with serve() as server, serve_session(server, tmp_path) as client:
            page = await pages.open(client.page_server.link())
            await page.focus("#message")
            await send_message(page, "/model")
            await page.wait_for_selector("dialog .picker-row[aria-current]")
            await screenshot(page, "models-dark")
            await page.keyboard.type("mock")
            await page.keyboard.press("ArrowDown")
            await page.keyboard.press("Enter")
            await page.wait_for_selector("#activity >> text=mock-model is used from the next message.")
            assert await page.evaluate("document.activeElement.id") == "message"
            await page.click("#model")
            await page.wait_for_selector("dialog")
            await page.keyboard.press("Escape")
            await page.wait_for_selector("dialog", state="detached")

    async def test_another_session_is_opened_and_both_browsers_show_it(
        self, tmp_path: Path, pages: BrowserPages
    ) -> None:
        async with serve(scenario("one", "first reply"), scenario("two", "second reply")) as server:
            options = session_options(server, tmp_path)
            opened: list[Any] = []

            async def opener(id: str) -> Any:
                opened.append(await open_session(msgspec.structs.replace(options, resume=id or None)))
                return opened[-1]

            first = await opener("")
            page_server = SessionPage(first, listen("127.0.0.1", 0), opener=opener)
            await page_server.start()
            ended = asyncio.create_task(page_server.ended())
            client = await PageClient(first, page_server).enter()
            page, other = await pages.open(page_server.link()), await pages.open(page_server.link())
            await send_message(page, "one")
            await page.wait_for_selector(".reply >> text=first reply")
            await page.wait_for_selector(".outcome.done")
            await page.click("#sessions")
            await screenshot(page, "sessions-dark")
            await page.click("dialog >> text=New session")
            for each in (page, other):
                await each.wait_for_selector(".reply", state="detached")
                await each.wait_for_selector("#workspace >> text=/./")
            await send_message(page, "two")
            await other.wait_for_selector(".reply >> text=second reply")
            await page.wait_for_selector(".outcome.done")
            await page.keyboard.type("/resume")
            await page.keyboard.press("Enter")
            await page.click("dialog .picker-row:not([aria-current]) >> text=one")
            await page.wait_for_selector(".reply >> text=first reply")
            await other.wait_for_selector(".reply >> text=first reply")
            assert [each.id for each in opened[::2]] == [first.id, first.id] and not ended.done()
            assert not await page.is_visible("#connection")
            await client.http.aclose()
            await opened[-1].close()
            await asyncio.wait([ended])
            await page_server.stop()

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.doubles.job import FIXED, TASK, job_scenario, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import FakePageSession
from tests.scenes import load
from tests.web.kit import serve_fake_session, serve_session
from tests.web.windows import (
    BROWSER_MARKS,
    TIMEOUT,
    BrowserPages,
    open_link,
    screenshot,
    send_message,
    wait_for,
    wait_until_answerable,
)

pytestmark = BROWSER_MARKS

CODE = "def add(a, b):\n    # both of them\n    return a + b"
STORY = (
    "## What I found\n\nThe **adder** subtracts, see `adder.py` and https://example.org/why.\n\n"
    f"```python\n{CODE}\n```\n\n1. mend it\n2. run its test\n   - quickly\n\n- [x] looked at\n- [ ] mended\n\n"
    "| file | lines |\n|---|--:|\n| adder.py | 2 |\n\n> never `innerHTML`\n"
)
HOSTILE = (
    "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'> [go](javascript:window.pwned=1) "
    "![pic](http://127.0.0.1:{port}/pic.png) <svg onload='window.pwned=1'> [safe](https://example.org/a)\n\n"
    "```html\n<script>window.pwned=1</script>\n```\n<b>bold?</b> </script> &lt;x&gt; [x](data:text/html,hi) [f](file:///etc/passwd)"
)


async def assert_token_stays_private(page: Any, page_server: Any) -> None:
    # Cookies ignore ports: pages of all programs on this machine belong to the same site.
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n<p id=here>hi")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as elsewhere:
        port = elsewhere.sockets[0].getsockname()[1]
        other = await page.context.new_page()
        await other.goto(f"http://127.0.0.1:{port}/events")
        await other.goto(f"{page_server.address}/")  # who was let in is led to the page from the bare address too
        await other.wait_for_selector("#message")
        assert other.url == page.url
        await other.close()
    assert heads and b"tui_agent" not in b"".join(heads)


async def test_chat_streams_approves_clears_and_goes_on_after_a_reload(tmp_path: Path, pages: BrowserPages) -> None:
    make_workspace(tmp_path)
    tale = scenario("tell me", step(STORY, pace=0.004))
    slow = scenario("slowly", step("first words " + "and more " * 60 + "the end", pace=0.03))
    async with serve(job_scenario(), tale, slow) as server, serve_session(server, tmp_path) as client:
        page = await pages.open(client.page_server.link())
        assert page.url == client.page_server.address + client.page_server.tickets.path, (
            "the ticket is gone from the address"
        )
        await assert_token_stays_private(page, client.page_server)
        await send_message(page, "tell me")
        await page.wait_for_selector(".outcome.done")
        assert await page.inner_text(".code code") == CODE
        assert await page.locator(".code .t-keyword").count() == 2
        assert (
            await page.locator(".prose ol > li").count() == 2 and await page.locator(".prose .box.ticked").count() == 1
        )
        assert (await page.inner_text(".prose table td.align-end")) == "2"
        assert await page.get_attribute(".prose a", "href") == "https://example.org/why"
        await screenshot(page, "prose-dark")

        await send_message(page, "slowly")
        await wait_for(page, "document.querySelector('article:last-of-type')?.innerText.includes('first words')")
        assert "the end" not in await page.inner_text("#items"), "it is shown while it comes"
        assert await page.is_visible("#stop")
        await page.reload()
        await wait_for(page, "document.querySelector('#items').innerText.includes('the end')")
        assert (await page.inner_text("#items")).count("first words") == 1
        await wait_for(page, "document.querySelectorAll('.outcome.done').length === 2")

        other = await pages.open(client.page_server.link(), size=(390, 844), look="light")
        await send_message(page, TASK)
        await page.wait_for_selector(".request .row.plus")
        assert "return a + b" in await page.inner_text(".request .row.plus")
        await other.wait_for_selector(".request .row.plus")
        await screenshot(page, "approve-dark")
        await screenshot(other, "approve-phone-light")
        await wait_until_answerable(page)
        await page.click(".request >> text=Approve")
        await wait_for(other, "!document.querySelector('.request .diff')")
        async with asyncio.timeout(TIMEOUT / 1000):  # the command asks as well, and the other browser answers that
            while await other.locator(".outcome.done").count() < 3:
                await other.evaluate(
                    "document.querySelector('.request .command + .cwd') && document.querySelector('.request button.approve:enabled')?.click()"
                )
                await other.wait_for_timeout(100)
        await wait_for(page, "document.querySelectorAll('.outcome.done').length === 3")
        await wait_for(other, "document.querySelectorAll('.outcome.done').length === 3")
        assert await page.inner_text("#items") == await other.inner_text("#items")
        assert (tmp_path / "adder.py").read_text(encoding="utf-8") == FIXED
        await screenshot(page, "done-dark")

        await page.click("#theme")
        await screenshot(page, "done-light")
        await page.dblclick("#clear")  # the first press asks, for a moment only
        await page.wait_for_selector(".divider")
        await other.wait_for_selector(".divider")
        assert "adder" not in await page.inner_text("#items")
        assert not [url for url in pages.requests if not url.startswith(client.page_server.address)], (
            "no requests to other servers"
        )


async def test_what_a_model_writes_is_text(tmp_path: Path, pages: BrowserPages) -> None:
    connections: list[object] = []
    elsewhere = await asyncio.start_server(lambda reader, writer: connections.append(writer), "127.0.0.1", 0)
    async with elsewhere:
        port = elsewhere.sockets[0].getsockname()[1]
        text = HOSTILE.replace("{port}", str(port))
        bad = "a<img src=x onerror=window.pwned=1>.txt"
        write = scenario(
            "go", step(text, call("write_file", path=bad, content="<script>window.pwned=1</script>\n")), "ok"
        )
        async with serve(write) as server, serve_session(server, tmp_path) as client:
            page = await pages.open(client.page_server.link())
            await send_message(page, "go <img src=x onerror=window.pwned=1>")
            await page.wait_for_selector(".request .row.plus")
            await wait_until_answerable(page)
            await page.click(".request >> text=Approve")
            await page.wait_for_selector(".outcome.done")
            assert await page.evaluate("window.pwned") is None
            assert await page.locator("#items img, #items script, #items svg:not(.icon), #items b").count() == 0
            links = await page.eval_on_selector_all("#items a", "all => all.map(one => one.href)")
            assert links == [f"http://127.0.0.1:{port}/pic.png", "https://example.org/a"]
            assert "<b>bold?</b>" in await page.inner_text("#items")
        assert connections == [], "no image is loaded"


SCENES = (
    "hostile_text",
    "plan_unsure",
    "summary_waits",
    "question",
    "plan_conflict",
    "trust",
    "command_asked",
    "subagents_done",
    "tests_failed",
)
SIZES = ((1280, 800), (390, 844), (320, 568))


async def test_nothing_is_wider_than_the_screen_in_any_state(pages: BrowserPages) -> None:
    page: Any = None
    for scene in SCENES:
        session = FakePageSession()
        session.records = load(scene)
        async with serve_fake_session(session) as client:
            if page is None:
                page = await pages.open(client.page_server.link())
            else:
                await open_link(page, client.page_server.link())
            await wait_for(
                page, "document.querySelector('#items')?.childElementCount > 0 || document.querySelector('.request')"
            )
            for width, height in SIZES:
                await page.set_viewport_size({"width": width, "height": height})
                wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                assert await page.evaluate(wide) <= 0, (scene, width)
                assert "\x1b" not in await page.inner_text("#items"), scene
                await screenshot(page, f"scene-{scene}-{width}")
            await page.goto("about:blank")

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.doubles.job import MENDED, TASK, job, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import FakePageSession
from tests.scenes import load
from tests.web.kit import faced, served
from tests.web.windows import IN_BROWSER, PATIENCE, Pages, enter, say, shot, still, when

pytestmark = IN_BROWSER

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


async def nobody_else_is_told_the_token(page: Any, serving: Any) -> None:
    # Cookies do not heed ports: a page of any other program on this machine is of the same site.
    told: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n\r\n<p id=here>hi")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as elsewhere:
        port = elsewhere.sockets[0].getsockname()[1]
        other = await page.context.new_page()
        await other.goto(f"http://127.0.0.1:{port}/events")
        await other.goto(f"{serving.address}/")  # who was let in is led to the page from the bare address too
        await other.wait_for_selector("#say:not([role])")
        assert other.url == page.url
        await other.close()
    assert told and b"tui_agent" not in b"".join(told)


async def test_chat_streams_approves_clears_and_goes_on_after_a_reload(tmp_path: Path, pages: Pages) -> None:
    make_workspace(tmp_path)
    tale = scenario("tell me", step(STORY, pace=0.004))
    slow = scenario("slowly", step("first words " + "and more " * 60 + "the end", pace=0.03))
    async with serve(job(), tale, slow) as server, served(server, tmp_path) as one:
        page = await pages.open(one.serving.link())
        assert page.url == one.serving.address + one.serving.tickets.path, "the ticket is gone from the address"
        await nobody_else_is_told_the_token(page, one.serving)
        await say(page, "tell me")
        await page.wait_for_selector(".end.done")
        assert await page.inner_text(".code code") == CODE
        assert await page.locator(".code .t-keyword").count() == 2
        assert (
            await page.locator(".prose ol > li").count() == 2 and await page.locator(".prose .box.ticked").count() == 1
        )
        assert (await page.inner_text(".prose table td.to-end")) == "2"
        assert await page.get_attribute(".prose a", "href") == "https://example.org/why"
        await shot(page, "prose-dark")

        await say(page, "slowly")
        await when(page, "document.querySelector('article:last-of-type')?.innerText.includes('first words')")
        assert "the end" not in await page.inner_text("#items"), "it is shown while it comes"
        assert await page.is_visible("#stop")
        await page.reload()
        await when(page, "document.querySelector('#items').innerText.includes('the end')")
        assert (await page.inner_text("#items")).count("first words") == 1
        await when(page, "document.querySelectorAll('.end.done').length === 2")

        other = await pages.open(one.serving.link(), size=(390, 844), look="light")
        await say(page, TASK)
        await page.wait_for_selector(".request .row.plus")
        assert "return a + b" in await page.inner_text(".request .row.plus")
        await other.wait_for_selector(".request .row.plus")
        await shot(page, "approve-dark")
        await shot(other, "approve-phone-light")
        await still(page)
        await page.click(".request >> text=Approve")
        await when(other, "!document.querySelector('.request .diff')")
        async with asyncio.timeout(PATIENCE / 1000):  # the command asks as well, and the other browser answers that
            while await other.locator(".end.done").count() < 3:
                await other.evaluate(
                    "document.querySelector('.request .command + .where') && document.querySelector('.request button.approve:enabled')?.click()"
                )
                await other.wait_for_timeout(100)
        await when(page, "document.querySelectorAll('.end.done').length === 3")
        await when(other, "document.querySelectorAll('.end.done').length === 3")
        assert await page.inner_text("#items") == await other.inner_text("#items")
        assert (tmp_path / "adder.py").read_text(encoding="utf-8") == MENDED
        await shot(page, "done-dark")

        await page.click("#look")
        await shot(page, "done-light")
        await page.dblclick("#clear")  # the first press asks, for a moment only
        await page.wait_for_selector(".divider")
        await other.wait_for_selector(".divider")
        assert "adder" not in await page.inner_text("#items")
        assert not [url for url in pages.asked if not url.startswith(one.serving.address)], "asks nobody else"


async def test_what_a_model_writes_is_text(tmp_path: Path, pages: Pages) -> None:
    came: list[object] = []
    elsewhere = await asyncio.start_server(lambda reader, writer: came.append(writer), "127.0.0.1", 0)
    async with elsewhere:
        port = elsewhere.sockets[0].getsockname()[1]
        text = HOSTILE.replace("{port}", str(port))
        bad = "a<img src=x onerror=window.pwned=1>.txt"
        write = scenario(
            "go", step(text, call("write_file", path=bad, content="<script>window.pwned=1</script>\n")), "ok"
        )
        async with serve(write) as server, served(server, tmp_path) as one:
            page = await pages.open(one.serving.link())
            await say(page, "go <img src=x onerror=window.pwned=1>")
            await page.wait_for_selector(".request .row.plus")
            await still(page)
            await page.click(".request >> text=Approve")
            await page.wait_for_selector(".end.done")
            assert await page.evaluate("window.pwned") is None
            assert await page.locator("#items img, #items script, #items svg:not(.icon), #items b").count() == 0
            links = await page.eval_on_selector_all("#items a", "all => all.map(one => one.href)")
            assert links == [f"http://127.0.0.1:{port}/pic.png", "https://example.org/a"]
            assert "<b>bold?</b>" in await page.inner_text("#items")
        assert came == [], "no picture is fetched"


SCENES = (
    "hostile_text",
    "plan_unsure",
    "summary_waits",
    "question",
    "plan_conflict",
    "trust",
    "command_asked",
    "subagents_done",
)
SIZES = ((1280, 800), (390, 844), (320, 568))


async def test_nothing_is_wider_than_the_screen_in_any_state(pages: Pages) -> None:
    page: Any = None
    for scene in SCENES:
        door = FakePageSession()
        door.records = load(scene)
        async with faced(door) as one:
            if page is None:
                page = await pages.open(one.serving.link())
            else:
                await enter(page, one.serving.link())
            await when(
                page, "document.querySelector('#items')?.childElementCount > 0 || document.querySelector('.request')"
            )
            for width, height in SIZES:
                await page.set_viewport_size({"width": width, "height": height})
                wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                assert await page.evaluate(wide) <= 0, (scene, width)
                await shot(page, f"scene-{scene}-{width}")
            await page.goto("about:blank")

"""A long session is shown from its end, and earlier messages when they are wanted (X4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doubles.page_session import FakePageSession
from tests.web.kit import serve_fake_session
from tests.web.test_following import AT_END, settled, talk
from tests.web.windows import BROWSER_MARKS, BrowserPages, open_link, wait_for
from tui_agent import events as e
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.frontends.web.serving import join_modules

pytestmark = BROWSER_MARKS

FIRST_SHOWN = "Number(document.querySelector('.user .bubble').textContent.split(' ')[1])"


async def count_layouts(page: Any) -> Any:
    """Begin to count; returns what `layouts` takes."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable")
    return devtools


async def layouts(devtools: Any) -> int:
    metrics = await devtools.send("Performance.getMetrics")
    return int(next(each["value"] for each in metrics["metrics"] if each["name"] == "LayoutCount"))


async def test_two_thousand_messages_take_few_layouts_and_few_bytes(pages: BrowserPages) -> None:
    session = FakePageSession(*talk(1000))
    async with serve_fake_session(session) as client:
        page = await pages.window()
        sizes: dict[str, tuple[int, str]] = {}

        async def measure(response: Any) -> None:
            if "/history" in response.url:
                sizes["history"] = (len(await response.body()), await response.header_value("content-encoding"))

        page.on("response", measure)
        devtools = await count_layouts(page)
        await open_link(page, client.page_server.link())
        await wait_for(page, "document.body.innerText.includes('reply 999')")
        await page.fill("#message", "hello")
        await wait_for(page, AT_END)
        assert 0 < await layouts(devtools) <= 150
        assert await page.evaluate("document.getElementById('items').childElementCount") < 200
        own = [each for each in pages.requests if "/in-" in each and not each.endswith(".svg")]
        assert len(own) <= 7, "page, styles, two scripts, history, commands and events"
        size, encoding = sizes["history"]
        assert size < 100_000 and encoding == "gzip"


async def test_modules_are_joined_after_what_they_import_and_not_in_a_circle() -> None:
    files = {
        "main.js": b'import { a } from "./a.js";\nimport { b } from "./b.js";\nconst x = 1;\ntell(a() + b.c);',
        "a.js": b'import { b } from "./b.js";\nconst x = 2;\nexport function a() { return x + b.c; }',
        "b.js": b"const x = 3;\nexport const b = { c: x };",
    }
    joined = join_modules("main.js", files)
    assert joined.index("const module_b") < joined.index("const module_a") < joined.index("const module_main")
    assert joined.count("const module_b") == 1 and "import" not in joined and "export" not in joined
    with pytest.raises(ValueError, match="import each other"):
        join_modules("a.js", {**files, "b.js": b'import { a } from "./a.js";'})


async def test_earlier_messages_come_as_the_user_scrolls_up_and_nothing_jumps(pages: BrowserPages) -> None:
    session = FakePageSession(*talk(200))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await wait_for(page, "document.body.innerText.includes('reply 199')")
        first = await page.evaluate(FIRST_SHOWN)
        assert 100 < first < 199
        top = f"[...document.querySelectorAll('.user')].find((each) => each.innerText.trim() === 'message {first}').getBoundingClientRect().top"
        await page.evaluate("document.getElementById('scroll').scrollTop = 300")
        before = await page.evaluate(top)
        await wait_for(page, f"{FIRST_SHOWN} < {first}")
        await settled(page)
        assert abs(await page.evaluate(top) - before) < 2
        while await page.evaluate(FIRST_SHOWN):
            await page.focus("#older")
            await page.keyboard.press("Enter")
            await page.wait_for_timeout(50)
        await page.wait_for_selector("#older", state="hidden")
        shown = await page.evaluate("[...document.querySelectorAll('.user .bubble')].map((each) => each.textContent)")
        assert shown == [f"message {number}" for number in range(200)], "each once, in order"


async def test_a_page_that_runs_for_long_drops_what_nobody_looks_at(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        session.tell(*talk(300))
        await wait_for(page, "document.body.innerText.includes('reply 299')")
        await wait_for(page, "document.getElementById('items').childElementCount <= 400")
        await wait_for(page, AT_END)
        await settled(page)
        first = await page.evaluate(FIRST_SHOWN)  # before the focus scrolls there, which fetches older messages, too
        await page.press("#message", "Tab")
        await page.focus("#older")
        await page.keyboard.press("Enter")
        await wait_for(page, f"{FIRST_SHOWN} < {first}")
        shown = await page.evaluate("[...document.querySelectorAll('.user .bubble')].map((each) => each.textContent)")
        start = int(shown[0].split()[1])
        assert shown == [f"message {number}" for number in range(start, 300)]


def batch(number: int) -> list[tuple[e.Event, str]]:
    """A message, a reply with twelve calls at once, and the node of each event."""
    calls = [f"c-{number}-{index}" for index in range(12)]
    result = ToolResult(success=True)
    return [
        (e.UserMessageAdded(id=f"m-{number}", text=f"message {number}"), ""),
        (e.ReplyEnded(text=f"reply {number}"), f"r-{number}"),
        *(
            (e.ToolStarted(call=ToolCall(id=id, name="read_file", arguments={}), title=id, reads_only=True), id)
            for id in calls
        ),
        *((e.ToolFinished(call_id=id, name="read_file", result=result, text="", ms=1), id) for id in calls),
    ]


async def test_dropping_the_oldest_does_not_cut_through_calls(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        for number in range(31):
            for event, node in batch(number):
                session.tell(event, node=node)
        await wait_for(page, "document.body.innerText.includes('reply 30')")
        session.tell(e.RunEnded(outcome="done"))
        await wait_for(page, "document.getElementById('items').childElementCount <= 400")
        count = await page.evaluate("document.getElementById('items').childElementCount")
        await page.focus("#older")
        await page.keyboard.press("Enter")
        await wait_for(page, f"document.getElementById('items').childElementCount > {count}")
        assert await page.locator("#items .interrupted").count() == 0


async def test_what_still_matters_is_sent_though_it_is_long_ago(pages: BrowserPages) -> None:
    session = FakePageSession(
        e.SessionTitled(title="A long one"),
        e.MessageQueued(id="q-1", text="for later"),
        e.QuestionAsked(id="a-1", question="Which one?", options=("this", "that")),
    )
    session.tell(*[e.Notice(level="info", text=f"notice {number}") for number in range(500)])
    async with serve_fake_session(session) as client:
        await client.enter()
        answer = await client.http.get("/history")
        part = answer.json()
        assert [name for name, _ in part["state"]] == [
            "session.opened",
            "session.titled",
            "message.queued",
            "question.asked",
        ]
        assert part["before"] and not part["cut"] and part["last"] == 504
        seen = [data["data"]["text"] for name, data in part["events"]]
        while part["before"]:
            part = json.loads((await client.http.get("/history", params={"before": part["before"]})).text)
            assert part["state"] == []
            seen = [data["data"]["text"] for name, data in part["events"] if name == "notice"] + seen
        assert seen == [f"notice {number}" for number in range(500)]
        assert (await client.http.get("/history", params={"before": "-1"})).status_code == 400
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".request >> text=Which one?")
        assert await page.inner_text("#title") == "A long one"
        assert "for later" in await page.inner_text("#queue")

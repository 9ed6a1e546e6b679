from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import FIXED, REPORT, TASK, job_scenario, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver
from tests.web.kit import PageClient, serve_session
from tui_agent.events import ApprovalAnswered, ApprovalRequested


async def test_chat_streams_what_the_seed_says_and_the_rest(tmp_path: Path) -> None:
    (tmp_path / "foo.py").write_text("x = 1\n", encoding="utf-8")
    greeting = scenario("hi", step("Here's what ", call("read_file", path="foo.py")), "I found.")
    async with serve(greeting) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.chat("hi") as stream:
            events = await stream.rest()
    assert stream.response.headers["content-type"].startswith("text/event-stream")
    assert [e.data["content"] for e in events if e.name == "text"] == ["Here's what", "I found."]
    (tool,) = [e for e in events if e.name == "tool"]
    assert (tool.data["name"], tool.data["input"]) == ("read_file", {"path": "foo.py"})
    assert (events[-1].name, events[-1].data) == ("done", {})
    names = [e.name for e in events]
    assert {"user.said", "run.started", "reply.started", "reply.ended", "tool.finished", "run.ended"} <= set(names)
    ids = [e.id for e in events if e.id is not None]
    assert ids == sorted(set(ids))


async def answer_all(page: PageClient, session: Any) -> list[str]:
    """Approve all requests over HTTP."""
    kinds = []
    async with page.events() as stream:
        while True:
            event = await stream.until("approval.asked")
            kinds.append(event.data["data"]["action"]["kind"])
            done = await page.post("/answer", id=event.data["data"]["id"], verdict="approve")
            assert done.status_code == 200, done.text


async def test_a_job_is_done_with_answers_from_the_page(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    async with serve(job_scenario()) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        answering = asyncio.create_task(answer_all(page, page.session))
        async with page.chat(TASK) as stream:
            events = await stream.rest()
        answering.cancel()
        (request,) = [
            e.data["data"] for e in events if e.name == "approval.asked" and "diff" in e.data["data"]["action"]
        ]
    lines = request["action"]["diff"]["hunks"][0]["lines"]
    assert [line.strip() for line in lines if line[0] in "+-"] == ["-    return a - b", "+    return a + b"]
    assert (tmp_path / "adder.py").read_text(encoding="utf-8") == FIXED
    assert [e.data["data"]["text"] for e in events if e.name == "reply.ended"][-1] == REPORT


async def test_two_browsers_see_the_same_and_one_goes_on_where_it_was(tmp_path: Path) -> None:
    async with (
        serve(scenario("one", "first"), scenario("two", "second")) as server,
        serve_session(server, tmp_path) as page,
    ):
        other = PageClient(page.session, page.page_server)
        await page.enter()
        await other.enter()
        async with page.events() as left, other.events() as right:
            async with page.chat("one") as chat:
                await chat.rest()
            for stream in (left, right):
                await stream.until("done")
            received = [(e.name, e.data, e.id) for e in left.received]
            assert received == [(e.name, e.data, e.id) for e in right.received]
        last = max(e.id for e in left.received if e.id is not None)
        async with other.chat("two") as chat:
            await chat.rest()
        async with page.events(after=last) as again, page.events() as whole:
            await again.until("done")
            await whole.until("user.said", text="two")
            await whole.until("done")
        assert min(e.id for e in again.received if e.id is not None) > last
        # What ended long ago is told by its end: a late browser gets no pieces, and the same words.
        assert [e.data["data"]["text"] for e in again.received if e.name == "reply.ended"] == ["second"]
        assert "first" not in [e.data["content"] for e in whole.received if e.name == "text"]
        late = [e.data["data"]["text"] for e in whole.received if e.name == "reply.ended"]
        assert late == ["first", "second"]
        await other.http.aclose()


async def test_an_approval_closed_elsewhere_closes_here(tmp_path: Path) -> None:
    write = scenario("go", step("", call("write_file", path="a.txt", content="a\n")), "done")
    async with serve(write) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        watch = SessionDriver(page.session, lambda event: None)
        async with page.events() as stream:
            await page.session.send("go")
            asked = await stream.until("approval.asked")
            inside = await watch.until_event(ApprovalRequested)
            assert inside.id == asked.data["data"]["id"]
            first, second = await asyncio.gather(
                page.post("/answer", id=inside.id, verdict="reject", text="not that"),
                page.post("/answer", id=inside.id, verdict="approve"),
            )
            assert sorted((first.status_code, second.status_code)) == [200, 409]
            settled = await stream.until("approval.answered", id=inside.id)
            answered = await watch.until_event(ApprovalAnswered)
            verdict = "reject" if first.status_code == 200 else "approve"
            assert settled.data["data"]["answer"]["verdict"] == answered.answer.verdict == verdict
            await stream.until("done")
    assert (tmp_path / "a.txt").exists() == (verdict == "approve")


async def test_clear_makes_the_model_forget(tmp_path: Path) -> None:
    first = scenario("remember the word plum", "I will.")
    async with (
        serve(first, scenario("which word", "None."), strict=True) as server,
        serve_session(server, tmp_path) as page,
    ):
        await page.enter()
        assert (await page.post("/clear")).json() == {"status": "ok"}, "nothing was said yet"
        async with page.chat("remember the word plum") as stream:
            await stream.rest()
        answer = await page.post("/clear")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        async with page.events() as stream:
            rewound = await stream.until("conversation.rewound")
            assert "history" not in rewound.data["data"]
        async with page.chat("which word") as stream:
            await stream.rest()
        history = str(server.requests[-1].messages)
    assert "plum" not in history and "which word" in history


@pytest.mark.parametrize(("path", "body"), [("/clear", {}), ("/chat", {"message": "/clear"})], ids=["button", "typed"])
async def test_clear_stops_what_goes_on_and_what_waits(tmp_path: Path, path: str, body: dict[str, str]) -> None:
    slow = scenario("long", step("word " * 400, pace=0.05))
    async with serve(slow) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.events() as stream:
            await page.http.post("/chat", json={"message": "long"}, headers={"Accept": "application/json"})
            await stream.until("text")
            queued = await page.http.post("/chat", json={"message": "later"}, headers={"Accept": "application/json"})
            assert (await page.post(path, **body)).status_code == 200
            await stream.until("message.withdrawn", id=queued.json()["id"])
            assert (await stream.until("run.ended")).data["data"]["outcome"] == "interrupted"
            await stream.until("conversation.rewound")
        assert not page.session.busy


async def test_a_browser_that_goes_away_mid_reply_stops_nothing(tmp_path: Path) -> None:
    slow = scenario("go", step("word " * 40 + "end", pace=0.01))
    async with serve(slow) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.chat("go") as stream:
            first = await stream.until("text")
        await page.session.wait()
        async with asyncio.timeout(30):
            while page.page_server.feed.readers:
                await page.http.get("/nothing")
        async with page.events(after=first.id) as stream:
            ended = await stream.until("run.ended")
        assert ended.data["data"]["outcome"] == "done"


async def test_modes_interrupt_shell_and_withdraw(tmp_path: Path) -> None:
    slow = scenario("long", step("word " * 400, pace=0.05))
    async with serve(slow) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.events() as stream:
            assert (await page.post("/modes", mode="plan", approval_mode="read-only")).status_code == 200
            changed = await stream.until("mode.changed", mode="plan")
            assert changed.data["data"]["approval_mode"] == "read-only"
            assert (await page.post("/modes", mode="nonsense")).status_code == 400
            await page.post("/modes", mode="direct", approval_mode="ask")
            assert (await page.post("/shell", command="echo from-the-shell")).status_code == 202
            ran = await stream.until("shell.ran")
            assert "from-the-shell" in ran.data["data"]["output"]
            await page.http.post("/chat", json={"message": "long"}, headers={"Accept": "application/json"})
            await stream.until("text")
            async with page.chat("later") as queued:
                waiting = await queued.until("message.queued")
                assert (await page.post("/withdraw", id=waiting.data["data"]["id"])).status_code == 200
                assert (await queued.rest())[-1].name == "done"
            assert (await page.post("/withdraw", id="m-none")).status_code == 409
            await page.post("/interrupt")
            assert (await stream.until("run.ended")).data["data"]["outcome"] == "interrupted"


async def test_the_end_of_the_session_ends_every_stream(tmp_path: Path) -> None:
    async with serve() as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.events() as stream:
            await stream.until("session.opened")
            await page.session.close()
            assert (await stream.rest())[-1].name == "session.closed"

"""On the page: keys of requests as on the screen, the menu of commands, and files after an @ (X4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import serve
from tests.doubles.page_session import AnsweredPageSession, FakePageSession
from tests.scenes import load
from tests.tui.edits import approval_records, edit_action, long_texts
from tests.web.kit import serve_fake_session, serve_session
from tests.web.test_composing import HeldRequest
from tests.web.windows import BROWSER_MARKS, BrowserPages, wait_for, wait_until_answerable
from tui_agent.common.domain import Grant, RunAction, Scope
from tui_agent.events import ApprovalRequested
from tui_agent.frontends.session_commands import SESSION_COMMANDS
from tui_agent.mentions.search import Mentions
from tui_agent.safety.roots import Roots

pytestmark = BROWSER_MARKS

GRANTS = tuple(Grant(kind="run", pattern="make", scope=scope) for scope in (Scope.SESSION, Scope.ALWAYS))
ASKED = ApprovalRequested(id="q1", digest="", why="", action=RunAction(command="make", cwd="/w"), grants=GRANTS)
AT = "document.activeElement.id || document.activeElement.className"
ROWS = "[...document.querySelectorAll('#completion .label')].map((each) => each.textContent)"


@pytest.mark.parametrize(("key", "scope"), [("a", Scope.ONCE), ("s", Scope.SESSION), ("A", Scope.ALWAYS)])
async def test_a_key_approves_as_on_the_screen(key: str, scope: Scope, pages: BrowserPages) -> None:
    session = AnsweredPageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        session.tell(ASKED)
        await page.wait_for_selector(f".request [data-key='{key}']")
        assert await page.evaluate(AT) == "request", "an empty message field leaves the focus to the request"
        await wait_until_answerable(page)
        await page.keyboard.press(key)
        answer = await session.next_answer()
        assert (answer.verdict, answer.scope) == ("approve", scope)
        await wait_for(page, f"({AT}) === 'message'")


async def test_keys_that_are_text_or_come_too_early_decide_nothing(pages: BrowserPages) -> None:
    session = AnsweredPageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.keyboard.type("a dr", delay=20)
        session.tell(ASKED)
        await page.wait_for_selector(".request")
        await page.keyboard.type("aft", delay=20)
        assert await page.input_value("#message") == "a draft", "who types goes on typing"
        await wait_until_answerable(page)
        await page.keyboard.press("a")
        await page.focus(".request")
        await page.wait_for_timeout(300)  # longer than a key is held; what must not happen can't be awaited
        await page.keyboard.type("as sai", delay=20)
        await page.wait_for_timeout(300)
        assert await page.input_value("#message") == "a draftaas sai"
        assert session.received == []
        await page.focus(".request")
        await page.wait_for_timeout(300)
        await page.keyboard.press("r")
        await wait_for(page, "document.activeElement.matches('.reason input')")
        await page.keyboard.type("aA no")
        await page.keyboard.press("Enter")
        answer = await session.next_answer()
        assert (answer.verdict, answer.text) == ("reject", "aA no")


async def test_the_key_shows_what_was_not_in_view_before_it_approves(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=approval_records(edit_action(*long_texts(60))))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".request [data-key='a']:disabled")
        await wait_for(page, "performance.now() - document.querySelector('.request').dataset.since > 410")
        before = await page.evaluate("document.querySelector('.diff-lines').scrollTop")
        await page.keyboard.press("a")
        await wait_for(page, f"document.querySelector('.diff-lines').scrollTop > {before}")
        assert session.received == []
        for _ in range(20):
            if await page.is_enabled(".request [data-key='a']"):
                break
            await page.keyboard.press("a")
            await page.wait_for_timeout(350)
        await page.keyboard.press("a")
        assert (await session.next_answer()).verdict == "approve"


@pytest.mark.parametrize(("keys", "text"), [(("Space", "q"), "a q"), (("Backspace",), ""), (("Escape",), "")])
async def test_a_held_key_is_text_or_dropped_if_another_key_follows(
    keys: tuple[str, ...], text: str, pages: BrowserPages
) -> None:
    session = AnsweredPageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        session.tell(ASKED)
        await wait_until_answerable(page)
        await page.clock.install()  # what must not happen can't be awaited, and a busy machine types slowly
        await page.clock.pause_at(await page.evaluate("Date.now() + 1000"))
        await page.focus(".request")
        await page.keyboard.press("a")
        for key in keys:
            await page.clock.run_for(120)  # ordinary typing
            await page.keyboard.press(key)
        await page.clock.run_for(400)
        assert session.received == []
        assert await page.input_value("#message") == text
        await page.focus(".request")
        await page.clock.run_for(1000)
        await page.keyboard.press("a")
        await page.mouse.click(400, 200)
        await page.clock.run_for(400)
        assert session.received == [], "a click drops it"
        await page.focus(".request")
        await page.clock.run_for(1000)
        await page.keyboard.press("a")
        await page.clock.run_for(400)
        assert (await session.next_answer()).verdict == "approve"


@pytest.mark.parametrize(("scene", "key"), [("plan_waits", "a"), ("summary_waits", "Control+s")])
async def test_a_plan_and_a_summary_are_approved_only_after_they_were_in_sight(
    scene: str, key: str, pages: BrowserPages
) -> None:
    session = AnsweredPageSession(records=load(scene))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link(), size=(1000, 420))
        await page.wait_for_selector(".request button.primary:disabled")
        await wait_for(page, "performance.now() - document.querySelector('.request').dataset.since > 410")
        await page.focus(".request")
        await page.wait_for_timeout(300)
        await page.keyboard.press(key)
        await page.wait_for_timeout(400)
        assert session.received == []
        await wait_until_answerable(page)
        await page.wait_for_selector(".request button.primary:enabled")
        if key == "Control+s":
            await page.focus("#message")
            await page.keyboard.press(key)
            assert session.received == [], "in the composer it accepts nothing"
        await page.focus(".request")
        await page.wait_for_timeout(300)
        await page.keyboard.press(key)
        assert (await session.next_answer()).verdict == "approve"


async def test_plan_and_conflict_have_their_keys(pages: BrowserPages) -> None:
    for scene, key, expected in (("plan_unsure", "a", "approve"), ("plan_conflict", "t", "approve")):
        session = AnsweredPageSession(records=load(scene))
        async with serve_fake_session(session) as client:
            page = await pages.open(client.page_server.link())
            await wait_until_answerable(page)
            await page.wait_for_selector(f".request [data-key='{key}']")
            await page.keyboard.press(key)
            assert (await session.next_answer()).verdict == expected
            await page.goto("about:blank")


async def test_the_menu_of_commands(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.focus("#message")
        await page.keyboard.type("/")
        await page.wait_for_selector("#completion li >> nth=5")
        names = await page.evaluate(ROWS)
        assert "/undo" in names and "/settings" not in names, "what only the screen can do is not offered"
        assert {name[1:] for name in names} >= set(SESSION_COMMANDS) - {"status"}
        await page.keyboard.type("mo")
        assert (await page.evaluate(ROWS))[:2] == ["/mode", "/model"]
        assert await page.get_attribute("#message", "aria-activedescendant") == "completion-0"
        await page.keyboard.press("Enter")
        assert await page.input_value("#message") == "/mode "
        await page.keyboard.type("pl")
        assert await page.evaluate(ROWS) == ["plan"]
        async with page.expect_response("**/chat"):
            await page.keyboard.press("Enter")
        await wait_for(page, "document.getElementById('message').value === ''")
        assert session.done == [("modes", "plan", None)]
        await page.keyboard.type("/the")
        await page.keyboard.press("Escape")
        assert not await page.is_visible("#completion") and await page.input_value("#message") == "/the"
        assert session.done == [("modes", "plan", None)], "esc closes the list and stops nothing"
        await page.keyboard.type("m")
        await page.click("#completion li >> nth=0")
        await page.click("#completion .label:text-is('light')")
        assert await page.get_attribute("html", "data-theme") == "light"


async def test_files_are_completed_after_an_at_sign(tmp_path: Path, pages: BrowserPages) -> None:
    for name in ("docs/guide.md", "docs/my notes.md", "tui_agent/guard.py", "node_modules/guide/x.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    session = FakePageSession()
    session.mentions = Mentions(Roots((tmp_path,)))  # type: ignore[attr-defined]  # only some sessions have files
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.focus("#message")
        await page.keyboard.type("🙂 read @gui")
        await wait_for(page, f"({ROWS}).includes('docs/guide.md')")
        assert not any("node_modules" in name for name in await page.evaluate(ROWS))
        await page.keyboard.press("Enter")
        await wait_for(page, "document.getElementById('message').value === '🙂 read @docs/guide.md '")
        await page.keyboard.type("and @notes")
        await wait_for(page, f"({ROWS})[0] === 'docs/my notes.md'")
        await page.keyboard.press("Tab")
        assert await page.input_value("#message") == '🙂 read @docs/guide.md and @"docs/my notes.md" '
        async with page.expect_response("**/chat"):
            await page.keyboard.press("Enter")
        await wait_for(page, "document.getElementById('message').value === ''")
        assert session.done == [("send", '🙂 read @docs/guide.md and @"docs/my notes.md"')]
        await page.keyboard.type("mail me@gui")
        async with page.expect_response("**/chat"):
            await page.keyboard.press("Enter")
        await wait_for(page, "document.getElementById('message').value === ''")
        assert session.done[-1] == ("send", "mail me@gui")
        await session.mentions.close()  # type: ignore[attr-defined]  # see above


async def test_a_held_enter_is_forgotten_with_the_text_it_was_for(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        answers: list[HeldRequest] = []

        async def hold(route: Any) -> None:
            answers.append(HeldRequest())
            await answers[-1](route)

        found = {"status": 200, "json": {"start": 5, "names": [{"name": "src/", "text": "@src/"}]}}
        await page.route("**/mention", hold)
        await page.focus("#message")

        async def answer_all(count: int) -> None:
            for index in range(count):
                while len(answers) <= index:
                    await page.wait_for_timeout(20)
                if not answers[index].response.done():
                    answers[index].response.set_result(found)

        await page.keyboard.type("look @s")
        await answer_all(2)
        await page.wait_for_selector("#completion li")
        await page.keyboard.type("r")
        await wait_for(page, "document.getElementById('message').value === 'look @sr'")
        await page.keyboard.press("Enter")
        await page.keyboard.type("zz and then do")
        count = len(answers)
        await answer_all(count)
        await page.wait_for_timeout(300)
        await answer_all(len(answers))
        await page.wait_for_timeout(300)
        assert session.done == []
        assert await page.input_value("#message") == "look @srzz and then do"
        await page.fill("#message", "")
        count = len(answers)
        await page.keyboard.type("look @s")
        await answer_all(count + 2)
        await page.wait_for_selector("#completion li")
        count = len(answers)
        await page.keyboard.type("r")
        while len(answers) == count:
            await page.wait_for_timeout(20)
        await page.keyboard.press("Escape")
        await answer_all(len(answers))
        await page.wait_for_timeout(300)
        assert not await page.is_visible("#completion"), "the list that was closed does not open by itself"


async def test_files_are_listed_only_for_who_was_let_in(tmp_path: Path) -> None:
    (tmp_path / "secret-plan.txt").write_text("x\n", encoding="utf-8")
    async with serve(strict=True) as server, serve_session(server, tmp_path) as page:
        answer = await page.http.post("/mention", json={"before": "@sec"})
        assert answer.status_code == 401 and "secret-plan" not in answer.text
        await page.enter()
        answer = await page.http.post("/mention", json={"before": "@sec"})
        assert [each["text"] for each in answer.json()["names"]] == ["@secret-plan.txt"]
        assert (await page.http.post("/mention", json={"before": "no"})).json()["start"] == -1

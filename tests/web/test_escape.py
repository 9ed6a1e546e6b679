"""On the page: Esc and Ctrl+S as on the screen, the help, and what a request says before it is decided (X4)."""

from __future__ import annotations

import pytest

from tests.doubles.page_session import AnsweredPageSession, FakePageSession
from tests.scenes import load
from tests.tui.edits import approval_records, edit_action, long_texts
from tests.web.kit import serve_fake_session
from tests.web.windows import BROWSER_MARKS, BrowserPages, screenshot, wait_for, wait_until_answerable
from tui_agent.common.domain import Grant, Mode, RunAction, Scope
from tui_agent.events import ApprovalRequested, ModeChanged, RunEnded, RunStarted, SummaryProposed, SummaryReviewed
from tui_agent.frontends.web import app
from tui_agent.frontends.web.choices import typing_data

pytestmark = BROWSER_MARKS

GRANTS = tuple(Grant(kind="run", pattern="make", cwd="/w", scope=scope) for scope in (Scope.SESSION, Scope.ALWAYS))
EDIT_GRANTS = (
    Grant(kind="edit", pattern="src/export.py", scope=Scope.SESSION),
    Grant(kind="edit", pattern="src/*.py", scope=Scope.ALWAYS),
)
ASKED = ApprovalRequested(id="q1", digest="", why="", action=RunAction(command="make", cwd="/w"), grants=GRANTS)
STARTED = RunStarted(message_id="m1", mode="agent", model="m")
AT = "document.activeElement.id || document.activeElement.className"
FIRST_CHANGE_IN_VIEW = """() => {
  const row = document.querySelector('.request .row.plus, .request .row.minus').getBoundingClientRect();
  const body = document.querySelector('.request .request-body').getBoundingClientRect();
  const button = document.querySelector('.request button.approve').getBoundingClientRect();
  return row.height > 0 && row.top >= body.top && row.bottom <= Math.min(body.bottom, button.top)
    && button.bottom <= innerHeight;
}"""


@pytest.mark.parametrize("key", ["Control+s", "Control+Enter"])
async def test_a_key_accepts_a_summary_wherever_its_focus_is(key: str, pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("summary_waits"))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await wait_until_answerable(page)
        assert (await page.evaluate(AT)).startswith("request")
        await page.keyboard.press(key)
        assert (await session.next_answer()).verdict == "approve"
        was_prevented = (
            "window.wasPrevented = null; addEventListener('keydown', (e) => { wasPrevented = e.defaultPrevented; })"
        )
        await page.evaluate(was_prevented)
        await page.keyboard.press("Control+s")
        assert await page.evaluate("window.wasPrevented"), "the browser's dialog stays closed afterwards, too"


async def test_esc_leaves_a_summary_before_it_stops_the_run_and_says_so(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("summary_waits"))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await wait_until_answerable(page)
        await page.click(".request textarea >> nth=0")
        await page.keyboard.press("Escape")
        assert (await page.evaluate(AT)).startswith("request")
        await page.keyboard.press("Escape")
        assert await page.evaluate(AT) == "message"
        assert session.done == [], "nothing was stopped"
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#activity >> text=Stopped.")
        assert session.done == ["interrupt"]


@pytest.mark.parametrize("key", ["F1", "?"])
async def test_help_opens_over_a_request_and_esc_only_closes_it(key: str, pages: BrowserPages) -> None:
    session = AnsweredPageSession(STARTED, ASKED)
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await wait_until_answerable(page)
        await page.wait_for_selector(".request [data-key='a']")
        await page.keyboard.press(key)
        await page.wait_for_selector("dialog.help >> text=approve for this session")
        await page.wait_for_selector("dialog.help >> text=/undo")
        await screenshot(page, f"help-{key}")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("dialog.help", state="detached")
        assert session.done == [] and session.received == []
        assert (await page.evaluate(AT)).startswith("request")
        await page.focus("#message")
        await page.keyboard.type("what?")
        assert await page.input_value("#message") == "what?"


async def test_esc_in_an_approval_leaves_the_reason_and_then_stops(pages: BrowserPages) -> None:
    session = AnsweredPageSession(STARTED, ASKED)
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await wait_until_answerable(page)
        await page.wait_for_selector(".request >> text=Esc stops the run")
        await page.click("[data-action=reject]")
        await page.keyboard.type("no")
        await page.keyboard.press("Escape")
        await wait_for(page, "document.activeElement.dataset.action === 'reject'")
        assert session.done == []
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#activity >> text=Stopped.")
        assert session.done == ["interrupt"] and session.received == []


async def test_esc_closes_the_plan_on_a_small_screen_before_it_stops_the_run(pages: BrowserPages) -> None:
    session = FakePageSession(STARTED)
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link(), size=(700, 800))
        await page.click("#show-plan")
        await page.focus("#message")
        await page.keyboard.press("Escape")
        await wait_for(page, "!document.body.classList.contains('with-plan')")
        assert session.done == []
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#activity >> text=Stopped.")
        assert session.done == ["interrupt"]


async def test_a_stopped_run_without_a_time_shows_none(pages: BrowserPages) -> None:
    session = FakePageSession(STARTED, RunEnded(outcome="interrupted", tool_calls=3))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".outcome")
        assert await page.text_content(".outcome") == "Stopped · 3 tool calls"


async def test_an_approval_says_what_each_scope_allows(pages: BrowserPages) -> None:
    session = AnsweredPageSession(STARTED, ASKED)
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".grant")
        texts = await page.locator(".grant p").all_text_contents()
        assert texts == [
            f"“{name}” allows exactly the command above in this folder" for name in ("For this session", "Always")
        ]


async def test_a_plan_shows_its_confidence_and_labels(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("plan_waits"))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".request-head .confidence >> text=/^confidence \\d+%$/")
        assert all(text.startswith(("Expect: ", "If it fails: ")) for text in
                   await page.locator(".request .expected").all_text_contents())  # fmt: skip
        await screenshot(page, "plan-confidence")


async def test_modes_have_the_names_of_the_screen(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector("#approvals option[title]:not([title=''])", state="attached")
        names = "[...document.querySelectorAll('#approvals option')].map((each) => each.firstChild.textContent)"
        assert await page.evaluate(names) == ["ask", "auto-edit", "auto", "read-only"]
        explained = "document.querySelector('#approvals option[value=ask] small')?.textContent ?? ''"
        assert "edits need approval" in await page.evaluate(explained)
        await page.click("#approvals")
        await page.wait_for_timeout(300)
        await screenshot(page, "approval-modes")
        await page.keyboard.press("Escape")
        assert session.done == []


async def test_the_modes_are_those_of_the_server(pages: BrowserPages, monkeypatch: pytest.MonkeyPatch) -> None:
    data = typing_data()
    for command in data["commands"]:
        if command["name"] == "approvals":
            command["arguments"] = {"careful": "everything needs approval", **command["arguments"]}
    monkeypatch.setattr(app, "typing_data", lambda: data)
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector("#approvals option[value=careful]", state="attached")
        await wait_for(page, "document.getElementById('approvals').value === 'ask'")
        assert await page.locator("#mode option").evaluate_all("each => each.map(({ value }) => value)") == [*Mode]
        session.tell(ModeChanged(mode="deep-explore", approval_mode="read-only"))
        await wait_for(page, "document.getElementById('approvals').value === 'read-only'")
        assert await page.input_value("#mode") == "deep-explore"
        shown = await page.locator(".picker selectedcontent").evaluate_all("each => each.map((one) => one.innerText)")
        assert shown == ["deep-explore", "read-only"], "without the explanations"


async def test_a_phone_shows_changed_lines_and_choices_with_their_rules(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=approval_records(edit_action(), *EDIT_GRANTS))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link(), size=(390, 844))
        await page.wait_for_selector(".request .row.plus")
        assert await page.evaluate(FIRST_CHANGE_IN_VIEW)
        nested = "[...document.querySelectorAll('.request .diff-lines')].some((each) => each.scrollHeight > each.clientHeight + 1)"
        assert not await page.evaluate(nested)
        assert "“Always” allows edit src/*.py" in await page.locator(".grant p").all_text_contents()
        await screenshot(page, "phone-edit-rules")


async def test_a_phone_shows_the_changed_lines_at_once(pages: BrowserPages) -> None:
    old, _ = long_texts(60)
    session = AnsweredPageSession(records=approval_records(edit_action(old, old.replace("\n", "\n", 1) + "last = 1\n")))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link(), size=(390, 844))
        await wait_for(
            page, "performance.now() - (document.querySelector('.request')?.dataset.since ?? Infinity) > 410"
        )
        assert await page.evaluate(FIRST_CHANGE_IN_VIEW)
        await screenshot(page, "phone-edit")
        await page.click(".lead-button button")
        await wait_for(page, "!document.querySelector('.row.lead')")


async def test_a_postponed_summary_is_not_lost_silently(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("summary_waits"))
    request = next(record.event for record in session.records if isinstance(record.event, SummaryProposed))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.wait_for_selector(".request")
        session.tell(SummaryReviewed(id=request.id, outcome="pending", summary=request.summary))
        await page.wait_for_selector(".notice >> text=Summary postponed · offered again at the next start")
        assert await page.locator(".request").count() == 0

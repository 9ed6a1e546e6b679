from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import AnsweredPageSession
from tests.doubles.planted import BY_FORMAT
from tests.scenes import load
from tests.tui.edits import GRANTS, approval_records, edit_action
from tests.web.kit import PageClient, serve_fake_session, serve_session
from tests.web.windows import BROWSER_MARKS, BrowserPages, screenshot, wait_for, wait_until_answerable
from tui_agent.common.domain import Answer, Scope
from tui_agent.common.workplan import Alternative, CriterionChange, DecisionNote, Summary
from tui_agent.events import (
    Notice,
    PlanDocChanged,
    PlanProposed,
    PlanReviewed,
    QuestionAsked,
    SummaryProposed,
    SummaryReviewed,
)

pytestmark = BROWSER_MARKS

PHONE = (390, 844)
SMALL_BUTTONS = """[...document.querySelectorAll('.request button')].filter((one) => one.offsetParent).map((one) => [
    one.textContent.slice(0, 30), ...["width", "height", "right"].map((name) => one.getBoundingClientRect()[name])
]).filter(([_, width, height, right]) => width < 32 || height < 32 || right > innerWidth)"""
SPACE_ABOVE_BUTTONS = """document.querySelector('.request').clientHeight
    - document.querySelector('.choices.foot').getBoundingClientRect().height"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def notice(text: str) -> Notice:
    return Notice(level="info", text=text, code="test")


async def tell_and_wait(page: Any, session: AnsweredPageSession, text: str) -> None:
    """Send another event and wait until the page shows it."""
    session.tell(notice(text))
    await page.wait_for_selector(f".notice >> text={text}")


def drop_connections(page: PageClient) -> None:
    """Break every connection."""
    server = page.page_server._server
    for connection in tuple(server.server_state.connections):
        connection.transport.abort()


async def test_a_summary_is_corrected_in_place_and_nothing_typed_is_lost(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("summary_waits"))
    offered = session.records[-1].event
    assert isinstance(offered, SummaryProposed)
    summary = offered.summary
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        other = await pages.open(client.page_server.link(), size=PHONE, look="light")
        details = page.get_by_label("Details", exact=True)
        await page.get_by_label("Action", exact=True).focus()
        await page.keyboard.press("Enter")  # goes on, and never accepts
        assert await details.evaluate("one => one === document.activeElement")
        await details.fill("Corrected,\nby hand")
        await page.get_by_label(summary.criteria[0].description).uncheck()
        await page.get_by_label("Decision 1", exact=True).fill("Another array")
        await page.get_by_label("Kind of decision 2").select_option(label="Decided")
        await page.click("text=Add a decision")
        await page.keyboard.type("A third")
        await other.get_by_label("Result", exact=True).fill("✓ typed elsewhere")
        assert await other.evaluate(OVERFLOW) <= 0

        # What else happens, a broken connection and a reload leave all of it where it is.
        session.tell(QuestionAsked(id="q", question="Which?", options=("a",)))
        await page.wait_for_selector(".waiting")
        assert await page.evaluate("document.activeElement.value") == "A third"
        drop_connections(client)
        await tell_and_wait(page, session, "it came back")
        assert await details.input_value() == "Corrected,\nby hand"
        await screenshot(page, "edit-summary-dark")
        await screenshot(other, "edit-summary-phone-light")
        await page.reload()
        await page.wait_for_selector("text=Accept as edited")
        await wait_until_answerable(page)
        await details.press("Control+Enter")
        answer_data = ((await session.next_answer()).data or {})["summary"]
        assert answer_data["action"] == summary.action and answer_data["details"] == "Corrected,\nby hand"
        assert answer_data["criteria"][0]["completed"] is False and answer_data["tools"] == summary.tools
        titles = [decision["title"] for decision in answer_data["decisions_made"]]
        assert titles == ["Another array", summary.decisions_rejected[0].title, "A third"]
        assert not answer_data["decisions_rejected"]

        # The other browser had typed too: its words stay to be copied until they are put away.
        session.tell(SummaryReviewed(id="s1", outcome="edited", summary=summary))
        await other.wait_for_selector(".unsent")
        assert "decided elsewhere" in await other.inner_text(".unsent")
        assert await other.input_value(".unsent textarea") == "Result: ✓ typed elsewhere"
        await screenshot(other, "edit-leftover-phone-light")
        await other.reload()
        await other.click(".unsent >> text=Dismiss")
        await other.reload()
        await other.wait_for_selector("text=Which?")
        assert not await other.locator(".unsent").count()
        assert not await page.locator(".unsent").count()
    pages.messages[:] = [
        message for message in pages.messages if "net::ERR_" not in message
    ]  # the connections that broke


async def test_a_summary_is_discarded_by_a_second_click_only(pages: BrowserPages) -> None:
    bad = "<img src=x onerror=window.pwned=1>"
    note = DecisionNote(title=bad, rationale=bad)
    summary = Summary(action=bad, details=bad, criteria=(CriterionChange(description=bad),), decisions_made=(note,))
    session = AnsweredPageSession(SummaryProposed(id="s", summary=summary))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        assert await page.get_by_label("Details", exact=True).input_value() == bad
        assert bad in await page.inner_text(".criteria") and not await page.locator("img").count()
        await page.get_by_label("Action", exact=True).fill(" ")
        await wait_until_answerable(page)
        await page.click("text=Accept as edited")
        assert await page.get_attribute(":focus", "aria-invalid") == "true"
        await page.click("text=Reset")
        await page.dblclick(".request >> text=Discard")
        await page.wait_for_selector("text=Discard it?")
        await page.keyboard.press("Shift+Tab")  # whoever goes on to something else did not mean it
        await page.wait_for_selector("button:text-is('Discard')")
        assert not session.received
        await page.click("button:text-is('Discard')")
        shown_at = await page.evaluate("performance.now()")
        await wait_for(page, f"performance.now() > {shown_at} + 410")
        await page.click("text=Discard it?")
        answer = await session.next_answer()
        assert (answer.verdict, answer.data) == ("reject", None)

        # Who is second keeps the words too.
        session.takes = False
        session.tell(SummaryProposed(id="late", summary=summary))
        await page.get_by_label("Result", exact=True).fill("✓ late")
        await wait_until_answerable(page)
        await page.click("text=Accept as edited")
        await page.wait_for_selector(".unsent")
        assert await page.input_value(".unsent textarea") == "Result: ✓ late"

        # A plan with secrets is shown as it is when that is asked for, and never kept by the browser.
        secret = BY_FORMAT["github"]
        session.tell(PlanDocChanged(text=f"# Plan\n\n## Goal\nuse {secret}\n", by="editor", sha256="0" * 64))
        await page.wait_for_selector(".plan-document")
        assert secret not in await page.content()
        await page.click("#edit-plan")
        await page.click("text=Show and edit")
        field = page.get_by_label("Text of plan_doc.md")
        assert secret in await field.input_value()
        await field.press_sequentially("x")
        assert secret not in await page.evaluate("JSON.stringify(sessionStorage)")
        text = "---\nversion: 2\n---\n# Plan\n\n## Goal\nuse\nversion: 9\n"
        session.tell(PlanDocChanged(text=text, by="review", sha256="1" * 64, pending=True))
        await page.wait_for_selector(".proposal .plus >> text=version: 9")  # what looks like a count is shown
        assert not await page.locator(".proposal .plus >> text=version: 2").count()
    pages.messages[:] = [message for message in pages.messages if "409" not in message]  # the answer that came second


async def test_the_steps_of_a_plan_are_reworded_moved_left_out_and_added(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=load("plan_unsure"))
    proposed = session.records[-1].event
    assert isinstance(proposed, PlanProposed) and len(proposed.plan.steps) == 2
    first, second = proposed.plan.steps
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link(), size=PHONE)
        await page.click("text=Edit steps")
        await page.get_by_label("Step 1", exact=True).fill("Read it closely")
        await page.keyboard.press("Alt+ArrowDown")
        await wait_for(page, "document.activeElement.value === 'Read it closely'")
        assert await page.get_by_label("Step 2", exact=True).input_value() == "Read it closely"
        await page.get_by_label("Remove: " + second.description[:20]).click()
        await page.wait_for_selector("s")
        await page.click("text=Add a step")
        await page.keyboard.type("Tell the user")
        await page.get_by_label("Check", exact=True).fill("make test")
        await screenshot(page, "edit-plan-phone-dark")
        assert await page.evaluate(OVERFLOW) <= 0
        await page.reload()
        assert await page.get_by_label("Step 2", exact=True).input_value() == "Tell the user"
        await page.click("text=Restore")
        await page.get_by_label("Move up: Tell the user").click()
        await wait_until_answerable(page)
        field = page.get_by_label("Step 2", exact=True)
        await field.fill("word " * 900)
        await page.click("text=Approve as edited")
        await page.wait_for_selector("#activity >> text=“Step 2” has 4,500 characters; shorten it to 4,000 at most.")
        assert await field.get_attribute("aria-invalid") == "true" and not session.received
        assert await field.evaluate("one => one === document.activeElement")
        await screenshot(page, "edit-too-long-phone-dark")
        await field.fill("Tell the user")
        await page.click("text=Approve as edited")
        answer_data = ((await session.next_answer()).data or {})["plan"]
        steps = [(step["number"], step["description"], step["tool"]) for step in answer_data["steps"]]
        assert steps == [
            (1, second.description, second.tool),
            (2, "Tell the user", ""),
            (3, "Read it closely", first.tool),
        ]
        assert answer_data["check"]["command"] == "make test"
        session.tell(PlanReviewed(id=proposed.id, answer=Answer(verdict="approve"), plan=proposed.plan, edited=True))
        await page.wait_for_selector(".plan-card")

        # A plan that is only another way on, and one that nobody may approve by accident, is asked about as well.
        session.tell(PlanProposed(id="again", plan=proposed.plan, asks=True, fallback=True, recovery=True))
        await page.wait_for_selector("text=No valid plan was produced")
        await wait_until_answerable(page)
        await page.click(".request >> text=Reject")
        await page.keyboard.type("not so")
        await page.keyboard.press("Enter")
        answer = await session.next_answer()
        assert (answer.verdict, answer.text, answer.data) == ("reject", "not so", None)


async def hold_key(page: Any, key: str) -> None:
    for _ in range(3):
        await page.keyboard.down(key)
    await page.keyboard.up(key)


async def test_held_keys_decide_nothing_and_long_texts_leave_room_to_decide(pages: BrowserPages) -> None:
    proposed = load("plan_unsure")[-1].event
    assert isinstance(proposed, PlanProposed)
    alternatives = (Alternative(approach="W" * 2_000), Alternative(approach="many words " * 300))
    long = PlanProposed(id="p", plan=replace(proposed.plan, alternatives=alternatives), asks=True, why="y" * 400)
    session = AnsweredPageSession(long)
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link(), size=PHONE)
        await page.fill("#message", "not said yet")
        await wait_until_answerable(page)
        assert await page.evaluate(SMALL_BUTTONS) == [] and await page.evaluate(SPACE_ABOVE_BUTTONS) > 300
        await page.focus(".request >> text=Reject")
        await hold_key(page, "Enter")  # repeated keys press nothing
        await page.click(".request >> text=Reject")
        await page.keyboard.type("do it otherwi")
        await page.reload()
        await page.get_by_label("What should be different?").press("End")
        await page.keyboard.type("se")
        await page.click("text=Edit steps")
        await page.get_by_label("Check", exact=True).fill("make")
        await page.keyboard.press("Enter")  # nothing is behind it but what decides
        assert await page.evaluate(SMALL_BUTTONS) == [] and not session.received
        session.tell(PlanReviewed(id="p", answer=Answer(verdict="approve"), plan=proposed.plan))
        await page.wait_for_selector(".unsent")
        assert await page.input_value(".unsent textarea") == "Check: make\n\ndo it otherwise"
        await page.click("text=Dismiss")

        notes = (DecisionNote(title="A"), DecisionNote(title="B"))
        session.tell(SummaryProposed(id="s", summary=Summary(action="Did it", decisions_made=notes)))
        await page.click("[aria-label='Remove decision 1']")
        await page.click("text=Add a decision")
        await page.keyboard.type("C")
        assert await page.get_by_label("Decision 1", exact=True).input_value() == "B"
        assert await page.get_by_label("Decision 2", exact=True).input_value() == "C"
        await page.dblclick("button:text-is('Reset')")
        await page.set_viewport_size({"width": 390, "height": 500})  # with its keyboard out
        await page.get_by_label("Action", exact=True).fill("")
        await page.keyboard.press("Control+Enter")
        await page.wait_for_selector("#activity >> text=Enter what was done")
        await page.focus(".request >> text=Discard")
        await wait_until_answerable(page)
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".request .armed")
        await hold_key(page, "Enter")
        pressed = await page.evaluate("performance.now()")
        await wait_for(page, f"performance.now() > {pressed} + 410")
        assert not session.received
        await page.keyboard.press("Enter")
        assert (await session.next_answer()).verdict == "reject" and len(session.received) == 1
        session.tell(SummaryReviewed(id="s", outcome="discarded", summary=Summary(action="Did it")))
        session.tell(SummaryProposed(id="t", summary=Summary(action="Did more")))
        await page.wait_for_selector("textarea >> text=Did more")
        await page.set_viewport_size({"width": 1280, "height": 800})
        await wait_until_answerable(page)
        await page.get_by_label("Action", exact=True).focus()
        await page.keyboard.down("Control")
        await page.keyboard.down("Enter")
        assert (await session.next_answer()).verdict == "approve"
        session.tell(SummaryReviewed(id="t", outcome="accepted", summary=Summary(action="Did more")))
        await wait_for(page, "document.activeElement.id === 'message'")
        await page.keyboard.down("Enter")
        assert await page.input_value("#message") == "not said yet" and len(session.received) == 2
        assert [call for call in session.done if call[0] == "send"] == []


async def test_parts_of_an_edit_are_chosen(pages: BrowserPages) -> None:
    session = AnsweredPageSession(records=approval_records(edit_action(), *GRANTS))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        parts = page.locator(".row.hunk input")
        await page.wait_for_selector(".row.hunk >> text=part 2 of 2")
        assert await parts.count() == 2
        await parts.nth(0).focus()
        await page.keyboard.press("Space")
        await page.wait_for_selector("text=Approve 1 of 2")
        assert not await page.is_visible("text=For this session")
        assert await page.locator(".row.skipped").count() > 3
        await screenshot(page, "edit-parts-dark")
        await page.set_viewport_size({"width": 320, "height": 568})
        assert await page.evaluate(OVERFLOW) <= 0
        await screenshot(page, "edit-parts-320")
        await parts.nth(1).uncheck()
        assert await page.is_disabled("text=Approve 0 of 2")
        await parts.nth(1).check()
        await wait_until_answerable(page)
        await page.click("text=Approve 1 of 2")
        answer = await session.next_answer()
        assert answer.data == {"hunks": [1], "edits": {}} and answer.scope == Scope.ONCE


async def test_the_plan_document_is_edited_beside_what_others_do_to_it(tmp_path: Path, pages: BrowserPages) -> None:
    propose = scenario("look", step("", call("update_plan", criteria_added=["Proposed"])), "Proposed it.")
    async with serve(propose) as server, serve_session(server, tmp_path, flags={"mode": "plan"}) as client:
        session, doc = client.session, client.session.folder / "plan_doc.md"
        page = await pages.open(client.page_server.link())
        await page.click("#edit-plan")
        field = page.get_by_label("Text of plan_doc.md")
        original = await field.input_value()
        edited = original.replace("[User will provide goal]", "Mine").rstrip("\n") + "\n\n## Notes\nby hand\n"
        await field.fill(edited)
        await page.reload()
        assert await field.input_value() == edited, "what was typed is still there"
        await field.press("Control+s")
        await page.wait_for_selector(".plan-document >> text=Mine")
        assert "## Notes\nby hand" in doc.read_text("utf-8")

        await page.click("#edit-plan")
        text = await field.input_value()
        await field.fill(text.replace("\nMine\n", "\nMine again\n"))
        assert await session.edit_plan(text.replace("\nMine\n", "\nTheirs\n"))
        await page.wait_for_selector(".document-note >> text=changed elsewhere")
        await screenshot(page, "edit-doc-dark")
        await page.set_viewport_size({"width": 320, "height": 568})
        assert await page.evaluate(OVERFLOW) <= 0
        await screenshot(page, "edit-doc-320")
        await page.click("button:text-is('Save')")
        await page.wait_for_selector(".request .sides")
        await wait_until_answerable(page)
        await page.click(".request >> text=Keep both")  # the panel titles room for it
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.wait_for_selector(".unsent >> text=merged")
        assert "Mine again" in await page.input_value(".unsent textarea")
        assert "Theirs" in doc.read_text("utf-8") and "Mine again" in doc.read_text("utf-8")
        await page.click(".unsent >> text=Dismiss")

        await session.send("look")
        await page.wait_for_selector(".proposal .plus >> text=Proposed")
        await screenshot(page, "edit-proposal-dark")
        assert "Proposed" not in doc.read_text("utf-8")
        await page.click(".proposal >> text=Accept")
        await page.wait_for_selector(".plan-document >> text=Proposed")
        assert not await page.locator(".proposal").count() and "Proposed" in doc.read_text("utf-8")

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import AnsweredPageSession
from tests.doubles.planted import SHAPED
from tests.scenes import load
from tests.tui.edits import GRANTS, asked, editing
from tests.web.kit import Served, faced, served
from tests.web.windows import IN_BROWSER, Pages, shot, still, when
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

pytestmark = IN_BROWSER

PHONE = (390, 844)
SMALL = """[...document.querySelectorAll('.request button')].filter((one) => one.offsetParent).map((one) => [
    one.textContent.slice(0, 30), ...["width", "height", "right"].map((name) => one.getBoundingClientRect()[name])
]).filter(([_, width, height, right]) => width < 32 || height < 32 || right > innerWidth)"""
ROOM = """document.querySelector('.request').clientHeight
    - document.querySelector('.choices.foot').getBoundingClientRect().height"""
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def notice(text: str) -> Notice:
    return Notice(level="info", text=text, code="test")


async def told(page: Any, door: AnsweredPageSession, text: str) -> None:
    """Something else happens, and the page has taken it in."""
    door.tell(notice(text))
    await page.wait_for_selector(f".notice >> text={text}")


def cut_off(page: Served) -> None:
    """Every connection breaks."""
    server = page.serving._server
    for connection in tuple(server.server_state.connections):
        connection.transport.abort()


async def test_a_summary_is_corrected_in_place_and_nothing_typed_is_lost(pages: Pages) -> None:
    door = AnsweredPageSession(records=load("summary_waits"))
    offered = door.records[-1].event
    assert isinstance(offered, SummaryProposed)
    summary = offered.summary
    async with faced(door) as one:
        page = await pages.open(one.serving.link())
        other = await pages.open(one.serving.link(), size=PHONE, look="light")
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
        assert await other.evaluate(WIDE) <= 0

        # What else happens, a broken connection and a reload leave all of it where it is.
        door.tell(QuestionAsked(id="q", question="Which?", options=("a",)))
        await page.wait_for_selector(".waiting")
        assert await page.evaluate("document.activeElement.value") == "A third"
        cut_off(one)
        await told(page, door, "it came back")
        assert await details.input_value() == "Corrected,\nby hand"
        await shot(page, "edit-summary-dark")
        await shot(other, "edit-summary-phone-light")
        await page.reload()
        await page.wait_for_selector("text=Accept as edited")
        await still(page)
        await details.press("Control+Enter")
        given = ((await door.next_answer()).data or {})["summary"]
        assert given["action"] == summary.action and given["details"] == "Corrected,\nby hand"
        assert given["criteria"][0]["completed"] is False and given["tools"] == summary.tools
        made = [decision["title"] for decision in given["decisions_made"]]
        assert made == ["Another array", summary.decisions_rejected[0].title, "A third"]
        assert not given["decisions_rejected"]

        # The other browser had typed too: its words stay to be copied until they are put away.
        door.tell(SummaryReviewed(id="s1", outcome="edited", summary=summary))
        await other.wait_for_selector(".leftover")
        assert "decided elsewhere" in await other.inner_text(".leftover")
        assert await other.input_value(".leftover textarea") == "Result: ✓ typed elsewhere"
        await shot(other, "edit-leftover-phone-light")
        await other.reload()
        await other.click(".leftover >> text=Dismiss")
        await other.reload()
        await other.wait_for_selector("text=Which?")
        assert not await other.locator(".leftover").count()
        assert not await page.locator(".leftover").count()
    pages.said[:] = [one for one in pages.said if "net::ERR_" not in one]  # the connections that broke


async def test_a_summary_is_discarded_by_a_second_click_only(pages: Pages) -> None:
    bad = "<img src=x onerror=window.pwned=1>"
    note = DecisionNote(title=bad, rationale=bad)
    summary = Summary(action=bad, details=bad, criteria=(CriterionChange(description=bad),), decisions_made=(note,))
    door = AnsweredPageSession(SummaryProposed(id="s", summary=summary))
    async with faced(door) as one:
        page = await pages.open(one.serving.link())
        assert await page.get_by_label("Details", exact=True).input_value() == bad
        assert bad in await page.inner_text(".ticks") and not await page.locator("img").count()
        await page.get_by_label("Action", exact=True).fill(" ")
        await still(page)
        await page.click("text=Accept as edited")
        assert await page.get_attribute(":focus", "aria-invalid") == "true"
        await page.click("text=Reset")
        await page.dblclick(".request >> text=Discard")
        await page.wait_for_selector("text=Discard it?")
        await page.keyboard.press("Shift+Tab")  # whoever goes on to something else did not mean it
        await page.wait_for_selector("button:text-is('Discard')")
        assert not door.given
        await page.click("button:text-is('Discard')")
        asked_at = await page.evaluate("performance.now()")
        await when(page, f"performance.now() > {asked_at} + 410")
        await page.click("text=Discard it?")
        answer = await door.next_answer()
        assert (answer.verdict, answer.data) == ("reject", None)

        # Who is second keeps the words too.
        door.takes = False
        door.tell(SummaryProposed(id="late", summary=summary))
        await page.get_by_label("Result", exact=True).fill("✓ late")
        await still(page)
        await page.click("text=Accept as edited")
        await page.wait_for_selector(".leftover")
        assert await page.input_value(".leftover textarea") == "Result: ✓ late"

        # A plan with secrets is shown as it is when that is asked for, and never kept by the browser.
        secret = SHAPED["github"]
        door.tell(PlanDocChanged(text=f"# Plan\n\n## Goal\nuse {secret}\n", by="editor", sha256="0" * 64))
        await page.wait_for_selector(".plan-doc")
        assert secret not in await page.content()
        await page.click("#edit-plan")
        await page.click("text=Show and edit")
        field = page.get_by_label("Text of plan_doc.md")
        assert secret in await field.input_value()
        await field.press_sequentially("x")
        assert secret not in await page.evaluate("JSON.stringify(sessionStorage)")
        text = "---\nversion: 2\n---\n# Plan\n\n## Goal\nuse\nversion: 9\n"
        door.tell(PlanDocChanged(text=text, by="review", sha256="1" * 64, pending=True))
        await page.wait_for_selector(".proposal .plus >> text=version: 9")  # what looks like a count is shown
        assert not await page.locator(".proposal .plus >> text=version: 2").count()
    pages.said[:] = [one for one in pages.said if "409" not in one]  # the answer that came second


async def test_the_steps_of_a_plan_are_reworded_moved_left_out_and_added(pages: Pages) -> None:
    door = AnsweredPageSession(records=load("plan_unsure"))
    proposed = door.records[-1].event
    assert isinstance(proposed, PlanProposed) and len(proposed.plan.steps) == 2
    first, second = proposed.plan.steps
    async with faced(door) as one:
        page = await pages.open(one.serving.link(), size=PHONE)
        await page.click("text=Edit steps")
        await page.get_by_label("Step 1", exact=True).fill("Read it closely")
        await page.keyboard.press("Alt+ArrowDown")
        await when(page, "document.activeElement.value === 'Read it closely'")
        assert await page.get_by_label("Step 2", exact=True).input_value() == "Read it closely"
        await page.get_by_label("Remove: " + second.description[:20]).click()
        await page.wait_for_selector("s")
        await page.click("text=Add a step")
        await page.keyboard.type("Tell the user")
        await page.get_by_label("Check", exact=True).fill("make test")
        await shot(page, "edit-plan-phone-dark")
        assert await page.evaluate(WIDE) <= 0
        await page.reload()
        assert await page.get_by_label("Step 2", exact=True).input_value() == "Tell the user"
        await page.click("text=Restore")
        await page.get_by_label("Move up: Tell the user").click()
        await still(page)
        field = page.get_by_label("Step 2", exact=True)
        await field.fill("word " * 900)
        await page.click("text=Approve as edited")
        await page.wait_for_selector("#activity >> text=“Step 2” has 4,500 characters; shorten it to 4,000 at most.")
        assert await field.get_attribute("aria-invalid") == "true" and not door.given
        assert await field.evaluate("one => one === document.activeElement")
        await shot(page, "edit-too-long-phone-dark")
        await field.fill("Tell the user")
        await page.click("text=Approve as edited")
        given = ((await door.next_answer()).data or {})["plan"]
        said = [(one["number"], one["description"], one["tool"]) for one in given["steps"]]
        assert said == [
            (1, second.description, second.tool),
            (2, "Tell the user", ""),
            (3, "Read it closely", first.tool),
        ]
        assert given["check"]["command"] == "make test"
        door.tell(PlanReviewed(id=proposed.id, answer=Answer(verdict="approve"), plan=proposed.plan, edited=True))
        await page.wait_for_selector(".plan-card")

        # A plan that is only another way on, and one that nobody may approve by accident, is asked about as well.
        door.tell(PlanProposed(id="again", plan=proposed.plan, asks=True, fallback=True, recovery=True))
        await page.wait_for_selector("text=No valid plan was produced")
        await still(page)
        await page.click(".request >> text=Reject")
        await page.keyboard.type("not so")
        await page.keyboard.press("Enter")
        answer = await door.next_answer()
        assert (answer.verdict, answer.text, answer.data) == ("reject", "not so", None)


async def held(page: Any, key: str) -> None:
    for _ in range(3):
        await page.keyboard.down(key)
    await page.keyboard.up(key)


async def test_held_keys_decide_nothing_and_long_texts_leave_room_to_decide(pages: Pages) -> None:
    proposed = load("plan_unsure")[-1].event
    assert isinstance(proposed, PlanProposed)
    ways = (Alternative(approach="W" * 2_000), Alternative(approach="many words " * 300))
    long = PlanProposed(id="p", plan=replace(proposed.plan, alternatives=ways), asks=True, why="y" * 400)
    door = AnsweredPageSession(long)
    async with faced(door) as one:
        page = await pages.open(one.serving.link(), size=PHONE)
        await page.fill("#say", "not said yet")
        await still(page)
        assert await page.evaluate(SMALL) == [] and await page.evaluate(ROOM) > 300
        await page.focus(".request >> text=Reject")
        await held(page, "Enter")
        await page.keyboard.type("do it otherwi")
        await page.reload()
        await page.get_by_label("What should be different?").press("End")
        await page.keyboard.type("se")
        await page.click("text=Edit steps")
        await page.get_by_label("Check", exact=True).fill("make")
        await page.keyboard.press("Enter")  # nothing is behind it but what decides
        assert await page.evaluate(SMALL) == [] and not door.given
        door.tell(PlanReviewed(id="p", answer=Answer(verdict="approve"), plan=proposed.plan))
        await page.wait_for_selector(".leftover")
        assert await page.input_value(".leftover textarea") == "Check: make\n\ndo it otherwise"
        await page.click("text=Dismiss")

        notes = (DecisionNote(title="A"), DecisionNote(title="B"))
        door.tell(SummaryProposed(id="s", summary=Summary(action="Did it", decisions_made=notes)))
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
        await still(page)
        await held(page, "Enter")
        pressed = await page.evaluate("performance.now()")
        await when(page, f"performance.now() > {pressed} + 410")
        await page.keyboard.down("Enter")
        await page.keyboard.down("Enter")
        await page.keyboard.up("Enter")
        assert (await door.next_answer()).verdict == "reject" and len(door.given) == 1
        door.tell(SummaryReviewed(id="s", outcome="discarded", summary=Summary(action="Did it")))
        door.tell(SummaryProposed(id="t", summary=Summary(action="Did more")))
        await page.wait_for_selector("textarea >> text=Did more")
        await page.set_viewport_size({"width": 1280, "height": 800})
        await still(page)
        await page.get_by_label("Action", exact=True).focus()
        await page.keyboard.down("Control")
        await page.keyboard.down("Enter")
        assert (await door.next_answer()).verdict == "approve"
        door.tell(SummaryReviewed(id="t", outcome="accepted", summary=Summary(action="Did more")))
        await when(page, "document.activeElement.id === 'say'")
        await page.keyboard.down("Enter")
        assert await page.input_value("#say") == "not said yet" and len(door.given) == 2
        assert [one for one in door.done if one[0] == "send"] == []


async def test_parts_of_an_edit_are_chosen(pages: Pages) -> None:
    door = AnsweredPageSession(records=asked(editing(), *GRANTS))
    async with faced(door) as one:
        page = await pages.open(one.serving.link())
        parts = page.locator(".row.hunk input")
        await page.wait_for_selector(".row.hunk >> text=part 2 of 2")
        assert await parts.count() == 2
        await parts.nth(0).focus()
        await page.keyboard.press("Space")
        await page.wait_for_selector("text=Approve 1 of 2")
        assert not await page.is_visible("text=For this session")
        assert await page.locator(".row.out").count() > 3
        await shot(page, "edit-parts-dark")
        await page.set_viewport_size({"width": 320, "height": 568})
        assert await page.evaluate(WIDE) <= 0
        await shot(page, "edit-parts-320")
        await parts.nth(1).uncheck()
        assert await page.is_disabled("text=Approve 0 of 2")
        await parts.nth(1).check()
        await still(page)
        await page.click("text=Approve 1 of 2")
        answer = await door.next_answer()
        assert answer.data == {"hunks": [1], "edits": {}} and answer.scope == Scope.ONCE


async def test_the_plan_document_is_edited_beside_what_others_do_to_it(tmp_path: Path, pages: Pages) -> None:
    propose = scenario("look", step("", call("update_plan", criteria_added=["Proposed"])), "Proposed it.")
    async with serve(propose) as server, served(server, tmp_path, flags={"mode": "plan"}) as one:
        session, doc = one.session, one.session.folder / "plan_doc.md"
        page = await pages.open(one.serving.link())
        await page.click("#edit-plan")
        field = page.get_by_label("Text of plan_doc.md")
        begun = await field.input_value()
        mine = begun.replace("[User will provide goal]", "Mine").rstrip("\n") + "\n\n## Notes\nby hand\n"
        await field.fill(mine)
        await page.reload()
        assert await field.input_value() == mine, "what was typed is still there"
        await field.press("Control+s")
        await page.wait_for_selector(".plan-doc >> text=Mine")
        assert "## Notes\nby hand" in doc.read_text("utf-8")

        await page.click("#edit-plan")
        text = await field.input_value()
        await field.fill(text.replace("\nMine\n", "\nMine again\n"))
        assert await session.edit_plan(text.replace("\nMine\n", "\nTheirs\n"))
        await page.wait_for_selector(".doc-note >> text=changed elsewhere")
        await shot(page, "edit-doc-dark")
        await page.set_viewport_size({"width": 320, "height": 568})
        assert await page.evaluate(WIDE) <= 0
        await shot(page, "edit-doc-320")
        await page.click("button:text-is('Save')")
        await page.wait_for_selector(".request .sides")
        await still(page)
        await page.click(".request >> text=Keep both")  # the panel made room for it
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.wait_for_selector(".leftover >> text=merged")
        assert "Mine again" in await page.input_value(".leftover textarea")
        assert "Theirs" in doc.read_text("utf-8") and "Mine again" in doc.read_text("utf-8")
        await page.click(".leftover >> text=Dismiss")

        await session.send("look")
        await page.wait_for_selector(".proposal .plus >> text=Proposed")
        await shot(page, "edit-proposal-dark")
        assert "Proposed" not in doc.read_text("utf-8")
        await page.click(".proposal >> text=Accept")
        await page.wait_for_selector(".plan-doc >> text=Proposed")
        assert not await page.locator(".proposal").count() and "Proposed" in doc.read_text("utf-8")

from __future__ import annotations

from typing import Any

from tests.doubles.page_session import AnsweredPageSession
from tests.doubles.planted import SHAPED
from tests.web.kit import faced
from tests.web.test_edits import asked_for
from tests.web.windows import Pages, in_browser, shot, still, when
from tui_agent.common.domain import Answer
from tui_agent.common.workplan import Alternative, Check, InstructionPlan, PlanStep, Summary
from tui_agent.events import PlanDocChanged, PlanDocConflict, PlanProposed, PlanReviewed, SummaryProposed

SECRET = SHAPED["github"]
TALE = "".join(f"- entry {number} of what was done, in so many words\n" for number in range(1_600))


def document(*notes: str, tale: str = TALE) -> str:
    return f"# Plan\n\n## Goal\nMine\n\n## Notes\n{tale}" + "".join(f"- {note}\n" for note in notes)


def saved(text: str) -> PlanDocChanged:
    return PlanDocChanged(text=text, by="editor", sha256="0" * 64)


def proposal(text: str, sha256: str = "1" * 64) -> PlanDocChanged:
    return PlanDocChanged(text=text, by="review", sha256=sha256, pending=True)


async def test_a_long_proposal_is_told_as_cut_and_given_whole_when_that_is_asked_for() -> None:
    door = AnsweredPageSession(saved(document()), proposal(document(f"use {SECRET}")))
    async with faced(door) as page:
        await page.enter()
        async with page.events() as stream:
            told = await asked_for(stream, "plan_doc.changed")
            offered = (await stream.until("plan_doc.changed", pending=True)).data["data"]
        assert told["cut"] == len(document()) - 60_000 and f"{told['cut']:,} more" in told["text"]
        assert offered["cut"] > told["cut"]
        given = (await page.post("/plan/proposal", seen="1" * 64)).json()
        assert given["before"] == document() and given["cut"] == 0
        assert given["after"].startswith(document("use ⟨secret").rstrip()) and SECRET not in given["after"]
        door.tell(proposal("x" * 500_010, "2" * 64))
        async with page.events() as stream:
            await stream.until("plan_doc.changed", sha256="2" * 64)
        given = (await page.post("/plan/proposal", seen="2" * 64)).json()
        assert (len(given["after"]), given["cut"]) == (500_000, 10)
        refused = await page.post("/plan/proposal", seen="1" * 64)
        assert refused.status_code == 409 and "changed" in refused.json()["error"]
        door.tell(saved("# Plan\n"))
        async with page.events() as stream:
            await stream.until("plan_doc.changed", text="# Plan\n", cut=0)
        assert (await page.post("/plan/proposal", seen="2" * 64)).status_code == 409


@in_browser
async def test_nobody_takes_a_proposal_unseen_without_being_told(pages: Pages) -> None:
    bad = "<img src=x onerror=window.pwned=1>"
    door = AnsweredPageSession(saved(document()), proposal(document(bad, "the last of it")))
    async with faced(door) as one:
        page: Any = await pages.open(one.serving.link())
        await page.wait_for_selector(".changes .plus >> text=the last of it")
        assert await page.locator(".changes li").count() == 2 and not await page.locator("img").count()
        await page.wait_for_selector(".proposal button:text-is('Accept'):enabled")
        await page.click("text=Plan with these changes")
        await page.wait_for_selector(".proposal .plan-doc >> text=the last of it")

        # More than is shown at once.
        door.tell(proposal(document(*(f"new {number}" for number in range(700))), "2" * 64))
        await page.wait_for_selector("text=Show 400 more lines that change")
        await shot(page, "proposal-long-dark")
        assert await page.locator(".changes li").count() == 300
        await page.click("text=Show 400 more lines that change")
        await page.click("text=Show 100 more lines that change")
        await page.wait_for_selector(".changes .plus >> text=new 699")
        assert not await page.is_visible("text=more lines that change")

        # More than a page shows at all: taken by a second click, which says what it takes.
        door.tell(proposal(document(tale="ab cd ef\n" * 60_000), "3" * 64))
        await page.wait_for_selector(".proposal .warning >> text=Too long to show in full")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.click("#look")
        await page.click("#see-plan")
        unseen = len(document(tale="ab cd ef\n" * 60_000)) - 500_000
        await page.dblclick(".proposal >> text=Accept")
        await page.wait_for_selector(f"text=Accept {unseen:,} characters unseen?")
        await shot(page, "proposal-cut-phone-light")
        assert door.done == []
        began = await page.evaluate("performance.now()")
        await when(page, f"performance.now() > {began} + 410")
        await page.click(f"text=Accept {unseen:,} characters unseen?")
        await page.wait_for_selector("#activity >> text=has changed or was decided")
        assert door.done == [("settle", True)]

        # What of other questions is not shown is told beside them.
        await page.click("#hide-plan")
        door.tell(PlanDocConflict(id="c", where="Notes", ours="a" * 60_007, theirs="b"))
        await page.wait_for_selector(".side .warning >> text=7 characters are not shown.")
        door.tell(SummaryProposed(id="s", summary=Summary(action="Did it", details="a" * 61_000)))
        await page.reload()
        await page.wait_for_selector(".side .warning")
    pages.said[:] = [one for one in pages.said if "409" not in one]  # the door takes no proposal


@in_browser
async def test_a_plan_shows_what_it_needs_and_when_another_way_is_better(pages: Pages) -> None:
    bad = "<b>a database</b> that answers"
    plan = InstructionPlan(
        approach="Move the tables one by one, and keep the old ones until the end.",
        prerequisites=(bad, "write access to the schema, " * 9),
        steps=(
            PlanStep(number=1, description="Look at the tables", tool="read_file", expected="All are known"),
            PlanStep(number=2, description="Move them", critical=True, confidence=0.4, fallback="Put them back"),
        ),
        check=Check(command="make test", criteria="all rows are there"),
        alternatives=(
            Alternative(approach="Copy all at once", when="the base is small", confidence=0.3),
            Alternative(approach="Do nothing"),
        ),
    )
    door = AnsweredPageSession(PlanProposed(id="p", plan=plan, asks=True, why="unsure"))
    async with faced(door) as one:
        page = await pages.open(one.serving.link())
        phone = await pages.open(one.serving.link(), size=(390, 844), look="light")
        for each, name in ((page, "plan-needs-dark"), (phone, "plan-needs-phone-light")):
            await each.wait_for_selector(".request .needs")
            said = await each.inner_text(".request")
            assert bad in said and "If it fails: Put them back" in said and "all rows are there" in said
            assert "unsure 40%" in said and "critical" in said
            ways = each.locator(".choices.column button")
            assert await ways.all_inner_texts() == [
                "Alternative: Copy all at once\nthe base is small30% sure",
                "Alternative: Do nothing\n50% sure",
            ]
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await each.evaluate(wide) <= 0
            await shot(each, name)
        await page.click("text=Edit steps")
        assert bad in await page.inner_text(".request .needs")
        await still(phone)
        await phone.click("text=Alternative: Copy all at once")
        assert (await door.next_answer()).data == {"alternative": 0}
        door.tell(PlanReviewed(id="p", answer=Answer(verdict="approve"), plan=plan))
        await page.wait_for_selector(".plan-card .needs >> text=the base is small")
        assert bad in await page.inner_text(".plan-card") and not await page.locator(".needs b").count()
        await shot(page, "plan-card-dark")

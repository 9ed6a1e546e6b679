from __future__ import annotations

from typing import Any

from tests.doubles.page_session import AnsweredPageSession, FakePageSession
from tests.doubles.planted import BY_FORMAT
from tests.scenes.build import PLAN
from tests.web.kit import serve_fake_session
from tests.web.test_edits import asked_for
from tests.web.windows import BrowserPages, browser_test, screenshot, wait_for, wait_until_answerable
from tui_agent.common.domain import Answer
from tui_agent.common.workplan import Alternative, Check, InstructionPlan, PlanStep, Summary
from tui_agent.events import (
    PlanDocChanged,
    PlanDocConflict,
    PlanProposed,
    PlanReviewed,
    RunEnded,
    RunStarted,
    StepFinished,
    StepStarted,
    SummaryProposed,
)

SECRET = BY_FORMAT["github"]
TALE = "".join(f"- entry {number} of what was done, in so many words\n" for number in range(1_600))


def document(*notes: str, tale: str = TALE) -> str:
    return f"# Plan\n\n## Goal\nMine\n\n## Notes\n{tale}" + "".join(f"- {note}\n" for note in notes)


def saved(text: str) -> PlanDocChanged:
    return PlanDocChanged(text=text, by="editor", sha256="0" * 64)


def proposal(text: str, sha256: str = "1" * 64) -> PlanDocChanged:
    return PlanDocChanged(text=text, by="review", sha256=sha256, pending=True)


async def test_a_long_proposal_is_cut_in_the_stream_and_compared_in_full_on_request() -> None:
    session = AnsweredPageSession(saved(document()), proposal(document(f"use {SECRET}")))
    async with serve_fake_session(session) as page:
        await page.enter()
        async with page.events() as stream:
            saved_event = await asked_for(stream, "plan_doc.changed")
            proposed = (await stream.until("plan_doc.changed", pending=True)).data["data"]
        assert f"{len(document()) - 60_000:,} more" in saved_event["text"] and "more characters" in proposed["text"]
        complete = (await page.post("/plan/proposal", seen="1" * 64)).json()
        ((sign, line),) = complete["changes"]
        assert sign == "+" and line.startswith("- use ⟨secret") and complete["cut"] == 0
        assert complete["text"].startswith(document("use ⟨secret").rstrip()) and SECRET not in complete["text"]
        session.tell(proposal("x" * 500_010, "2" * 64))
        async with page.events() as stream:
            await stream.until("plan_doc.changed", sha256="2" * 64)
        complete = (await page.post("/plan/proposal", seen="2" * 64)).json()
        assert (len(complete["text"]), complete["cut"]) == (500_000, 10)
        refused = await page.post("/plan/proposal", seen="1" * 64)
        assert refused.status_code == 409 and "changed" in refused.json()["error"]
        session.tell(saved("# Plan\n"))
        async with page.events() as stream:
            await stream.until("plan_doc.changed", text="# Plan\n")
        assert (await page.post("/plan/proposal", seen="2" * 64)).status_code == 409


@browser_test
async def test_accepting_a_proposal_that_is_not_shown_in_full_needs_confirmation(pages: BrowserPages) -> None:
    bad = "<img src=x onerror=window.pwned=1>"
    session = AnsweredPageSession(saved(document()), proposal(document(bad, "the last of it")))
    async with serve_fake_session(session) as client:
        page: Any = await pages.open(client.page_server.link())
        await page.wait_for_selector(".changes .plus >> text=the last of it")
        assert await page.locator(".changes li").count() == 2 and not await page.locator("img").count()
        await page.wait_for_selector(".proposal button:text-is('Accept'):enabled")
        await page.click("text=Plan with these changes")
        await page.wait_for_selector(".proposal .plan-document >> text=the last of it")

        # More than is shown at once.
        session.tell(proposal(document(*(f"new {number}" for number in range(700))), "2" * 64))
        await page.wait_for_selector("text=Show 400 more lines that change")
        await screenshot(page, "proposal-long-dark")
        assert await page.locator(".changes li").count() == 300
        await page.click("text=Show 400 more lines that change")
        await page.click("text=Show 100 more lines that change")
        await page.wait_for_selector(".changes .plus >> text=new 699")
        assert not await page.is_visible("text=more lines that change")

        # More than a page shows at all: taken by a second click, which says what it takes.
        session.tell(proposal(document(tale="ab cd ef\n" * 60_000), "3" * 64))
        await page.wait_for_selector(".proposal .warning >> text=Too long to show in full")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.click("#theme")
        await page.click("#show-plan")
        unseen = len(document(tale="ab cd ef\n" * 60_000)) - 500_000
        await page.dblclick(".proposal >> text=Accept")
        await page.wait_for_selector(f"text=Accept {unseen:,} characters unseen?")
        await screenshot(page, "proposal-cut-phone-light")
        assert session.done == []
        clicked_at = await page.evaluate("performance.now()")
        await wait_for(page, f"performance.now() > {clicked_at} + 410")
        await page.click(f"text=Accept {unseen:,} characters unseen?")
        await page.wait_for_selector("#activity >> text=has changed or was decided")
        assert session.done == [("settle", True)]

        # What of other questions is not shown is saved_event beside them.
        await page.click("#hide-plan")
        session.tell(PlanDocConflict(id="c", where="Notes", ours="a" * 60_007, theirs="b"))
        await page.wait_for_selector(".side .warning >> text=7 characters are not shown.")
        session.tell(SummaryProposed(id="s", summary=Summary(action="Did it", details="a" * 61_000)))
        await page.reload()
        await page.wait_for_selector(".side .warning")
    pages.messages[:] = [message for message in pages.messages if "409" not in message]  # the door takes no proposal


@browser_test
async def test_a_plan_shows_its_prerequisites_and_alternatives(pages: BrowserPages) -> None:
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
    session = AnsweredPageSession(PlanProposed(id="p", plan=plan, asks=True, why="unsure"))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        phone = await pages.open(client.page_server.link(), size=(390, 844), look="light")
        for each, name in ((page, "plan-needs-dark"), (phone, "plan-needs-phone-light")):
            await each.wait_for_selector(".request .labeled-list")
            text = await each.inner_text(".request")
            assert bad in text and "If it fails: Put them back" in text and "all rows are there" in text
            assert "unsure 40%" in text and "essential" in text
            ways = each.locator(".choices.column button")
            assert await ways.all_inner_texts() == [
                "Alternative: Copy all at once\nthe base is smallconfidence 30%",
                "Alternative: Do nothing\nconfidence 50%",
            ]
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await each.evaluate(wide) <= 0
            await screenshot(each, name)
        await page.click("text=Edit steps")
        assert bad in await page.inner_text(".request .labeled-list")
        await wait_until_answerable(phone)
        await phone.click("text=Alternative: Copy all at once")
        assert (await session.next_answer()).data == {"alternative": 0}
        session.tell(PlanReviewed(id="p", answer=Answer(verdict="approve"), plan=plan))
        await page.wait_for_selector(".plan-card .labeled-list >> text=the base is small")
        assert bad in await page.inner_text(".plan-card") and not await page.locator(".labeled-list b").count()
        await screenshot(page, "plan-card-dark")


@browser_test
async def test_the_column_shows_the_steps_of_the_run_and_how_the_work_stands(pages: BrowserPages) -> None:
    steps = tuple(PlanStep(number=number, description=f"Part {number}") for number in (1, 2, 3))
    plan = InstructionPlan(approach="In parts", steps=steps)
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        shown = """[...document.querySelectorAll('#plan-run .step')].map((each) => each.className.slice(5)).join()"""
        session.tell(RunStarted(message_id="m", mode="agent", model="m"), run="run-1")
        session.tell(PlanProposed(id="p", plan=plan, asks=False, why=""))
        await wait_for(page, f"{shown} === ',,'")
        session.tell(StepStarted(step=steps[0], of=3), node="s-1")
        await wait_for(page, f"{shown} === 'running,,'")
        session.tell(StepFinished(outcome="done", ms=65_000), node="s-1")
        session.tell(StepStarted(step=steps[1], of=3), node="s-2")
        await wait_for(page, f"{shown} === 'done,running,'")
        assert "Part 1 · 1 min 5 s" in await page.inner_text("#plan-run")
        await page.wait_for_selector("#plan-run >> text=1 of 3")
        await page.reload()
        await wait_for(page, f"{shown} === 'done,running,'")
        session.tell(PlanDocChanged(text=PLAN, by="summary", sha256="x"))
        await page.wait_for_selector("#plan-text .chip >> text=● in progress")
        assert "No plan yet" not in await page.inner_text("#plan")
        session.tell(StepFinished(outcome="done"), node="s-2")
        session.tell(RunEnded(outcome="done"), run="run-1")
        await page.wait_for_selector("#plan-text .chip >> text=/○ \\d to do/")
        await wait_for(page, f"{shown} === 'done,done,'")

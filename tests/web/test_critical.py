"""On the page: a critical command needs a word, what was not in sight is not approved, typed text presses no button."""

from __future__ import annotations

from tests.doubles.page_session import AnsweredPageSession
from tests.tui.edits import approval_records, edit_action, long_texts
from tests.web.kit import serve_fake_session
from tests.web.windows import BROWSER_MARKS, READ_ALL, BrowserPages, screenshot, wait_for, wait_until_answerable
from tui_agent.common.domain import Action, Harm, RunAction, Severity
from tui_agent.events import ApprovalRequested, Record
from tui_agent.frontends.web.feed import Feed

WIPE = RunAction(command="rm -rf ~/", cwd="/home/ada", severity=Severity.CRITICAL, always_ask=True)
HARM = Harm(targets=("/home/ada",), files=12_000, bytes=3_400_000_000, complete=False, word="ada")


def records(action: Action, harm: Harm | None = None) -> list[Record]:
    import msgspec

    return [
        msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, harm=harm))
        if isinstance(record.event, ApprovalRequested)
        else record
        for record in approval_records(action)
    ]


async def test_the_server_takes_no_approval_of_a_critical_command_without_its_word() -> None:
    session = AnsweredPageSession(records=records(WIPE, HARM))
    async with serve_fake_session(session) as client:
        await client.enter()
        for more in ({}, {"word": "yes"}, {"word": "ada", "scope": "session"}):
            answer = await client.post("/answer", id="q1", verdict="approve", **more)
            assert answer.status_code == 400 and "type ada" in answer.text
        assert session.received == []
        assert (await client.post("/answer", id="q1", verdict="approve", word="ada")).status_code == 200


async def test_what_is_unusual_about_a_file_is_said_once_and_as_on_the_screen() -> None:
    import msgspec

    action = msgspec.structs.replace(edit_action(), protected=True, outside=True)
    for why, warning in (
        ("ask", "This file is outside the workspace and protected."),
        ("protected files ask in every mode", "This file is outside the workspace."),
    ):
        session = AnsweredPageSession(
            records=[
                msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, why=why))
                if isinstance(record.event, ApprovalRequested)
                else record
                for record in approval_records(action)
            ]
        )
        feed = Feed(session)
        (asked,) = [record.event for record in session.records if isinstance(record.event, ApprovalRequested)]
        assert feed._data(asked)["warning"] == warning


class TestInBrowser:
    pytestmark = BROWSER_MARKS

    async def test_a_critical_command_is_approved_by_its_word(self, pages: BrowserPages) -> None:
        session = AnsweredPageSession(records=records(WIPE, HARM))
        async with serve_fake_session(session) as client:
            page = await pages.open(client.page_server.link())
            await page.wait_for_selector(".request.critical")
            await wait_until_answerable(page)
            text = await page.inner_text(".request")
            assert "at least 12,000 files, 3.4 GB" in text and "Not sandboxed" in text and "Always" not in text
            assert "outside the workspace" not in text and "secrets" not in text
            buttons = await page.locator(".choices button:visible").all_inner_texts()
            assert buttons == ["Reject", "Run it"]
            await screenshot(page, "critical-dark")
            assert await page.is_disabled("text=Run it")
            await page.fill(".confirm-word", "yes")
            assert await page.is_disabled("text=Run it")
            await page.fill(".confirm-word", "ada")
            await page.click("text=Run it")
            assert (await session.next_answer()).verdict == "approve"

    async def test_lines_that_were_not_in_view_are_not_approved(self, pages: BrowserPages) -> None:
        session = AnsweredPageSession(records=records(edit_action(*long_texts(120))))
        async with serve_fake_session(session) as client:
            page = await pages.open(client.page_server.link())
            await page.wait_for_selector(".request >> text=not in view yet")
            approve = "button.approve:text-is('Approve')"
            assert await page.is_disabled(approve)
            await page.evaluate("document.querySelector('.diff-lines').scrollTop = 1e6")
            await page.wait_for_timeout(300)  # the page measures in frames; what must not happen can't be awaited
            assert await page.is_disabled(approve)
            await page.evaluate(READ_ALL)
            await page.wait_for_selector(f"{approve}:enabled")

    async def test_typed_text_presses_no_button_and_a_lone_key_does(self, pages: BrowserPages) -> None:
        session = AnsweredPageSession(records=records(RunAction(command="make", cwd="/w")))
        async with serve_fake_session(session) as client:
            page = await pages.open(client.page_server.link())
            await wait_until_answerable(page)
            await page.wait_for_selector("button.approve:enabled")
            await page.focus("button.approve >> nth=0")
            await page.keyboard.type("wait, that is odd", delay=60)
            await page.keyboard.type("a b", delay=30)
            await page.wait_for_timeout(400)  # longer than a key is held
            assert session.received == []
            await page.focus("button.approve >> nth=0")
            await page.keyboard.press("Enter")
            await wait_for(page, "!document.querySelector('.request')")
            assert (await session.next_answer()).verdict == "approve"

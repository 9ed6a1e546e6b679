from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import AnsweredPageSession
from tests.doubles.planted import BY_FORMAT
from tests.engine.test_partial_edits import NEW, OLD
from tests.tui.edits import GRANTS, approval_records, edit_action
from tests.web.kit import PageClient, serve_fake_session, serve_session
from tests.web.windows import (
    BrowserPages,
    browser_test,
    open_link,
    read_all,
    screenshot,
    wait_for,
    wait_until_answerable,
)
from tui_agent.common.domain import EditAction
from tui_agent.events import ApprovalAnswered

SECRET, PEM = BY_FORMAT["github"], BY_FORMAT["pem"]
OTHER = SECRET[:-4] + "wxyz"
CONFIG = f"name = 'ada'\ntoken = '{SECRET}'\nkey = '''{PEM}'''\nport = 80\n"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def session_with(action: EditAction) -> AnsweredPageSession:
    return AnsweredPageSession(records=approval_records(action, *GRANTS))


async def approval_request(page: PageClient) -> Any:
    async with page.events() as stream:
        return (await stream.until("approval.asked")).data["data"]


async def text_of(page: PageClient, index: int, **options: Any) -> str:
    response = await page.post("/part/text", id="q1", index=index, **options)
    assert response.status_code == 200, response.text
    return str(response.json()["text"])


async def test_what_is_typed_comes_back_as_a_difference_and_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(OLD.replace("\n", "\r\n").encode())
    content = NEW.replace("\n", "\r\n")
    talk = scenario(
        "go", step("", call("read_file", path="a.txt"), call("write_file", path="a.txt", content=content)), "ok"
    )
    async with serve(talk) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.chat("go") as stream:
            request = (await stream.until("approval.asked")).data["data"]
            id = request["id"]
            text = (await page.post("/part/text", id=id, index=0)).json()["text"]
            assert "line two\n" in text and "\r" not in text
            edits = {"0": text.replace("line two", "line 2,\nby \x1b[1mhand")}
            preview = await page.post("/part/preview", id=id, edits=edits)
            lines = preview.json()["diff"]["hunks"][0]["lines"]
            assert [line for line in lines if line[0] in "+-"] == ["-line 2", "+line 2,", "+by hand"]
            assert preview.json()["diff"]["added"] == 3
            done = await page.post("/answer", id=id, verdict="approve", data={"hunks": [0, 1], "edits": edits})
            assert done.status_code == 200, done.text
            await stream.rest()
        closed = await page.post("/part/preview", id=id, edits={})
        assert (closed.status_code, closed.json()["error"]) == (409, "this request is closed")
    expected = OLD.replace("line 2\n", "line 2,\nby hand\n").replace("line 15\n", "line fifteen\n")
    assert (tmp_path / "a.txt").read_bytes() == expected.replace("\n", "\r\n").encode()


async def test_a_secret_that_a_page_does_not_see_stays_in_what_is_typed_around_it() -> None:
    old = CONFIG.replace("ada", "bob")
    session = session_with(edit_action(old, CONFIG.replace("= 80", "= 8080"), context=9))
    async with serve_fake_session(session) as page:
        await page.enter()
        request = await approval_request(page)
        assert request["hides_secrets"]
        assert {line[:1] for line in request["action"]["diff"]["hunks"][0]["lines"]} == set(" +-")
        text = await text_of(page, 0)
        assert SECRET not in text and PEM not in text and "⟨secret" in text and "\nport = 8080" in text
        typed = text.replace("8080", "443").replace("name", "user")
        hunk = (await page.post("/part/preview", id="q1", edits={"0": typed})).json()["diff"]["hunks"][0]
        assert SECRET not in str(hunk) and "+port = 443" in hunk["lines"] and "+user = 'ada'" in hunk["lines"]
        assert {line[0] for line in hunk["lines"]} <= set(" +-\\")
        done = await page.post("/answer", id="q1", verdict="approve", data={"edits": {"0": typed}})
        assert done.status_code == 200, done.text
        exact = CONFIG.replace("= 80", "= 443").replace("name", "user")
        assert session.received[-1].data == {"hunks": [0], "edits": {"0": exact.removesuffix("\n")}}
        assert await text_of(page, 0, exact=True) == CONFIG.replace("= 80", "= 8080").removesuffix("\n")
        # What comes to the same, marks and all, is no edit; a mark that stands for nothing is what was typed.
        for edits, data in (({"0": text}, None), ({"0": "⟨secret 9⟩"}, {"hunks": [0], "edits": {"0": "⟨secret 9⟩"}})):
            assert (await page.post("/answer", id="q1", verdict="approve", data={"edits": edits})).status_code == 200
            assert session.received[-1].data == data

    twice = session_with(edit_action("a\n", f"{SECRET} not {OTHER}\n"))
    async with serve_fake_session(twice) as page:
        await page.enter()
        await approval_request(page)
        ambiguous = (await text_of(page, 0)).partition(" not")[0]
        for path, body in (
            ("/answer", {"verdict": "approve", "data": {"edits": {"0": ambiguous}}}),
            ("/part/preview", {"edits": {"0": ambiguous}}),
        ):
            refused = await page.post(path, id="q1", **body)
            assert refused.status_code in (400, 409) and "hidden secrets" in refused.json()["error"]
    assert not twice.answers

    for action, index, error in (
        (edit_action("a\n", f"{SECRET}{PEM}x\n"), 0, "Show hidden secrets"),
        (edit_action("a\n", "b\u202ec\n"), 0, "can't be edited here"),
        (edit_action("a\n", "b" * 200_001), 0, "200,001 characters"),
        (edit_action(), 2, "no such part"),
        (edit_action(splittable=False), 0, "as a whole"),
    ):
        async with serve_fake_session(session_with(action)) as page:
            await page.enter()
            await approval_request(page)
            refused = await page.post("/part/text", id="q1", index=index)
            assert refused.status_code == 409 and error in refused.json()["error"], (error, refused.text)
            for edits in ({"7": "x"}, {"x": "x"}, {"0": "x" * 200_001}):
                assert (await page.post("/part/preview", id="q1", edits=edits)).status_code == 409
                refused = await page.post("/answer", id="q1", verdict="approve", data={"edits": edits})
                assert refused.status_code == 400


@browser_test
async def test_the_text_of_a_part_is_changed_seen_and_approved(pages: BrowserPages) -> None:
    session = session_with(edit_action())
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        other = await pages.open(client.page_server.link(), size=(390, 844), look="light")
        await page.click("[aria-label='Edit the text of part 2 of 2']")
        field = page.get_by_role("textbox", name="Text of part 2 of 2")
        await field.wait_for()
        assert await page.is_disabled("button.approve >> nth=0") and not await page.is_visible("text=Always")
        await field.fill((await field.input_value()).replace("options.fmt", "options.kind"))
        await screenshot(page, "hunk-typed-dark")
        await page.reload()  # in the middle of it
        await page.wait_for_selector("button:text-is('Use this text'):enabled")
        assert "options.kind" in await field.input_value()
        await field.press("Control+Enter")
        await page.wait_for_selector(".row.plus >> text=options.kind")
        await wait_for(page, "document.activeElement.dataset.hunk === '1'")
        assert (
            await page.locator(".edited-label").count() == 1
            and not await page.locator(".row >> text=options.fmt").count()
        )
        await read_all(page)
        await page.wait_for_selector("button.approve:text-is('Approve with your text'):enabled")
        await screenshot(page, "hunk-seen-dark")
        await page.reload()
        await page.wait_for_selector(".row.plus >> text=options.kind")
        await page.get_by_role("checkbox", name="part 1 of 2").uncheck()
        await page.wait_for_selector("text=Approve 1 of 2 with your text")

        # Back to what was proposed: nothing is changed any more, and what is typed and dropped neither.
        await other.click("[aria-label='Edit the text of part 1 of 2']")
        typed = other.get_by_role("textbox", name="Text of part 1 of 2")
        await typed.fill("")
        await screenshot(other, "hunk-typed-phone-light")
        assert await other.evaluate(WIDE) <= 0
        await other.click("text=Use this text")
        await other.wait_for_selector("text=Approve with your text")
        assert await other.evaluate(WIDE) <= 0
        await screenshot(other, "hunk-seen-phone-light")
        await other.set_viewport_size({"width": 320, "height": 568})
        change = other.locator("[aria-label='Edit the text of part 1 of 2']")
        edges = await change.evaluate(
            "one => [one, one.closest('.diff')].map((each) => each.getBoundingClientRect().right)"
        )
        assert edges[0] <= edges[1] and await other.evaluate(WIDE) <= 0
        await screenshot(other, "hunk-seen-320-light")
        await other.click("[aria-label='Edit the text of part 1 of 2']")
        await other.click("text=Reset")
        await other.click("text=Use this text")
        await read_all(other)
        await other.wait_for_selector("button.approve:text-is('Approve'):enabled")
        assert not await other.locator(".edited-label").count()
        await other.click("[aria-label='Edit the text of part 2 of 2']")
        await other.get_by_role("textbox", name="Text of part 2 of 2").fill("typed\nelsewhere")

        await wait_until_answerable(page)
        await page.click("text=Approve 1 of 2 with your text")
        data = (await session.next_answer()).data or {}
        assert data["hunks"] == [1] and list(data["edits"]) == ["1"]
        assert "print(export(rows, options.kind))" in data["edits"]["1"]
        session.tell(ApprovalAnswered(id="q1", answer=session.received[-1]))
        await other.wait_for_selector(".unsent")
        assert await other.input_value(".unsent textarea") == "Part 2: typed\nelsewhere"
        await wait_for(page, "!document.querySelector('.request') && !document.querySelector('.unsent')")
        await wait_for(page, "!Object.keys(sessionStorage).some((one) => one.includes('q1'))")


@browser_test
async def test_a_hidden_secret_is_typed_around_and_a_shown_one_is_not_kept(pages: BrowserPages) -> None:
    session = session_with(edit_action(None, CONFIG))
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await page.click("[aria-label='Edit the text']")
        field = page.get_by_role("textbox", name="Text of the change")
        text = await field.input_value()
        assert SECRET not in text and "⟨secret" in text
        await field.fill(text.replace("ada", "bob"))
        await screenshot(page, "hunk-secret-dark")
        await page.click("text=Use this text")
        await page.wait_for_selector(".row.plus >> text=name = 'bob'")
        assert SECRET not in await page.content()
        await page.click("text=Show hidden secrets")
        await page.wait_for_selector(f".row.plus >> text={SECRET}")
        await page.wait_for_selector(".row.plus >> text=name = 'bob'")
        assert SECRET not in await page.evaluate("JSON.stringify(sessionStorage)")
        await screenshot(page, "hunk-shown-dark")
        await wait_until_answerable(page)
        await page.click("text=Approve with your text")
        answer = await session.next_answer()
        assert answer.data == {"hunks": [0], "edits": {"0": CONFIG.replace("ada", "bob").removesuffix("\n")}}

    # What was shown before it is typed in is exact, and the browser keeps none of it.
    session = session_with(edit_action(None, CONFIG))
    async with serve_fake_session(session) as client:
        await open_link(page, client.page_server.link())
        await page.click("text=Show hidden secrets")
        await page.wait_for_selector(f".row.plus >> text={SECRET}")
        await page.click("[aria-label='Edit the text']")
        assert PEM in await field.input_value()
        await field.press_sequentially("# mine\n")
        await page.click("text=Use this text")
        await page.wait_for_selector(".row.plus >> text=# mine")
        assert SECRET not in await page.evaluate("JSON.stringify(sessionStorage)")
        await wait_until_answerable(page)
        await page.click("text=Approve with your text")
        assert SECRET in str((await session.next_answer()).data)

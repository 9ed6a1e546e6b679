"""What starts with `/` is carried out or refused with the command that was meant; it never reaches the model (X4)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from tests import waiting
from tests.doubles.job import BROKEN, FIXED, TASK, job_scenario, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import FakePageSession
from tests.web.kit import serve_fake_session, serve_session
from tests.web.test_composing import HeldRequest
from tests.web.test_page import answer_all
from tests.web.windows import BrowserPages, browser_test, send_message, wait_for
from tui_agent import events as e
from tui_agent.frontends import session_commands
from tui_agent.keys.keymap import COMMANDS

JSON_ONLY = {"Accept": "application/json"}


@pytest.mark.parametrize("headers", [{}, JSON_ONLY], ids=["stream", "json"])
async def test_no_command_is_sent_as_a_message(tmp_path: Path, headers: dict[str, str]) -> None:
    async with serve(strict=True) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        for text in [f"/{command.name}" for command in COMMANDS] + ["/exit", "/mdoel", "/xyzzy 1", "/"]:
            answer = await page.http.post("/chat", json={"message": text}, headers=headers)
            assert answer.status_code in (200, 400), (text, answer.text)
            assert answer.headers["content-type"] == "application/json", text
        answer = await page.http.post("/chat", json={"message": "/mdoel"}, headers=headers)
        assert answer.json() == {"error": "unknown command /mdoel; did you mean /model? A leading space sends it."}
        await page.session.wait()
        assert [request.path for request in server.requests if "chat" in request.path] == []


async def test_undo_redo_modes_and_rewind_by_command(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    async with serve(job_scenario()) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        answering = asyncio.create_task(answer_all(page, page.session))
        async with page.chat(TASK) as stream:
            await stream.rest()
        answering.cancel()
        file = tmp_path / "adder.py"
        for text, content in (("/undo", BROKEN), ("/redo", FIXED), ("/undo 1", BROKEN), ("/redo", FIXED)):
            assert (await page.post("/chat", message=text)).status_code == 200
            assert file.read_text(encoding="utf-8") == content, text
        reply = (await page.post("/chat", message="/checkpoints")).json()
        assert "run-1" in reply["text"] and "adder.py +1 −1" in reply["text"]
        assert (await page.post("/chat", message="/rewind 1")).json()["draft"] == TASK
        assert file.read_text(encoding="utf-8") == BROKEN
        assert "choose one of ask" in (await page.post("/chat", message="/approvals nonsense")).json()["text"]
        async with page.events() as events:
            await page.post("/chat", message="/mode plan")
            await events.until("mode.changed", mode="plan")
        diff = (await page.post("/chat", message="/diff")).json()
        assert diff["is_diff"] and "+    return a + b" in diff["text"] and "adder.py  +1 −1" in diff["text"]
        assert "no call" not in (await page.post("/chat", message="/output")).json()["text"]
        status = (await page.post("/chat", message="/status")).json()["text"]
        assert page.session.id in status and "mock-model" in status and "tokens" in status
        assert (await page.post("/chat", message="/grants")).json()["text"] == "no saved permissions"
        export = (await page.post("/chat", message="/export html")).json()["text"]
        assert export.startswith("Written to ") and TASK in Path(export[11:-1]).read_text(encoding="utf-8")
        assert "already exists" in (await page.post("/chat", message="/export html")).json()["text"]
        assert "no proposal" in (await page.post("/chat", message="/plan accept")).json()["text"]
        assert "mock-model" in (await page.post("/chat", message="/model")).json()["text"]


@browser_test
async def test_a_run_with_file_changes_is_undone_and_redone_with_its_button(
    tmp_path: Path, pages: BrowserPages
) -> None:
    make_workspace(tmp_path)
    async with serve(job_scenario()) as server, serve_session(server, tmp_path) as client:
        await client.enter()
        page = await pages.open(client.page_server.link())
        answering = asyncio.create_task(answer_all(client, client.session))
        await send_message(page, TASK)
        await page.wait_for_selector(".run-end button:text-is('Undo')")
        answering.cancel()
        file = tmp_path / "adder.py"
        for label, content, then in (("Undo", BROKEN, "Redo"), ("Redo", FIXED, "Undo"), ("Undo", BROKEN, "Redo")):
            await page.click(f".run-end button:text-is('{label}')")
            await page.wait_for_selector(f".run-end button:text-is('{then}')")
            assert file.read_text(encoding="utf-8") == content
        await page.reload()
        await page.click(".run-end button:text-is('Redo')")
        await page.wait_for_selector(".run-end button:text-is('Undo')")
        assert file.read_text(encoding="utf-8") == FIXED
        await send_message(page, "/diff")
        await page.wait_for_selector(".diff-reply .plus >> text=return a + b")


@browser_test
async def test_a_mistyped_command_stays_in_the_composer_of_the_page(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        await send_message(page, "/mdoel")
        await page.wait_for_selector("#activity >> text=unknown command /mdoel; did you mean /model?")
        assert await page.input_value("#message") == "/mdoel"
        await send_message(page, "/settings")
        await page.wait_for_selector("#activity >> text=/settings is a command of the screen")
        await send_message(page, "/help")
        await page.wait_for_selector("dialog.help >> text=/rewind")
        await page.keyboard.press("Escape")
        await send_message(page, "/plan")
        assert session.done == []
        await send_message(page, " /mdoel is a word")
        await wait_for(page, "document.getElementById('message').value === ''")
        await waiting.wait_for(lambda: session.done)
        assert session.done == [("send", "/mdoel is a word")]
    pages.messages[:] = [message for message in pages.messages if "400" not in message]


async def test_numbers_of_any_length_are_no_failure_and_rewind_lists_its_messages(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    async with serve(scenario("", "hello")) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        assert (await page.post("/chat", message="/rewind")).json()["text"] == "no earlier message to edit"
        async with page.chat("only talk") as stream:
            await stream.rest()
        listed = (await page.post("/chat", message="/rewind")).json()["text"]
        assert listed.startswith("  run-1 only talk\n/rewind N goes back")
        for command in ("/trust revoke ", "/grants ", "/rewind "):
            assert (await page.post("/chat", message=command + "9" * 5000)).status_code == 200
        assert (await page.post("/chat", message="/rewind 1")).json()["draft"] == "only talk"


async def test_the_newest_output_is_found_far_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_commands, "RECENT_RECORDS", 2)
    (tmp_path / "a").write_text("first\n")
    (tmp_path / "b").write_text("second\n")
    read = [step("", call("read_file", path=name)) for name in "ab"]
    async with serve(scenario("", *read, "words " * 50)) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.chat("read") as stream:
            await stream.rest()
        assert "second" in (await page.post("/chat", message="/output")).json()["text"]


@browser_test
async def test_only_what_was_undone_last_can_be_redone(pages: BrowserPages) -> None:
    session = FakePageSession()
    for run in ("run-1", "run-2"):
        session.tell(
            e.CommandChangedFiles(command="make", created=(f"{run}.txt",), covered=True),
            e.RunEnded(outcome="done"),
            run=run,
        )

    def undo(kind: Literal["undo", "redo"], run: str) -> e.UndoFinished:
        return e.UndoFinished(id=f"{kind} {run}", kind=kind, outcome="done", items=(), runs=(run,))

    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        buttons = "[...document.querySelectorAll('.undo')].map((each) => (each.hidden ? '' : each.textContent)).join()"
        for event, expected in (
            (None, "Undo,Undo"),
            (undo("undo", "run-2"), "Undo,Redo"),
            (undo("undo", "run-1"), "Redo,"),
            (undo("redo", "run-1"), "Undo,Redo"),
        ):
            if event is not None:
                session.tell(event)
            await wait_for(page, f"({buttons}) === '{expected}'")


@browser_test
async def test_a_rewound_message_is_put_in_front_of_what_was_typed_since(pages: BrowserPages) -> None:
    session = FakePageSession()
    async with serve_fake_session(session) as client:
        page = await pages.open(client.page_server.link())
        sent = HeldRequest()
        await page.route("**/chat", sent)
        await send_message(page, "/rewind 1")
        await sent.arrived.wait()
        await page.keyboard.type("typed since")
        sent.response.set_result({"status": 200, "json": {"command": "rewind", "text": "", "draft": "the old message"}})
        await wait_for(page, "document.getElementById('message').value.includes('old')")
        assert await page.input_value("#message") == "the old message\ntyped since"

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import side_reply
from tui_agent.common import paths
from tui_agent.engine.session import parse_title
from tui_agent.events import ReplyStarted, SessionTitled
from tui_agent.storage import catalog


async def test_an_open_session_is_renamed_and_called_so_from_then_on(tmp_path: Path) -> None:
    async with serve(scenario("never", "nothing")) as server:
        async with run_session(server, tmp_path) as session:
            assert await session.naming.rename("  A better\x1b[2J\n name  ") == "A better name"
            assert await session.naming.rename(" \n") == ""
            assert session.title == "A better name"
            assert catalog.list_sessions(paths.data_dir())[0].title == "A better name"
        async with run_session(server, None, resume=session.id) as again:
            assert again.title == "A better name"
            assert len(await again.naming.rename("long " * 100)) == 100


TITLES = {"titles": True}
NAMES = "You name conversations"


def asked_for_titles(server: MockServer) -> list[str]:
    return [str(one.body["model"]) for one in server.requests if NAMES in str(one.messages[0]["content"])]


async def test_after_the_first_run_the_small_model_names_the_session_once(tmp_path: Path) -> None:
    talk = [scenario(word, "Yes.") for word in ("is the adder", "really")]
    name = side_reply(NAMES, 'Title: "A look at the adder."')
    async with serve(name, *talk, strict=True, models=["mock-model", "little"]) as server:
        async with run_session(server, tmp_path, flags={**TITLES, "small_model": "little"}) as session:
            watch = SessionDriver(session)
            await session.send("is the adder of any use to anybody who has to add in the morning?")
            await watch.ended()
            assert session.title == "is the adder of any use to anybody who has to add in the…"
            assert (await watch.until_event(SessionTitled)).title == "A look at the adder"
            await session.wait()
            await session.send("really?")
            await watch.ended()
            assert session.title == "A look at the adder"
        assert catalog.list_sessions(paths.data_dir())[0].title == "A look at the adder"
        async with run_session(server, None, resume=session.id, flags=TITLES) as again:
            assert again.title == "A look at the adder"
            watch = SessionDriver(again)
            await again.send("really?")
            await watch.ended()
    assert asked_for_titles(server) == ["little"]
    (sent,) = [one for one in server.requests if NAMES in str(one.messages[0]["content"])]
    assert sent.body["max_tokens"] <= 64 and "Yes." in sent.messages[1]["content"]


@pytest.mark.parametrize("off", [{"flags": {}}, {"flags": TITLES, "attended": False}])
async def test_no_title_is_asked_for_where_it_is_off_or_nobody_is_there(
    tmp_path: Path, off: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_agent.engine.session.TITLE_DELAY", 0.0)
    async with serve(scenario("hello", "Hello."), strict=True) as server:
        async with run_session(server, tmp_path, **off) as session:
            watch = SessionDriver(session)
            for _ in range(2):
                await session.send("hello")
                await watch.ended()
                await session.wait()
            assert session.title == "hello"
    assert len(server.requests) == 2


async def test_whoever_goes_on_does_not_wait_for_a_title(tmp_path: Path) -> None:
    slow = {**scenario("", step("Never said", delay=60), when={"system": NAMES}), "name": "title"}
    async with serve(scenario("hello", "Hello."), slow, strict=True) as server:
        async with run_session(server, tmp_path, flags=TITLES) as session:
            watch = SessionDriver(session)
            await session.send("hello")
            await watch.until_event(ReplyStarted, role="title")
            assert not session.busy
            await session.send("hello again")
            await watch.ended()
            assert session.title == "hello"
            await session.naming.rename("Mine")
    assert session.title == "Mine"


async def test_a_name_that_the_user_gave_stays(tmp_path: Path) -> None:
    async with serve(scenario("hello", "Hello."), side_reply(NAMES, "Another"), strict=True) as server:
        async with run_session(server, tmp_path, flags=TITLES) as session:
            watch = SessionDriver(session)
            await session.naming.rename("Mine")
            await session.send("hello")
            await watch.ended()
            await session.wait()
        async with run_session(server, None, resume=session.id, flags=TITLES) as again:
            watch = SessionDriver(again)
            await again.send("hello")
            await watch.ended()
            await again.wait()
            assert again.title == "Mine"
    assert not asked_for_titles(server)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Mending the adder", "Mending the adder"),
        ("**Title:** Mending the adder.\n\nIt says what was done.", "Mending the adder"),
        ("# „Addierer reparieren“", "Addierer reparieren"),
        ('{"title": "x"}', ""),
        ("", ""),
        ("I am sorry, but I can't give this conversation a title, since nothing in it says what it is about.", ""),
        ("a" * 70, "a" * 59 + "…"),
    ],
)
def test_the_title_is_found_in_what_a_model_says(said: str, title: str) -> None:
    assert parse_title(said) == title

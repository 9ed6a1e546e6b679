"""Named servers whose settings or tokens change, and what is asked of them (L3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.engine.kit import SessionDriver, run_session
from tests.engine.test_several_servers import NOBODY, chats, hi, recorder, server, two_servers, write_servers
from tui_agent.common import paths
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.session import Session
from tui_agent.events import ModelChanged
from tui_agent.models.discovery import FoundServer

OLD, NEW = "old-not-a-known-form-0815", "new-not-a-known-form-0816"


def tokens(served: FakeRawServer, since: int = 0) -> set[str | None]:
    return {request.headers.get("authorization") for request in served.requests[since:]}


async def named(session: Session, name: str) -> FoundServer:
    return next(one for one in await session.models.servers(fresh=True) if one.name == name)


async def test_a_changed_token_variable_reaches_the_server_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST", OLD)
    monkeypatch.setenv("SECOND", NEW)
    async with server("one") as first, recorder("two") as second:
        write_servers(other={"base_url": f"{second.url}/v1", "token_env": "FIRST"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            watch = SessionDriver(session)
            assert await session.models.choose("execution", "two") == ""
            await hi(watch)
            settings = session.settings.settings
            changed = {"other": settings.servers["other"].model_copy(update={"token_env": "SECOND"})}
            since = len(second.requests)
            assert await session.models.use_settings(settings.model_copy(update={"servers": changed})) == ""
            await hi(watch)
            assert tokens(second) == {f"Bearer {OLD}", f"Bearer {NEW}"}
            assert tokens(second, since) == {f"Bearer {NEW}"}


async def test_a_changed_address_reaches_the_server_in_use(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, _first, second), recorder("two") as third:
        watch = SessionDriver(session)
        assert await session.models.choose("execution", "two") == ""
        settings = session.settings.settings
        changed = {"other": settings.servers["other"].model_copy(update={"base_url": f"{third.url}/v1"})}
        before = len(second.requests)
        assert await session.models.use_settings(settings.model_copy(update={"servers": changed})) == ""
        assert (await hi(watch)).outcome == "done"
        assert watch.of(ModelChanged)[-1].server == f"{third.url}/v1"
        assert len(second.requests) == before and third.requests


async def test_a_token_that_was_rotated_is_sent_and_masked(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(OLD)
    token.chmod(0o600)
    async with server("one") as first, recorder("two") as second:
        write_servers(other={"base_url": f"{second.url}/v1", "token_file": str(token)})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            await session.models.listed(await named(session, "other"))
            token.write_text(NEW)
            since = len(second.requests)
            await session.models.listed(await named(session, "other"))
            assert tokens(second, since) == {f"Bearer {NEW}"}
            assert session.mask.mask(f"{OLD} {NEW}").count("⟨secret") == 2


async def test_a_slow_server_of_the_settings_is_found_by_the_name_of_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_agent.models.discovery._TOTAL", 0.05)
    asked = asyncio.Event()

    async def slow(connection: FakeConnection) -> None:
        if not asked.is_set():
            asked.set()
            await asyncio.sleep(3600)  # until the search gives up
        await connection.answer(200, {"object": "list", "data": [{"id": "late"}]})

    async with server("one") as first, FakeRawServer({"/v1/models": slow}) as second:
        write_servers(slow={"base_url": f"{second.url}/v1"}, gone={"base_url": f"{NOBODY}/v1"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            assert (await named(session, "slow")).problem
            assert await session.models.other_models() == ["slow:late"]
            assert await session.models.choose("execution", "late") == ""
            assert session.models.endpoint == f"{second.url}/v1"


async def test_a_server_that_never_lists_its_models_delays_a_search_for_seconds_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_agent.models.discovery._TOTAL", 0.05)
    monkeypatch.setattr("tui_agent.engine.models.choice.LISTING_SECONDS", 0.05)
    released = asyncio.Event()

    async def silent(connection: FakeConnection) -> None:
        await released.wait()

    async with server("one") as first, FakeRawServer({"/v1/models": silent}) as second:
        write_servers(hangs={"base_url": f"{second.url}/v1"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            async with asyncio.timeout(5):
                assert "has no model late" in await session.models.choose("execution", "late")
            released.set()


async def test_two_accounts_of_one_server_are_two_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", OLD)
    monkeypatch.setenv("B_TOKEN", NEW)
    async with server("one") as first, recorder("two") as second:
        address = f"{second.url}/v1"
        write_servers(
            work={"base_url": address, "token_env": "A_TOKEN"}, home={"base_url": address, "token_env": "B_TOKEN"}
        )
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            models, watch = session.models, SessionDriver(session)
            for name, key in (("work", OLD), ("home", NEW), ("work", OLD)):
                assert await models.choose("execution", "two", name) == ""
                since = len(second.requests)
                assert (await hi(watch)).outcome == "done"
                assert tokens(second, since) == {f"Bearer {key}"}
                servers = await models.servers(fresh=True)
                assert [one.name for one in servers if models.is_current(one)] == [name]
                assert {one.name for one in servers} >= {"work", "home"}


async def test_a_resume_with_a_model_uses_the_server_of_the_settings(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second):
        assert await session.models.choose("execution", "two") == ""
        assert (await hi(SessionDriver(session))).outcome == "done"
        await session.close()
        config = paths.config_file()
        config.write_text(f"{config.read_text()}provider: openai\nbase_url: {first.url}/v1\n")
        flags = {"provider": None, "base_url": None, "model": "one"}
        async with run_session(first, None, resume=session.id, flags=flags) as again:
            assert again.models.endpoint == f"{first.url}/v1"
            assert (await hi(SessionDriver(again))).outcome == "done"
            assert chats(second) == ["two"] and chats(first) == ["one"]


async def test_a_switch_that_fails_on_the_way_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_servers(tmp_path) as (session, first, _second):
        watch = SessionDriver(session)
        roles = session.models._roles
        emit = roles._emit

        def broken(event: Any) -> None:
            if isinstance(event, ModelChanged):
                raise JournalBroken("the disk is full")
            emit(event)

        await session.models.window()
        roles._emit = broken
        with pytest.raises(JournalBroken):
            await session.models.choose("execution", "two")
        roles._emit = emit
        assert (session.models.endpoint, roles.name, roles.listed_server) == (f"{first.url}/v1", "one", None)
        assert (await hi(watch)).outcome == "done"


@pytest.mark.parametrize(("given", "said"), [({}, "`token_env` for it"), ({"token_env": "BOX_TOKEN"}, "set BOX_TOKEN")])
async def test_advice_about_a_token_names_what_this_server_gets(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    async with server("one") as first, server("two", token=OLD) as second:
        write_servers(box={"base_url": f"{second.url}/v1", **given})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            problem = await session.models.choose("execution", "two", "box")
            assert said in problem and "LLM_AUTH_TOKEN" not in problem

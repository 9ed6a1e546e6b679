"""A wrong address, key or model of a server is corrected while the session is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.engine.session import Session
from tui_agent.events import ModelChanged, Notice, RunEnded
from tui_agent.settings import Settings

KEY = "abc-not-a-known-form-0815"
NOBODY = "http://127.0.0.1:9"


def server(*models: str, **options: Any) -> MockServer:
    return serve(scenario("hi", "hello"), models=models, **options)


def with_values(session: Session, **values: Any) -> Settings:
    return session.settings.settings.model_copy(update=values)


async def hi(watch: SessionDriver) -> RunEnded:
    await watch.session.send("hi")
    return await watch.ended()


@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_a_wrong_address_is_corrected_for_the_next_request(provider: str, tmp_path: Path) -> None:
    async with server("here") as served:
        flags = {"base_url": NOBODY, "model": None}
        async with run_session(served, tmp_path, provider=provider, flags=flags, attended=True) as session:
            watch = SessionDriver(session)
            await watch.until_event(Notice, code="server.missing")
            assert session.models.fault is not None and session.models.fault.kind == "unreachable"
            url = served.url + ("/v1" if provider == "openai" else "")
            assert await session.models.use_settings(with_values(session, base_url=url)) == ""
            assert session.models.fault is None
            assert (await hi(watch)).outcome == "done"
            assert watch.of(ModelChanged)[-1].model == "here"
            assert session.models.endpoint.startswith(served.url)
            (connected,) = [one for one in watch.of(Notice) if one.code == "server.connected"]
            assert connected.text == f"Connected to {session.models.endpoint}: here answers."


async def test_a_key_is_used_at_once_kept_in_memory_and_sent_to_its_server_only(tmp_path: Path) -> None:
    async with server("here", token=KEY) as served, server("there") as other:
        async with run_session(served, tmp_path, flags={"model": None}, attended=True) as session:
            watch = SessionDriver(session)
            await watch.until_event(Notice, code="server.missing")
            assert session.models.fault is not None and session.models.fault.status == 401
            assert "token" in await session.models.use_settings(session.settings.settings, "wrong-key-4711")
            assert await session.models.use_settings(session.settings.settings, KEY) == ""
            assert (await hi(watch)).outcome == "done"
            assert KEY not in session.mask.mask(f"the key is {KEY}.")
            timeouts = session.settings.settings.timeouts.model_copy(update={"idle": 77.0})
            assert await session.models.use_settings(with_values(session, timeouts=timeouts)) == ""  # still has the key
            moved = with_values(session, base_url=f"{other.url}/v1", timeouts=timeouts)
            assert await session.models.use_settings(moved) == ""
            assert (await hi(watch)).outcome == "done"
            assert all("authorization" not in request.headers for request in other.requests)
        for path in session.folder.rglob("*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


async def test_other_settings_of_models_take_effect_without_a_new_client(tmp_path: Path) -> None:
    async with server("one", "two") as served, run_session(served, tmp_path, flags={"model": "one"}) as session:
        watch = SessionDriver(session)
        await hi(watch)
        assert await session.models.use_settings(with_values(session, model="two", temperature=0.25)) == ""
        await hi(watch)
        assert (served.requests[-1].body["model"], served.requests[-1].body["temperature"]) == ("two", 0.25)
        problem = await session.models.use_settings(with_values(session, model="tow"))
        assert "did you mean `two`?" in problem
        assert (await hi(watch)).outcome == "done"


async def test_a_run_keeps_its_server(tmp_path: Path) -> None:
    slow = scenario("hi", {"response": {"content": "slow words of an answer"}, "delay": 0.3})
    async with serve(slow, models=("m",)) as served, server("m") as other:
        async with run_session(served, tmp_path, flags={"model": "m"}) as session:
            watch = SessionDriver(session)
            await session.send("hi")
            await watch.until(lambda record: bool(served.requests))
            assert await session.models.use_settings(with_values(session, base_url=f"{other.url}/v1")) == ""
            assert (await watch.ended()).outcome == "done"
            assert [request for request in other.requests if request.body.get("messages")] == []
            await hi(watch)
            assert [request for request in other.requests if request.body.get("messages")]


async def test_settings_that_name_no_server_change_nothing(tmp_path: Path) -> None:
    async with server("m") as served, run_session(served, tmp_path, flags={"model": "m"}) as session:
        watch = SessionDriver(session)
        problem = await session.models.use_settings(with_values(session, base_url="ftp://x"))
        assert "must begin with http://" in problem
        assert (await hi(watch)).outcome == "done"


WORK = "Write a parser for the config format in config.py with tests, then document every option in README.md"


async def test_all_requests_of_a_run_name_the_models_of_its_server(tmp_path: Path) -> None:
    slow = scenario("", *[step("slow words of an answer", delay=0.3) for _ in range(2)], *["words"] * 6)
    async with serve(slow, models=("a",)) as served, serve(scenario("", "hello"), models=("b",)) as other:
        async with run_session(served, tmp_path, flags={"model": None, "mode": "agent"}) as session:
            watch = SessionDriver(session)
            await session.send(WORK)
            await watch.until(lambda record: any(request.body.get("messages") for request in served.requests))
            moved = with_values(session, base_url=f"{other.url}/v1", model=None)
            assert await session.models.use_settings(moved) == ""
            await watch.ended()
    asked = [request.body["model"] for request in served.requests if request.body.get("messages")]
    assert len(asked) > 1 and set(asked) == {"a"}
    assert not any(request.body.get("messages") for request in other.requests if "title" not in str(request.body))


async def test_a_sub_agent_of_a_run_keeps_its_server(tmp_path: Path) -> None:
    async with server("a") as served, server("b") as other:
        async with run_session(served, tmp_path, flags={"model": None}) as session:
            await hi(SessionDriver(session))
            roles = session._runs._run_roles
            config = await roles.config()
            assert not isinstance(config, RunEnded)
            assert await session.models.use_settings(with_values(session, base_url=f"{other.url}/v1")) == ""
            explorer = await roles.explorer(config)
            assert (explorer.model, explorer.name) == (config.model, "a")


async def test_a_key_that_was_not_accepted_does_not_replace_the_one_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(0o600)
    async with server("here", token=KEY) as served:
        async with run_session(served, tmp_path, flags={"model": None}, attended=True) as session:
            assert "token" in await session.models.use_settings(session.settings.settings, "wrong-key-4711")
            assert await session.models.use_settings(with_values(session, token_file=str(file))) == ""


async def test_the_key_of_a_file_replaces_an_accepted_one_that_was_typed(tmp_path: Path) -> None:
    wrong = tmp_path / "key"
    wrong.write_text("wrong-key-4711")
    wrong.chmod(0o600)
    async with server("here", token=KEY) as served:
        async with run_session(served, tmp_path, flags={"model": None}, attended=True) as session:
            assert await session.models.use_settings(session.settings.settings, KEY) == ""
            assert "token" in await session.models.use_settings(with_values(session, token_file=str(wrong)))


async def test_other_time_limits_keep_the_chosen_model(tmp_path: Path) -> None:
    async with server("one", "two") as served, run_session(served, tmp_path, flags={"model": "one"}) as session:
        watch = SessionDriver(session)
        await hi(watch)
        assert await session.models.choose("execution", "two") == ""
        timeouts = session.settings.settings.timeouts.model_copy(update={"idle": 77.0})
        assert await session.models.use_settings(with_values(session, timeouts=timeouts)) == ""
        assert (await session.models.current())["execution"] == ("two", True)


async def test_a_refused_choice_of_a_model_leaves_no_fault(tmp_path: Path) -> None:
    async with serve(scenario("hi", "hello"), models=("one",)) as served:
        async with run_session(served, tmp_path, flags={"model": "one"}) as session:
            await hi(SessionDriver(session))
            roles = session.models._roles
            assert await roles._switch("nothing-like-it") is not None
            assert session.models.fault is None

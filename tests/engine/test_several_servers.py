"""Models of several servers in one session: listed, chosen, loaded, resumed (L3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.gguf import write_gguf
from tests.doubles.local_engine import DOUBLES, processes
from tests.doubles.mock import MockServer, scenario, serve
from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.engine.kit import SessionDriver, run_session
from tests.models.asking import sse, stream_chunk
from tests.models.recordings import ROUTER, answer_script, played, recording
from tests.waiting import wait_for
from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.engine.models.choice import Candidate, consequences
from tui_agent.engine.session import Session
from tui_agent.events import ModelChanged, Notice, RunEnded
from tui_agent.frontends.session_commands import SESSION_COMMANDS
from tui_agent.frontends.web.choices import model_choices
from tui_agent.models import discovery
from tui_agent.models.local.memory import Memory
from tui_agent.settings import ServerSettings

NOBODY = "http://127.0.0.1:9"
KEY = "abc-not-a-known-form-0816"
OWN_KEY = "abc-not-a-known-form-0817"


def server(*models: str, say: str = "hello", **options: Any) -> MockServer:
    return serve(scenario("hi", say), models=models, **options)


def recorder(model: str) -> FakeRawServer:
    """A server whose requests are kept with all headers."""

    async def models(connection: FakeConnection) -> None:
        await connection.answer(200, {"object": "list", "data": [{"id": model}]})

    chat = sse(stream_chunk("stop", content="hello"), "[DONE]")
    return FakeRawServer({"/v1/models": models, "/v1/chat/completions": chat})


async def hi(watch: SessionDriver) -> RunEnded:
    await watch.session.send("hi")
    return await watch.ended()


def chats(served: MockServer) -> list[str]:
    return [one.body["model"] for one in served.requests if one.body.get("messages")]


def write_servers(**servers: dict[str, str]) -> None:
    lines = [
        f"  {name}: {{{', '.join(f'{key}: {value!r}' for key, value in of.items())}}}" for name, of in servers.items()
    ]
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text("\n".join(["servers:", *lines, ""]))


@asynccontextmanager
async def two_servers(tmp_path: Path, **more: Any) -> AsyncIterator[tuple[Session, MockServer, MockServer]]:
    """A session on the first server; the second one is called `other` in the settings."""
    async with server("one", "both") as first, server("two", "both", **more) as second:
        write_servers(other={"base_url": f"{second.url}/v1"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            yield session, first, second


async def test_the_models_of_all_servers_are_listed_by_server(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second):
        servers = await session.models.servers()
        assert [(one.setting, one.base_url) for one in servers] == [
            ("", f"{first.url}/v1"),
            ("other", f"{second.url}/v1"),
        ]
        names = []
        for one in servers:
            listed = await session.models.listed(one)
            assert not isinstance(listed, Fault)
            names += [(candidate.server, candidate.name) for candidate in listed]
        own = servers[0].name
        assert names == [(own, "both"), (own, "one"), ("other", "both"), ("other", "two")]


async def test_a_model_of_another_server_answers_from_the_next_message_on(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second):
        watch = SessionDriver(session)
        await hi(watch)
        assert await session.models.choose("execution", "two") == ""
        await hi(watch)
        assert (chats(first), chats(second)) == (["one"], ["two"])
        changed = watch.of(ModelChanged)[-1]
        assert (changed.model, changed.by, changed.server) == ("two", "user", f"{second.url}/v1")
        assert session.models.endpoint == f"{second.url}/v1"
        assert (await session.models.servers())[0].name == "other"
        assert await session.models.choose("execution", "one") == ""
        await hi(watch)
        assert (chats(first), chats(second)) == (["one", "one"], ["two"])
        assert watch.of(ModelChanged)[-1].server == ""


async def test_a_name_that_two_servers_have_means_the_own_one_unless_the_server_is_named(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second), server("both", "there") as third:
        watch = SessionDriver(session)
        settings = session.settings.settings
        servers = {
            **settings.servers,
            "more": settings.servers["other"].model_copy(update={"base_url": f"{third.url}/v1"}),
        }
        assert await session.models.use_settings(settings.model_copy(update={"servers": servers})) == ""
        assert await session.models.choose("execution", "both") == ""
        await hi(watch)
        assert chats(first) == ["both"]
        assert await session.models.choose("execution", "other:both") == ""
        await hi(watch)
        assert chats(second) == ["both"]
        assert await session.models.choose("execution", "there") == ""
        await hi(watch)
        assert await session.models.choose("execution", "one") == ""  # back to the first one
        assert await session.models.choose("execution", "there", "other") == "other has no model there."
        assert await session.models.choose("execution", "there", "none") == "There is no server none."
        assert "has no model none:there" in await session.models.choose("execution", "none:there")
        assert await session.models.choose("execution", "two", "other") == ""
        assert await session.models.choose("execution", "there") == ""
        await hi(watch)
        assert chats(third) == ["there", "there"]


async def test_a_name_that_several_others_have_is_not_guessed(tmp_path: Path) -> None:
    async with server("one") as first, server("both") as second, server("both") as third:
        write_servers(a={"base_url": f"{second.url}/v1"}, b={"base_url": f"{third.url}/v1"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            said = await session.models.choose("execution", "both")
            assert said == "Several servers have both: choose `a:both` or `b:both`."
            assert await session.models.choose("planning", "a:both") == (
                f"A role uses the session's server, {first.url}/v1; both is on a."
            )


async def test_each_server_gets_its_own_key_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_AUTH_TOKEN", OWN_KEY)
    monkeypatch.setenv("OF_OTHER", KEY)
    async with recorder("one") as first, recorder("two") as second, recorder("three") as third:
        write_servers(
            other={"base_url": f"{second.url}/v1", "token_env": "OF_OTHER"}, open={"base_url": f"{third.url}/v1"}
        )
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            watch = SessionDriver(session)
            for name in ("two", "three", "one"):
                assert await session.models.choose("execution", name) == ""
                assert (await hi(watch)).outcome == "done"
            assert KEY not in session.mask.mask(f"the key is {KEY}.")
        keys = [{one.headers.get("authorization") for one in served.requests} for served in (first, second, third)]
        assert keys == [{f"Bearer {OWN_KEY}"}, {f"Bearer {KEY}"}, {None}]
        for path in session.folder.rglob("*"):
            assert not path.is_file() or not any(key.encode() in path.read_bytes() for key in (KEY, OWN_KEY)), path


async def test_a_run_keeps_its_server(tmp_path: Path) -> None:
    slow = scenario("hi", {"response": {"content": "slow words of an answer"}, "delay": 0.3})
    async with serve(slow, models=("one",)) as first, server("two") as second:
        write_servers(other={"base_url": f"{second.url}/v1"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            watch = SessionDriver(session)
            await session.send("hi")
            await watch.until(lambda record: bool(chats(first)))
            assert await session.models.choose("execution", "two") == ""
            assert (await watch.ended()).outcome == "done"
            assert chats(second) == []
            await hi(watch)
            assert chats(second) == ["two"]


async def test_a_resume_uses_the_chosen_server_unless_the_command_line_names_one(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second):
        watch = SessionDriver(session)
        await hi(watch)
        assert await session.models.choose("execution", "two") == ""
        await hi(watch)
        await session.close()
        config = paths.config_file()
        servers = config.read_text()
        config.write_text(f"{servers}provider: openai\nbase_url: {first.url}/v1\nmodel: one\n")
        flags = {"provider": None, "base_url": None, "model": None}
        async with run_session(first, None, resume=session.id, flags=flags) as again:
            assert again.models.endpoint == f"{second.url}/v1"
            await hi(SessionDriver(again))
            assert chats(second) == ["two", "two"]
        async with run_session(first, None, resume=session.id, flags={"model": None}) as named:
            await hi(SessionDriver(named))
            assert chats(first) == ["one", "one"]
        config.write_text(config.read_text().replace(servers, ""))
        async with run_session(first, None, resume=session.id, flags=flags) as without:
            watch = SessionDriver(without)
            assert (await hi(watch)).outcome == "done"


async def test_a_server_that_is_not_known_any_more_is_reported_and_not_contacted(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second):
        assert await session.models.choose("execution", "two") == ""
        await session.close()
        paths.config_file().write_text(f"provider: openai\nbase_url: {first.url}/v1\nmodel: one\n")
        before = len(second.requests)
        flags = {"provider": None, "base_url": None, "model": None}
        async with run_session(first, None, resume=session.id, flags=flags) as again:
            watch = SessionDriver(again)
            await hi(watch)
            notices = [one.text for one in watch.of(Notice)]
            assert any(f"{second.url}/v1, which this session used" in text for text in notices)
            assert chats(first) == ["one"]
        assert len(second.requests) == before


async def test_what_can_not_be_chosen_changes_nothing(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, _second):
        settings = session.settings.settings
        gone = settings.servers["other"].model_copy(update={"base_url": f"{NOBODY}/v1"})
        await session.models.use_settings(settings.model_copy(update={"servers": {**settings.servers, "gone": gone}}))
        watch = SessionDriver(session)
        assert "connection refused" in await session.models.choose("execution", "x", "gone")
        assert await session.models.choose("execution", "x", "other") == "other has no model x."
        assert session.models.fault is None
        assert (await hi(watch)).outcome == "done"
        assert chats(first) == ["one"]


async def test_a_chosen_server_stays_while_other_settings_change(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, first, second):
        watch = SessionDriver(session)
        assert await session.models.choose("execution", "two") == ""
        settings = session.settings.settings
        for changed in (
            settings.model_copy(update={"temperature": 0.25}),
            settings.model_copy(update={"timeouts": settings.timeouts.model_copy(update={"idle": 77.0})}),
        ):
            assert await session.models.use_settings(changed) == ""
            await hi(watch)
        assert (chats(first), chats(second)) == ([], ["two", "two"])
        async with server("new") as third:
            moved = settings.model_copy(update={"base_url": f"{third.url}/v1", "model": None})
            assert await session.models.use_settings(moved) == ""
            await hi(watch)
            assert chats(third) == ["new"]


async def test_a_dead_and_a_silent_server_are_listed_with_their_problem(tmp_path: Path, monkeypatch: Any) -> None:
    import asyncio

    released = asyncio.Event()

    async def silent(connection: FakeConnection) -> None:
        await released.wait()

    monkeypatch.setattr(discovery, "_TOTAL", 0.3)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(server("one"))
        hangs = await stack.enter_async_context(FakeRawServer({"/v1/models": silent}))
        write_servers(dead={"base_url": f"{NOBODY}/v1"}, hangs={"base_url": f"{hangs.url}/v1"})
        session = await stack.enter_async_context(run_session(first, tmp_path, flags={"model": "one"}))
        found = {one.name: one for one in await session.models.servers()}
        released.set()
        assert "connection refused" in found["dead"].problem
        assert "in time" in found["hangs"].problem
        assert await session.models.choose("execution", "one") == ""


async def test_the_speed_of_a_model_is_that_of_its_last_reply_or_of_its_measurement(tmp_path: Path) -> None:
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text('{"models": {"two": {"calibration": {"tokensPerSecond": 7.5}}}}')
    async with played(ROUTER, "chat that loads") as raw:
        raw.routes["/v1/models"] = answer_script(recording(ROUTER)["answers"]["models loaded"])
        async with server("two") as other:
            write_servers(other={"base_url": f"{other.url}/v1"})
            async with run_session(raw, tmp_path, flags={"model": "qwen"}) as session:
                raw.routes["/v1/chat/completions"] = answer_script(recording(ROUTER)["answers"]["chat"])
                await hi(SessionDriver(session))
                speeds: dict[str, float | None] = {}
                for one in await session.models.servers():
                    listed = await session.models.listed(one)
                    assert not isinstance(listed, Fault)
                    speeds |= {candidate.name: candidate.speed for candidate in listed}
    assert speeds["qwen"] == pytest.approx(6 / 0.146, rel=0.01)
    assert speeds["two"] == 7.5


async def test_models_are_loaded_and_unloaded_on_their_server(tmp_path: Path) -> None:
    router = played(ROUTER, "load", "unload", "models unloaded", "models loaded", "models after unload", "props")
    async with server("one") as first, router as second:
        write_servers(other={"base_url": f"{second.url}/v1"})
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            servers = await session.models.servers()
            assert [one.kind for one in servers][1] == "llama.cpp router"
            qwen = Candidate(name="qwen", server="other")
            second.routes["/v1/models"] = answer_script(recording(ROUTER)["answers"]["models loaded"])
            assert await session.models.set_loaded(qwen, True) == ""
            described: list[Candidate] = []
            await session.models.describe(["qwen"], described.append, servers[1])
            assert (described[0].loaded, described[0].window, described[0].server) == (True, 4096, "other")
            second.routes["/v1/models"] = answer_script(recording(ROUTER)["answers"]["models after unload"])
            assert await session.models.set_loaded(qwen, False) == ""
            said = await session.models.set_loaded(Candidate(name="one", server=servers[0].name), True)
            assert "does not load models on request" in said
    assert [one.path for one in second.requests if one.method == "POST"] == ["/models/load", "/models/unload"]


async def test_line_mode_and_page_list_the_models_of_other_servers_with_their_server(tmp_path: Path) -> None:
    async with two_servers(tmp_path) as (session, _first, second):
        reply = await SESSION_COMMANDS["model"](session, "")
        assert reply.text.splitlines() == [
            *("  both", "  one", "  other:both", "  other:two"),
            "/model NAME switches, from the next message",
        ]
        rows = (await model_choices(session))["rows"]
        assert [row["id"] for row in rows] == ["both", "one", "other:both", "other:two"]
        assert (await SESSION_COMMANDS["model"](session, "other:both")).text == ""
        assert session.models.endpoint == f"{second.url}/v1"


async def test_a_server_that_is_added_later_has_its_key_masked_and_used(tmp_path: Path, monkeypatch: Any) -> None:
    async with server("one") as first, server("two", token=KEY) as second:
        async with run_session(first, tmp_path, flags={"model": "one"}) as session:
            watch = SessionDriver(session)
            await hi(watch)
            settings = session.settings.settings
            address = f"{second.url}/v1"
            for token_env in ("WRONG", "RIGHT"):
                added = ServerSettings(base_url=address, token_env=token_env)
                assert await session.models.use_settings(settings.model_copy(update={"servers": {"x": added}})) == ""
                monkeypatch.setenv("RIGHT", KEY)
                said = await session.models.choose("execution", "two", "x")
                assert ("token" in said) is (token_env == "WRONG")
            assert KEY not in session.mask.mask(f"the key is {KEY}.")
            assert (await hi(watch)).outcome == "done"
            assert chats(second) == ["two"]


async def test_the_list_says_what_a_window_of_a_local_model_takes(tmp_path: Path, monkeypatch: Any) -> None:
    write_gguf(paths.ensure_private_dir(paths.models_dir()) / "small.gguf")
    found: list[Candidate] = []
    async with two_servers(tmp_path) as (session, _, _):
        choice = session.models
        (local,) = [other for other in await choice.servers() if other.provider == "local"]
        for available, words in ((8 << 30, "1,000 tokens of the window take 2.0 MB"), (1 << 20, "smaller model")):
            memory = Memory(total=16 << 30, available=available)
            monkeypatch.setattr("tui_agent.engine.models.choice.read_memory", lambda memory=memory: memory)
            await choice.describe(["small"], found.append, local)
            assert words in found[-1].advice, found[-1]
            sentences = consequences(found[-1], found[-1], role="", window=32_768, used=None)
            assert sentences[-1] == found[-1].advice


@pytest.mark.parametrize("by", ["choice", "settings"])
async def test_a_session_that_leaves_a_local_model_ends_its_engine(by: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES))
    monkeypatch.syspath_prepend(str(DOUBLES))
    monkeypatch.setattr("tui_agent.models.local.model.RETIREMENT", 0.0)
    weights = write_gguf(paths.ensure_private_dir(paths.models_dir()) / "small.gguf")
    async with server("two") as second:
        write_servers(other={"base_url": f"{second.url}/v1"})
        local = {"provider": "local", "base_url": None, "model": "small"}
        async with run_session(second, tmp_path, flags=local) as session:
            watch = SessionDriver(session)
            assert (await hi(watch)).outcome == "done" and len(processes(weights)) == 2
            if by == "choice":
                assert await session.models.choose("execution", "two") == ""
            else:
                other = {"provider": "openai", "base_url": f"{second.url}/v1", "model": None}
                assert await session.models.use_settings(session.settings.settings.model_copy(update=other)) == ""
            await wait_for(lambda: processes(weights) == [])
            assert (await hi(watch)).outcome == "done" and chats(second) == ["two"]

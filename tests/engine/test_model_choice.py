from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, scenario, serve
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Fault
from tui_agent.engine.models.choice import Candidate, consequences
from tui_agent.events import ModelChanged, Notice, RoleChanged, RunEnded
from tui_agent.mock_server.replies import ServedModel

BIG = ServedModel(name="big:14b", context_length=65_536, capabilities=("completion", "tools", "thinking"))
SMALL = ServedModel(name="small:1b", context_length=8_192, capabilities=("completion",))
LATEST = ServedModel(name="mid:latest", context_length=32_768)
NUMBERS = ServedModel(name="numbers", capabilities=("embedding",))


def server(*models: ServedModel | str) -> MockServer:
    return serve(scenario("hi", "hello"), models=models or (BIG, SMALL, LATEST, NUMBERS))


async def hi(watch: SessionDriver) -> RunEnded:
    await watch.session.send("hi")
    return await watch.ended()


def chats(served: MockServer) -> list[dict[str, Any]]:
    return [one.body for one in served.requests if one.path.endswith(("/api/chat", "/chat/completions"))]


async def test_a_chosen_model_answers_next_and_after_a_resume(tmp_path: Path) -> None:
    async with server() as served:
        async with run_session(served, tmp_path, provider="ollama", flags={"model": "big:14b"}) as session:
            watch = SessionDriver(session)
            await hi(watch)
            assert await session.models.choose("execution", "mid") == ""
            changed = watch.session.models
            assert (await changed.current())["execution"] == ("mid:latest", True)
            assert await changed.window() == 32_768
            await hi(watch)
            assert [one["model"] for one in chats(served)] == ["big:14b", "mid:latest"]
            assert watch.of(ModelChanged)[-1].by == "user"
        flags = {"model": None}
        async with run_session(served, None, provider="ollama", resume=session.id, flags=flags) as again:
            await hi(SessionDriver(again))
        assert chats(served)[-1]["model"] == "mid:latest"
        async with run_session(served, None, provider="ollama", resume=session.id, flags={"model": "big:14b"}) as named:
            await hi(SessionDriver(named))
        assert chats(served)[-1]["model"] == "big:14b"  # the command line counts more


async def test_a_role_gets_the_model_that_was_chosen_for_it_also_after_a_resume(tmp_path: Path) -> None:
    async with server() as served:
        flags: dict[str, Any] = {"model": "big:14b", "mode": "agent"}
        async with run_session(served, tmp_path, provider="ollama", flags=flags) as session:
            watch = SessionDriver(session)
            assert await session.models.choose("planning", "small:1b") == ""
            assert await session.models.choose("explorer", "mid") == ""
            await hi(watch)
            asked = {one["model"] for one in chats(served)}
            assert {"big:14b", "small:1b"} <= asked
            assert watch.of(RoleChanged) == [
                RoleChanged(role="planning", model="small:1b"),
                RoleChanged(role="explorer", model="mid:latest"),
            ]
        served.requests.clear()
        async with run_session(
            served, None, provider="ollama", resume=session.id, flags={"model": None, "mode": "agent"}
        ) as again:
            current = await again.models.current()
            assert current["planning"] == ("small:1b", True)
            assert current["explorer"] == ("mid:latest", True)
            assert current["summary"] == ("big:14b", False)
            await hi(SessionDriver(again))
            assert "small:1b" in {one["model"] for one in chats(served)}
            assert await again.models.choose("planning", "") == ""
            assert (await again.models.current())["planning"] == ("big:14b", False)


async def test_what_cannot_be_chosen_is_said_and_changes_nothing(tmp_path: Path) -> None:
    async with (
        server() as served,
        run_session(served, tmp_path, provider="ollama", flags={"model": "big:14b"}) as session,
    ):
        watch, models = SessionDriver(session), session.models
        assert "has no model none" in await models.choose("execution", "none")
        assert "can't chat" in await models.choose("summary", "numbers")
        await hi(watch)
        await models.choose("planning", "small:1b")
        served.requests.clear()
        await served.__aexit__(None, None, None)
        assert "can't be reached" in (said := await models.choose("execution", "mid")) or served.url in said
        assert isinstance(await models.listed(), Fault)
        current = await models.current()
        assert current["execution"] == ("big:14b", False)


async def test_a_chosen_model_that_vanished_is_told_and_the_sessions_own_is_used(tmp_path: Path) -> None:
    async with server() as served:
        async with run_session(served, tmp_path, provider="ollama", flags={"model": "big:14b"}) as session:
            await session.models.choose("planning", "small:1b")
    async with server(BIG) as served:
        flags = {"model": "big:14b", "mode": "agent"}
        async with run_session(served, None, provider="ollama", resume=session.id, flags=flags) as again:
            watch = SessionDriver(again)
            await hi(watch)
            assert {one["model"] for one in chats(served)} == {"big:14b"}
            told = [one.text for one in watch.of(Notice) if one.code == "models.missing"]
            assert len(told) == 1 and "small:1b" in told[0]


@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_the_list_has_what_the_server_says(provider: str, tmp_path: Path) -> None:
    async with (
        server() as served,
        run_session(served, tmp_path, provider=provider, flags={"model": "big:14b"}) as session,
    ):
        listed = await session.models.listed()
        assert not isinstance(listed, Fault)
        assert [one.name for one in listed] == ["big:14b", "mid:latest", "numbers", "small:1b"]
        found: dict[str, Candidate] = {}
        await session.models.describe([one.name for one in listed], lambda one: found.__setitem__(one.name, one))
        assert set(found) == {one.name for one in listed}
        if provider == "ollama":
            big, small = found["big:14b"], found["small:1b"]
            assert (big.tools, big.thinks, big.window, big.trained) == (True, True, 32_768, 65_536)
            assert (small.tools, small.window) == (False, 8_192)
            assert "Q4_K_M" in big.build
            assert not found["numbers"].answers


def test_what_a_choice_would_mean() -> None:
    now = Candidate(name="big", described=True, tools=True, window=32_768, loaded=True)
    new = Candidate(name="small", described=True, tools=False, window=8_192, loaded=False)
    said = " ".join(consequences(now, new, role="execution", window=32_768, used=7_000))
    assert "loaded first" in said
    assert "8,192 tokens instead of 32,768" in said
    assert "has 7,000" in said
    assert "no native tool calls" in said
    other = " ".join(consequences(now, new, role="planning", window=32_768, used=7_000))
    assert "Switching between the two" in other and "window" not in other.lower()
    assert consequences(now, now, role="execution", window=32_768, used=None) == ["In use now."]
    unknown = Candidate(name="x")
    assert consequences(now, unknown, role="execution", window=1, used=1) == []
    silent = Candidate(name="x", described=True, problem="The server is silent.")
    assert consequences(None, silent, role="title", window=1, used=1) == ["The server is silent."]

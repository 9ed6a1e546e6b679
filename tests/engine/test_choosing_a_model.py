from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, scenario, serve
from tests.doubles.ollama import FakeOllama
from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tests.engine.kit import SessionDriver, run_session
from tests.models.asking import sse, stream_chunk
from tui_agent.events import ModelChanged, Notice, RunEnded, StageStarted
from tui_agent.mock_server.replies import ServedModel

CHATS = ("/api/chat", "/chat/completions")


def server(*models: ServedModel | str) -> MockServer:
    return serve(scenario("hi", "hello"), models=models)


async def hi(watch: SessionDriver) -> RunEnded:
    await watch.session.send("hi")
    return await watch.ended()


def answering(value: object) -> Script:
    async def answer(connection: FakeConnection) -> None:
        await connection.answer(200, value)

    return answer


# --- the window ---


@pytest.mark.parametrize(
    ("loaded", "chosen", "asked"),
    [
        (262_144, None, 262_144),
        (262_144, 65_536, 65_536),
        (20_480, None, 20_480),
        (4_096, None, 32_768),
        (None, None, 32_768),
    ],
)
async def test_a_loaded_model_keeps_its_window(
    loaded: int | None, chosen: int | None, asked: int, tmp_path: Path
) -> None:
    async with FakeOllama(lambda body: {"content": "hello"}, trained=1_000_000) as ollama:
        ollama._loaded = {"mock-model": loaded} if loaded else {}
        flags = {"context_window": chosen}
        async with run_session(ollama, tmp_path, provider="ollama", flags=flags) as session:
            watch = SessionDriver(session)
            await hi(watch)
            await hi(watch)
    assert [body["options"]["num_ctx"] for body in ollama.bodies] == [asked] * 2


@pytest.mark.parametrize(
    ("answers", "chosen", "window"),
    [
        ({"/v1/models": {"data": [{"id": "mock-model", "meta": {"n_ctx": 65_536}}]}}, None, 65_536),
        ({"/v1/models": {"data": [{"id": "mock-model", "meta": {"n_ctx": 65_536}}]}}, 20_000, 20_000),
        ({"/v1/models": {"data": [{"id": "mock-model", "meta": {"n_ctx_train": 131_072}}]}}, None, 32_768),
        ({"/v1/models": {"data": [{"id": "mock-model", "max_model_len": 40_960}]}}, None, 40_960),
        ({"/api/v0/models": {"data": [{"id": "mock-model", "loaded_context_length": 50_000}]}}, None, 50_000),
        ({"/props": {"default_generation_settings": {"n_ctx": 24_576}}}, None, 24_576),
    ],
)
async def test_the_window_is_what_the_server_says(
    answers: dict[str, Any], chosen: int | None, window: int, tmp_path: Path
) -> None:
    routes = {path: answering(value) for path, value in answers.items()}
    routes["/v1/chat/completions"] = sse(stream_chunk("stop", content="hello"), "[DONE]")
    async with FakeRawServer(routes) as raw:
        async with run_session(raw, tmp_path, flags={"context_window": chosen}) as session:
            watch = SessionDriver(session)
            await hi(watch)
    assert watch.of(ModelChanged)[-1].context_window == window


# --- the best one ---


async def test_a_model_that_only_makes_embeddings_is_never_asked_to_answer(tmp_path: Path) -> None:
    async with server(ServedModel(name="numbers", capabilities=("embedding",))) as served:
        for name in (None, "numbers"):
            async with run_session(served, tmp_path, provider="ollama", flags={"model": name}) as session:
                ended = await hi(SessionDriver(session))
            assert ended.outcome == "failed"
            assert "numbers only makes embeddings and can't chat." in ended.text
    assert not [one for one in served.requests if one.path.endswith(CHATS)]


async def test_a_model_that_takes_tool_calls_is_chosen_before_one_that_does_not(tmp_path: Path) -> None:
    models = (
        ServedModel(name="a", capabilities=("completion",)),
        ServedModel(name="code-vectors", capabilities=("embedding",)),
        ServedModel(name="b", capabilities=("completion", "tools")),
    )
    async with server(*models) as served:
        async with run_session(served, tmp_path, provider="ollama", flags={"model": None}) as session:
            await hi(SessionDriver(session))
        assert served.requests[0].body["model"] == "b"


# --- a model that is not there ---


@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_a_model_that_is_not_there_is_told_at_the_opening_and_ends_a_run_at_once(
    provider: str, tmp_path: Path
) -> None:
    flags = {"model": "gone:7b", "mode": "agent"}
    async with (
        server("here:7b", "there:7b") as served,
        run_session(served, tmp_path, provider=provider, flags=flags, attended=True) as session,
    ):
        watch = SessionDriver(session)
        notice = await watch.until_event(Notice, level="error")
        assert "has no model gone:7b" in notice.text and "available: here:7b, there:7b" in notice.text
        assert ("ollama pull gone:7b" in notice.text) is (provider == "ollama")
        before = len(served.requests)
        ended = await hi(watch)
        assert ended.outcome == "failed" and "has no model gone:7b" in ended.text
        assert not watch.of(StageStarted)
        assert len([one for one in watch.of(Notice) if "gone:7b" in one.text]) == 1
    assert len(served.requests) <= before + 1


@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_the_model_that_was_meant_is_suggested(provider: str, tmp_path: Path) -> None:
    flags = {"model": "qwen2.5-codr:7b"}
    async with (
        server("llama3.2:3b", "qwen2.5-coder:7b") as served,
        run_session(served, tmp_path, provider=provider, flags=flags, attended=True) as session,
    ):
        notice = await SessionDriver(session).until_event(Notice, level="error")
        assert "has no model qwen2.5-codr:7b; did you mean `qwen2.5-coder:7b`?" in notice.text
        assert "did you mean `llama3.2:3b`?" in await session.models.choose("execution", "lama3.2:3b")
        assert "did you mean" not in await session.models.choose("execution", "something-else")


async def test_a_name_that_a_server_takes_without_listing_it_is_used(tmp_path: Path) -> None:
    routes = {
        "/v1/models": answering({"data": [{"id": "listed"}, {"id": "another"}]}),
        "/v1/chat/completions": sse(stream_chunk("stop", content="hello"), "[DONE]"),
    }
    async with FakeRawServer(routes) as raw:
        async with run_session(raw, tmp_path, flags={"model": "alias"}) as session:
            assert (await hi(SessionDriver(session))).outcome == "done"

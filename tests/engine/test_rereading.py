from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.ollama import Body, FakeOllama, estimate_tokens
from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tests.engine.kit import SessionDriver, run_session
from tests.models.asking import stream_chunk
from tui_agent.events import Notice, ReplyPhase, ReplyStarted

READS = 5


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = make_workspace(tmp_path / "work")
    (place / "long.py").write_text("".join(f"value_{n} = compute({n})\n" for n in range(1_600)), "utf-8")
    for number in range(READS):
        (place / f"short{number}.py").write_text(f"value = {number}\n", "utf-8")
    return place


def answer(body: Body) -> Body:
    done = sum(message["role"] == "tool" for message in body["messages"])
    if done > READS:
        return {"content": "done"}
    path = f"short{done - 1}.py" if done else "long.py"
    return {"tool_calls": [{"function": {"name": "read_file", "arguments": {"path": path}}}]}


async def told(workspace: Path, says: Callable[[Body], Body], mode: str = "direct") -> list[str]:
    async with (
        FakeOllama(answer, says=says) as server,
        run_session(server, workspace, provider="ollama", flags={"mode": mode}) as session,
    ):
        watch = SessionDriver(session)
        await session.send("look around")
        await watch.ended()
    assert len(server.bodies) >= READS
    return [one.text for one in watch.of(Notice) if one.code == "prompt.reread"]


def cached(share: float, **more: int) -> Callable[[Body], Body]:
    return lambda body: {"prompt_eval_cached_count": int(share * estimate_tokens(body))} | more


async def test_a_long_prompt_that_is_read_again_is_told_once_with_the_cause(workspace: Path) -> None:
    (text,) = await told(workspace, cached(0.1, prompt_eval_duration=30_000_000_000))
    assert "tokens again, which took 30 s, although the previous request had the same prefix" in text
    assert "it did not keep the cache; another program" in text


async def test_a_model_that_was_loaded_anew_is_the_cause(workspace: Path) -> None:
    (text,) = await told(workspace, cached(0.0, load_duration=8_000_000_000))
    assert "the model was reloaded" in text and "keep_alive" in text


@pytest.mark.parametrize("share", [0.95, None])
async def test_a_server_that_kept_it_or_does_not_say_raises_no_notice(share: float | None, workspace: Path) -> None:
    assert await told(workspace, cached(share) if share else lambda body: {}) == []


async def test_the_progress_of_reading_is_told_and_what_is_new_in_a_request(workspace: Path) -> None:
    async def models(connection: FakeConnection) -> None:
        entry = {"id": "mock-model", "owned_by": "llamacpp", "meta": {"n_ctx": 32_768}}
        await connection.answer(200, {"data": [entry]})

    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        for done in (1_000, 3_200, 8_100):
            progress = {"total": 8_100, "cache": 0, "processed": done, "time_ms": 1}
            await connection.events(stream_chunk(content=None) | {"prompt_progress": progress})
            await asyncio.sleep(0.01)
        asked = any(message["role"] == "tool" for message in connection.request.json["messages"])
        call = {"index": 0, "id": "c", "function": {"name": "read_file", "arguments": '{"path": "short1.py"}'}}
        await connection.events(
            stream_chunk("stop", content="done") if asked else stream_chunk("tool_calls", tool_calls=[call])
        )
        await connection.events("[DONE]")
        await connection.end()

    routes: dict[str, Script] = {"/v1/models": models, "/v1/chat/completions": chat}
    async with FakeRawServer(routes) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send("look around")
        assert (await watch.ended()).outcome == "done"
    read = [(one.done, one.total) for one in watch.of(ReplyPhase) if one.total]
    assert read == [(1_000, 8_100), (3_200, 8_100), (8_100, 8_100)] * 2
    first, second = watch.of(ReplyStarted)
    assert first.fresh == first.estimate
    assert second.fresh is not None and second.fresh < 0.2 * second.estimate
    assert all(one.json["return_progress"] for one in server.asked_for("/v1/chat/completions"))

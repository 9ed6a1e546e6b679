from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.ollama import Body, FakeOllama
from tests.engine.kit import SessionDriver, run_session
from tests.lsp.kit import received, server_command
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.mock_server.http import Request


def names(body: dict[str, Any]) -> set[str]:
    return {one["function"]["name"] for one in body["tools"]}


async def test_the_code_tools_come_with_the_first_source_file(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    begin = scenario("begin", step("", call("write_file", path="a.py", content="x = 1\n")), "begun")
    flags = {"language_servers_on": True, "language_servers": {"python": server_command(tmp_path)}}
    async with serve(begin, scenario("go on", "gone on"), strict=True) as server:
        async with run_session(server, work, flags={**flags, "approval_mode": "auto-edit"}) as session:
            watch = SessionDriver(session)
            for text in ("begin", "go on", "go on"):
                await session.send(text)
                await watch.ended()
    offered = ["find_definition" in names(one.body) for one in server.requests]
    assert offered == [False, False, True, True]


async def test_what_can_not_be_told_at_the_moment_is_asked_again(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("x = 1\n")
    (work / "notes.txt").write_text("some notes\n")
    ask = step("", call("get_diagnostics", path="notes.txt"))
    flags = {"language_servers_on": True, "language_servers": {"python": server_command(tmp_path)}}
    async with serve(scenario("look", ask, ask, "seen"), strict=True) as server:
        async with run_session(server, work, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send("look")
            await watch.ended()
    results = [str(one["content"]) for one in server.requests[-1].messages if one["role"] == "tool"]
    assert len(results) == 2
    assert all(text.startswith("Not available: no language server is known for .txt") for text in results)
    assert not received(tmp_path)


async def test_a_stop_waits_for_a_task_that_heeds_it_late_however_often_it_is_stopped_itself() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await ended.wait()
            raise

    task = asyncio.create_task(stubborn())
    await begun.wait()
    stopping = asyncio.create_task(end_tasks(task))
    for _ in range(3):
        await asyncio.sleep(0)
        stopping.cancel()
    await asyncio.sleep(0)
    assert not stopping.done()
    ended.set()
    await asyncio.wait([stopping], timeout=30)
    assert task.cancelled()


class FakeForgetful(FakeOllama):
    """Can't say at first what the model `other` is like."""

    failures = 1

    def _route(self, request: Request) -> tuple[int, Body]:
        other = request.path == "/api/show" and json.loads(request.body).get("model") == "other"
        if other and self.failures:
            self.failures -= 1
            return 400, {"error": "busy"}
        return super()._route(request)


async def test_a_window_that_could_not_be_asked_for_is_asked_for_again(tmp_path: Path) -> None:
    server = FakeForgetful(lambda body: {"content": "ok"}, trained=8_192)
    async with server:
        async with run_session(server, tmp_path, provider="ollama") as session:
            roles = session._roles
            assert [await roles.window_of("other") for _ in range(3)] == [32_768, 8_192, 8_192]
        assert server.failures == 0


async def test_the_window_of_the_settings_holds_for_other_models_too(tmp_path: Path) -> None:
    async with FakeOllama(lambda body: {"content": "ok"}, trained=65_536) as server:
        async with run_session(server, tmp_path, provider="ollama", flags={"context_window": 12_288}) as session:
            assert await session._roles.window_of("other") == 12_288

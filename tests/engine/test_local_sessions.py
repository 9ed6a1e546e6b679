"""Sessions whose models run in the local engine: one client, whatever the user does (L1, L3). llama.cpp is a double."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doubles.gguf import write_gguf
from tests.doubles.local_engine import DOUBLES, processes
from tests.doubles.mock import scenario, serve
from tests.engine.kit import SessionDriver
from tests.waiting import wait_for
from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOptions
from tui_agent.engine.session import Session
from tui_agent.models.local import model as local_model


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(DOUBLES))
    monkeypatch.syspath_prepend(str(DOUBLES))
    return write_gguf(paths.ensure_private_dir(paths.models_dir()) / "small.gguf")


@pytest.fixture
async def session(weights: Path, tmp_path: Path) -> AsyncIterator[Session]:
    opened = await open_local(tmp_path, provider="local", model="small")
    yield opened
    await opened.close()
    await wait_for(lambda: processes(weights) == [])


async def open_local(tmp_path: Path, **flags: Any) -> Session:
    (tmp_path / "work").mkdir(exist_ok=True)
    options = SessionOptions(workspace=tmp_path / "work", flags={"mode": "chat"} | flags, trust=True, attended=True)
    return await open_session(options)


async def ask(session: Session) -> str:
    watch = SessionDriver(session)
    await session.send("ping")
    return (await watch.ended()).outcome


async def test_a_change_of_limits_keeps_the_model_loaded(session: Session, weights: Path) -> None:
    assert await ask(session) == "done"
    before = processes(weights)
    settings = session.settings.settings
    timeouts = settings.timeouts.model_copy(update={"idle": 77.0})
    assert await session.models.use_settings(settings.model_copy(update={"timeouts": timeouts})) == ""
    assert await ask(session) == "done" and processes(weights) == before
    client = session.models._roles.model  # its limits are not shown anywhere
    assert client.limits.no_bytes == 77.0  # type: ignore[attr-defined]  # of the local engine


async def test_a_model_that_the_list_loaded_is_the_sessions_own(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "RETIREMENT", 0.0)
    async with serve(scenario("ping", "pong"), models=("m",)) as server:
        session = await open_local(tmp_path, provider="ollama", base_url=server.url)
        try:
            choice = session.models
            (local,) = [other for other in await choice.servers() if other.provider == "local"]
            listed = await choice.listed(local)
            assert not isinstance(listed, Fault)
            candidate = msgspec.structs.replace(listed[0], window=4_096)
            assert await choice.set_loaded(candidate, True) == ""
            loaded = processes(weights)
            assert await choice.choose("execution", "small") == ""
            assert await ask(session) == "done" and processes(weights) == loaded
            assert list(session.folder.glob("engine.log"))
            assert await choice.choose("execution", "m") == ""
            await wait_for(lambda: processes(weights) == [])
            assert await choice.choose("execution", "small") == "" and await ask(session) == "done"
            (own,) = [other for other in await choice.servers() if other.provider == "local"]
            again = await choice.listed(own)
            assert not isinstance(again, Fault)
            assert await choice.set_loaded(again[0], False) == "" and processes(weights) == []
        finally:
            await session.close()


async def test_a_model_that_still_loads_when_the_session_moves_ends(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "RETIREMENT", 0.0)
    hold = tmp_path / "go"
    monkeypatch.setenv("GGML_FAKE_HOLD", str(hold))
    async with serve(scenario("ping", "pong"), models=("m",)) as server:
        session = await open_local(tmp_path, provider="local", model="small")
        try:
            watch = SessionDriver(session)
            await session.send("ping")
            await wait_for(lambda: len(processes(weights)) == 2)
            await session.interrupt()
            await watch.ended()
            settings = session.settings.settings
            update = {"provider": "ollama", "base_url": server.url, "model": "m"}
            assert await session.models.use_settings(settings.model_copy(update=update)) == ""
            hold.touch()
            await wait_for(lambda: processes(weights) == [])
        finally:
            await session.close()


async def test_a_file_as_model_makes_the_engine_the_configured_server(weights: Path, tmp_path: Path) -> None:
    session = await open_local(tmp_path, model=str(weights))
    try:
        current = [server.provider for server in await session.models.servers() if session.models.is_current(server)]
        assert current == ["local"]
        assert await ask(session) == "done"
        assert await session.models._roles.model.unload("small") is None  # type: ignore[attr-defined]  # by its other name
        assert processes(weights) == []
    finally:
        await session.close()


async def test_a_broken_file_is_named_with_its_fault_although_there_are_other_models(
    weights: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_text("no weights")
    session = await open_local(tmp_path, model=str(broken))
    try:
        watch = SessionDriver(session)
        await session.send("ping")
        assert "broken.gguf is not a GGUF file" in (await watch.ended()).text
    finally:
        await session.close()

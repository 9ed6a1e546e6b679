from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tui_agent.models import ollama_models
from tui_agent.models.base import LoadsModels
from tui_agent.models.endpoint import endpoint
from tui_agent.models.faults import RetryPolicy, WireFault
from tui_agent.models.ollama import OllamaModel
from tui_agent.models.wire import Wire


@asynccontextmanager
async def wire_to(routes: dict[str, Script]) -> AsyncIterator[tuple[Wire, FakeRawServer]]:
    async with FakeRawServer(routes) as server:
        wire = Wire("ollama", endpoint(server.url, None, {}))
        try:
            yield wire, server
        finally:
            await wire.aclose()


async def empty(connection: FakeConnection) -> None:
    await connection.answer(200)


async def done(connection: FakeConnection) -> None:
    await connection.answer(200, {"done": True, "done_reason": "load"})


async def unknown(connection: FakeConnection) -> None:
    await connection.answer(404, {"error": "model 'x' not found"})


async def test_a_model_is_deleted() -> None:
    async with wire_to({"/api/delete": empty}) as (wire, server):
        await ollama_models.delete(wire, "m:7b")
    (request,) = server.requests
    assert (request.method, request.json) == ("DELETE", {"model": "m:7b"})


async def test_a_model_is_loaded_and_unloaded() -> None:
    async with wire_to({"/api/generate": done}) as (wire, server):
        model = OllamaModel(wire, RetryPolicy(attempts=1))
        assert isinstance(model, LoadsModels)
        assert await model.load("m:7b") is None
        assert await model.load("m:7b", 8192, "-1") is None
        assert await model.unload("m:7b") is None
    loaded, kept, unloaded = (request.json for request in server.requests)
    assert loaded == {"model": "m:7b", "keep_alive": "30m", "stream": False}
    assert kept == {"model": "m:7b", "keep_alive": -1, "stream": False, "options": {"num_ctx": 8192}}
    assert unloaded == {"model": "m:7b", "keep_alive": 0, "stream": False}


async def test_an_unknown_model_is_a_fault() -> None:
    async with wire_to({"/api/delete": unknown, "/api/generate": unknown}) as (wire, _):
        with pytest.raises(WireFault, match="not found"):
            await ollama_models.delete(wire, "x")
        model = OllamaModel(wire, RetryPolicy(attempts=1))
        for fault in (await model.load("x"), await model.unload("x")):
            assert fault is not None and "not found" in fault.message

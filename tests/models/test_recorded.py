"""Answers of real servers, and documented ones, through the clients."""

from __future__ import annotations

import msgspec
import pytest

from tests.doubles.raw_server import FakeRawServer
from tests.models.asking import FAST_LIMITS, ask, expect_info, make_request, ollama_client, openai_client
from tests.models.recordings import FOLDER, LLAMA, OLD_STUDIO, OLLAMA, ROUTER, STUDIO, VLLM, played, recording
from tests.waiting import within_timeout
from tui_agent.common.domain import ModelInfo
from tui_agent.models.base import LoadsModels

GIB = 1 << 30


async def info_of(server: FakeRawServer, model: str) -> ModelInfo:
    return expect_info(await openai_client(server).describe(model))


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recording_says_where_it_is_from(path):
    name = f"{path.parent.name}/{path.stem}"
    content = recording(name)
    assert content["source"] in ("recorded", "documented") and content["version"] and content["server"]
    assert content["source"] == "recorded" or content["where"]


# --- llama.cpp ---


@pytest.mark.parametrize(
    ("answer", "loaded", "state"),
    [
        ("models unloaded", False, ""),
        ("models loading", False, "loading"),
        ("models loaded", True, ""),
        ("models sleeping", False, "sleeping"),
    ],
)
async def test_the_router_tells_the_state_of_a_model_and_the_window_it_has_or_would_have(answer, loaded, state):
    async with played(ROUTER, answer, "props") as server:
        info = await info_of(server, "qwen")
    assert (info.loaded, info.state, info.loaded_window) == (loaded, state, 4096)
    assert not info.any_name
    if answer in ("models loaded", "models sleeping"):
        assert (info.context_window, info.size, info.build) == (32768, 1111370240, "1.8B · Q4_K - Medium · 1.1 GB")


async def test_a_model_that_the_router_could_not_load_is_called_failed():
    async with played(ROUTER, "models failed") as server:
        assert [(await info_of(server, name)).state for name in ("broken", "qwen")] == ["failed", ""]


async def test_the_router_loads_a_model_and_load_returns_when_it_has():
    async with played(ROUTER, "load", "models unloaded", "models loading", "models loaded") as server:
        client = openai_client(server)
        assert isinstance(client, LoadsModels)
        assert await client.load("qwen") is None
        assert [request.json for request in server.asked_for("/models/load")] == [{"model": "qwen"}]
        assert expect_info(await client.describe("qwen")).loaded


async def test_a_sleeping_model_of_the_router_needs_no_loading():
    limits = msgspec.structs.replace(FAST_LIMITS, first_byte=0.05)
    async with played(ROUTER, "load again", "models sleeping") as server:
        client = openai_client(server, limits=limits)
        assert isinstance(client, LoadsModels)
        assert await within_timeout(client.load("qwen")) is None


async def test_the_router_unloads_a_model_and_one_that_is_not_loaded_is_no_error():
    for unload in ("unload", "unload again"):
        async with played(ROUTER, unload, "models loaded", "models after unload") as server:
            client = openai_client(server)
            assert isinstance(client, LoadsModels)
            assert await client.unload("qwen") is None
            assert expect_info(await client.describe("qwen")).loaded is False


async def test_a_model_that_does_not_get_loaded_is_not_waited_for_without_end():
    limits = msgspec.structs.replace(FAST_LIMITS, first_byte=0.05)
    for action, answer in (("load", "models loading"), ("unload", "models loaded")):
        async with played(ROUTER, action, answer) as server:
            client = openai_client(server, limits=limits)
            assert isinstance(client, LoadsModels)
            fault = await within_timeout(client.load("qwen") if action == "load" else client.unload("qwen"))
        assert fault is not None and fault.kind == "timeout" and f"did not {action} qwen within" in fault.message


@pytest.mark.parametrize(
    ("answers", "model", "words"),
    [
        (("load broken", "models failed"), "broken", "could not load broken"),
        (("load unknown", "models loaded"), "none", "File Not Found"),
        (("load without key", "models loaded"), "qwen", "token"),
    ],
)
async def test_what_the_router_can_not_load_is_a_fault(answers, model, words):
    async with played(ROUTER, *answers) as server:
        client = openai_client(server)
        assert isinstance(client, LoadsModels)
        fault = await client.load(model)
    assert fault is not None and words in f"{fault.message} {fault.advice}"


async def test_a_request_to_the_router_loads_the_model_and_its_window_is_known_then():
    async with played(ROUTER, "chat that loads", "models unloaded", "models loaded") as server:
        client = openai_client(server)
        assert expect_info(await client.describe("qwen")).loaded is False
        reply = await ask(client, make_request(model="qwen"))
        assert (reply.text, reply.stop) == ("Hello! How", "length")
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (32, 3, 0)
        assert expect_info(await client.describe("qwen")).loaded


async def test_the_router_reports_progress_and_times():
    async with played(ROUTER, "chat", "models loaded") as server:
        client = openai_client(server)
        await client.describe("qwen")
        reply = await ask(client, make_request(model="qwen"))
        assert server.asked_for("/v1/chat/completions")[0].json["return_progress"] is True
    assert reply.text == "Hello! How can I assist"
    assert reply.phases[-1] == "reading"
    assert (reply.usage.prompt_ms, reply.usage.generate_ms) == (405, 146)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("chat unknown", 404, "model 'none' not found"),
        ("chat broken", 500, "failed to load"),
        ("overflow", 400, "exceeds the available context size"),
    ],
)
async def test_rejections_of_the_router(answer, status, words):
    async with played(ROUTER, answer) as server:
        fault = (await ask(openai_client(server))).fault
    assert fault.status == status and words in fault.message
    assert (fault.kind, fault.n_ctx) == (("context_overflow", 4096) if answer == "overflow" else ("status", None))


async def test_a_single_llama_cpp_server_serves_its_model_under_any_name():
    async with played(LLAMA, "models", "props", "chat unknown") as server:
        client = openai_client(server)
        info = expect_info(await client.describe("none"))
        assert (info.any_name, info.loaded, info.loaded_window, info.context_window) == (True, True, 2048, 32768)
        assert info.size is not None and info.size > GIB
        assert (await ask(client, make_request(model="none"))).text == "Hello!"
        assert isinstance(client, LoadsModels)
        fault = await client.load("none")
        assert fault is not None and "does not load models on request" in fault.message


async def test_llama_cpp_that_still_loads_its_model_is_waited_for():
    async with played(LLAMA, "chat while loading", "chat unknown") as server:
        reply = await ask(openai_client(server))
        assert len(server.asked_for("/v1/chat/completions")) == 2
    assert "loading" in reply.phases and reply.text == "Hello!"


@pytest.mark.parametrize(
    ("name", "answer"),
    [(LLAMA, "chat with wrong key"), (VLLM, "models with wrong key"), (ROUTER, "models without key")],
)
async def test_a_key_that_is_missing_or_wrong(name, answer):
    script = played(name, answer).routes.popitem()[1]
    async with FakeRawServer({"/v1/models": script, "/v1/chat/completions": script}) as server:
        for token, words in ((None, "requires a token"), ("wrong", "not accepted")):
            client = openai_client(server, token=token, limits=FAST_LIMITS)
            fault = await client.list_models()
            assert not isinstance(fault, tuple) and fault.is_unauthorized and words in fault.advice
            assert (await ask(client)).fault.is_unauthorized


# --- vLLM ---


async def test_vllm_tells_its_window_and_counts_tokens():
    async with played(VLLM, "models", "props", "studio", "chat") as server:
        client = openai_client(server)
        info = expect_info(await client.describe("tiny"))
        assert (info.loaded, info.loaded_window, info.any_name) == (True, 1024, False)
        reply = await ask(client, make_request(model="tiny"))
    assert (reply.stop, reply.usage.prompt_tokens, reply.usage.completion_tokens) == ("length", 24, 4)
    assert not server.asked_for("/props")


async def test_a_tool_call_of_vllm_arrives_name_first():
    async with played(VLLM, "tool call") as server:
        (made,) = (await ask(openai_client(server))).calls
    assert made.name == "get_weather" and made.raw == "true"  # a model with random weights wrote these arguments


@pytest.mark.parametrize(
    ("answer", "status", "kind", "window"),
    [("chat unknown", 404, "status", None), ("overflow", 400, "context_overflow", 1024)],
)
async def test_rejections_of_vllm(answer, status, kind, window):
    async with played(VLLM, answer) as server:
        fault = (await ask(openai_client(server))).fault
    assert (fault.status, fault.kind, fault.n_ctx) == (status, kind, window)


# --- LM Studio ---


@pytest.mark.parametrize("name", [STUDIO, OLD_STUDIO])
async def test_lm_studio_tells_state_and_windows(name):
    async with played(name, "models", "props", "studio", "studio v1") as server:
        coder, vision, numbers = [
            await info_of(server, model) for model in ("coder-7b", "vision-4b", "text-embedding-small")
        ]
    assert (coder.loaded, coder.loaded_window, coder.context_window) == (True, 8192, 32768)
    assert coder.capabilities == ("completion", "tools")
    assert (vision.loaded, vision.loaded_window, vision.capabilities) == (False, None, None)
    assert numbers.capabilities == ("embedding",)
    if name == STUDIO:
        assert (coder.size, coder.build) == (4683073184, "7B · Q4_K_M · 4.7 GB")


async def test_lm_studio_loads_what_is_not_loaded_and_unloads_every_instance():
    async with played(STUDIO, "models", "studio v1 unloaded", "load", "unload", "studio v1") as server:
        client = openai_client(server)
        assert isinstance(client, LoadsModels)
        assert await client.load("coder-7b") is None
        assert [request.json for request in server.asked_for("/api/v1/models/load")] == [{"model": "coder-7b"}]
        assert await client.load("coder-7b") is None
        assert len(server.asked_for("/api/v1/models/load")) == 1  # a second request would load a second instance
        assert await client.unload("coder-7b") is None
        assert [request.json for request in server.asked_for("/api/v1/models/unload")] == [{"instance_id": "coder-7b"}]


async def test_an_older_lm_studio_that_can_not_load_on_request_says_so():
    async with played(OLD_STUDIO, "models", "studio v1", "load") as server:
        client = openai_client(server)
        assert isinstance(client, LoadsModels)
        fault = await client.load("coder-7b")
    assert fault is not None and "does not load models on request" in fault.message


# --- Ollama ---


async def test_ollama_loads_with_a_window_unloads_and_reports_what_it_lacks():
    async with played(OLLAMA, "unload", "ps", "show") as server:
        client = ollama_client(server)
        assert isinstance(client, LoadsModels)
        assert await client.load("coder:7b", 16_384) is None
        assert await client.unload("coder:7b") is None
        load, unload = [request.json for request in server.asked_for("/api/generate")]
        assert (load["keep_alive"], load["options"]) == ("30m", {"num_ctx": 16_384})
        assert (unload["keep_alive"], "options" in unload, "prompt" in unload) == (0, False, False)
        info = expect_info(await client.describe("coder:7b"))
        assert (info.loaded, info.loaded_window) == (True, 16_384)
        assert (info.memory, info.graphics_memory) == (6591830464, 5333539264)
    async with played(OLLAMA, "show unknown") as server:
        server.routes["/api/generate"] = server.routes["/api/show"]
        client = ollama_client(server)
        assert isinstance(client, LoadsModels)
        fault = await client.load("none")
        assert fault is not None and "model 'none' not found" in fault.message

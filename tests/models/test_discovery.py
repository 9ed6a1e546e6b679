"""Model servers on this machine are found, and nothing else is taken for one (L3)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.doubles.gguf import write_gguf
from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.models.recordings import LLAMA, OLD_STUDIO, OLLAMA, ROUTER, STUDIO, VLLM, played
from tui_agent.common import paths
from tui_agent.models import discovery
from tui_agent.models.discovery import FoundServer, find_servers, known_servers, same_server
from tui_agent.settings import Settings

NOBODY = "http://127.0.0.1:9"
KEY = "secret-of-the-configured-one"


@pytest.fixture(autouse=True)
def guesses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The addresses to look at on this machine, for tests to fill in."""
    addresses: list[tuple[str, str]] = []
    monkeypatch.setattr(discovery, "LOCAL_SERVERS", addresses)
    return addresses


def chosen(**values: Any) -> Settings:
    return Settings.model_validate({"provider": "scripted"} | values)


async def found(settings: Settings | None = None, **env: str) -> list[FoundServer]:
    return await find_servers(settings or chosen(), env, fresh=True)


def answers_of(name: str) -> tuple[str, ...]:
    return {
        ROUTER: ("models unloaded", "props"),
        LLAMA: ("models", "props"),
        VLLM: ("models", "version"),
        STUDIO: ("models", "studio v1", "studio", "version"),
        OLD_STUDIO: ("models", "studio v1", "studio", "version"),
        OLLAMA: ("version", "tags"),
    }[name]


@pytest.mark.parametrize(
    ("name", "kind", "version"),
    [
        (ROUTER, "llama.cpp router", ""),
        (LLAMA, "llama.cpp", ""),
        (VLLM, "vLLM", "0.32.0"),
        (STUDIO, "LM Studio", ""),
        (OLD_STUDIO, "LM Studio", ""),
        (OLLAMA, "Ollama", "0.12.10"),
    ],
)
async def test_every_kind_of_server_is_known_by_its_answers(guesses, name, kind, version):
    async with played(name, *answers_of(name)) as server:
        provider = "ollama" if name == OLLAMA else "openai"
        guesses.append((provider, server.url + ("" if name == OLLAMA else "/v1")))
        (one,) = await found()
    assert (one.kind, one.version, one.reachable, one.problem) == (kind, version, True, "")
    assert (one.name, one.provider) == (kind.lower().replace(" ", "-"), provider)
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("name", "answers", "kind", "problem"),
    [
        (LLAMA, ("models while loading",), "llama.cpp", "is loading its model"),
        (LLAMA, ("models without key",), "llama.cpp", "requires a token"),
        (VLLM, ("models without key", "version without key"), "vLLM", "requires a token"),
    ],
)
async def test_a_server_that_can_not_answer_yet_is_listed_with_the_reason(guesses, name, answers, kind, problem):
    async with played(name, *answers) as server:
        guesses.append(("openai", f"{server.url}/v1"))
        (one,) = await found()
    assert (one.kind, one.problem) == (kind, problem)


def web_page(status: int, body: Any, kind: str = "application/json", **headers: str) -> FakeRawServer:
    async def script(connection: FakeConnection) -> None:
        await connection.answer(status, body, kind=kind, **headers)

    paths = ("/v1/models", "/api/version", "/api/tags", "/props", "/version", "/api/v1/models", "/api/v0/models")
    return FakeRawServer(dict.fromkeys(paths, script))


@pytest.mark.parametrize(
    "stranger",
    [
        (200, b"<html>It works</html>", "text/html"),
        (200, {"status": "ok"}),
        (200, {"data": []}),
        (200, []),
        (200, {"object": "list", "data": [{"name": "users"}]}),
        (200, {"object": "list", "data": [1, 2]}),
        (200, {"error": "Unexpected endpoint or method. (GET /v1/models)"}),
        (200, {"version": 3, "models": []}),
        (200, {"version": "3.1", "models": "none"}),
        (401, {"detail": "Not authenticated"}),
        (401, {"version": "1.0", "error": "Login required"}),
        (403, b"Forbidden", "text/plain"),
        (404, {"detail": "Not Found"}),
        (503, {"error": "maintenance"}),
        (200, b"{" * 100_000),
    ],
    ids=lambda given: str(given)[:60],
)
async def test_a_strangers_web_server_is_not_taken_for_a_model_server(guesses, stranger):
    async with web_page(*stranger) as server:
        guesses += [("openai", f"{server.url}/v1"), ("ollama", server.url)]
        assert await found() == []


async def test_redirects_are_not_followed(guesses):
    async with played(LLAMA, "models", "props") as target:
        async with web_page(302, None, Location=f"{target.url}/v1/models") as server:
            guesses += [("openai", f"{server.url}/v1"), ("ollama", server.url)]
            assert await found() == []
        assert target.requests == []


async def test_a_flood_of_data_is_bounded(guesses):
    async def flood(connection: FakeConnection) -> None:
        await connection.head(200, "application/json")
        while True:
            await connection.body(b" " * 1_000_000)

    async with FakeRawServer({"/v1/models": flood, "/api/version": flood}) as server:
        guesses += [("openai", f"{server.url}/v1"), ("ollama", server.url)]
        assert await found() == []


async def test_a_silent_server_hides_and_delays_no_other(guesses):
    released = asyncio.Event()

    async def silent(connection: FakeConnection) -> None:
        await released.wait()

    async with AsyncExitStack() as stack:
        hangs = await stack.enter_async_context(FakeRawServer({"/v1/models": silent, "/api/version": silent}))
        ollama = await stack.enter_async_context(played(OLLAMA, "version", "tags"))
        guesses += [("openai", f"{hangs.url}/v1"), ("ollama", hangs.url), ("openai", f"{NOBODY}/v1")]
        guesses.append(("ollama", ollama.url))
        assert [one.kind for one in await found()] == ["Ollama"]
        settings = chosen(servers={"slow": {"base_url": f"{hangs.url}/v1"}, "gone": {"base_url": NOBODY}})
        listed = {one.name: one for one in await found(settings)}
        released.set()
    assert set(listed) == {"slow", "gone", "ollama"}
    assert "in time" in listed["slow"].problem and not listed["slow"].reachable
    assert "connection refused" in listed["gone"].problem and not listed["gone"].reachable


async def test_a_key_goes_to_its_own_server_only(guesses):
    async with AsyncExitStack() as stack:
        own, named, other, unnamed = [
            await stack.enter_async_context(played(LLAMA, "models", "props")) for _ in range(4)
        ]
        guesses.append(("openai", f"{other.url}/v1"))
        settings = chosen(
            provider="openai",
            base_url=f"{own.url}/v1",
            servers={
                "named": {"base_url": f"{named.url}/v1", "token_env": "NAMED"},
                "without": {"base_url": f"{unnamed.url}/v1"},
            },
        )
        listed = await found(settings, LLM_AUTH_TOKEN=KEY, NAMED="secret-of-the-named-one")
        sent = [{request.headers.get("authorization") for request in s.requests} for s in (own, named, unnamed, other)]
    assert sent == [{f"Bearer {KEY}"}, {"Bearer secret-of-the-named-one"}, {None}, {None}]
    assert [one.name for one in listed] == ["llama.cpp", "named", "without", f"llama.cpp-{other.port}"]
    assert not any("secret" in str(one) for one in listed)


async def test_passwords_of_addresses_are_not_part_of_the_result():
    async with played(LLAMA, "models", "props") as server:
        address = f"http://me:secret@127.0.0.1:{server.port}/v1"
        (one,) = await found(chosen(provider="openai", base_url=address))
        assert one.base_url == f"{server.url}/v1" and one.reachable
        assert server.requests[0].headers["authorization"].startswith("Basic ")
        known = known_servers(chosen(servers={"x": {"base_url": address}}, find_servers=False), {})
        assert [(one.setting, one.address) for one in known] == [("x", f"{server.url}/v1"), ("", "local")]


async def test_a_server_with_a_name_is_listed_once_and_unreadable_tokens_are_reported(guesses, tmp_path):
    async with played(OLLAMA, "version", "tags") as server:
        guesses.append(("ollama", f"http://localhost:{server.port}"))
        named = {"home": {"base_url": server.url}, "far": {"base_url": f"{NOBODY}/v1", "token_file": str(tmp_path)}}
        listed = await found(chosen(provider="ollama", base_url=server.url, servers=named))
    assert [(one.name, one.kind) for one in listed] == [("home", "Ollama"), ("far", "OpenAI-compatible")]
    assert "the token can't be read" in listed[1].problem or "must contain one line" in listed[1].problem


async def test_the_search_is_switched_off_by_a_setting_and_follows_the_variable_of_ollama(guesses):
    async with played(OLLAMA, "version", "tags") as server:
        host = f"127.0.0.1:{server.port}"
        assert [one.kind for one in await found(OLLAMA_HOST=host)] == ["Ollama"]
        assert await found(chosen(find_servers=False), OLLAMA_HOST=host) == []
        before = len(server.requests)
        assert await found(OLLAMA_HOST="10.255.255.1") == []  # only this machine is searched
        assert len(server.requests) == before


async def test_a_result_serves_for_a_few_seconds(guesses):
    async with played(OLLAMA, "version", "tags") as server:
        guesses.append(("ollama", server.url))
        first = await find_servers(chosen(), {}, fresh=True)
        asked = len(server.requests)
        assert await find_servers(chosen(), {}) == first and len(server.requests) == asked
        assert await find_servers(chosen(), {}, fresh=True) == first and len(server.requests) > asked


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("http://localhost:11434", "http://127.0.0.1:11434/", True),
        ("http://localhost:8000", "http://127.0.0.1:8000/v1", True),
        ("http://0.0.0.0:80", "http://[::1]", True),
        ("http://localhost:8000", "http://localhost:8001", False),
        ("http://a:1/v1", "http://b:1/v1", False),
        ("http://a:x", "http://a:x", True),
        ("https://a:8443/v1", "http://a:8443/v1", False),
        ("https://a", "https://a:443/v1", True),
        ("http://127.evil.com:8080", "http://localhost:8080", False),
        ("http://127.8.9.1:8080", "http://LOCALHOST:8080", True),
    ],
)
def test_addresses_of_the_same_server(first, second, same):
    assert same_server(first, second) is same


async def test_files_that_the_program_runs_itself_are_a_server_of_their_own():
    assert await found() == []
    write_gguf(paths.ensure_private_dir(paths.models_dir()) / "small.gguf")
    (one,) = await found()
    assert (one.name, one.provider, one.address, one.configured) == ("local", "local", "local", False)
    (one,) = await found(chosen(provider="local"))
    assert one.configured

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.mock import MockServer, call, control_packet, scenario, serve, step
from tui_agent.mock_server.replies import ServedModel

CHAT = "/v1/chat/completions"
GO = {"role": "user", "content": "go"}


def client(server: MockServer, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, **more)


def lines(reply: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(one) for one in reply.content.split(b"\n") if one]


def events(reply: httpx.Response) -> list[dict[str, Any]]:
    given = [one.removeprefix(b"data: ") for one in reply.content.split(b"\n\n") if one]
    assert given[-1] == b"[DONE]"
    return [json.loads(one) for one in given[:-1]]


async def test_control_packets_in_the_history_change_no_step():
    job = scenario("go", step("a", call("x")), step("b", call("y")), "c")
    called = {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "x", "arguments": "{}"}}],
    }
    done = {"role": "tool", "tool_call_id": "1", "content": "r"}
    packet = {"role": "user", "content": control_packet(note="go on; go")}
    async with serve(job, strict=True) as server, client(server) as http:
        for history, said in [([GO], "a"), ([GO, called, done], "b"), ([GO, called, done, packet], "b")]:
            reply = await http.post(CHAT, json={"messages": history})
            assert reply.json()["choices"][0]["message"]["content"] == said


async def test_usage_comes_only_when_asked_for():
    async with serve(scenario("go", "hello there")) as server, client(server) as http:
        plain = events(await http.post(CHAT, json={"messages": [GO], "stream": True}))
        assert all("usage" not in one for one in plain)
        options = {"include_usage": True}
        counted = events(await http.post(CHAT, json={"messages": [GO], "stream": True, "stream_options": options}))
        assert counted[-1]["choices"] == []
        assert counted[-1]["usage"]["completion_tokens"] == 2
        assert all(one["usage"] is None for one in counted[:-1])


async def test_usage_and_finish_reason_of_the_file_are_reported():
    usage = {"prompt_tokens": 11, "completion_tokens": 22, "cached_tokens": 7}
    cut = scenario("go", step("hal", usage=usage, finish_reason="length"))
    async with serve(cut) as server, client(server) as http:
        reply = (await http.post(CHAT, json={"messages": [GO]})).json()
        assert reply["choices"][0]["finish_reason"] == "length"
        assert reply["usage"] == {
            "prompt_tokens": 11,
            "completion_tokens": 22,
            "total_tokens": 33,
            "prompt_tokens_details": {"cached_tokens": 7},
        }
        last = lines(await http.post("/api/chat", json={"model": "m", "messages": [GO]}))[-1]
        assert (last["done_reason"], last["prompt_eval_count"], last["eval_count"]) == ("length", 11, 22)


async def test_ollama_never_says_tool_calls_as_its_reason():
    async with serve(scenario("go", step("", call("read", path="a")))) as server, client(server) as http:
        *_, called, last = lines(await http.post("/api/chat", json={"model": "m", "messages": [GO]}))
        assert called["message"]["tool_calls"][0]["function"] == {
            "index": 0,
            "name": "read",
            "arguments": {"path": "a"},
        }
        assert (last["done"], last["done_reason"]) == (True, "stop")


async def test_call_that_ollama_could_not_parse_is_an_error_there_and_text_for_openai():
    broken = {"name": "write", "arguments": '{"path": "a'}
    silent, chatty = scenario("silent", step(None, broken)), scenario("chatty", step("I write.", broken))
    async with serve(silent, chatty) as server, client(server) as http:
        for streamed in (True, False):
            asked = {"model": "m", "messages": [{"role": "user", "content": "silent"}], "stream": streamed}
            reply = await http.post("/api/chat", json=asked)
            assert reply.status_code == 500
            assert reply.json()["error"].startswith('error parsing tool call: raw=\'{"path": "a\', err=')
        asked["messages"] = [{"role": "user", "content": "chatty"}]
        late = await http.post("/api/chat", json=asked | {"stream": True})
        assert late.status_code == 200
        assert "error parsing tool call" in lines(late)[-1]["error"]
        given = events(await http.post(CHAT, json=asked | {"stream": True}))
        deltas = [
            delta for one in given for choice in one["choices"] for delta in choice["delta"].get("tool_calls", [])
        ]
        assert "".join(delta["function"].get("arguments", "") for delta in deltas) == '{"path": "a'


async def test_ollama_thinks_unless_told_not_to():
    async with serve(scenario("go", step("x", thinking="hm"))) as server, client(server) as http:
        body = {"model": "m", "messages": [GO], "stream": False}
        assert (await http.post("/api/chat", json=body)).json()["message"]["thinking"] == "hm"
        quiet = await http.post("/api/chat", json=body | {"think": False})
        assert "thinking" not in quiet.json()["message"]


async def test_models_are_described_to_both_apis():
    small = ServedModel(name="small:1b", capabilities=("completion",), context_length=2048)
    async with serve(models=[small, "big"]) as server, client(server) as http:
        assert (await http.get("/api/version")).json()["version"]
        assert [one["name"] for one in (await http.get("/api/tags")).json()["models"]] == ["small:1b", "big"]
        shown = (await http.post("/api/show", json={"model": "small:1b"})).json()
        assert shown["capabilities"] == ["completion"]
        assert shown["model_info"]["mock.context_length"] == 2048
        for path in ("/models", "/v1/models"):
            listed = (await http.get(path)).json()["data"]
            assert [(one["id"], one["max_model_len"]) for one in listed] == [("small:1b", 2048), ("big", 32768)]
        assert (await http.get("/v1/models/big")).json()["id"] == "big"
        assert (await http.get("/")).text == "Ollama is running"
        assert (await http.head("/")).status_code == 200


async def test_loaded_window_is_what_was_asked_for_within_the_models_own():
    async with serve(models=[ServedModel(name="m", context_length=8192)]) as server, client(server) as http:
        assert (await http.get("/api/ps")).json() == {"models": []}
        for asked, window in [({}, 4096), ({"num_ctx": 6000}, 6000), ({"num_ctx": 99_999}, 8192)]:
            await http.post("/api/chat", json={"model": "m", "messages": [GO], "options": asked})
            assert (await http.get("/api/ps")).json()["models"][0]["context_length"] == window


async def test_ollama_request_without_messages_loads_the_model():
    async with serve(strict=True) as server, client(server) as http:
        reply = (await http.post("/api/chat", json={"model": "m"})).json()
        assert (reply["done"], reply["done_reason"]) == (True, "load")
        assert (await http.post("/api/chat", json={"model": "m", "messages": []})).status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/api/chat", {"model": "x", "messages": [GO]}, 404, "model 'x' not found"),
        ("POST", "/api/show", {"model": "x"}, 404, "model 'x' not found"),
        ("POST", CHAT, {"model": "x", "messages": [GO]}, 404, "The model `x` does not exist."),
        ("GET", "/v1/models/x", None, 404, "does not exist"),
        ("POST", "/api/chat", {"messages": [GO]}, 400, "model is required"),
        ("POST", CHAT, {"messages": [GO]}, 400, "you must provide a model parameter"),
        ("POST", "/api/chat", {"model": "m", "messages": [GO], "tools": [{}]}, 400, "library/m does not support tools"),
        ("POST", "/api/chat", {"model": "m", "messages": [GO], "think": True}, 400, '"m" does not support thinking'),
        ("GET", CHAT, None, 405, "method not allowed"),
        ("GET", "/nowhere", None, 404, "page not found"),
        ("GET", "/api/nowhere", None, 404, "page not found"),
    ],
)
async def test_refusals(method: str, path: str, body: Any, status: int, said: str):
    plain = ServedModel(name="m", capabilities=("completion",))
    async with serve(scenario("go", "x"), models=[plain]) as server, client(server) as http:
        reply = await http.request(method, path, json=body)
        error = reply.json()["error"]
        assert reply.status_code == status
        assert said in (error if path.startswith("/api/") else error["message"])


@pytest.mark.parametrize("path", [CHAT, "/api/chat"])
@pytest.mark.parametrize("body", [b"{", b"[1]", b"", b"\xff", b"[" * 100_000])
async def test_unreadable_bodies_are_refused(path: str, body: bytes):
    async with serve() as server, client(server) as http:
        reply = await http.post(path, content=body)
        assert reply.status_code == 400
        assert (await http.get("/models")).status_code == 200


async def test_token_is_demanded_and_never_remembered(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    async with serve(token="s3cret", log=log) as server, client(server) as http:
        assert (await http.get("/v1/models")).status_code == 401
        good = await http.get("/v1/models", headers={"Authorization": "Bearer s3cret"})
        assert good.status_code == 200
        assert "s3cret" not in str([one.headers for one in server.exchanges])
    assert "s3cret" not in log.read_text(encoding="utf-8")


async def test_log_tells_requests_first_bytes_ends_and_disconnects(tmp_path: Path):
    log = tmp_path / "log.jsonl"
    async with serve(scenario("go", "x"), scenario("slow", step("x y z", pace=600)), log=log) as server:
        async with client(server) as http:
            await http.post(CHAT, json={"messages": [GO], "stream": True})
            async with http.stream(
                "POST", CHAT, json={"messages": [{"role": "user", "content": "slow"}], "stream": True}
            ) as reply:
                async for _ in reply.aiter_raw():
                    break
        await server.requests[1].finished.wait()
    written = [json.loads(one) for one in log.read_text(encoding="utf-8").splitlines()]
    assert [(one["id"], one["event"]) for one in written] == [
        (1, "request"),
        (1, "first_byte"),
        (1, "end"),
        (2, "request"),
        (2, "first_byte"),
        (2, "disconnect"),
    ]
    assert written[0]["path"] == CHAT
    assert written[0]["body"]["messages"] == [GO]
    assert written[2]["outcome"] == "done"
    assert written[2]["sent"] > 0
    assert [one["t"] for one in written] == sorted(one["t"] for one in written)


async def test_connection_is_kept_for_the_next_request():
    async with serve(scenario("go", "x")) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"messages": [GO], "stream": True}).encode()
        asked = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body)
        for number in (1, 2):
            writer.write(asked)
            reply = await reader.readuntil(b"0\r\n\r\n")
            assert b"200 OK" in reply
            assert b'"id":"mock-%05d"' % number in reply
        writer.write(asked + asked)
        await reader.readuntil(b"0\r\n\r\n")
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"nonsense\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        assert len(server.requests) == 4


async def test_big_requests_and_parallel_streams_are_served():
    long = "word " * 4_000
    async with serve(scenario("go", long)) as server, client(server, timeout=30) as http:
        asked = {"messages": [{"role": "user", "content": "x" * 1_000_000 + " go"}], "stream": True}
        replies = await asyncio.gather(*[http.post(CHAT, json=asked) for _ in range(3)])
        for reply in replies:
            deltas = [choice["delta"].get("content", "") for one in events(reply) for choice in one["choices"]]
            assert "".join(deltas) == long


async def test_closing_the_server_ends_open_streams():
    async with client_of_a_slow_server() as (server, http):
        request = asyncio.create_task(http.post(CHAT, json={"messages": [GO], "stream": True}))
        exchange = await server.wait_for_request()
        await exchange.answering.wait()
        await server.aclose()
        with pytest.raises(httpx.HTTPError):
            await request
        assert exchange.outcome == "disconnected"


def client_of_a_slow_server() -> Any:
    import contextlib

    @contextlib.asynccontextmanager
    async def both() -> Any:
        async with serve(scenario("go", step("x y z", pace=600))) as server, client(server) as http:
            yield server, http

    return both()


async def test_waiting_for_a_request_that_never_comes_times_out():
    async with serve() as server:
        with pytest.raises(TimeoutError):
            await server.wait_for_request(timeout=0.01)


async def test_only_so_many_requests_are_remembered():
    async with serve(keep=2) as server, client(server) as http:
        for _ in range(5):
            await http.get("/models")
        assert [one.number for one in server.exchanges] == [4, 5]


async def test_a_lone_surrogate_is_sent_as_an_escape() -> None:
    async with serve(scenario("go", "a\ud800b")) as server, client(server) as http:
        reply = await http.post(CHAT, json={"model": "m", "messages": [GO], "stream": False})
        assert b"a\\ud800b" in reply.content
        assert json.loads(reply.content)["choices"][0]["message"]["content"] == "a\ud800b"

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from tests.doubles.mock import MockServer, scenario, serve, step
from tui_agent.mock_server.faults import JUNK, FaultSyntaxError, parse_fault

TEXT = "one two three four five six seven eight nine ten"
PATHS = {"openai": "/v1/chat/completions", "ollama": "/api/chat"}
BOTH = pytest.mark.parametrize("api", ["openai", "ollama"])


def payload(api: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True, **more}


class Wire:
    """A raw client: what arrived, byte by byte, and how it ended."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.data = b""
        self.reset = False

    @classmethod
    async def ask(cls, server: MockServer, api: str, **more: Any) -> Wire:
        host, port = server.url.removeprefix("http://").split(":")
        wire = cls(*await asyncio.open_connection(host, int(port)))
        body = json.dumps(payload(api, **more)).encode()
        head = f"POST {PATHS[api]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        wire.writer.write(head.encode() + body)
        return wire

    async def until(self, what: bytes) -> bytes:
        while what not in self.data:
            piece = await self.reader.read(65536)
            assert piece, f"ended before {what!r}: {self.data!r}"
            self.data += piece
        return self.data

    async def to_the_end(self) -> bytes:
        try:
            while piece := await self.reader.read(65536):
                self.data += piece
        except ConnectionResetError:
            self.reset = True
        self.writer.close()
        return self.data

    @property
    def body(self) -> bytes:
        """The body so far, taken out of its chunks; a chunk that was cut off counts as far as it came."""
        rest = self.data.partition(b"\r\n\r\n")[2]
        found = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            if not size or int(size, 16) == 0:
                break
            found, rest = found + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        return found

    @property
    def complete(self) -> bool:
        return self.data.endswith(b"0\r\n\r\n")


def spoilt(fault: dict[str, Any] | str, **more: Any) -> MockServer:
    if isinstance(fault, str):
        return serve(scenario("go", TEXT), faults=[fault], **more)
    return serve(scenario("go", step(TEXT, fault=fault)), **more)


@BOTH
@pytest.mark.parametrize(("kind", "reset"), [("drop", True), ("cut", False)])
async def test_connection_ends_after_so_many_bytes(api: str, kind: str, reset: bool):
    async with spoilt({"kind": kind, "after": 333}) as server:
        wire = await Wire.ask(server, api)
        await wire.to_the_end()
        assert len(wire.body) == 333
        assert (wire.reset, wire.complete) == (reset, False)
        exchange = server.requests[0]
        await exchange.finished.wait()
        assert (exchange.fault, exchange.fired, exchange.outcome, exchange.sent) == (kind, True, "broken", 333)


@BOTH
@pytest.mark.parametrize("kind", ["drop", "cut"])
async def test_connection_ends_before_anything(api: str, kind: str):
    async with spoilt(kind) as server:
        wire = await Wire.ask(server, api)
        assert await wire.to_the_end() == b""
        assert wire.reset == (kind == "drop")
        assert server.requests[0].fired
        assert server.requests[0].first_byte_at is None


@BOTH
async def test_stall_holds_the_connection_until_the_client_leaves(api: str):
    async with spoilt("stall:after=400") as server:
        wire = await Wire.ask(server, api)
        while len(wire.body) < 400:
            wire.data += await wire.reader.read(65536)
        exchange = await server.wait_for_request()
        assert not exchange.finished.is_set()
        wire.writer.close()
        await exchange.finished.wait()
        assert (exchange.fired, exchange.outcome, exchange.sent) == (True, "disconnected", 400)


async def test_stall_before_the_status_line_notices_the_client_leaving():
    async with spoilt({"kind": "stall"}) as server:
        wire = await Wire.ask(server, "openai")
        exchange = await server.wait_for_request()
        assert exchange.first_byte_at is None
        wire.writer.close()
        await exchange.finished.wait()
        assert exchange.outcome == "disconnected"


@pytest.mark.parametrize(("api", "sign"), [("openai", b": ping\n\n"), ("ollama", b'"content":""},"done":false}\n')])
async def test_stall_may_give_signs_of_life_without_content(api: str, sign: bytes):
    async with spoilt("stall:after=0,ping=0.01") as server:
        wire = await Wire.ask(server, api)
        while wire.data.count(sign) < 3:
            wire.data += await wire.reader.read(65536)
        wire.writer.close()
        assert b"one two" not in wire.data


async def test_stall_with_a_time_drops_the_connection_then():
    async with spoilt("stall:after=0,seconds=0.01") as server:
        wire = await Wire.ask(server, "openai")
        await wire.to_the_end()
        assert wire.reset
        assert wire.body == b""


@BOTH
async def test_garbage_comes_in_between_and_the_rest_follows(api: str):
    async with spoilt("garbage:after=50") as server:
        wire = await Wire.ask(server, api)
        await wire.until(b"0\r\n\r\n")
        assert wire.body[50 : 50 + len(JUNK)] == JUNK
        assert b"ten" in wire.body
        assert server.requests[0].fired


async def test_garbage_may_be_given():
    async with spoilt({"kind": "garbage", "body": "\xff<html>"}) as server:
        wire = await Wire.ask(server, "openai")
        await wire.until(b"0\r\n\r\n")
        assert wire.body.startswith(b"\xff<html>data: ")


@BOTH
async def test_error_inside_a_stream_comes_after_whole_frames(api: str):
    async with spoilt({"kind": "error", "after": 600, "body": "runner died"}) as server:
        wire = await Wire.ask(server, api)
        await wire.until(b"0\r\n\r\n")
        assert wire.data.startswith(b"HTTP/1.1 200")
        separator = b"\n\n" if api == "openai" else b"\n"
        frames = [json.loads(one.removeprefix(b"data: ")) for one in wire.body.split(separator) if one]
        error = frames[-1]["error"]
        assert (error if api == "ollama" else error["message"]) == "runner died"
        assert len(frames) > 2
        assert server.requests[0].fired
        assert all("error" not in frame for frame in frames[:-1])


@BOTH
async def test_end_marker_can_be_missing(api: str):
    async with spoilt("no_end") as server:
        wire = await Wire.ask(server, api, stream_options={"include_usage": True})
        await wire.until(b"0\r\n\r\n")
        assert b" ten" in wire.body
        for marker in (b"[DONE]", b'"finish_reason":"stop"', b'"done":true', b'"usage":{'):
            assert marker not in wire.body
        assert server.requests[0].fired


@BOTH
async def test_drip_sends_everything_a_few_bytes_at_a_time(api: str):
    async with spoilt("drip:size=7,seconds=0") as server:
        wire = await Wire.ask(server, api)
        await wire.until(b"0\r\n\r\n")
        assert wire.data.count(b"\r\n7\r\n") > 20
        assert b" ten" in wire.body
        assert server.requests[0].fired


@pytest.mark.parametrize("spec", ["delay:seconds=0.05", "delay:after=0,seconds=0.05", "delay:after=90,seconds=0.05"])
async def test_delay_waits_and_then_goes_on(spec: str):
    async with spoilt(spec) as server:
        began = time.monotonic()
        wire = await Wire.ask(server, "openai")
        await wire.until(b"0\r\n\r\n")
        assert time.monotonic() - began >= 0.05
        assert wire.body.endswith(b"data: [DONE]\n\n")
        assert server.requests[0].fired


async def test_step_may_be_delayed_and_paced_and_the_client_may_leave_meanwhile():
    slow = scenario("go", step(TEXT, pace=600))
    async with serve(slow, scenario("wait", step("x", delay=600))) as server:
        wire = await Wire.ask(server, "openai")
        await wire.until(b'"role":"assistant"')
        wire.writer.close()
        await server.requests[0].finished.wait()
        waiting = await Wire.ask(server, "openai", messages=[{"role": "user", "content": "wait"}])
        second = await server.wait_for_request(2)
        waiting.writer.close()
        await second.finished.wait()
        assert [one.outcome for one in server.requests] == ["disconnected", "disconnected"]


@BOTH
@pytest.mark.parametrize(
    ("fault", "status", "headers", "said"),
    [
        ("429:retry_after=2", 429, {"retry-after": "2"}, "Rate limit"),
        ("500", 500, {"content-type": "application/json"}, "Internal server error"),
        ("502", 502, {"content-type": "text/html"}, "<h1>502 Bad Gateway</h1>"),
        ("503", 503, {}, "busy"),
        ("status:status=418", 418, {}, "418"),
        ({"kind": "status", "status": 400, "body": {"error": {"n_ctx": 5}}}, 400, {}, '{"error": {"n_ctx": 5}}'),
        ({"kind": "status", "body": "plain"}, 500, {"content-type": "text/plain; charset=utf-8"}, "plain"),
    ],
)
async def test_status_faults(api: str, fault: Any, status: int, headers: dict[str, str], said: str):
    async with spoilt(fault) as server, httpx.AsyncClient(base_url=server.url) as client:
        reply = await client.post(PATHS[api], json=payload(api))
        assert reply.status_code == status
        assert said in reply.text
        assert headers.items() <= dict(reply.headers).items()
        assert server.requests[0].fired


async def test_faults_strike_in_order_and_as_often_as_they_say():
    async with spoilt("429:times=2") as server, httpx.AsyncClient(base_url=server.url) as client:
        server.misbehave("none:times=1", "500:times=1")
        seen = [(await client.post(PATHS["openai"], json=payload("openai"))).status_code for _ in range(6)]
        assert seen == [429, 429, 200, 500, 200, 200]


async def test_fault_of_a_step_strikes_as_often_as_it_says():
    fault = {"kind": "503", "times": 1}
    async with spoilt(fault) as server, httpx.AsyncClient(base_url=server.url) as client:
        seen = [(await client.post(PATHS["ollama"], json=payload("ollama"))).status_code for _ in range(3)]
        assert seen == [503, 200, 200]
        assert [one.fired for one in server.requests] == [True, False, False]


@BOTH
async def test_whole_replies_are_spoilt_too(api: str):
    async with spoilt("cut:after=20,times=1") as server, httpx.AsyncClient(base_url=server.url) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(PATHS[api], json=payload(api, stream=False))
        server.misbehave("error:body=oops,times=1")
        reply = await client.post(PATHS[api], json=payload(api, stream=False))
        assert (reply.status_code, "oops" in reply.text, TEXT in reply.text) == (200, True, False)


async def test_fault_beyond_the_end_never_fires_and_says_so():
    async with spoilt("drop:after=1000000") as server, httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.post(PATHS["openai"], json=payload("openai"))).status_code == 200
        assert (server.requests[0].fault, server.requests[0].fired) == ("drop", False)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("explode", "unknown kind of fault"),
        ("drop:after", "field=value"),
        ("drop:after=x", "Expected `int"),
        ("drop:when=1", "unknown field `when`"),
        ("drop:after=-1", ">= 0"),
    ],
)
def test_faults_that_make_no_sense_are_explained(spec: str, why: str):
    with pytest.raises(FaultSyntaxError, match=why) as caught:
        parse_fault(spec)
    assert spec in str(caught.value)

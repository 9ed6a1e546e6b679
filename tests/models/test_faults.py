"""Faults of model servers, over real sockets; the log of the server proves that the fault occurred (M7)."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import subprocess
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.models.asking import (
    DONE,
    FAST_LIMITS,
    Reply,
    ask,
    make_request,
    ndjson,
    ollama_client,
    ollama_line,
    ollama_server,
    openai_client,
    openai_server,
    raw_body,
    sse,
    stream_chunk,
)
from tests.waiting import within_timeout
from tui_agent.models.base import Model, RetryWait, TextFragment
from tui_agent.models.connect import connect
from tui_agent.models.exchange import HttpModel
from tui_agent.models.faults import RetryPolicy
from tui_agent.models.wire import WireLimits


class FakeSleep:
    """Waits for nothing, and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def impatient(**limits: Any) -> WireLimits:
    return msgspec.structs.replace(FAST_LIMITS, **limits)


def patient(model: Model) -> tuple[Model, FakeSleep]:
    sleep = FakeSleep()
    assert isinstance(model, HttpModel)
    model.retries = RetryPolicy(sleep=sleep, jitter=lambda: 1.0)
    return model, sleep


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- connecting -----------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_c01_connection_refused_is_named_and_retried_visibly(provider):
    model, sleep = patient(
        connect(provider, f"http://127.0.0.1:{free_port()}", limits=FAST_LIMITS, env={}, retries=False)
    )
    reply = await ask(model)
    assert reply.fault.kind == "unreachable"
    assert "connection refused" in reply.fault.message
    assert "after 5 attempts" in reply.fault.message
    assert reply.fault.advice
    assert [wait.attempt for wait in reply.waits] == [2, 3, 4, 5]
    assert sleep.slept == [1, 2, 4, 8]


async def test_c01_a_name_that_does_not_exist():
    model = connect("openai", "http://no-such-host.invalid/v1", limits=FAST_LIMITS, env={}, retries=False)
    fault = (await ask(model)).fault
    assert (fault.kind, fault.retryable) == ("unreachable", True)
    assert "host name" in fault.message


async def test_c01_no_answer_to_connecting_ends_after_its_time():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        fillers = []
        for _ in range(4):  # its queue is full now: further connections get no answer
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
            fillers.append(filler)
        model = connect(
            "openai", f"http://127.0.0.1:{deaf.getsockname()[1]}", limits=impatient(connect=0.2), env={}, retries=False
        )
        fault = (await ask(model)).fault
        for filler in fillers:
            filler.close()
    assert fault.kind == "unreachable"
    assert "0.2 s" in fault.message


async def test_c01_an_interrupt_ends_a_wait_between_attempts_at_once():
    model = connect("openai", f"http://127.0.0.1:{free_port()}", limits=FAST_LIMITS, env={})
    waiting = asyncio.Event()

    async def read() -> None:
        async for piece in model.stream(make_request()):
            if isinstance(piece, RetryWait):
                waiting.set()

    task = asyncio.create_task(read())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_timeout(task)


# --- silence --------------------------------------------------------------------------------


async def silent(connection: FakeConnection) -> None:
    connection.note("silent")
    await connection.gone()


async def test_c02_a_server_that_accepts_and_never_answers():
    async with ollama_server(silent) as server:
        reply = await ask(ollama_client(server, limits=impatient(first_byte=0.2)))
        await asyncio.wait_for(server.left.wait(), 60)
    assert server.log == ["silent"]
    assert (reply.fault.kind, reply.fault.retryable) == ("timeout", False)
    assert "sent nothing for 0.2 s" in reply.fault.message
    assert reply.phases[-1] == "loading"


@pytest.mark.parametrize("text", ["", "partial"])
async def test_c03_headers_and_then_silence(text):
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        if text:
            await connection.events(stream_chunk(content=text))
        await silent(connection)

    async with openai_server(chat) as server:
        reply = await ask(openai_client(server, limits=impatient(first_byte=0.2, no_bytes=0.2)))
        await asyncio.wait_for(server.left.wait(), 60)
    assert server.log == ["silent"]
    assert reply.text == text
    assert reply.fault.kind == "timeout"


async def drip(connection: FakeConnection, data: bytes) -> None:
    """Send `data` again and again until the client leaves."""
    connection.note("drip")
    gone = asyncio.create_task(connection.gone())
    while not gone.done():
        try:
            await connection.body(data)
        except ConnectionError:
            break
        await asyncio.wait({gone}, timeout=0.01)
    await gone


async def test_c06_one_byte_at_a_time_for_ever():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(ollama_line("start"))
        await connection.body('{"message": {"content": "')
        await drip(connection, b"x")

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, limits=impatient(no_progress=0.3)))
    assert server.log == ["drip"]
    assert (reply.text, reply.fault.kind) == ("start", "timeout")
    assert "nothing new for 0.3 s" in reply.fault.message


@pytest.mark.parametrize(
    "ping", [": ping\n\n", "data: {}\n\n", f"data: {json.dumps(stream_chunk(content=''))}\n\n", ":"]
)
async def test_c07_pings_are_no_progress(ping):
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await connection.events(stream_chunk(content="start"))
        await drip(connection, ping.encode())

    async with openai_server(chat) as server:
        reply = await ask(openai_client(server, limits=impatient(no_progress=0.3)))
    assert server.log == ["drip"]
    assert (reply.text, reply.fault.kind) == ("start", "timeout")


async def test_c07_a_flood_of_pings_is_no_progress_either():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        connection.note("flood")
        while not connection.writer.is_closing():
            await connection.body(b": ping\n\n" * 100)
            await asyncio.sleep(0)

    async with openai_server(chat) as server:
        fault = (await ask(openai_client(server, limits=impatient(no_progress=0.3)))).fault
    assert (server.log, fault.kind) == (["flood"], "timeout")


async def test_c08_a_cold_load_outlasts_the_other_watchdogs_and_is_shown():
    limits = impatient(no_bytes=0.05, no_progress=0.05, first_byte=5)

    async def chat(connection: FakeConnection) -> None:
        connection.note("cold")
        await asyncio.sleep(0.4)  # the load itself; both other watchdogs would have barked
        await ndjson(ollama_line("warm"), DONE)(connection)

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, limits=limits))
    assert (server.log, reply.text) == (["cold"], "warm")
    assert "loading" in reply.phases


async def test_c09_thinking_alone_is_progress():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        connection.note("thinking")
        for _ in range(12):
            await connection.lines(ollama_line(thinking="hm "))
            await asyncio.sleep(0.05)
        await connection.lines(ollama_line("x"), DONE)
        await connection.end()

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, limits=impatient(no_progress=0.4)))
    assert server.log == ["thinking"]
    assert (reply.thought, reply.text) == ("hm " * 12, "x")


# --- broken streams -------------------------------------------------------------------------


async def test_c04_reset_in_mid_stream_keeps_the_partial_text():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(ollama_line("part"))
        await asyncio.sleep(0.05)  # a reset overtakes bytes that the client has not read yet
        connection.reset()

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, retries=True))
    assert server.log == ["rst"]
    assert reply.text == "part"
    assert (reply.fault.kind, reply.fault.retryable) == ("broken", False)
    assert len(server.asked_for("/api/chat")) == 1


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_c05_an_end_without_its_marker(provider, chunked):
    async def chat(connection: FakeConnection) -> None:
        if provider == "ollama":
            await connection.head(200, "application/x-ndjson", chunked=chunked)
            await connection.lines(ollama_line("part"))
        else:
            await connection.head(200, "text/event-stream", chunked=chunked)
            await connection.events(stream_chunk(content="part"))
        connection.close()

    server = ollama_server(chat) if provider == "ollama" else openai_server(chat)
    async with server:
        reply = await ask(ollama_client(server) if provider == "ollama" else openai_client(server))
    assert server.log == ["fin"]
    assert (reply.text, reply.fault.kind, reply.fault.retryable) == ("part", "broken", False)
    assert "continue" in reply.fault.advice


async def test_c05_an_end_before_anything_was_said_is_tried_again():
    async def chat(connection: FakeConnection) -> None:
        if server.log:
            await sse(stream_chunk(content="x"), stream_chunk("stop"))(connection)
        else:
            connection.close()

    async with openai_server(chat) as server:
        model, _ = patient(openai_client(server))
        reply = await ask(model)
    assert (server.log, reply.text, len(reply.waits)) == (["fin"], "x", 1)


async def test_a_break_after_the_end_marker_is_no_fault():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await connection.events(stream_chunk(content="x"), stream_chunk("stop"))
        await asyncio.sleep(0.05)  # a reset overtakes bytes that the client has not read yet
        connection.reset()

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server))).stop == "stop"
    assert server.log == ["rst"]


async def test_a_server_that_keeps_the_line_after_the_end_marker_is_left():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await connection.events(stream_chunk(content="x"), stream_chunk("stop"))
        await silent(connection)

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server))).stop == "stop"
    assert server.log == ["silent"]


# --- status codes and retries ---------------------------------------------------------------


def in_an_hour() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("2", 2, 2.5), ("0.5", 0.5, 1), ("date", 50, 61), ("soon", 0.5, 1), ("-5", 0.5, 1), ("nan", 0.5, 1), ("", 0.5, 1)],
)
async def test_c10_retry_after(value, least, most):
    async def chat(connection: FakeConnection) -> None:
        if server.log:
            await ndjson(ollama_line("x"), DONE)(connection)
            return
        connection.note("429")
        await connection.answer(429, {"error": "slow"}, Retry_After=in_an_hour() if value == "date" else value)

    async with ollama_server(chat) as server:
        model, sleep = patient(ollama_client(server))
        reply = await ask(model)
    assert (server.log, reply.text) == (["429"], "x")
    assert len(sleep.slept) == 1 and least <= sleep.slept[0] <= most
    assert reply.waits[0].seconds == sleep.slept[0]
    assert "429" in reply.waits[0].why


async def test_c10_a_day_is_not_waited():
    async def chat(connection: FakeConnection) -> None:
        connection.note("429")
        await connection.answer(429, {"error": "quota"}, Retry_After="86400")

    async with openai_server(chat) as server:
        model, sleep = patient(openai_client(server))
        fault = (await ask(model)).fault
    assert (server.log, sleep.slept, fault.retry_after) == (["429"], [], 86400)
    assert "1 d" in fault.advice


PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><script>alert(1)</script></body></html>"


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (408, "text/plain", b"slow"),
        (500, "application/json", b'{"error": "boom"}'),
        (502, "text/html", PAGE),
        (503, "text/plain", b""),
        (529, "application/json", b'{"error": {"message": "overloaded"}}'),
    ],
)
async def test_c11_server_errors_are_retried_five_times_at_most(status, kind, body):
    async def chat(connection: FakeConnection) -> None:
        connection.note(str(status))
        await connection.answer(status, body, kind=kind)

    async with openai_server(chat) as server:
        model, _ = patient(openai_client(server))
        reply = await ask(model)
    assert server.log == [str(status)] * 5
    assert (reply.fault.status, len(reply.waits)) == (status, 4)
    assert "<" not in reply.fault.message and "script" not in reply.fault.message


async def test_c11_a_page_is_named_by_its_title_and_a_body_is_cut():
    async def chat(connection: FakeConnection) -> None:
        if connection.request.json["model"] == "html":
            await connection.answer(502, PAGE, kind="text/html")
        else:
            await connection.answer(500, b"x" * 100_000, kind="text/plain")

    async with openai_server(chat) as server:
        model = openai_client(server)
        assert "502 Bad Gateway" in (await ask(model, make_request(model="html"))).fault.message
        assert len((await ask(model)).fault.message) < 2200


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (400, "status", ""),
        (401, "status", "LLM_AUTH_TOKEN"),
        (403, "status", "if it requires a token"),
        (404, "status", "model"),
        (413, "too_large", "compact"),
        (422, "status", ""),
    ],
)
async def test_c12_refusals_are_not_retried(status, kind, advice):
    async def chat(connection: FakeConnection) -> None:
        connection.note(str(status))
        await connection.answer(status, {"error": {"message": "the model `m:7b` does not exist"}})

    async with openai_server(chat) as server:
        model, sleep = patient(openai_client(server))
        fault = (await ask(model)).fault
    assert (server.log, sleep.slept) == ([str(status)], [])
    assert (fault.kind, fault.status, fault.retryable) == (kind, status, False)
    assert advice in fault.advice


@pytest.mark.parametrize(
    ("token", "status", "advice"),
    [
        (None, 401, "The server requires a token: set LLM_AUTH_TOKEN."),
        ("t0ken", 401, "The token was not accepted: correct LLM_AUTH_TOKEN, or `token_file` in the settings."),
        ("t0ken", 403, "This token or account may not use the model."),
    ],
)
async def test_c12_a_missing_token_is_told_from_a_wrong_one(token, status, advice):
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(status, {"error": {"message": "Unauthorized"}})

    async with openai_server(chat) as server:
        fault = (await ask(openai_client(server, token=token))).fault
    assert fault.advice == advice


async def test_c12_a_path_that_ollama_does_not_have_is_explained_for_ollama():
    async with ollama_server(raw_body(404, "text/plain", b"404 page not found")) as server:
        fault = (await ask(ollama_client(server))).fault
    assert "OLLAMA_HOST" in fault.advice and "LLM_BASE_URL" in fault.advice


@pytest.mark.parametrize(
    ("said_by_server", "end"),
    [("no such thing", "no such thing."), ("Really?", "Really?"), ("It is gone.", "It is gone.")],
)
async def test_c12_what_a_server_says_ends_like_a_sentence(said_by_server, end):
    async def chat(connection: FakeConnection) -> None:
        await connection.answer(404, {"error": {"message": said_by_server}})

    async def marked(connection: FakeConnection) -> None:
        await connection.answer(404, {"error": {"message": "no such thing"}}, x_request_id="r1")

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server))).fault.message.endswith(f": {end}")
    async with openai_server(marked) as server:
        assert (await ask(openai_client(server))).fault.message.endswith(": no such thing (request r1).")


@pytest.mark.parametrize("text", ["", "part"])
@pytest.mark.parametrize("provider", ["ollama", "openai"])
async def test_c13_an_error_in_the_stream_keeps_the_partial_text(provider, text):
    async def chat(connection: FakeConnection) -> None:
        connection.note("error")
        if provider == "ollama":
            await ndjson(ollama_line(text), {"error": "CUDA error"})(connection)
        else:
            await sse(stream_chunk(content=text), {"error": {"message": "CUDA error", "code": 502}})(connection)

    server = ollama_server(chat) if provider == "ollama" else openai_server(chat)
    async with server:
        reply = await ask(ollama_client(server) if provider == "ollama" else openai_client(server))
    assert server.log == ["error"]
    assert (reply.text, "CUDA error" in reply.fault.message) == (text, True)
    assert reply.fault.retryable is (provider == "openai" and not text)


@pytest.mark.parametrize(
    "begun",
    [
        {"content": "part"},
        {"reasoning": "part"},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]},
    ],
)
async def test_a_reply_that_began_is_never_asked_for_again(begun):
    async def chat(connection: FakeConnection) -> None:
        await sse(stream_chunk(**begun), {"error": {"message": "busy", "code": 503}})(connection)

    async with openai_server(chat) as server:
        model, sleep = patient(openai_client(server))
        assert "busy" in (await ask(model)).fault.message
    assert (len(server.requests), sleep.slept) == (1, [])


# --- sizes, encodings, HTTP -----------------------------------------------------------------


async def test_c19_a_line_of_ten_megabytes():
    text = "y" * 10_000_000
    body = json.dumps(ollama_line(text)).encode() + b"\n" + json.dumps(DONE).encode() + b"\n"

    async def chat(connection: FakeConnection) -> None:
        connection.note("big")
        await connection.head(200, "application/x-ndjson")
        for at in range(0, len(body), 65536):
            await connection.body(body[at : at + 65536])
        await connection.end()

    async with ollama_server(chat) as server:
        assert len((await ask(ollama_client(server))).text) == len(text)
    assert server.log[0] == "big"


@pytest.mark.parametrize("line", [b"x" * 4096, json.dumps(ollama_line("y" * 4096)).encode() + b"\n"])
async def test_c20_a_line_beyond_the_limit_closes_the_connection(line):
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(ollama_line("part"))
        await connection.body(line)
        await silent(connection)

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, limits=impatient(line=1024)))
        await asyncio.wait_for(server.left.wait(), 60)
    assert server.log == ["silent"]
    assert (reply.text, reply.fault.kind) == ("part", "too_large")
    assert "1,024 bytes" in reply.fault.message


async def test_c20_a_body_beyond_the_limit():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await drip(connection, json.dumps(ollama_line("word ")).encode() + b"\n")

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server, limits=impatient(body=2000)))
    assert (server.log, reply.fault.kind) == (["drip"], "too_large")


async def test_c21_a_compressed_reply_is_refused_unread():
    bomb = gzip.compress(b'{"message": {"content": "' + b"x" * 10_000_000)

    async def chat(connection: FakeConnection) -> None:
        connection.note("bomb")
        await connection.head(200, "application/x-ndjson", length=len(bomb), Content_Encoding="gzip")
        await connection.send(bomb)

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server))).fault
    assert (server.log, fault.kind) == (["bomb"], "protocol")
    assert "compressed" in fault.message


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\x01\xfe\xff",
        b"<html><body>hello</body></html>",
        b'{"message": {"content": "cut',
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'"just a text"',
        '{"message": {"content": "x"}}'.encode("utf-16"),
    ],
)
async def test_c22_what_is_no_record_is_said_and_ends_the_reply(line):
    async def chat(connection: FakeConnection) -> None:
        connection.note("garbage")
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(ollama_line("part"))
        await connection.body(line + b"\n")
        await connection.lines(DONE)
        await connection.end()

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server))
    assert server.log == ["garbage"]
    assert (reply.text, reply.fault.kind) == ("part", "protocol")


async def test_c22_odd_but_readable_json():
    lines = (
        b'{"message": {"content": "a", "content": "b"}, "done": false}',
        b'{"message": {"content": "\\ud83d", "n": NaN}, "done": false}',
        b'{"message": {"content": "c"}, "done": true, "eval_count": %s, "load_duration": 1e999}' % (b"9" * 5000),
    )

    async def chat(connection: FakeConnection) -> None:
        connection.note("odd")
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.body(b"\n".join(lines))
        await connection.end()

    async with ollama_server(chat) as server:
        reply = await ask(ollama_client(server))
    assert server.log == ["odd"]
    assert (reply.text, reply.stop) == ("b\ufffdc", "")
    assert reply.usage.completion_tokens is None


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", "broken"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nX-Big: " + b"x" * 1_000_000 + b"\r\n\r\n", "protocol"),
        (b"hello, this is no HTTP\r\n\r\n", "protocol"),
        (b"", "broken"),
    ],
    ids=["length too long", "length too short", "bad chunk size", "big headers", "http/0.9", "nothing"],
)
async def test_c24_bad_http_is_named(head, kind):
    async def chat(connection: FakeConnection) -> None:
        connection.note("bad")
        await connection.send(head + json.dumps(ollama_line("part")).encode()[: 1000 if head else 0])
        connection.close()

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server))).fault
    assert (server.log[0], fault.kind) == ("bad", kind)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    file = tmp_path / "self-signed.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [*command.split(), "-keyout", str(file), "-out", str(tmp_path / "c")], check=True, capture_output=True
    )
    file.write_bytes(file.read_bytes() + (tmp_path / "c").read_bytes())
    return file


@pytest.mark.needs("openssl")
async def test_c25_a_self_signed_certificate_is_refused_unless_named(certificate: Path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with FakeRawServer(
        {"/v1/chat/completions": sse(stream_chunk(content="x"), stream_chunk("stop"))}, tls=context
    ) as server:
        fault = (await ask(openai_client(server))).fault
        assert (fault.kind, fault.retryable) == ("unreachable", False)
        assert "certificate" in fault.message and "LLM_CA" in fault.advice
        assert server.requests == []
        assert (await ask(openai_client(server, env={"LLM_CA": str(certificate)}))).text == "x"


async def test_c25_plain_http_behind_https():
    seen: list[bytes] = []

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(3))
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = connect("openai", f"https://127.0.0.1:{port}/v1", limits=FAST_LIMITS, env={}, retries=False)
    fault = (await ask(model)).fault
    server.close()
    assert seen == [b"\x16\x03\x01"]  # it was spoken to in TLS, and nothing else came after
    assert fault.kind == "unreachable"
    assert "TLS" in fault.message
    assert "http://" in fault.advice


@pytest.mark.parametrize("status", [302, 307])
async def test_c26_redirects_are_not_followed(status):
    async with FakeRawServer({"/steal": sse(stream_chunk("stop"))}) as other:

        async def chat(connection: FakeConnection) -> None:
            connection.note("redirect")
            await connection.answer(status, Location=f"{other.url}/steal?x=1")

        async with openai_server(chat) as server:
            fault = (await ask(openai_client(server, token="canary"))).fault
        assert (server.log, other.connections) == (["redirect"], 0)
    assert (fault.kind, fault.status, fault.retryable) == ("status", status, False)
    assert "/steal" in fault.message


async def test_c27_proxies_are_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch):
    async with FakeRawServer() as proxy, openai_server(sse(stream_chunk(content="x"), stream_chunk("stop"))) as server:
        env = {"HTTP_PROXY": proxy.url, "http_proxy": proxy.url, "ALL_PROXY": "socks5h://127.0.0.1:1"}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        assert (await ask(openai_client(server, env=env))).text == "x"
        assert (len(server.requests), proxy.connections) == (1, 0)


async def test_c27_a_far_server_is_reached_through_the_proxy():
    async def through(connection: FakeConnection) -> None:
        await sse(stream_chunk(content="proxied"), stream_chunk("stop"))(connection)

    async with FakeRawServer({"http://llm.example.com/v1/chat/completions": through}) as proxy:
        model = connect(
            "openai", "http://llm.example.com/v1", limits=FAST_LIMITS, env={"HTTP_PROXY": proxy.url}, retries=False
        )
        assert (await ask(model)).text == "proxied"


async def test_a_proxy_of_an_unknown_kind_is_a_clear_error():
    env = {"ALL_PROXY": "socks5h://user:canary@127.0.0.1:9"}
    fault = (await ask(connect("openai", "https://llm.example.com/v1", env=env))).fault
    assert (fault.kind, fault.retryable) == ("unreachable", False)
    assert "ALL_PROXY" in fault.message and "canary" not in repr(fault)


async def test_c28_a_server_that_comes_back_is_found_again():
    port = free_port()
    model, sleep = patient(connect("ollama", f"http://127.0.0.1:{port}", limits=FAST_LIMITS, env={}, retries=False))
    server = ollama_server(ndjson(ollama_line("x"), DONE))
    assert (await ask(model)).fault.kind == "unreachable"
    real = await asyncio.start_server(server._accept, "127.0.0.1", port)
    try:
        assert (await ask(model)).text == "x"
    finally:
        real.close()
    assert len(sleep.slept) == 4
    await model.aclose()


PHASES = ["connect", "headers", "stream", "think"]


@pytest.mark.parametrize("phase", PHASES)
async def test_c29_a_stop_in_each_phase_closes_the_connection(phase):
    reached = asyncio.Event()

    async def chat(connection: FakeConnection) -> None:
        if phase != "connect":
            await connection.head(200, "application/x-ndjson", chunked=True)
        if phase in ("stream", "think"):
            await connection.lines(ollama_line("x") if phase == "stream" else ollama_line(thinking="x"))
        connection.note(phase)
        reached.set()
        await connection.gone()

    async def read(model: Model) -> Reply:
        return await ask(model)

    async with ollama_server(chat) as server:
        model = ollama_client(server)
        for _ in range(5):
            reached.clear()
            server.left.clear()
            task = asyncio.create_task(read(model))
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await within_timeout(task)
            await within_timeout(server.left.wait())
        assert server.log == [phase] * 5
        server.routes["/api/chat"] = ndjson(ollama_line("usable"), DONE)
        assert (await ask(model)).text == "usable"


async def test_c31_terminal_control_in_error_text_is_taken_out():
    evil = "bad \x1b]52;c;ZXZpbA==\x07\x1b[2Jthing\x9b31m [/red][@click=app.quit]x[/]"

    async def chat(connection: FakeConnection) -> None:
        connection.note("evil")
        await connection.answer(400, {"error": evil}, X_Request_Id="r\x1b[2J1")

    async with ollama_server(chat) as server:
        fault = (await ask(ollama_client(server))).fault
    assert server.log == ["evil"]
    assert "bad " in fault.message and "thing" in fault.message
    assert not any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 for letter in fault.message)


@pytest.mark.parametrize("reason", ["length", "content_filter", "mystery"])
async def test_c32_finish_reasons_reach_the_engine(reason):
    async def chat(connection: FakeConnection) -> None:
        connection.note(reason)
        await sse(stream_chunk(content="x"), stream_chunk(reason), "[DONE]")(connection)

    async with openai_server(chat) as server:
        assert (await ask(openai_client(server))).stop == reason
    assert server.log == [reason]


async def test_an_abandoned_iterator_frees_the_connection():
    async def chat(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await connection.events(stream_chunk(content="x"))
        await connection.gone()

    async with openai_server(chat) as server:
        model = openai_client(server, retries=True)
        async with aclosing(model.stream(make_request())) as pieces:
            async for piece in pieces:
                if isinstance(piece, TextFragment):
                    break
        await asyncio.wait_for(server.left.wait(), 60)

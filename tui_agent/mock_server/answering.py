"""Puts an answer on the wire: errors, plain objects, and replies of the model, spoilt or not."""

from __future__ import annotations

from typing import Any

from tui_agent.mock_server import ollama_api, openai_api
from tui_agent.mock_server.exchanges import Exchange
from tui_agent.mock_server.faults import Spoiler, status_message, status_reply
from tui_agent.mock_server.http import Connection, Headers
from tui_agent.mock_server.replies import Reply, encoded, truncated
from tui_agent.mock_server.strict import Api
from tui_agent.models.scenarios import Misbehaviour

RUNNER_DIED = "the model runner has unexpectedly stopped"


class Refusal(Exception):
    """The request is answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def refuse(connection: Connection, exchange: Exchange, refusal: Refusal, api: Api) -> None:
    """Answer with the refusal's status, in the error shape of the API."""
    wire = ollama_api if api == "ollama" else openai_api
    await plain(connection, exchange, wire.error(refusal.status, str(refusal)), refusal.status)


async def plain(
    connection: Connection, exchange: Exchange, value: dict[str, Any] | str, status: int = 200
) -> None:
    """Answer with an object as JSON, or with text."""
    if isinstance(value, str):
        kind, data = "text/plain; charset=utf-8", value.encode()
    else:
        kind, data = "application/json", encoded(value)
    await _respond(connection, exchange, status, [("Content-Type", kind)], data)


async def _respond(
    connection: Connection, exchange: Exchange, status: int, headers: Headers, data: bytes
) -> None:
    exchange.status = status
    await connection.start(status, [*headers, ("Content-Length", str(len(data)))])
    if exchange.method != "HEAD":
        await connection.send(data)
    await connection.end()


async def send_reply(
    connection: Connection,
    exchange: Exchange,
    reply: Reply,
    api: Api,
    *,
    fault: Misbehaviour | None,
    pace: float,
) -> None:
    """Send the model's reply, whole or streamed as the request asks. Raises Refusal, Spoilt, Disconnected."""
    wire = ollama_api if api == "ollama" else openai_api
    exchange.fault = fault.kind if fault else None
    if fault is not None and fault.kind == "truncate":
        reply, exchange.fired = truncated(reply, fault.window)
        fault = None
    if reply.choice.step.delay:
        await connection.pause(reply.choice.step.delay)
    if fault is not None and (code := fault.code) is not None:
        exchange.fired = True
        headers, data = status_reply(fault, code, wire.error(code, status_message(code)))
        await _respond(connection, exchange, code, headers, data)
        return
    ping = ollama_api.ping(reply.model) if api == "ollama" else openai_api.PING
    broken = wire.error_frame(_in_stream(fault, wire.error(500, RUNNER_DIED)))
    spoiler = Spoiler(connection, fault, ping=ping, error=broken)
    streamed = bool(reply.payload.get("stream", api == "ollama"))
    try:
        if streamed:
            await _stream(connection, exchange, reply, api, spoiler, pace)
        else:
            await _whole(connection, exchange, reply, api, spoiler)
    finally:
        exchange.fired = exchange.fired or spoiler.fired


async def _whole(
    connection: Connection, exchange: Exchange, reply: Reply, api: Api, spoiler: Spoiler
) -> None:
    if api == "ollama" and (unreadable := ollama_api.unreadable(reply)) is not None:
        raise Refusal(500, unreadable)
    body = ollama_api.body(reply) if api == "ollama" else openai_api.body(reply)
    await spoiler.before()
    exchange.status = 200
    await connection.start(200, [("Content-Type", "application/json")])
    await spoiler.send(encoded(body))
    await connection.end()


async def _stream(
    connection: Connection, exchange: Exchange, reply: Reply, api: Api, spoiler: Spoiler, pace: float
) -> None:
    wire = ollama_api if api == "ollama" else openai_api
    if api == "ollama" and not (reply.content or reply.thinking):
        unreadable = ollama_api.unreadable(reply)
        if unreadable is not None:
            raise Refusal(500, unreadable)
    await spoiler.before()
    exchange.status = 200
    await connection.start(200, [("Content-Type", wire.STREAM_TYPE), ("Cache-Control", "no-cache")])
    for frame in wire.frames(reply):
        if pace and frame.kind == "piece":
            await connection.pause(pace)
        await spoiler.send(frame.data, end=frame.kind == "end")
    await connection.end()


def _in_stream(fault: Misbehaviour | None, shaped: dict[str, Any]) -> dict[str, Any]:
    """The error object that an `error` fault puts into a reply."""
    body = fault.body if fault is not None else None
    if isinstance(body, dict):
        return body
    if isinstance(body, str):
        inner = shaped["error"]
        return {"error": inner | {"message": body} if isinstance(inner, dict) else body}
    return shaped

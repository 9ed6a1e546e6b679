"""Sends requests through a model client and collects the reply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tui_agent.common.domain import Fault, Message, ModelInfo, ToolCall, ToolSpec, Usage, UserMessage
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    Model,
    ModelRequest,
    Phase,
    ReasoningFragment,
    ReplyPart,
    RetryWait,
    Stop,
    TextFragment,
    UsageReport,
)
from tui_agent.models.connect import connect
from tui_agent.models.wire import WireLimits

FAST_LIMITS = WireLimits(
    connect=2, first_byte=5, no_bytes=5, no_progress=5, buffering=5, probe_after=0.05, side_request=2, tail=0.3
)
"""Limits that are only reached by tests of timeouts, which set their own."""

TOOL = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)


@dataclass
class Reply:
    """All parts of one reply."""

    pieces: list[ReplyPart]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces if isinstance(piece, TextFragment))

    @property
    def thought(self) -> str:
        return "".join(piece.text for piece in self.pieces if isinstance(piece, ReasoningFragment))

    @property
    def calls(self) -> list[ToolCall]:
        return [piece.call for piece in self.pieces if isinstance(piece, CallReady)]

    @property
    def begun(self) -> list[CallProgress]:
        return [piece for piece in self.pieces if isinstance(piece, CallProgress)]

    @property
    def phases(self) -> list[str]:
        return [piece.phase for piece in self.pieces if isinstance(piece, Phase)]

    @property
    def waits(self) -> list[RetryWait]:
        return [piece for piece in self.pieces if isinstance(piece, RetryWait)]

    @property
    def usage(self) -> Usage:
        return next((piece.usage for piece in reversed(self.pieces) if isinstance(piece, UsageReport)), Usage())

    @property
    def stop(self) -> str:
        last = self.pieces[-1]
        assert isinstance(last, Stop), last
        return last.reason

    @property
    def fault(self) -> Fault:
        last = self.pieces[-1]
        assert isinstance(last, Failed), last
        return last.fault


def make_request(*messages: Message, **more: Any) -> ModelRequest:
    more.setdefault("model", "m:7b")
    return ModelRequest(messages=messages or (UserMessage(text="hi"),), **more)


async def ask(model: Model, question: ModelRequest | None = None) -> Reply:
    reply = Reply([piece async for piece in model.stream(question or make_request())])
    ends = [piece for piece in reply.pieces if isinstance(piece, (Stop, Failed))]
    assert len(ends) == 1 and reply.pieces[-1] is ends[0]
    return reply


def expect_info(answer: ModelInfo | Fault) -> ModelInfo:
    assert isinstance(answer, ModelInfo), answer
    return answer


def ollama_client(
    server: FakeRawServer, *, limits: WireLimits = FAST_LIMITS, retries: bool = False, **more: Any
) -> Model:
    return connect("ollama", server.url, limits=limits, env=more.pop("env", {}), retries=retries, **more)


def openai_client(
    server: FakeRawServer, *, limits: WireLimits = FAST_LIMITS, retries: bool = False, **more: Any
) -> Model:
    return connect("openai", server.url + "/v1", limits=limits, env=more.pop("env", {}), retries=retries, **more)


def ollama_server(chat: Script, **show: Any) -> FakeRawServer:
    """Return an Ollama server with a scripted /api/chat. `show` is the answer of /api/show; without it, 404."""

    async def answer_show(connection: FakeConnection) -> None:
        await connection.answer(200, show)

    routes: dict[str, Script] = {"/api/chat": chat}
    if show:
        routes["/api/show"] = answer_show
    return FakeRawServer(routes)


def openai_server(chat: Script) -> FakeRawServer:
    return FakeRawServer({"/v1/chat/completions": chat})


def ollama_line(content: str = "", **more: Any) -> dict[str, Any]:
    """Return one line of an Ollama stream."""
    message = {"role": "assistant", "content": content} | {
        key: more.pop(key) for key in ("thinking", "tool_calls") if key in more
    }
    return {"model": "m:7b", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False} | more


DONE = ollama_line(done=True, done_reason="stop")


def ndjson(*values: Any) -> Script:
    """Return a script that streams the lines in chunks."""

    async def script(connection: FakeConnection) -> None:
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(*values)
        await connection.end()

    return script


def stream_chunk(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a chunk of an OpenAI-compatible stream."""
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


def sse(*values: Any) -> Script:
    """Return a script that streams the events in chunks."""

    async def script(connection: FakeConnection) -> None:
        await connection.head(200, "text/event-stream", chunked=True)
        await connection.events(*values)
        await connection.end()

    return script


def raw_body(status: int, kind: str, body: bytes, *, split: Iterable[int] = ()) -> Script:
    """Return a script that sends the body in pieces split at `split` and closes the connection."""

    async def script(connection: FakeConnection) -> None:
        await connection.head(status, kind)
        at = 0
        for border in (*split, len(body)):
            await connection.body(body[at:border])
            at = border
        await connection.end()

    return script

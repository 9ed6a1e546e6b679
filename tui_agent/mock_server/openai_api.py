"""OpenAI's chat completions as the mock server writes them: events, bodies, errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tui_agent.mock_server.replies import Frame, Reply, ServedModel, compact
from tui_agent.models.choosing import fragments

STREAM_TYPE = "text/event-stream; charset=utf-8"
PING = b": ping\n\n"
"""A sign of life without content: an SSE comment (C-1)."""


def error(status: int, message: str) -> dict[str, Any]:
    """An error body in the shape that most servers share (C-7)."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def error_frame(value: dict[str, Any]) -> bytes:
    """An error inside a stream that began with status 200."""
    return _event(value)


def body(reply: Reply) -> dict[str, Any]:
    """The whole reply as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.choice.step.response.content}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.choice.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
            for call in reply.choice.calls
        ]
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.reason or None}],
        "usage": _usage(reply),
    }


def frames(reply: Reply) -> Iterator[Frame]:
    """The reply as events: role, thinking, text, calls in fragments, reason, usage if asked for, `[DONE]`."""
    options = reply.payload.get("stream_options")
    with_usage = isinstance(options, dict) and bool(options.get("include_usage"))

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return _event(_chunk(reply, choices) | ({"usage": None} if with_usage else {}))

    yield Frame(chunk({"role": "assistant", "content": ""}), "head")
    for fragment in fragments(reply.thinking):
        yield Frame(chunk({"reasoning_content": fragment}))
    for fragment in fragments(reply.content):
        yield Frame(chunk({"content": fragment}))
    for index, call in enumerate(reply.choice.calls):
        begun = {"index": index, "id": call.id, "type": "function"}
        yield Frame(chunk({"tool_calls": [begun | {"function": {"name": call.name, "arguments": ""}}]}))
        for fragment in fragments(call.raw):
            yield Frame(chunk({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}))
    if reply.reason:
        yield Frame(chunk({}, reply.reason), "end")
    if with_usage:
        yield Frame(_event(_chunk(reply, []) | {"usage": _usage(reply)}), "end")
    yield Frame(b"data: [DONE]\n\n", "end")


def models(served: Iterable[ServedModel], created: int) -> dict[str, Any]:
    """The list of models; `max_model_len` tells the window, as vLLM does (C-8)."""
    return {"object": "list", "data": [model(one, created) for one in served]}


def model(served: ServedModel, created: int) -> dict[str, Any]:
    """One model."""
    return {
        "id": served.name,
        "object": "model",
        "created": created,
        "owned_by": "mock",
        "max_model_len": served.context_length,
    }


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + compact(value) + b"\n\n"


def _chunk(reply: Reply, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": "chat.completion.chunk",
        "created": reply.created,
        "model": reply.model,
        "choices": choices,
    }


def _usage(reply: Reply) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
    }
    if reply.cached_tokens is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": reply.cached_tokens}
    return usage

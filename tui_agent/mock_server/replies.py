"""Replies of the mock server in the formats of Ollama and of OpenAI-compatible servers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from tui_agent.common.domain import Usage
from tui_agent.models.scenario_matching import ScriptedReply, fragments
from tui_agent.models.scenarios import Scenarios, SimulatedFault

CONTEXT_LENGTH = 32_768


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model on the server."""

    name: str
    capabilities: tuple[str, ...] = ("completion", "tools", "thinking")
    context_length: int = CONTEXT_LENGTH


class StreamFrame(NamedTuple):
    """An event or line of a streamed reply. `end` frames are those that a broken reply omits."""

    data: bytes
    kind: Literal["head", "piece", "end"] = "piece"


class MockReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, independent of the wire format."""

    id: str
    created: int
    """Seconds since the epoch."""
    model: str
    choice: ScriptedReply
    payload: dict[str, Any]
    usage: Usage

    @property
    def content(self) -> str:
        """The text."""
        return self.choice.step.response.content or ""

    @property
    def thinking(self) -> str:
        """The reasoning, unless the request disables it."""
        return "" if self.payload.get("think") is False else self.choice.step.response.thinking or ""

    @property
    def prompt_tokens(self) -> int:
        return self.usage.prompt_tokens or 0

    @property
    def completion_tokens(self) -> int:
        return self.usage.completion_tokens or 0


class ResponderReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a Responder."""

    choice: ScriptedReply
    family: str = ""
    """The kind of deliberate mistake; "" for a correct reply."""
    fault: SimulatedFault | None = None
    """The fault applied while sending."""


@runtime_checkable
class Responder(Protocol):
    """A model that computes its replies from the request."""

    scenarios: Scenarios

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        """The reply to a request body of either API."""
        ...


def reply_usage(payload: Mapping[str, Any], choice: ScriptedReply) -> Usage:
    """Return the scenario's token counts, or estimates from messages, tools and the reply."""
    prompt = json.dumps([payload.get("messages"), payload.get("tools") or []], ensure_ascii=False)
    return choice.usage(prompt, think=payload.get("think") is not False)


def truncated(reply: MockReply, window: int | None) -> tuple[MockReply, bool]:
    """Report a prompt truncated to half of `window` and 2 tokens (O-7); also return whether it was longer.

    `window` defaults to the request's `num_ctx`.
    """
    limit = (window or requested_window(reply.payload) or CONTEXT_LENGTH) // 2 + 2
    if reply.prompt_tokens <= limit:
        return reply, False
    return msgspec.structs.replace(reply, usage=msgspec.structs.replace(reply.usage, prompt_tokens=limit)), True


def requested_window(payload: Mapping[str, Any]) -> int | None:
    """The request's `num_ctx`."""
    options = payload.get("options")
    window = options.get("num_ctx") if isinstance(options, dict) else None
    return window if isinstance(window, int) else None


def compact_json(value: object) -> bytes:
    """JSON without spaces, as servers stream it."""
    return json_bytes(value, (",", ":"))


def json_bytes(value: object, separators: tuple[str, str] | None = None) -> bytes:
    """JSON in UTF-8, escaped if it contains lone surrogates."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=separators).encode()


# --- Ollama ---------------------------------------------------------------------------------

VERSION = "0.32.0"
DEFAULT_WINDOW = 4096
"""The window of a model that is loaded without `num_ctx` (O-5)."""
_TOKEN_NS = 12_000_000
"""Reported nanoseconds per token."""
_MODEL_BYTES = 4_683_087_332
"""Reported size of a model."""


def _ollama_ping(model: str) -> bytes:
    """A keep-alive chunk without content."""
    return _line(_base(model, 0) | {"message": {"role": "assistant", "content": ""}, "done": False})


def _call_error(reply: MockReply) -> str | None:
    """The server's error if it can't parse the model's tool call (O-18), or None."""
    for call in reply.choice.calls:
        try:
            if isinstance(json.loads(call.raw or "{}"), dict):
                continue
            error = "json: cannot unmarshal into Go value of type map[string]interface {}"
        except json.JSONDecodeError as problem:
            error = f"{problem.msg} at offset {problem.pos}"
        return f"error parsing tool call: raw='{call.raw}', err={error}"
    return None


def _ollama_body(reply: MockReply) -> dict[str, Any]:
    """The reply as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.thinking:
        message["thinking"] = reply.thinking
    if reply.choice.calls:
        message["tool_calls"] = _calls(reply)
    return _base(reply.model, reply.created) | {"message": message} | _closing(reply)


def _ollama_frames(reply: MockReply) -> Iterator[StreamFrame]:
    """The reply as lines: reasoning, text, all calls at once, and the final line with counts (O-1, O-3, O-15)."""

    def chunk(message: dict[str, Any]) -> bytes:
        full = {"role": "assistant", "content": ""} | message
        return _line(_base(reply.model, reply.created) | {"message": full, "done": False})

    for fragment in fragments(reply.thinking):
        yield StreamFrame(chunk({"thinking": fragment}))
    for fragment in fragments(reply.content):
        yield StreamFrame(chunk({"content": fragment}))
    if (error := _call_error(reply)) is not None:
        yield StreamFrame(_line(OLLAMA.error(500, error)), "end")
        return
    if reply.choice.calls:
        yield StreamFrame(chunk({"tool_calls": _calls(reply)}))
    last = {"message": {"role": "assistant", "content": ""}} | _closing(reply)
    yield StreamFrame(_line(_base(reply.model, reply.created) | last), "end")


def load_response(model: str, created: int) -> dict[str, Any]:
    """The response to a request without messages, which only loads the model (O-2)."""
    result = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "load"}
    return _base(model, created) | result


def show_response(served: ServedModel) -> dict[str, Any]:
    """`/api/show` (O-22)."""
    return {
        "modelfile": "",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": _details(),
        "model_info": {
            "general.architecture": "mock",
            "general.parameter_count": 7_615_616_512,
            "mock.context_length": served.context_length,
        },
        "capabilities": list(served.capabilities),
        "modified_at": _time(0),
    }


def tags_response(served: Iterable[ServedModel]) -> dict[str, Any]:
    """`/api/tags`."""
    listed = [
        _model_entry(model.name)
        | {"modified_at": _time(0), "size": _MODEL_BYTES, "capabilities": list(model.capabilities)}
        for model in served
    ]
    return {"models": listed}


def loaded_response(windows: Mapping[str, int], now: int) -> dict[str, Any]:
    """`/api/ps`: the loaded models with the window in effect (O-9)."""
    listed = [
        _model_entry(name)
        | {"size": _MODEL_BYTES, "size_vram": _MODEL_BYTES, "expires_at": _time(now + 1800), "context_length": window}
        for name, window in windows.items()
    ]
    return {"models": listed}


def _model_entry(name: str) -> dict[str, Any]:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return {"name": name, "model": name, "digest": digest, "details": _details()}


def _details() -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": "mock",
        "families": ["mock"],
        "parameter_size": "7.6B",
        "quantization_level": "Q4_K_M",
    }


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def _base(model: str, created: int) -> dict[str, Any]:
    return {"model": model, "created_at": _time(created)}


def _line(value: dict[str, Any]) -> bytes:
    return compact_json(value) + b"\n"


def _calls(reply: MockReply) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "function": {"index": index, "name": call.name, "arguments": json.loads(call.raw or "{}")}}
        for index, call in enumerate(reply.choice.calls)
    ]


def _closing(reply: MockReply) -> dict[str, Any]:
    reason = "stop" if reply.choice.finish_reason == "tool_calls" else reply.choice.finish_reason
    generating, reading = reply.completion_tokens * _TOKEN_NS, reply.prompt_tokens * _TOKEN_NS // 40
    counts: dict[str, Any] = {
        "total_duration": generating + reading + 1_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": reply.prompt_tokens,
        "prompt_eval_duration": reading,
        "eval_count": reply.completion_tokens,
        "eval_duration": generating,
    }
    if reply.usage.cached_tokens is not None:
        counts["prompt_eval_cached_count"] = reply.usage.cached_tokens
    return {"done": True} | ({"done_reason": reason} if reason else {}) | counts


def _openai_error(status: int, message: str) -> dict[str, Any]:
    """An error body in the shape that most servers share (C-7)."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _openai_body(reply: MockReply) -> dict[str, Any]:
    """The reply as one object."""
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
        "choices": [{"index": 0, "message": message, "finish_reason": reply.choice.finish_reason or None}],
        "usage": _usage(reply),
    }


def _openai_frames(reply: MockReply) -> Iterator[StreamFrame]:
    """The reply as events: role, reasoning, text, fragments of calls, reason, usage if requested, `[DONE]`."""
    options = reply.payload.get("stream_options")
    with_usage = isinstance(options, dict) and bool(options.get("include_usage"))

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return _event(_chunk(reply, choices) | ({"usage": None} if with_usage else {}))

    yield StreamFrame(chunk({"role": "assistant", "content": ""}), "head")
    for fragment in fragments(reply.thinking):
        yield StreamFrame(chunk({"reasoning_content": fragment}))
    for fragment in fragments(reply.content):
        yield StreamFrame(chunk({"content": fragment}))
    for index, call in enumerate(reply.choice.calls):
        start = {"index": index, "id": call.id, "type": "function"}
        yield StreamFrame(chunk({"tool_calls": [start | {"function": {"name": call.name, "arguments": ""}}]}))
        for fragment in fragments(call.raw):
            yield StreamFrame(chunk({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}))
    if reply.choice.finish_reason:
        yield StreamFrame(chunk({}, reply.choice.finish_reason), "end")
    if with_usage:
        yield StreamFrame(_event(_chunk(reply, []) | {"usage": _usage(reply)}), "end")
    yield StreamFrame(b"data: [DONE]\n\n", "end")


def models_response(served: Iterable[ServedModel], created: int) -> dict[str, Any]:
    """The list of models; `max_model_len` is the window, as in vLLM (C-8)."""
    return {"object": "list", "data": [model_response(model, created) for model in served]}


def model_response(served: ServedModel, created: int) -> dict[str, Any]:
    """A model."""
    return {
        "id": served.name,
        "object": "model",
        "created": created,
        "owned_by": "mock",
        "max_model_len": served.context_length,
    }


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + compact_json(value) + b"\n\n"


def _chunk(reply: MockReply, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": "chat.completion.chunk",
        "created": reply.created,
        "model": reply.model,
        "choices": choices,
    }


def _usage(reply: MockReply) -> dict[str, Any]:
    cached = reply.usage.cached_tokens
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        **({} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}),
    }


class WireFormat(NamedTuple):
    """What differs between the two APIs."""

    name: Literal["openai", "ollama"]
    stream_type: str
    streams: bool
    """Whether it streams by default."""
    error: Callable[[int, str], dict[str, Any]]
    error_frame: Callable[[dict[str, Any]], bytes]
    """An error inside a stream with status 200 (O-4)."""
    ping: Callable[[str], bytes]
    """A keep-alive frame without content (C-1)."""
    body: Callable[[MockReply], dict[str, Any]]
    """The reply as one object."""
    frames: Callable[[MockReply], Iterator[StreamFrame]]
    call_error: Callable[[MockReply], str | None]
    """The server's error if it can't parse the model's tool call (O-18), or None."""


OLLAMA = WireFormat(
    name="ollama",
    stream_type="application/x-ndjson",
    streams=True,
    error=lambda status, message: {"error": message},
    error_frame=_line,
    ping=_ollama_ping,
    body=_ollama_body,
    frames=_ollama_frames,
    call_error=_call_error,
)
OPENAI = WireFormat(
    name="openai",
    stream_type="text/event-stream; charset=utf-8",
    streams=False,
    error=_openai_error,
    error_frame=_event,
    ping=lambda model: b": ping\n\n",
    body=_openai_body,
    frames=_openai_frames,
    call_error=lambda reply: None,
)

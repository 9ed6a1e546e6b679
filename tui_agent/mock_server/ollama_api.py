"""Ollama's own API as the mock server writes it: lines, bodies, errors, and what it says of its models."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tui_agent.mock_server.replies import Frame, Reply, ServedModel, compact
from tui_agent.models.choosing import fragments

STREAM_TYPE = "application/x-ndjson"
VERSION = "0.32.0"
DEFAULT_WINDOW = 4096
"""The window of a model that was loaded without `num_ctx` (O-5)."""
_TOKEN_NS = 12_000_000
"""Nanoseconds that a token is said to take."""
_SIZE = 4_683_087_332
"""Bytes that a model is said to have."""


def error(status: int, message: str) -> dict[str, Any]:
    """An error body; the shape is the same for every status."""
    return {"error": message}


def error_frame(value: dict[str, Any]) -> bytes:
    """An error inside a stream that began with status 200 (O-4)."""
    return compact(value) + b"\n"


def ping(model: str) -> bytes:
    """A sign of life without content: an empty chunk."""
    return _line(_base(model, 0) | {"message": {"role": "assistant", "content": ""}, "done": False})


def unreadable(reply: Reply) -> str | None:
    """What the server says when it can't parse its model's own call (O-18); None when it can."""
    for call in reply.choice.calls:
        try:
            if isinstance(json.loads(call.raw or "{}"), dict):
                continue
            why = "json: cannot unmarshal into Go value of type map[string]interface {}"
        except json.JSONDecodeError as error:
            why = f"{error.msg} at offset {error.pos}"
        return f"error parsing tool call: raw='{call.raw}', err={why}"
    return None


def body(reply: Reply) -> dict[str, Any]:
    """The whole reply as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.thinking:
        message["thinking"] = reply.thinking
    if reply.choice.calls:
        message["tool_calls"] = _calls(reply)
    return _base(reply.model, reply.created) | {"message": message} | _closing(reply)


def frames(reply: Reply) -> Iterator[Frame]:
    """The reply as lines: thinking, text, all calls at once, the final line with its counts (O-1, O-3, O-15)."""

    def chunk(message: dict[str, Any]) -> bytes:
        said = {"role": "assistant", "content": ""} | message
        return _line(_base(reply.model, reply.created) | {"message": said, "done": False})

    for fragment in fragments(reply.thinking):
        yield Frame(chunk({"thinking": fragment}))
    for fragment in fragments(reply.content):
        yield Frame(chunk({"content": fragment}))
    if (broken := unreadable(reply)) is not None:
        yield Frame(error_frame(error(500, broken)), "end")
        return
    if reply.choice.calls:
        yield Frame(chunk({"tool_calls": _calls(reply)}))
    last = {"message": {"role": "assistant", "content": ""}} | _closing(reply)
    yield Frame(_line(_base(reply.model, reply.created) | last), "end")


def loaded(model: str, created: int) -> dict[str, Any]:
    """The answer to a request without messages, which only loads the model (O-2)."""
    said = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "load"}
    return _base(model, created) | said


def show(served: ServedModel) -> dict[str, Any]:
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


def tags(served: Iterable[ServedModel]) -> dict[str, Any]:
    """`/api/tags`."""
    listed = [
        _named(one.name) | {"modified_at": _time(0), "size": _SIZE, "capabilities": list(one.capabilities)}
        for one in served
    ]
    return {"models": listed}


def running(windows: Mapping[str, int], now: int) -> dict[str, Any]:
    """`/api/ps`: the loaded models with the window in effect (O-9)."""
    listed = [
        _named(name)
        | {"size": _SIZE, "size_vram": _SIZE, "expires_at": _time(now + 1800), "context_length": window}
        for name, window in windows.items()
    ]
    return {"models": listed}


def _named(name: str) -> dict[str, Any]:
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
    return compact(value) + b"\n"


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "function": {"index": index, "name": call.name, "arguments": json.loads(call.raw or "{}")},
        }
        for index, call in enumerate(reply.choice.calls)
    ]


def _closing(reply: Reply) -> dict[str, Any]:
    reason = "stop" if reply.reason == "tool_calls" else reply.reason
    generating, reading = reply.completion_tokens * _TOKEN_NS, reply.prompt_tokens * _TOKEN_NS // 40
    counts: dict[str, Any] = {
        "total_duration": generating + reading + 1_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": reply.prompt_tokens,
        "prompt_eval_duration": reading,
        "eval_count": reply.completion_tokens,
        "eval_duration": generating,
    }
    if reply.cached_tokens is not None:
        counts["prompt_eval_cached_count"] = reply.cached_tokens
    return {"done": True} | ({"done_reason": reason} if reason else {}) | counts

"""Converts requests from Ollama's protocol to OpenAI's, and replies back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]

OPTIONS = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "seed": "seed",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "stop": "stop",
    "repeat_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Ollama's option → llama.cpp's. The window (num_ctx) is fixed when that server starts."""


def chat_request(body: Body) -> Body:
    """Convert a body of /api/chat to one of /v1/chat/completions, which always streams."""
    result: Body = {
        "model": body.get("model", ""),
        "messages": _messages(body.get("messages") or []),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    options = body.get("options") or {}
    for name, other_name in OPTIONS.items():
        value = options.get(name)
        if value is not None and not (name == "num_predict" and value < 0):  # -1: no limit
            result[other_name] = value
    if tools := body.get("tools"):
        result["tools"] = tools
    form = body.get("format")
    if form == "json":
        result["response_format"] = {"type": "json_object"}
    elif isinstance(form, dict):
        result["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": form}}
    return result


def _messages(messages: Sequence[Body]) -> list[Body]:
    """Convert the history. A result without an id belongs to the oldest call without a result, as in Ollama."""
    result: list[Body] = []
    pending_ids: list[str] = []
    for message in messages:
        converted: Body = {"role": message["role"], "content": message.get("content") or ""}
        if message["role"] == "tool":
            name = message.get("tool_call_id") or (pending_ids[0] if pending_ids else "")
            if name in pending_ids:
                pending_ids.remove(name)
            converted["tool_call_id"] = name
        elif calls := message.get("tool_calls"):
            converted["tool_calls"] = [_call(call, f"call_{len(result)}_{place}") for place, call in enumerate(calls)]
            pending_ids += [call["id"] for call in converted["tool_calls"]]
        if reasoning := message.get("thinking"):
            converted["reasoning_content"] = reasoning
        result.append(converted)
    return result


def _call(call: Body, name: str) -> Body:
    function = call["function"]
    arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {
        "id": call.get("id") or name,
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


class Reply:
    """Converts the chunks of a streamed reply to Ollama's lines: text immediately, complete calls before the end."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._calls: dict[int, dict[str, str]] = {}
        self._reason = "stop"
        self._usage: Body = {}
        self._timings: Body = {}

    def lines(self, chunk: Body) -> Iterator[Body]:
        """Yield the lines for a chunk."""
        self._usage = chunk.get("usage") or self._usage
        self._timings = chunk.get("timings") or self._timings
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("finish_reason") == "length":
                self._reason = "length"
            for piece in delta.get("tool_calls") or ():
                self._add_call_piece(piece)
            if reasoning := delta.get("reasoning_content"):
                yield self._line({"role": "assistant", "content": "", "thinking": reasoning})
            if text := delta.get("content"):
                yield self._line({"role": "assistant", "content": text})

    def ending(self, nanoseconds: int) -> Iterator[Body]:
        """Yield the calls and the final line with the counts. `nanoseconds` is the duration of the request."""
        for line in self._call_messages():
            yield self._line(line)
        timings = self._timings
        yield self._line({"role": "assistant", "content": ""}) | {
            "done": True,
            "done_reason": self._reason,
            "total_duration": nanoseconds,
            "load_duration": 0,
            "prompt_eval_count": self._usage.get("prompt_tokens", 0),
            "prompt_eval_duration": round(timings.get("prompt_ms", 0) * 1e6),
            "eval_count": self._usage.get("completion_tokens", 0),
            "eval_duration": round(timings.get("predicted_ms", 0) * 1e6),
        }

    def _add_call_piece(self, piece: Body) -> None:
        function = piece.get("function") or {}
        call = self._calls.setdefault(piece.get("index", 0), {"id": "", "name": "", "arguments": ""})
        call["id"] = piece.get("id") or call["id"]
        for part in ("name", "arguments"):
            call[part] += function.get(part) or ""

    def _call_messages(self) -> Iterator[Body]:
        """Yield a message with all valid calls, and the others as text, as Ollama does."""
        valid: list[Body] = []
        for call in self._calls.values():
            try:
                arguments = json.loads(call["arguments"] or "{}")
            except ValueError:
                arguments = None
            if isinstance(arguments, dict):
                function = {"index": len(valid), "name": call["name"], "arguments": arguments}
                valid.append({"id": call["id"], "function": function})
            else:
                yield {"role": "assistant", "content": f"{call['name']} {call['arguments']}"}
        if valid:
            yield {"role": "assistant", "content": "", "tool_calls": valid}

    def _line(self, message: Body) -> Body:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {"model": self.model, "created_at": now, "message": message, "done": False}


def join_lines(lines: Sequence[Body]) -> Body:
    """Combine the lines to one answer, for `"stream": false`."""
    message: Body = {"role": "assistant", "content": ""}
    for line in lines:
        for name, value in line["message"].items():
            if name != "role":
                message[name] = message[name] + value if name in message else value
    return lines[-1] | {"message": message}


def error_text(body: bytes) -> str:
    """The message of an error response."""
    text = body.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
    except (ValueError, LookupError, TypeError):
        return text.strip()[:500] or "the server refused without a reason"
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


# --- the server's model --------------------------------------------------------------------


class ServedModel:
    """The model of a llama.cpp server in Ollama's format. `props` and `models` are its /props and /v1/models."""

    def __init__(self, name: str, props: Body, models: Body) -> None:
        self.name = name
        meta = ((models.get("data") or [{}])[0]).get("meta") or {}
        self.window = int((props.get("default_generation_settings") or {}).get("n_ctx") or meta.get("n_ctx") or 0)
        tools = "tools" in (props.get("chat_template") or "")  # as in Ollama
        self.capabilities = ["completion", "tools"] if tools else ["completion"]
        parameters = meta.get("n_params")
        self._entry: Body = {
            "name": name,
            "model": name,
            "size": int(meta.get("size") or 0),
            "digest": "",
            "details": {
                "format": "gguf",
                "parameter_size": f"{parameters / 1e9:.1f}B" if parameters else "",
                "quantization_level": "_".join((props.get("model_ftype") or "").split(" - ")),
            },
        }

    def tags(self) -> Body:
        """/api/tags"""
        return {"models": [self._entry]}

    def show(self) -> Body:
        """/api/show, with the window of the server, not of the model."""
        model_info = {"general.architecture": "llama", "llama.context_length": self.window}
        return {"details": self._entry["details"], "model_info": model_info, "capabilities": self.capabilities}

    def loaded(self, requested: int | None) -> Body:
        """/api/ps, with the requested window."""
        window = min(requested, self.window) if requested else self.window
        return {"models": [self._entry | {"context_length": window, "size_vram": 0}]}

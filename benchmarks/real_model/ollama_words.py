"""Ollama's words and OpenAI's: requests from one into the other, and replies back."""

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
"""Ollama's options and what llama.cpp calls them. The window (num_ctx) is fixed when that server starts."""


def chat_request(body: Body) -> Body:
    """The body of /v1/chat/completions for one of /api/chat. It always streams."""
    out: Body = {
        "model": body.get("model", ""),
        "messages": _messages(body.get("messages") or []),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    options = body.get("options") or {}
    for name, theirs in OPTIONS.items():
        value = options.get(name)
        if value is not None and not (name == "num_predict" and value < 0):  # -1: no end
            out[theirs] = value
    if tools := body.get("tools"):
        out["tools"] = tools
    form = body.get("format")
    if form == "json":
        out["response_format"] = {"type": "json_object"}
    elif isinstance(form, dict):
        out["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": form}}
    return out


def _messages(given: Sequence[Body]) -> list[Body]:
    """The history. A result without an id belongs to the oldest call that has none yet, as Ollama has it."""
    out: list[Body] = []
    waiting: list[str] = []
    for message in given:
        made: Body = {"role": message["role"], "content": message.get("content") or ""}
        if message["role"] == "tool":
            name = message.get("tool_call_id") or (waiting[0] if waiting else "")
            if name in waiting:
                waiting.remove(name)
            made["tool_call_id"] = name
        elif calls := message.get("tool_calls"):
            made["tool_calls"] = [_call(call, f"call_{len(out)}_{place}") for place, call in enumerate(calls)]
            waiting += [call["id"] for call in made["tool_calls"]]
        if thought := message.get("thinking"):
            made["reasoning_content"] = thought
        out.append(made)
    return out


def _call(call: Body, name: str) -> Body:
    function = call["function"]
    arguments = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {
        "id": call.get("id") or name,
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


class Reply:
    """Turns the chunks of one streamed reply into Ollama's lines: text as it comes, calls whole and before the end."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._calls: dict[int, dict[str, str]] = {}
        self._reason = "stop"
        self._usage: Body = {}
        self._timings: Body = {}

    def lines(self, chunk: Body) -> Iterator[Body]:
        """What there is to say of a chunk."""
        self._usage = chunk.get("usage") or self._usage
        self._timings = chunk.get("timings") or self._timings
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if choice.get("finish_reason") == "length":
                self._reason = "length"
            for piece in delta.get("tool_calls") or ():
                self._take(piece)
            if thought := delta.get("reasoning_content"):
                yield self._line({"role": "assistant", "content": "", "thinking": thought})
            if text := delta.get("content"):
                yield self._line({"role": "assistant", "content": text})

    def ending(self, nanoseconds: int) -> Iterator[Body]:
        """The calls, and the line with the counts. `nanoseconds` is the time of the whole request."""
        for line in self._called():
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

    def _take(self, piece: Body) -> None:
        function = piece.get("function") or {}
        call = self._calls.setdefault(piece.get("index", 0), {"id": "", "name": "", "arguments": ""})
        call["id"] = piece.get("id") or call["id"]
        for part in ("name", "arguments"):
            call[part] += function.get(part) or ""

    def _called(self) -> Iterator[Body]:
        """A message with all calls that can be read. The others are text, as with Ollama."""
        good: list[Body] = []
        for call in self._calls.values():
            try:
                arguments = json.loads(call["arguments"] or "{}")
            except ValueError:
                arguments = None
            if isinstance(arguments, dict):
                function = {"index": len(good), "name": call["name"], "arguments": arguments}
                good.append({"id": call["id"], "function": function})
            else:
                yield {"role": "assistant", "content": f"{call['name']} {call['arguments']}"}
        if good:
            yield {"role": "assistant", "content": "", "tool_calls": good}

    def _line(self, message: Body) -> Body:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {"model": self.model, "created_at": now, "message": message, "done": False}


def whole(lines: Sequence[Body]) -> Body:
    """One answer instead of many lines, for `"stream": false`."""
    message: Body = {"role": "assistant", "content": ""}
    for line in lines:
        for name, value in line["message"].items():
            if name != "role":
                message[name] = message[name] + value if name in message else value
    return lines[-1] | {"message": message}


def error_text(body: bytes) -> str:
    """What a server's refusal says."""
    text = body.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
    except (ValueError, LookupError, TypeError):
        return text.strip()[:500] or "the server refused without a reason"
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)


# --- what the server has --------------------------------------------------------------------


class Served:
    """The one model of a llama.cpp server, in Ollama's words. `props` and `models` are its /props and /v1/models."""

    def __init__(self, name: str, props: Body, models: Body) -> None:
        self.name = name
        meta = ((models.get("data") or [{}])[0]).get("meta") or {}
        self.window = int((props.get("default_generation_settings") or {}).get("n_ctx") or meta.get("n_ctx") or 0)
        tools = "tools" in (props.get("chat_template") or "")  # as Ollama tells it, too
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
        """/api/show. The window is the server's, not the one that the model was trained with."""
        facts = {"general.architecture": "llama", "llama.context_length": self.window}
        return {"details": self._entry["details"], "model_info": facts, "capabilities": self.capabilities}

    def loaded(self, wanted: int | None) -> Body:
        """/api/ps, where a window was asked for."""
        window = min(wanted, self.window) if wanted else self.window
        return {"models": [self._entry | {"context_length": window, "size_vram": 0}]}

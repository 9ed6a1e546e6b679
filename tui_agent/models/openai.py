"""The client for OpenAI-compatible servers: /chat/completions streamed as server-sent events (M2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from tui_agent.common.domain import AssistantMessage, Fault, Message, ModelInfo, SystemMessage, ToolMessage
from tui_agent.models.base import ModelRequest, Phase
from tui_agent.models.decoding import taken_ids, whole_count
from tui_agent.models.exchange import Exchange, HttpModel
from tui_agent.models.faults import Retries, WireFault
from tui_agent.models.openai_decoder import OpenAIDecoder, arguments_text
from tui_agent.models.wire import Wire, offered_tools

NOTHING = "(no output)"
"""Stands for an empty tool result: some servers refuse empty contents."""

_REASONING = "reasoning_content"
_OPTIONAL = (
    "stream_options",
    "temperature",
    "reasoning_effort",
    "response_format",
    "parallel_tool_calls",
    "return_progress",
)
_NAMES = {"stream_options": ("stream_options", "include_usage")}


class ServerQuirks:
    """What one server was found to refuse, or to insist on; learnt from its 400s, kept for the session."""

    def __init__(self) -> None:
        self.dropped: set[str] = set()
        self.completion_tokens = False
        """It wants `max_completion_tokens` instead of `max_tokens`."""
        self.thoughts_back = False
        """It wants the thinking back together with its calls (C-6)."""
        self.bridge = False
        """Its template refuses a user message right after a tool result."""

    def learn(self, status: int | None, body: str, payload: dict[str, Any]) -> bool:
        """True if the refusal names something that can be done without: try again, once for each thing."""
        if status not in (400, 422):
            return False
        return self._drop(body, payload) or self._reshape(body, payload)

    def _drop(self, body: str, payload: dict[str, Any]) -> bool:
        for field in _OPTIONAL:
            if field in payload and field not in self.dropped and _names(body, *_NAMES.get(field, (field,))):
                self.dropped.add(field)
                return True
        if "max_tokens" in payload and _names(body, "max_tokens"):
            self.completion_tokens = True
            return True
        if "max_completion_tokens" in payload and _names(body, "max_completion_tokens"):
            self.dropped.add("max_tokens")
            return True
        return False

    def _reshape(self, body: str, payload: dict[str, Any]) -> bool:
        if _names(body, _REASONING):
            sent = any(_REASONING in message for message in payload["messages"])
            if sent == self.thoughts_back:
                self.thoughts_back = not sent
                return True
        if not self.bridge and re.search(r"user.{0,12} after .{0,12}tool", body):
            self.bridge = True
            return True
        return False


def _names(body: str, *fields: str) -> bool:
    return any(re.search(rf"(?<![A-Za-z_]){field}(?![A-Za-z_])", body) for field in fields)


def openai_payload(request: ModelRequest, quirks: ServerQuirks, *, progress: bool = False) -> dict[str, Any]:
    """The body of /chat/completions. `progress` asks llama.cpp to tell how much of the prompt it has read."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": openai_messages(request.messages, quirks),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if progress:
        body["return_progress"] = True
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None and "max_tokens" not in quirks.dropped:
        body["max_completion_tokens" if quirks.completion_tokens else "max_tokens"] = request.max_tokens
    if isinstance(request.think, str):
        body["reasoning_effort"] = request.think
    if request.tools:
        body["tools"] = offered_tools(request.tools)
    elif request.format == "json":
        body["response_format"] = {"type": "json_object"}
    elif request.format is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": request.format}}
    for field in quirks.dropped:
        body.pop(field, None)
    return body


def openai_messages(messages: Sequence[Message], quirks: ServerQuirks) -> list[dict[str, Any]]:
    """The history: one system message, first; neighbours of the same role joined; no empty contents."""
    out: list[dict[str, Any]] = []
    system = "\n\n".join(message.text for message in messages if isinstance(message, SystemMessage) and message.text)
    if system:
        out.append({"role": "system", "content": system})
    for message in messages:
        if isinstance(message, ToolMessage):
            content = message.text or NOTHING
            out.append({"role": "tool", "tool_call_id": message.call_id, "content": content})
        elif isinstance(message, AssistantMessage):
            _add_assistant(out, message, quirks)
        elif not isinstance(message, SystemMessage) and message.text:
            _add_user(out, message.text, quirks)
    return out


def _add_user(out: list[dict[str, Any]], text: str, quirks: ServerQuirks) -> None:
    last = out[-1]["role"] if out else ""
    if last == "user":
        out[-1]["content"] += "\n\n" + text
        return
    if last == "tool" and quirks.bridge:
        out.append({"role": "assistant", "content": "I have the results."})
    out.append({"role": "user", "content": text})


def _add_assistant(out: list[dict[str, Any]], message: AssistantMessage, quirks: ServerQuirks) -> None:
    """Text alone, or calls with text; the content is null only beside calls (O-27)."""
    if not message.calls:
        if not message.text:
            return
        if out and out[-1]["role"] == "assistant" and "tool_calls" not in out[-1]:
            out[-1]["content"] += "\n\n" + message.text
        else:
            out.append({"role": "assistant", "content": message.text})
        return
    rendered: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.thought and quirks.thoughts_back:
        rendered[_REASONING] = message.thought
    rendered["tool_calls"] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
        }
        for call in message.calls
    ]
    out.append(rendered)


REMEMBERED = 60.0
"""Seconds for which what a server says of a model is taken as it was: it may be loaded anew with another window."""


class OpenAIModel(HttpModel):
    """A Model on an OpenAI-compatible server."""

    provider = "openai"

    def __init__(self, wire: Wire, retries: Retries) -> None:
        super().__init__(wire, retries)
        self._quirks = ServerQuirks()
        self._described: dict[str, tuple[float, ModelInfo]] = {}
        self._llama_cpp = False
        """The server is llama.cpp's own, which tells how far it has read when it is asked to; to others the field
        that asks for it may be a mistake."""

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        return openai_payload(request, self._quirks, progress=self._llama_cpp)

    def _learn(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        return self._quirks.learn(error.fault.status, error.body, body)

    def _note_answer(self, model: str) -> None:
        """The model is loaded now, perhaps with a window that was unknown before."""
        if model not in self._answered:
            self._answered.add(model)
            self._described.pop(model, None)

    def _exchange(self, request: ModelRequest, body: dict[str, Any]) -> Exchange:
        limits = self._wire.limits
        taken = taken_ids(request.messages)
        decoder = OpenAIDecoder(self._wire.peer(request.model), taken, limits.line, limits.body)

        async def alive() -> bool:
            # llama.cpp tells its progress after each batch, which takes minutes on a slow machine
            return decoder.reading and not decoder.produced

        may_load = self._wire.endpoint.local and request.model not in self._answered
        waiting = Phase(phase="loading" if may_load else "reading")
        return Exchange(self._wire, "/chat/completions", body, decoder, waiting=waiting, alive=alive)

    # --- what the server knows ----------------------------------------------------------

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model. A server that lists no models leaves all unknown."""
        now = asyncio.get_running_loop().time()
        at, known = self._described.get(model, (0.0, None))
        if known is not None and now - at < REMEMBERED:
            return known
        try:
            info = await self._describe(model)
        except WireFault as error:
            return error.fault
        self._described[model] = (now, info)
        return info

    async def _describe(self, model: str) -> ModelInfo:
        """The real window comes under as many names as there are servers (C-8)."""
        entries = _entries(await self._maybe("/models", must=True))
        self._llama_cpp = any(entry.get("owned_by") == "llamacpp" for entry in entries)
        alone = len(entries) == 1 and self._wire.endpoint.local  # such a server takes any name
        entry = next((item for item in entries if item.get("id") == model), entries[0] if alone else {})
        meta = _object(entry.get("meta"))
        loaded = _first(meta.get("n_ctx"), entry.get("max_model_len"), entry.get("loaded_context_length"))
        hosted = _first(entry.get("context_length"), entry.get("context_window"))
        trained = _first(meta.get("n_ctx_train"), entry.get("max_context_length"), hosted)
        size = _first(meta.get("n_params"))
        capabilities = _capabilities(entry)
        if self._wire.endpoint.local and loaded is None:
            props = _object(await self._maybe("//props"))
            defaults = _object(props.get("default_generation_settings"))
            loaded = _first(defaults.get("n_ctx"))
            self._llama_cpp = self._llama_cpp or ("total_slots" in props and bool(defaults))
        if self._wire.endpoint.local and loaded is None:
            studio = _entries(await self._maybe("//api/v0/models"))
            entry = next((item for item in studio if item.get("id") == model), {})
            loaded = _first(entry.get("loaded_context_length"))
            trained = _first(trained, entry.get("max_context_length"))
            capabilities = capabilities or _capabilities(entry)
        if loaded is None:  # what a model was trained for is no window, but a service far away offers all of it
            loaded = hosted if self._wire.endpoint.local else trained
        return ModelInfo(
            name=model,
            capabilities=capabilities,
            context_window=trained or loaded,
            loaded_window=loaded,
            parameters=size / 1e9 if size else None,
            any_name=alone and self._llama_cpp,
        )

    async def _maybe(self, path: str, *, must: bool = False) -> Any:
        """The answer, or None from a server that does not have this path. Raises WireFault if `must` and the server
        can't be reached or refuses us."""
        try:
            return await self._wire.ask("GET", path)
        except WireFault as error:
            status, kind = error.fault.status, error.fault.kind
            if must and kind != "protocol" and (status is None or status in (401, 403)):
                raise
            return None

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model."""
        try:
            entries = _entries(await self._wire.ask("GET", "/models"))
        except WireFault as error:
            return error.fault
        return tuple(entry["id"] for entry in entries if isinstance(entry.get("id"), str))


def _entries(value: Any) -> list[dict[str, Any]]:
    data = value.get("data") if isinstance(value, dict) else value
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(*values: Any) -> int | None:
    return next((number for value in values if (number := whole_count(value))), None)


def _capabilities(entry: dict[str, Any]) -> tuple[str, ...] | None:
    """Only what a server says in so many words: OpenRouter its parameters, LM Studio its abilities. The latter's
    silence on tools means nothing, it can give them to any model."""
    parameters, abilities = entry.get("supported_parameters"), entry.get("capabilities")
    if isinstance(parameters, list) and parameters:
        words = {str(word) for word in parameters}
    elif isinstance(abilities, list) and "tool_use" in abilities:
        words = {str(word) for word in abilities}
    else:
        return None
    found = ["completion"]
    if words & {"tools", "tool_use"}:
        found.append("tools")
    if words & {"reasoning", "thinking"}:
        found.append("thinking")
    if "vision" in words:
        found.append("vision")
    return tuple(found)

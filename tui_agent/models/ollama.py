"""Ollama's native API: /api/chat streamed as NDJSON, and information about models (M1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tui_agent.common.domain import AssistantMessage, Fault, Message, ModelInfo, SystemMessage, ToolMessage, Usage
from tui_agent.models.base import ModelRequest, Phase, ReasoningFragment
from tui_agent.models.catalog import served_name
from tui_agent.models.decoding import Decoder, as_count, as_object, build_summary, objects_in, used_call_ids
from tui_agent.models.exchange import Exchange, HttpModel
from tui_agent.models.faults import RetryPolicy, WireFault
from tui_agent.models.framing import Frame, NdjsonLines
from tui_agent.models.reasoning import knows_levels_only
from tui_agent.models.wire import Wire, render_tools

KEEP_ALIVE = "30m"
"""Sent with every request; omitting it would leave the value another client has set (O-12)."""


class OllamaDecoder(Decoder):
    """Decodes the NDJSON of /api/chat."""

    splitter_type = NdjsonLines

    def decode(self, frame: Frame) -> None:
        """Decode one line: a part of the message, the end, or an error."""
        value = self.parse_object(frame.data)
        if value is None or (not isinstance(value.get("message"), dict) and self.fail_on_error(value)):
            return
        message = as_object(value.get("message"))
        self.add_text(message.get("thinking"), ReasoningFragment)
        self.add_text(message.get("content"))
        for call in objects_in(message.get("tool_calls")):
            if isinstance(function := call.get("function"), dict):
                self.add_call(call.get("id"), function.get("name"), function.get("arguments"))
        if value.get("done") is not True:
            return
        self.add_usage(_usage(value))
        reason = value.get("done_reason")
        if reason in ("load", "unload"):
            text = f"{self.peer.address} only {reason}ed the model and generated nothing."
            self.fail(Fault(kind="protocol", message=text))
        else:
            self.stop(reason if isinstance(reason, str) else "")


def _usage(value: dict[str, Any]) -> Usage:
    """Read counts and times. Zero prompt tokens mean unknown: old versions report that for a cached prompt (O-3)."""

    def milliseconds(key: str) -> int | None:
        nanoseconds = as_count(value.get(key))
        return None if nanoseconds is None else round(nanoseconds / 1e6)

    return Usage(
        prompt_tokens=as_count(value.get("prompt_eval_count")) or None,
        completion_tokens=as_count(value.get("eval_count")),
        cached_tokens=as_count(value.get("prompt_eval_cached_count")),
        load_ms=milliseconds("load_duration"),
        prompt_ms=milliseconds("prompt_eval_duration"),
        generate_ms=milliseconds("eval_duration"),
    )


# --- requests -------------------------------------------------------------------------------


def ollama_payload(request: ModelRequest, think: bool | str | None) -> dict[str, Any]:
    """Build the body of /api/chat.

    Window, keep_alive, truncate and shift are the same in every request of a session, as any change reloads the model
    (O-8, O-10, O-12).
    """
    options = {"num_ctx": request.num_ctx, "temperature": request.temperature, "num_predict": request.max_tokens}
    body: dict[str, Any] = {
        "model": request.model,
        "messages": ollama_messages(request.messages),
        "stream": True,
        "keep_alive": _keep_alive(request.keep_alive),
        "truncate": False,
        "shift": False,
        "options": {name: value for name, value in options.items() if value is not None},
    }
    if request.tools:
        body["tools"] = render_tools(request.tools)
    elif request.format is not None:
        body["format"] = request.format  # not combined with tools (O-21)
    if think is not None:
        body["think"] = think
    return body


def _keep_alive(value: str | int | None) -> str | int:
    """Return -1 and 0 as numbers, since Ollama expects a unit in a text (O-12)."""
    if value is None:
        return KEEP_ALIVE
    return int(value) if value in ("-1", "0") else value


def ollama_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Render the history for Ollama: arguments are objects, reasoning is sent back only with calls (O-14, O-16).

    Consecutive messages in the user's role are joined, since many chat templates require alternating roles (C-9).
    """
    rendered: list[dict[str, Any]] = []
    for message in messages:
        entry = _render(message)
        if entry is None:
            continue
        if rendered and entry["role"] == rendered[-1]["role"] == "user":
            rendered[-1]["content"] += "\n\n" + entry["content"]
        else:
            rendered.append(entry)
    return rendered


def _render(message: Message) -> dict[str, Any] | None:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "content": message.text, "tool_name": message.name, "tool_call_id": message.call_id}
    if isinstance(message, AssistantMessage) and message.calls:
        entry: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.reasoning:
            entry["thinking"] = message.reasoning
        entry["tool_calls"] = [
            {"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.arguments}}
            for index, call in enumerate(message.calls)
        ]
        return entry
    if not message.text:
        return None
    role = {SystemMessage: "system", AssistantMessage: "assistant"}.get(type(message), "user")
    return {"role": role, "content": message.text}


# --- the client -----------------------------------------------------------------------------


class OllamaModel(HttpModel):
    """A Model on an Ollama server."""

    provider = "ollama"

    def __init__(self, wire: Wire, retries: RetryPolicy) -> None:
        super().__init__(wire, retries)
        self._model_infos: dict[str, ModelInfo] = {}
        self._listed: dict[str, dict[str, Any]] = {}
        """Entries of /api/tags."""
        self._rejects_think: set[str] = set()
        """Models whose requests failed because of `think` (O-19)."""

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        return ollama_payload(request, await self._think(request))

    def _exchange(self, request: ModelRequest, body: dict[str, Any]) -> Exchange:
        async def probe_phase() -> Phase | None:
            loaded = await self._loaded_models()
            if loaded is None:
                return None
            return Phase(phase="reading" if served_name(request.model, loaded) else "loading")

        async def is_busy() -> bool:
            # Ollama holds a call back until it is complete (O-15), so it is silent while the model writes a file.
            return bool(request.tools) and bool(served_name(request.model, await self._loaded_models() or ()))

        limits = self._wire.limits
        return Exchange(
            self._wire,
            "/api/chat",
            body,
            OllamaDecoder(self._wire.peer(request.model), used_call_ids(request.messages), limits.line, limits.body),
            initial_phase=Phase(phase="reading" if request.model in self._answered else "loading"),
            probe_phase=probe_phase,
            is_busy=is_busy,
        )

    async def _think(self, request: ModelRequest) -> bool | str | None:
        """Return the value of `think`; None for a model that can't reason (O-19)."""
        if request.model in self._rejects_think:
            return None
        try:
            capabilities = (await self._model_info(request.model)).capabilities
        except WireFault as error:
            if error.fault.kind == "unreachable":
                raise
            capabilities = None  # the chat request itself will report the fault
        if capabilities is None:
            return request.think
        if "thinking" not in capabilities:
            return None
        if request.think is False and knows_levels_only(request.model):
            return "low"  # everything but levels is ignored
        return True if request.think is None else request.think

    def _adapt(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        if error.fault.status != 400 or "think" not in body or "think" not in error.body.lower():
            return False
        self._rejects_think.add(model)
        return True

    # --- loading ---------------------------------------------------------------------

    async def load(self, model: str, window: int | None = None, keep_alive: str | int | None = None) -> Fault | None:
        """See LoadsModels."""
        options: dict[str, Any] = {} if window is None else {"options": {"num_ctx": window}}
        return await self._generate_nothing(model, _keep_alive(keep_alive), options)

    async def unload(self, model: str) -> Fault | None:
        """See LoadsModels."""
        return await self._generate_nothing(model, 0, {})

    async def _generate_nothing(self, model: str, keep_alive: str | int, options: dict[str, Any]) -> Fault | None:
        """Send a request without a prompt, which only loads a model, or unloads it."""
        payload = {"model": model, "stream": False, "keep_alive": keep_alive, **options}
        try:
            await self._wire.fetch_json("POST", "/api/generate", payload, timeout=self._wire.limits.first_byte)
        except WireFault as error:
            return error.fault
        return None

    # --- server information ----------------------------------------------------------

    async def _model_info(self, model: str) -> ModelInfo:
        """Return the answer of /api/show, cached. Raises WireFault."""
        if model not in self._model_infos:
            value = await self._wire.fetch_json("POST", "/api/show", {"model": model})
            self._model_infos[model] = _model_info(model, as_object(value))
        return self._model_infos[model]

    async def _loaded_models(self) -> dict[str, dict[str, Any]] | None:
        """Return the loaded models with their entries in /api/ps; None if the request fails."""
        try:
            value = await self._wire.fetch_json("GET", "/api/ps", timeout=min(5.0, self._wire.limits.side_request))
        except WireFault:
            return None
        return dict(_entries(value))

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model. What is loaded is fetched every time, as the server may have changed it (O-9)."""
        try:
            info = await self._model_info(model)
        except WireFault as error:
            return error.fault
        loaded = await self._loaded_models()
        entry = (loaded or {}).get(served_name(model, loaded or {}), {})
        listed = self._listed.get(model, {})
        return msgspec.structs.replace(
            info,
            loaded_window=as_count(entry.get("context_length")) or None,
            build=_build(listed),
            loaded=None if loaded is None else bool(entry),
            size=as_count(listed.get("size")),
            memory=as_count(entry.get("size")),
            graphics_memory=as_count(entry.get("size_vram")),
        )

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model."""
        try:
            entries = _entries(await self._wire.fetch_json("GET", "/api/tags"))
        except WireFault as error:
            return error.fault
        self._listed = dict(entries)
        return tuple(self._listed)

    async def version(self) -> str | Fault:
        """Return the server's version, such as `0.12.10`; old versions ignore unknown fields (O-26)."""
        try:
            value = await self._wire.fetch_json("GET", "/api/version")
        except WireFault as error:
            return error.fault
        return str(as_object(value).get("version") or "")


def _entries(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, entry) of every model in an answer of /api/tags or /api/ps."""
    entries = objects_in(as_object(value).get("models"))
    named = [(entry.get("name") or entry.get("model"), entry) for entry in entries]
    return [(name, entry) for name, entry in named if isinstance(name, str)]


def _build(entry: dict[str, Any]) -> str:
    """Summarize an entry of /api/tags: parameters, quantization, size on disk."""
    details = as_object(entry.get("details"))
    return build_summary(details.get("parameter_size"), details.get("quantization_level"), as_count(entry.get("size")))


def _model_info(model: str, value: dict[str, Any]) -> ModelInfo:
    """Read an answer of /api/show (O-17, O-22). Old servers list no capabilities: that means unknown, not none."""
    from tui_agent.models.local.gguf import cache_size

    capabilities = value.get("capabilities")
    facts = as_object(value.get("model_info"))
    windows = [as_count(fact) for key, fact in facts.items() if key.endswith(".context_length")]
    return ModelInfo(
        name=model,
        capabilities=tuple(str(item) for item in capabilities) if isinstance(capabilities, list) else None,
        context_window=next((window for window in windows if window), None),
        parameters=_parameters(value),
        cache_bytes=cache_size({key: _as_tuple(fact) for key, fact in facts.items()})[0],
    )


def _as_tuple(fact: Any) -> Any:
    """Return an array of counts as in a GGUF file, with None for other items; any other value as it is."""
    if not isinstance(fact, list):
        return fact
    return tuple(item if isinstance(item, bool) else as_count(item) for item in fact)


def _parameters(value: dict[str, Any]) -> float | None:
    """Return the model's size in billions, from the exact count or a rounded one such as `7.6B` or `560M`."""
    if count := as_count(as_object(value.get("model_info")).get("general.parameter_count")):
        return count / 1e9
    size = as_object(value.get("details")).get("parameter_size")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([BM])", size) if isinstance(size, str) else None
    return float(match[1]) / (1 if match[2] == "B" else 1_000) if match else None

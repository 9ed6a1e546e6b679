"""Ollama's native API: /api/chat streamed as NDJSON, and what the server says of its models (M1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tui_agent.common.domain import AssistantMessage, Fault, Message, ModelInfo, SystemMessage, ToolMessage, Usage
from tui_agent.models.base import ModelRequest, Phase, ThinkingPiece
from tui_agent.models.catalog import same_model
from tui_agent.models.decoding import Decoder, taken_ids, whole_count
from tui_agent.models.exchange import Exchange, HttpModel
from tui_agent.models.faults import Peer, Retries, WireFault
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, Frame, NdjsonLines
from tui_agent.models.wire import Wire, offered_tools
from tui_agent.text import one_line

KEEP_ALIVE = "30m"
"""Sent with every request: one that omits it leaves whatever another client set (O-12)."""


class OllamaDecoder(Decoder):
    """Reads the NDJSON of /api/chat."""

    def __init__(
        self, peer: Peer, taken: frozenset[str] = frozenset(), line: int = LINE_LIMIT, body: int = BODY_LIMIT
    ) -> None:
        super().__init__(peer, NdjsonLines(line, body), taken)
        self._called = False

    def take(self, frame: Frame) -> None:
        """One line: a piece of the message, the end, or an error."""
        value = self.value(frame.data)
        if value is None:
            return
        message = value.get("message")
        if not isinstance(message, dict):
            message = {}
            # O-4: the error object comes under "error", in some versions under "error parsing tool call"
            if any(key.startswith("error") and value[key] for key in value):
                self.fail_from(value)
                return
        self.text(message.get("thinking"), ThinkingPiece)
        self.text(message.get("content"))
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._take_call(call)
        if value.get("done") is True:
            self._take_end(value)

    def _take_call(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            self._called = True
            self.call(call.get("id"), function.get("name"), function.get("arguments"))

    def _take_end(self, value: dict[str, Any]) -> None:
        """The last chunk. Its reason is never `tool_calls`: calls alone tell (O-2)."""
        self.count(_usage(value))
        reason = value.get("done_reason")
        reason = reason if isinstance(reason, str) else ""
        if reason in ("load", "unload"):
            self.fail(
                Fault(kind="protocol", message=f"{self.peer.shown} only {reason}ed the model and generated nothing.")
            )
        elif self._called and reason in ("", "stop"):
            self.stop("tool_calls")
        else:
            self.stop(reason)


def _usage(value: dict[str, Any]) -> Usage:
    """Counts and times; zero prompt tokens are unknown, too: old versions say so for a cached prompt (O-3)."""

    def ms(key: str) -> int | None:
        nanoseconds = whole_count(value.get(key))
        return None if nanoseconds is None else round(nanoseconds / 1e6)

    return Usage(
        prompt_tokens=whole_count(value.get("prompt_eval_count")) or None,
        completion_tokens=whole_count(value.get("eval_count")),
        cached_tokens=whole_count(value.get("prompt_eval_cached_count")),
        load_ms=ms("load_duration"),
        prompt_ms=ms("prompt_eval_duration"),
        generate_ms=ms("eval_duration"),
    )


# --- requests -------------------------------------------------------------------------------


def ollama_payload(request: ModelRequest, think: bool | str | None) -> dict[str, Any]:
    """The body of /api/chat. Window, keep_alive, truncate and shift are the same in every request of a session:
    any change reloads the model (O-8, O-10, O-12)."""
    options: dict[str, Any] = {}
    for name, value in (
        ("num_ctx", request.num_ctx),
        ("temperature", request.temperature),
        ("num_predict", request.max_tokens),
    ):
        if value is not None:
            options[name] = value
    body: dict[str, Any] = {
        "model": request.model,
        "messages": ollama_messages(request.messages),
        "stream": True,
        "keep_alive": _kept(request.keep_alive),
        "truncate": False,
        "shift": False,
        "options": options,
    }
    if request.tools:
        body["tools"] = offered_tools(request.tools)
    elif request.format is not None:
        body["format"] = request.format  # never together with tools (O-21)
    if think is not None:
        body["think"] = think
    return body


def _kept(value: str | int | None) -> str | int:
    """Ollama reads a text as a duration with its unit, so that -1 and 0 have to be numbers (O-12)."""
    if value is None:
        return KEEP_ALIVE
    return int(value) if isinstance(value, str) and value in ("-1", "0") else value


def ollama_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The history as Ollama wants it: arguments are objects, thinking goes back with its calls only (O-14, O-16).

    Neighbouring messages in the user's role are joined, since many templates want the roles to alternate (C-9).
    """
    out: list[dict[str, Any]] = []
    for message in messages:
        rendered = _rendered(message)
        if rendered is None:
            continue
        if out and rendered["role"] == out[-1]["role"] == "user":
            out[-1]["content"] += "\n\n" + rendered["content"]
        else:
            out.append(rendered)
    return out


def _rendered(message: Message) -> dict[str, Any] | None:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "content": message.text, "tool_name": message.name, "tool_call_id": message.call_id}
    if isinstance(message, AssistantMessage):
        if not message.calls:
            return {"role": "assistant", "content": message.text} if message.text else None
        out: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.thought:
            out["thinking"] = message.thought
        out["tool_calls"] = [
            {"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.arguments}}
            for index, call in enumerate(message.calls)
        ]
        return out
    if not message.text:
        return None
    return {"role": "system" if isinstance(message, SystemMessage) else "user", "content": message.text}


# --- the client -----------------------------------------------------------------------------


class OllamaModel(HttpModel):
    """A Model on an Ollama server."""

    provider = "ollama"

    def __init__(self, wire: Wire, retries: Retries) -> None:
        super().__init__(wire, retries)
        self._shown: dict[str, ModelInfo] = {}
        self._builds: dict[str, str] = {}
        self._thoughtless: set[str] = set()
        """Models that refused `think` (O-19)."""

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        return ollama_payload(request, await self._think(request))

    def _exchange(self, request: ModelRequest, body: dict[str, Any]) -> Exchange:
        async def doubt() -> Phase | None:
            loaded = await self._loaded()
            return None if loaded is None else Phase(phase="reading" if _find(loaded, request.model) else "loading")

        async def alive() -> bool:
            # a whole call is held back until it is complete (O-15): silence while the model writes a file
            return bool(request.tools) and bool(_find(await self._loaded() or {}, request.model))

        limits = self._wire.limits
        return Exchange(
            self._wire,
            "/api/chat",
            body,
            OllamaDecoder(self._wire.peer(request.model), taken_ids(request.messages), limits.line, limits.body),
            waiting=Phase(phase="reading" if request.model in self._answered else "loading"),
            doubt=doubt,
            alive=alive,
        )

    async def _think(self, request: ModelRequest) -> bool | str | None:
        """What to send as `think`: nothing for a model that can't, or of which it isn't known (O-19)."""
        if request.model in self._thoughtless:
            return None
        capabilities = (await self._show(request.model)).capabilities
        if capabilities is None:
            return request.think
        if "thinking" not in capabilities:
            return None
        return True if request.think is None else request.think

    def _learn(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        """True if the server refused `think`: it is left out from now on."""
        if error.fault.status != 400 or "think" not in body or "think" not in error.body.lower():
            return False
        self._thoughtless.add(model)
        return True

    # --- what the server knows ----------------------------------------------------------

    async def _show(self, model: str) -> ModelInfo:
        """/api/show, cached. A server that can't say leaves all unknown. Raises WireFault if it can't be reached."""
        if model in self._shown:
            return self._shown[model]
        try:
            value = await self._wire.ask("POST", "/api/show", {"model": model})
        except WireFault as error:
            if error.fault.kind == "unreachable":
                raise
            return ModelInfo(name=model)  # not cached: the request itself will tell what is wrong
        self._shown[model] = _info(model, value if isinstance(value, dict) else {})
        return self._shown[model]

    async def _loaded(self) -> dict[str, int | None] | None:
        """Loaded models and their windows (/api/ps); None when the server does not say."""
        try:
            value = await self._wire.ask("GET", "/api/ps", within=min(5.0, self._wire.limits.ask))
        except WireFault:
            return None
        return {name: whole_count(entry.get("context_length")) for name, entry in _entries(value)}

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model. The window in effect is asked anew each time: the server may have changed it (O-9)."""
        try:
            if model not in self._shown:
                self._shown[model] = _info(model, await self._wire.ask("POST", "/api/show", {"model": model}))
        except WireFault as error:
            return error.fault
        loaded = _find(await self._loaded() or {}, model)
        info = self._shown[model]
        return ModelInfo(
            name=model,
            capabilities=info.capabilities,
            context_window=info.context_window,
            loaded_window=(loaded[1] or None) if loaded else None,
            build=self._builds.get(model, ""),
            parameters=info.parameters,
        )

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model."""
        try:
            entries = _entries(await self._wire.ask("GET", "/api/tags"))
        except WireFault as error:
            return error.fault
        self._builds = {name: _build(entry) for name, entry in entries}
        return tuple(self._builds)

    async def version(self) -> str | Fault:
        """The server's version, such as `0.12.10`; older ones ignore fields that they don't know (O-26)."""
        try:
            value = await self._wire.ask("GET", "/api/version")
        except WireFault as error:
            return error.fault
        return str(value.get("version") or "") if isinstance(value, dict) else ""


def _entries(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Name and entry of every model in an answer of /api/tags or /api/ps."""
    models = value.get("models") if isinstance(value, dict) else None
    entries = [entry for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    named = [(entry.get("name") or entry.get("model"), entry) for entry in entries]
    return [(name, entry) for name, entry in named if isinstance(name, str)]


def _find(loaded: dict[str, int | None], model: str) -> tuple[str, int | None] | None:
    """The entry of a model, whose tag may be left out when it is `latest`."""
    return next(((name, window) for name, window in loaded.items() if same_model(name, model)), None)


def _build(entry: dict[str, Any]) -> str:
    """What /api/tags says of a model: parameters, quantization, size on disk."""
    found = entry.get("details")
    details = found if isinstance(found, dict) else {}
    words = [details.get(name) for name in ("parameter_size", "quantization_level")]
    size = whole_count(entry.get("size"))
    words.append(f"{size / 1e9:.1f} GB" if size and size >= 5e7 else None)
    return " · ".join(one_line(word, 20) for word in words if isinstance(word, str) and word)


def _info(model: str, value: Any) -> ModelInfo:
    """What /api/show says (O-17, O-22). No list of capabilities means an old server: unknown, not none."""
    value = value if isinstance(value, dict) else {}
    capabilities = value.get("capabilities")
    facts = value.get("model_info")
    windows = [
        whole_count(fact)
        for key, fact in (facts.items() if isinstance(facts, dict) else ())
        if key.endswith(".context_length")
    ]
    return ModelInfo(
        name=model,
        capabilities=tuple(str(item) for item in capabilities) if isinstance(capabilities, list) else None,
        context_window=next((window for window in windows if window), None),
        parameters=_parameters(value),
    )


def _parameters(value: dict[str, Any]) -> float | None:
    """The model's size in thousand millions, by the exact count or the rounded one such as `7.6B` or `560M`."""
    facts, details = value.get("model_info"), value.get("details")
    count = whole_count(facts.get("general.parameter_count")) if isinstance(facts, dict) else None
    if count:
        return count / 1e9
    shown = details.get("parameter_size") if isinstance(details, dict) else None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([BM])", shown) if isinstance(shown, str) else None
    return float(found[1]) / (1 if found[2] == "B" else 1_000) if found else None

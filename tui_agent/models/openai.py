"""The client for OpenAI-compatible servers: /chat/completions streamed as server-sent events (M2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tui_agent.common.domain import AssistantMessage, Fault, Message, ModelInfo, SystemMessage, ToolMessage
from tui_agent.models.base import ModelRequest, Phase
from tui_agent.models.decoding import as_count, as_object, used_call_ids
from tui_agent.models.exchange import Exchange, HttpModel
from tui_agent.models.faults import RetryPolicy, WireFault, fault_from_error
from tui_agent.models.openai_decoder import OpenAIDecoder, encode_arguments
from tui_agent.models.openai_info import (
    SLEEPING,
    entry_info,
    instance_ids,
    is_llama_cpp,
    is_router,
    model_entries,
    studio_entry,
    studio_info,
    with_defaults,
)
from tui_agent.models.reasoning import reasoning_fields
from tui_agent.models.wire import Wire, render_tools

EMPTY_RESULT = "(no output)"
"""Replaces an empty tool result, as some servers reject empty contents."""

_REASONING = "reasoning_content"
_OPTIONAL_FIELDS = {
    "stream_options": "stream_options|include_usage",
    "temperature": "temperature",
    "reasoning_effort": "reasoning_effort",
    "chat_template_kwargs": "chat_template_kwargs|enable_thinking",
    "response_format": "response_format",
    "return_progress": "return_progress",
}
"""Fields that are omitted after a rejection, each with the names by which servers mention it."""


class ServerQuirks:
    """What a server rejects or requires, learned from its 400 answers during the session."""

    def __init__(self) -> None:
        self.rejected: set[str] = set()
        self.uses_completion_tokens = False
        """The server requires `max_completion_tokens` instead of `max_tokens`."""
        self.send_reasoning = False
        """The server requires the reasoning of earlier calls in the history (C-6)."""
        self.always_reasons = False
        """The server rejects the effort `none`, not all efforts."""
        self.needs_bridge = False
        """The chat template rejects a user message directly after a tool result."""

    def adapt(self, status: int | None, body: str, payload: dict[str, Any]) -> bool:
        """Adapt to a rejected request; return whether to send it again. Each adaptation is made only once."""
        if status not in (400, 422):
            return False
        return self._drop_field(body, payload) or self._change_messages(body, payload)

    def _drop_field(self, body: str, payload: dict[str, Any]) -> bool:
        if (
            payload.get("reasoning_effort") == "none"
            and not self.always_reasons
            and _mentions(body, "reasoning_effort")
        ):
            self.always_reasons = True
            return True
        for field, names in _OPTIONAL_FIELDS.items():
            if field in payload and field not in self.rejected and _mentions(body, names):
                self.rejected.add(field)
                return True
        if "max_tokens" in payload and _mentions(body, "max_tokens"):
            self.uses_completion_tokens = True
            return True
        if "max_completion_tokens" in payload and _mentions(body, "max_completion_tokens"):
            self.rejected.add("max_tokens")
            return True
        return False

    def _change_messages(self, body: str, payload: dict[str, Any]) -> bool:
        if _mentions(body, _REASONING):
            is_sent = any(_REASONING in message for message in payload["messages"])
            if is_sent == self.send_reasoning:  # else this was tried before
                self.send_reasoning = not is_sent
                return True
        if not self.needs_bridge and re.search(r"user.{0,12} after .{0,12}tool", body):
            self.needs_bridge = True
            return True
        return False


def _mentions(body: str, names: str) -> bool:
    return re.search(rf"(?<![A-Za-z_])(?:{names})(?![A-Za-z_])", body) is not None


def openai_payload(
    request: ModelRequest,
    quirks: ServerQuirks,
    *,
    llama_cpp: bool = False,
    local: bool = False,
    info: ModelInfo | None = None,
) -> dict[str, Any]:
    """Build the body of /chat/completions. llama.cpp is asked to report its progress in reading the prompt.

    `info` is what is known of the model; it and the kind of server decide how reasoning is switched.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "messages": openai_messages(request.messages, quirks),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if llama_cpp:
        body["return_progress"] = True
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None and "max_tokens" not in quirks.rejected:
        body["max_completion_tokens" if quirks.uses_completion_tokens else "max_tokens"] = request.max_tokens
    body |= reasoning_fields(
        request.think,
        info or ModelInfo(name=request.model),
        local=local,
        llama_cpp=llama_cpp,
        always_reasons=quirks.always_reasons,
    )
    if request.tools:
        body["tools"] = render_tools(request.tools)
    elif request.format == "json":
        body["response_format"] = {"type": "json_object"}
    elif request.format is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": request.format}}
    for field in quirks.rejected:
        body.pop(field, None)
    return body


def openai_messages(messages: Sequence[Message], quirks: ServerQuirks) -> list[dict[str, Any]]:
    """Render the history: one system message, first; consecutive messages of a role joined; no empty contents."""
    rendered: list[dict[str, Any]] = []
    system = "\n\n".join(message.text for message in messages if isinstance(message, SystemMessage) and message.text)
    if system:
        rendered.append({"role": "system", "content": system})
    for message in messages:
        if isinstance(message, ToolMessage):
            content = message.text or EMPTY_RESULT
            rendered.append({"role": "tool", "tool_call_id": message.call_id, "content": content})
        elif isinstance(message, AssistantMessage):
            _add_assistant(rendered, message, quirks)
        elif not isinstance(message, SystemMessage) and message.text:
            _add_user(rendered, message.text, quirks)
    return rendered


def _add_user(rendered: list[dict[str, Any]], text: str, quirks: ServerQuirks) -> None:
    last = rendered[-1]["role"] if rendered else ""
    if last == "user":
        rendered[-1]["content"] += "\n\n" + text
        return
    if last == "tool" and quirks.needs_bridge:
        rendered.append({"role": "assistant", "content": "I have the results."})
    rendered.append({"role": "user", "content": text})


def _add_assistant(messages: list[dict[str, Any]], message: AssistantMessage, quirks: ServerQuirks) -> None:
    """Add text, or calls with optional text; the content may only be null together with calls (O-27)."""
    if not message.calls:
        if not message.text:
            return
        if messages and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
            messages[-1]["content"] += "\n\n" + message.text
        else:
            messages.append({"role": "assistant", "content": message.text})
        return
    entry: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.reasoning and quirks.send_reasoning:
        entry[_REASONING] = message.reasoning
    entry["tool_calls"] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": encode_arguments(call.arguments)},
        }
        for call in message.calls
    ]
    messages.append(entry)


DESCRIPTION_TTL = 60.0
"""Seconds for which a model's description is cached; the server may reload the model with another window."""
ANSWER_TTL = 1.0
"""Seconds for which an answer about all models serves for the descriptions of several."""
STUDIO_PATHS = ("//api/v1/models", "//api/v0/models")
"""Where LM Studio describes its models: the current path, and the one of versions before 0.4."""
LOAD_POLL = 0.5
"""Seconds between two questions whether llama.cpp's router has loaded a model."""


class OpenAIModel(HttpModel):
    """A Model on an OpenAI-compatible server."""

    provider = "openai"

    def __init__(self, wire: Wire, retries: RetryPolicy) -> None:
        super().__init__(wire, retries)
        self._quirks = ServerQuirks()
        self._described: dict[str, tuple[float, ModelInfo]] = {}
        self._infos: dict[str, ModelInfo] = {}
        """Model → what is known of it, perhaps without its current window."""
        self._answers: dict[str, tuple[float, Any]] = {}
        """Path → time and content of the last answer about all models."""
        self._llama_cpp = False
        """The server is llama.cpp's own, which reports its progress on request. Others might reject that field."""

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        local, info = self._wire.endpoint.local, self._infos.get(request.model)
        return openai_payload(request, self._quirks, llama_cpp=self._llama_cpp, local=local, info=info)

    def _adapt(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        return self._quirks.adapt(error.fault.status, error.body, body)

    def _on_answer(self, model: str) -> None:
        if model not in self._answered:
            self._answered.add(model)
            self._forget()  # it is loaded now, perhaps with a window that was unknown before

    def _exchange(self, request: ModelRequest, body: dict[str, Any]) -> Exchange:
        limits = self._wire.limits
        used_ids = used_call_ids(request.messages)
        decoder = OpenAIDecoder(self._wire.peer(request.model), used_ids, limits.line, limits.body)

        async def is_busy() -> bool:
            # llama.cpp reports its progress after each batch, which takes minutes on a slow machine
            return decoder.reports_progress and not decoder.has_output

        may_load = self._wire.endpoint.local and request.model not in self._answered
        phase = Phase(phase="loading" if may_load else "reading")
        return Exchange(self._wire, "/chat/completions", body, decoder, initial_phase=phase, is_busy=is_busy)

    # --- server information ----------------------------------------------------------

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model. If the server lists no models, everything is unknown."""
        now = asyncio.get_running_loop().time()
        fetched_at, cached = self._described.get(model, (0.0, None))
        if cached is not None and now - fetched_at < DESCRIPTION_TTL:
            return cached
        try:
            info = await self._describe(model)
        except WireFault as error:
            return error.fault
        self._described[model] = (now, info)
        self._infos[model] = info
        return info

    async def _describe(self, model: str) -> ModelInfo:
        """Read the real window, which every kind of server names differently (C-8)."""
        local = self._wire.endpoint.local
        entries = model_entries(await self._fetch_optional("/models", required=True))
        self._llama_cpp = is_llama_cpp(entries)
        is_only_model = local and len(entries) == 1 and not is_router(entries)  # such a server takes any name
        entry = next((item for item in entries if item.get("id") == model), entries[0] if is_only_model else {})
        info = entry_info(model, entry, local=local)
        if local and info.loaded is None and not is_router(entries):
            info = await self._describe_local(info)
        hosted = not local or any(entry.get(name) for name in ("context_length", "context_window"))
        any_name = is_only_model and self._llama_cpp
        return msgspec.structs.replace(with_defaults(info, hosted=hosted), any_name=any_name)

    async def _describe_local(self, info: ModelInfo) -> ModelInfo:
        """Add what older versions of llama.cpp, and LM Studio, report elsewhere."""
        props = as_object(await self._fetch_optional("//props"))
        defaults = as_object(props.get("default_generation_settings"))
        self._llama_cpp = self._llama_cpp or ("total_slots" in props and bool(defaults))
        if window := as_count(defaults.get("n_ctx")):
            return msgspec.structs.replace(info, loaded_window=window, loaded=True)
        for path in STUDIO_PATHS:
            if entry := studio_entry(await self._fetch_optional(path), info.name):
                return studio_info(info, entry)
        return info

    def _forget(self) -> None:
        """Ask again about all models."""
        self._described.clear()
        self._answers.clear()

    async def _fetch_optional(self, path: str, *, required: bool = False) -> Any:
        """Return the answer, or None if the server doesn't have this path. With `required`, raises WireFault if the
        server can't be reached or rejects the credentials."""
        now = asyncio.get_running_loop().time()
        fetched_at, answer = self._answers.get(path, (0.0, None))
        if answer is not None and now - fetched_at < ANSWER_TTL:
            return answer
        try:
            answer = await self._wire.fetch_json("GET", path, optional=not required)
        except WireFault as error:
            status, kind = error.fault.status, error.fault.kind
            if required and kind != "protocol" and (status is None or status in (401, 403)):
                raise
            return None
        self._answers[path] = now, answer
        return answer

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model. The models are described again after that."""
        self._forget()
        try:
            answer = await self._wire.fetch_json("GET", "/models")
        except WireFault as error:
            return error.fault
        self._answers["/models"] = asyncio.get_running_loop().time(), answer
        return tuple(entry["id"] for entry in model_entries(answer) if isinstance(entry.get("id"), str))

    # --- loading ---------------------------------------------------------------------

    async def load(self, model: str, window: int | None = None, keep_alive: str | int | None = None) -> Fault | None:
        """See LoadsModels. These servers choose the window themselves."""
        return await self._set_loaded(model, True)

    async def unload(self, model: str) -> Fault | None:
        """See LoadsModels."""
        return await self._set_loaded(model, False)

    async def _set_loaded(self, model: str, wanted: bool) -> Fault | None:
        action = "load" if wanted else "unload"
        try:
            if is_router(model_entries(await self._wire.fetch_json("GET", "/models"))):
                await self._router_request(action, model)
                return None
            answer = await self._wire.fetch_json("GET", STUDIO_PATHS[0], optional=True)
            if not (entry := studio_entry(answer, model)):
                message = f"{self.endpoint} does not {action} models on request."
                return Fault(kind="status", message=message)
            loaded = instance_ids(entry)
            requests = [{"model": model}] * (not loaded) if wanted else [{"instance_id": name} for name in loaded]
            for request in requests:
                await self._post(f"//api/v1/models/{action}", request)
        except WireFault as error:
            return error.fault
        finally:
            self._forget()
        return None

    async def _router_request(self, action: str, model: str) -> None:
        """Load or unload a model of llama.cpp's router, and wait until it is, as long as for the first byte of a reply.

        Raises WireFault.
        """
        limit = self._wire.limits.first_byte
        try:
            async with asyncio.timeout(limit):
                await self._router_change(action, model)
        except TimeoutError:
            message = f"{self.endpoint} did not {action} {model} within {limit:.0f} s."
            fault = Fault(kind="timeout", message=message, advice="Its log may have the reason.")
            raise WireFault(fault) from None

    async def _router_change(self, action: str, model: str) -> None:
        try:
            await self._post(f"//models/{action}", {"model": model})
        except WireFault as error:
            if "already running" not in error.body and "not running" not in error.body:
                raise
        while True:
            entries = model_entries(await self._wire.fetch_json("GET", "/models"))
            entry = next((item for item in entries if item.get("id") == model), {})
            info = entry_info(model, entry, local=True)
            if info.state == "failed" and action == "load":
                message = f"{self.endpoint} could not load {model}; its log has the reason."
                raise WireFault(Fault(kind="status", message=message))
            if info.state == SLEEPING and action == "load":
                return  # the router counts it as running, and loads nothing before the next request
            if info.state != "loading" and info.loaded is not (action == "unload"):
                return
            await asyncio.sleep(LOAD_POLL)

    async def _post(self, path: str, payload: dict[str, str]) -> None:
        """Send a request that may take as long as a model takes to load. Raises WireFault, also for an error that LM
        Studio sends with status 200."""
        answer = await self._wire.fetch_json("POST", path, payload, timeout=self._wire.limits.first_byte)
        if isinstance(answer, dict) and answer.get("error"):
            raise WireFault(fault_from_error(answer, self._wire.peer(payload.get("model", ""))))

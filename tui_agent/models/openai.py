"""OpenAI-compatible servers: /chat/completions streamed as server-sent events (M2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from tui_agent.domain import Fault, ModelInfo
from tui_agent.models.base import ModelRequest, Phase, Piece
from tui_agent.models.decoding import taken_ids, whole_number
from tui_agent.models.exchange import Exchange, converse, settled
from tui_agent.models.faults import WireFault
from tui_agent.models.openai_reply import OpenAIDecoder
from tui_agent.models.openai_request import Habits, payload
from tui_agent.models.wire import Wire

REMEMBERED = 60.0
"""Seconds for which what a server says of a model is taken as it was: it may be loaded anew with another window."""
_LESSONS = 8
"""How many refusals one request may learn from."""


class OpenAIModel:
    """A Model (see base.py) on an OpenAI-compatible server."""

    provider = "openai"

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.endpoint = wire.endpoint.shown
        self._habits = Habits()
        self._described: dict[str, tuple[float, ModelInfo]] = {}
        self._answered: set[str] = set()
        self._llama_cpp = False
        """The server is llama.cpp's own, which tells how far it has read when it is asked to; to others the field
        that asks for it may be a mistake."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """See Model."""
        return settled(self._reply(request), self._wire.peer(request.model))

    async def _reply(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        yield Phase(phase="connecting")
        clock = asyncio.get_running_loop().time
        patience, lessons = clock() + self._wire.limits.first_byte, 0
        while True:
            body = payload(request, self._habits, progress=self._llama_cpp)
            if not body["messages"]:
                raise WireFault(Fault(kind="protocol", message="There is no message to send."))
            try:
                decoder = self._decoder(request)
                async with (
                    self._exchange(request, body, decoder) as exchange,
                    aclosing(converse(exchange, decoder)) as pieces,
                ):
                    async for piece in pieces:
                        yield piece
                self._now_answered(request.model)
                return
            except WireFault as error:
                lessons += 1
                if _is_loading(error) and clock() < patience:
                    yield Phase(phase="loading")
                    await asyncio.sleep(self._wire.limits.ask_after)
                elif lessons > _LESSONS or not self._habits.learn(error.fault.status, error.body, body):
                    raise

    def _decoder(self, request: ModelRequest) -> OpenAIDecoder:
        limits = self._wire.limits
        taken = taken_ids(request.messages)
        return OpenAIDecoder(self._wire.peer(request.model), taken, limits.line, limits.body)

    def _now_answered(self, model: str) -> None:
        """The model is loaded now, perhaps with a window that the server did not tell before."""
        if model not in self._answered:
            self._answered.add(model)
            self._described.pop(model, None)

    def _exchange(self, request: ModelRequest, body: dict[str, Any], decoder: OpenAIDecoder) -> Exchange:
        async def alive() -> bool:
            # llama.cpp tells its progress after each batch, which takes minutes on a slow machine
            return decoder.reading and not decoder.produced

        may_load = self._wire.endpoint.local and request.model not in self._answered
        waiting = Phase(phase="loading" if may_load else "reading")
        return Exchange(
            self._wire,
            "/chat/completions",
            body,
            self._wire.peer(request.model),
            waiting=waiting,
            alive=alive,
        )

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
        if (
            loaded is None
        ):  # what a model was trained for is no window, but a service far away offers all of it
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

    async def aclose(self) -> None:
        """See Model."""
        await self._wire.aclose()


def _is_loading(error: WireFault) -> bool:
    """llama.cpp answers 503 while it loads."""
    return error.fault.status == 503 and "loading model" in error.body.lower()


def _entries(value: Any) -> list[dict[str, Any]]:
    data = value.get("data") if isinstance(value, dict) else value
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(*values: Any) -> int | None:
    return next((number for value in values if (number := whole_number(value))), None)


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

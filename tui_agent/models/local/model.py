"""The client of the local engine: an OpenAI-compatible server that is started on the first request (L1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.models.base import Failed, ModelRequest, Phase, ReplyPart
from tui_agent.models.endpoint import endpoint
from tui_agent.models.faults import RetryPolicy, WireFault
from tui_agent.models.local import engine, library
from tui_agent.models.local.engine import EngineError, EnginePlan, EngineStatus, EngineUse
from tui_agent.models.local.fit import Fit, fit_model
from tui_agent.models.local.gguf import GgufError, GgufInfo, read_gguf
from tui_agent.models.local.memory import read_memory
from tui_agent.models.openai import OpenAIModel
from tui_agent.models.wire import Wire, WireLimits
from tui_agent.text import file_size

PROVIDER = "local"
NAME = "the local engine"
"""What the engine is called in messages."""
GET_ADVICE = "`tui-agent models get` suggests models for this machine, and fetches them."
_MIB = 1 << 20
_MAX_CACHE_MIB = 4_096
"""Largest memory, in MiB, for prompts of earlier requests."""


class LocalModel(OpenAIModel):
    """A Model that this program runs itself. Nothing is started before the first request.

    One engine runs at a time: a request for another model releases the engine of the previous one.
    """

    provider = PROVIDER

    def __init__(self, limits: WireLimits | None, retries: RetryPolicy) -> None:
        super().__init__(_wire("http://127.0.0.1/v1", "", limits), retries)
        self.endpoint = NAME
        self.log_folder: Path | None = None
        """Folder for the log of an engine that is started; None: its own folder."""
        self._limits = limits
        self._use: EngineUse | None = None
        self._state: EngineStatus | None = None
        self._name = ""
        """The model that the engine runs."""
        self._requested: int | None = None
        """The window that was requested when the engine was started or joined."""
        self._lock = asyncio.Lock()
        self._starting: set[asyncio.Task[None]] = set()
        self._headers: dict[str, tuple[object, GgufInfo]] = {}
        """Model → identity of its file, and the header that was read from it."""
        self._llama_cpp = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """See Model. Starts the engine first, if it does not run."""
        if not await self._is_ready(request.model, request.num_ctx):
            yield Phase(phase="loading", detail=await asyncio.to_thread(self._size, request.model))
        try:
            await self._start(request.model, request.num_ctx)
        except WireFault as error:
            yield Failed(fault=error.fault)
            return
        async for part in super().stream(request):
            yield part

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        await self._start(request.model, request.num_ctx)  # it may have ended since, or in the middle of a reply
        assert self._state is not None
        return {**await super()._body(request), "model": self._state.name}

    # --- the engine -------------------------------------------------------------------

    async def _is_ready(self, name: str, window: int | None) -> bool:
        """Return whether the engine runs this model, with this window as far as it had a choice."""
        use, state = self._use, self._state
        if use is None or state is None or name != self._name:
            return False
        is_large_enough = not window or window <= state.window or window == self._requested
        return is_large_enough and await asyncio.to_thread(_runs, use)

    async def _start(self, name: str, window: int | None) -> None:
        """Use the engine that runs the model; start it if necessary. Raises WireFault.

        If this is cancelled, the model is loaded all the same: the next request will need it.
        """
        starting = asyncio.create_task(self._become_ready(name, window))
        self._starting.add(starting)
        starting.add_done_callback(self._on_started)
        await asyncio.shield(starting)

    def _on_started(self, starting: asyncio.Task[None]) -> None:
        self._starting.discard(starting)
        if not starting.cancelled():
            starting.exception()  # was raised by `_start`, unless nobody waits for it any more

    async def _become_ready(self, name: str, window: int | None) -> None:
        async with self._lock:
            if await self._is_ready(name, window):
                return
            await self._release()
            try:
                plan = await asyncio.to_thread(self._plan, name, window)
                log = self.log_folder / engine.LOG if self.log_folder is not None else None
                self._use, self._state = await engine.use_engine(plan, log=log)
                self._name, self._requested = name, window
            except EngineError as error:
                fault = Fault(kind="unreachable", message=str(error), advice=error.advice)
                raise WireFault(fault) from error
            self._wire = _wire(f"{self._state.address}/v1", self._state.key, self._limits)
            self._answered.add(name)  # it is loaded

    def _plan(self, name: str, window: int | None) -> EnginePlan:
        """Return how to run a model in the memory that is available. Reads its header. Raises EngineError."""
        info = self._header(name)
        room = _fit(info, window)
        if room.problem:
            raise EngineError(room.problem, "Choose a smaller model. " + GET_ADVICE)
        free = read_memory().available - room.need
        return EnginePlan(
            model=info.path,
            name=_api_name(name),
            window=room.window,
            slots=room.slots,
            cache_mib=max(0, min(_MAX_CACHE_MIB, free // 4 // _MIB)),
        )

    def _header(self, name: str) -> GgufInfo:
        """Return the header of a model's file, read again if the file has changed. Raises EngineError."""
        file = library.find(name)
        if file is None:
            raise EngineError(f"This machine has no model {name}.", GET_ADVICE)
        try:
            status = file.path.stat()
            identity = (file.path, status.st_size, status.st_mtime_ns)
            before, info = self._headers.get(name, (None, None))
            if info is None or before != identity:
                info = read_gguf(file.path)
                self._headers[name] = identity, info
        except (GgufError, OSError) as error:
            raise EngineError(str(error)) from error
        return info

    def _size(self, name: str) -> str:
        """Return name and size of a model that is about to be loaded; empty if it can't be."""
        try:
            return f"{_api_name(name)}, {file_size(self._header(name).size)}"
        except EngineError:
            return ""

    async def _release(self) -> None:
        use, self._use, self._state = self._use, None, None
        if use is not None:
            await self._wire.aclose()
            use.release()
            await engine.ended(use)

    # --- information ------------------------------------------------------------------

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model. Comes from the header of the file, and from the engine if it runs."""
        try:
            return await asyncio.to_thread(self._describe_file, model)
        except EngineError as error:
            return Fault(kind="status", status=404, message=str(error), advice=error.advice)

    def _describe_file(self, name: str) -> ModelInfo:
        info = self._header(name)
        state = engine.running_status(info.path)
        if state is None:
            return msgspec.structs.replace(
                info.model_info(name), loaded=False, fitting_window=_fit(info, None).largest_window
            )
        cache = state.slots * (info.fixed_cache + (info.cache_bytes or 0) * state.window)
        return msgspec.structs.replace(
            info.model_info(name), loaded=True, loaded_window=state.window, memory=info.size + cache
        )

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model: the files in the library."""
        try:
            files = await asyncio.to_thread(library.local_files)
        except OSError as error:
            return Fault(kind="status", message=f"The folder of models can't be read: {error.strerror or error}.")
        return tuple(file.name for file in files)

    async def load(self, model: str, window: int | None = None) -> Fault | None:
        """See LoadsModels. The engine runs as long as this client, or another session, uses it."""
        try:
            await self._start(model, window)
        except WireFault as error:
            return error.fault
        return None

    async def unload(self, model: str) -> Fault | None:
        """See LoadsModels. Fails while another session uses the engine."""
        async with self._lock:
            if model == self._name:
                await self._release()
        info = await self.describe(model)
        if isinstance(info, Fault) or not info.loaded:
            return info if isinstance(info, Fault) else None
        return Fault(kind="status", message=f"Another session uses {_api_name(model)}.", advice="Close it first.")

    async def aclose(self) -> None:
        """See Model. Ends the engine, unless another session uses it."""
        starting = tuple(self._starting)
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        async with self._lock:
            await self._release()
        await super().aclose()


def _wire(address: str, key: str, limits: WireLimits | None) -> Wire:
    return Wire(PROVIDER, endpoint(address, key or None, {}), limits)


def _runs(use: EngineUse) -> bool:
    return use.runs


def _api_name(name: str) -> str:
    """Return the name that a model has in requests to the engine."""
    return Path(name).stem if name.endswith(library.SUFFIX) else name


def _fit(info: GgufInfo, window: int | None) -> Fit:
    return fit_model(info.size, info.cache_bytes, info.context_window, read_memory(), window, fixed=info.fixed_cache)

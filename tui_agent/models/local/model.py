"""The client of the local engine: runs models that are files on this machine, without a server (L1)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.models.base import GET_MODELS, LOCAL_ENGINE, Failed, ModelRequest, Phase, ReplyPart, RetryWait
from tui_agent.models.endpoint import endpoint
from tui_agent.models.faults import RetryPolicy
from tui_agent.models.local import engine, library
from tui_agent.models.local.engine import EngineError, EnginePlan, EngineStatus, EngineUse, Identity
from tui_agent.models.local.fit import Fit, fit_model
from tui_agent.models.local.gguf import GgufError, GgufInfo, read_gguf, weight_files, weights_identity
from tui_agent.models.local.memory import read_memory
from tui_agent.models.openai import OpenAIModel
from tui_agent.models.wire import Wire, WireLimits, default_limits
from tui_agent.text import file_size

PROVIDER = "local"
RETIREMENT = 10.0
"""Seconds without a reply after which a client that is no longer the session's own ends its engines."""
_MIB = 1 << 20
_MAX_CACHE_MIB = 4_096
"""Largest memory, in MiB, for prompts of earlier requests."""
_TOLERANCE = 1.15
"""How much larger than the window that fits now a window may be: it was computed earlier, and headroom is kept."""
_SLACK = 0.95
"""Part of the largest window that is reported as fitting."""


class _EngineClient(OpenAIModel):
    """The client of one running engine. It does not retry: the engine may have to be started again."""

    provider = PROVIDER

    def __init__(self, info: ModelInfo, use: EngineUse, status: EngineStatus, window: int | None, wire: Wire) -> None:
        super().__init__(wire, RetryPolicy(attempts=1))
        self._infos[status.name] = info
        self.use = use
        self.status = status
        self.requested = window
        """The window for which the engine was started or joined, in tokens."""
        self.replies = 0
        """Replies that are streamed now."""
        self._llama_cpp = True
        self._answered.add(status.name)  # it is loaded

    def set_limits(self, limits: WireLimits | None) -> None:
        """Use other limits of time from the next request on."""
        self._wire.limits = limits or default_limits(True)

    def serves(self, window: int | None) -> bool:
        """Return whether this engine still runs, with the window as far as there was a choice. Does file IO."""
        is_large_enough = not window or window == self.requested or window <= self.status.window
        return is_large_enough and self.use.status == self.status


class LocalModel:
    """A Model that this program runs itself (see base.py). Nothing is started before the first request.

    Each model has an engine of its own. One that is idle ends if there is no memory for another one beside it.
    """

    provider = PROVIDER

    def __init__(self, limits: WireLimits | None, retries: RetryPolicy) -> None:
        self.limits = limits
        self.endpoint = LOCAL_ENGINE
        self.retries = retries
        self.log_folder: Path | None = None
        """Folder for the log of an engine that is started; None: its own folder."""
        self._clients: dict[Path, _EngineClient] = {}
        """The file of a model → the client of its engine."""
        self._idle = asyncio.Condition()
        self._lock = asyncio.Lock()
        self._starting: set[asyncio.Task[_EngineClient]] = set()
        """Named by their models."""
        self._waiting: Counter[str] = Counter()
        """How many requests wait for a model to be loaded."""
        self._headers: dict[str, tuple[Identity, GgufInfo]] = {}
        """Model → identity of its files, and the header that was read from them."""
        self._is_retired = False
        self._retirement: asyncio.TimerHandle | None = None

    # --- requests ---------------------------------------------------------------------

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """See Model. Starts the engine first, if it does not run, and again if it ends before it has answered."""
        attempt = 1
        while True:
            if not await self._is_ready(request.model, request.num_ctx):
                yield Phase(phase="loading", detail=await asyncio.to_thread(self._size, request.model))
            try:
                client = await self._start(request.model, request.num_ctx)
            except EngineError as error:
                yield Failed(fault=Fault(kind="unreachable", message=str(error), advice=error.advice))
                return
            fault: Fault | None = None
            client.replies += 1
            try:
                async for part in client.stream(msgspec.structs.replace(request, model=client.status.name)):
                    if isinstance(part, Failed):
                        fault = await self._explain(part.fault, client)
                    else:
                        yield part
            finally:
                client.replies -= 1
                await self._on_idle()
            if fault is None:
                return
            seconds = self.retries.delay(fault, attempt)
            if seconds is None:
                yield Failed(fault=self.retries.final_fault(fault, attempt))
                return
            attempt += 1
            yield RetryWait(attempt=attempt, of=self.retries.attempts, seconds=seconds, why=fault.message)
            await self.retries.sleep(seconds)

    async def _explain(self, fault: Fault, client: _EngineClient) -> Fault:
        """Return a fault of the connection in terms of the engine."""
        if fault.kind not in ("unreachable", "broken") or await asyncio.to_thread(client.serves, None):
            return fault
        message, advice = "The local engine ended while it was answering.", f"{client.status.log} may have the reason."
        return msgspec.structs.replace(fault, message=message, advice=advice)

    # --- the engines ------------------------------------------------------------------

    async def _is_ready(self, name: str, window: int | None) -> bool:
        try:
            info = await asyncio.to_thread(self._header, name)
        except EngineError:
            return False
        client = self._clients.get(info.path)
        return client is not None and await asyncio.to_thread(client.serves, window)

    async def _start(self, name: str, window: int | None) -> _EngineClient:
        """Return the client of the engine that runs the model; start it if necessary. Raises EngineError.

        If this is cancelled, the model is loaded all the same: the next request will need it, unless it is for another.
        """
        for task in self._starting:
            if task.get_name() != name and not self._waiting[task.get_name()]:
                task.cancel()
        starting = asyncio.create_task(self._become_ready(name, window), name=name)
        self._starting.add(starting)
        starting.add_done_callback(self._on_started)
        self._waiting[name] += 1
        try:
            return await asyncio.shield(starting)
        finally:
            self._waiting[name] -= 1

    def _on_started(self, starting: asyncio.Task[_EngineClient]) -> None:
        self._starting.discard(starting)
        if not starting.cancelled():
            starting.exception()  # was raised by `_start`, unless nobody waits for it any more
        if self._is_retired:
            self._schedule_end()

    async def _become_ready(self, name: str, window: int | None) -> _EngineClient:
        async with self._lock:
            info = await asyncio.to_thread(self._header, name)
            client = self._clients.get(info.path)
            if client is not None:
                if await asyncio.to_thread(client.serves, window):
                    return client
                await self._release(info.path)
            plan = await self._plan(name, window)
            log = self.log_folder / engine.LOG if self.log_folder is not None else None
            use, status = await engine.use_engine(plan, log=log)
            wire = Wire(PROVIDER, endpoint(f"{status.address}/v1", status.key, {}), self.limits)
            client = _EngineClient(info.model_info(name), use, status, window, wire)
            self._clients[info.path] = client
            return client

    async def _plan(self, name: str, window: int | None) -> EnginePlan:
        """Return how to run a model; makes room for it if necessary. Raises EngineError."""
        info = await asyncio.to_thread(self._header, name)
        files, identity = tuple(map(str, weight_files(info.path))), self._headers[name][0]
        running = await asyncio.to_thread(engine.running_status, info.path)
        if running is not None:  # nothing will be loaded
            return EnginePlan(model=info.path, name=running.name, window=running.window, files=files, identity=identity)
        room = await asyncio.to_thread(_fit, info, window)
        for other in tuple(self._clients) if room.problem else ():
            await self._release(other)
            room = await asyncio.to_thread(_fit, info, window)
        if room.problem and (window or 0) > (room.largest_window or 0) * _TOLERANCE:
            raise EngineError(room.problem, f"Set a smaller `context_window`, or choose a smaller model. {GET_MODELS}")
        free = (await asyncio.to_thread(read_memory)).available - room.need
        return EnginePlan(
            model=info.path,
            name=_api_name(name),
            window=room.window,
            slots=room.slots,
            cache_mib=max(0, min(_MAX_CACHE_MIB, free // 4 // _MIB)),
            files=files,
            identity=identity,
        )

    def _header(self, name: str) -> GgufInfo:
        """Return the header of a model's file, read again if the file has changed. Raises EngineError."""
        file = library.find(name)
        if file is None:
            raise EngineError(f"This machine has no model {name}.", GET_MODELS)
        try:
            identity = weights_identity(file.path)
            before, info = self._headers.get(name, ((), None))
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

    async def _release(self, path: Path) -> None:
        """Stop using the engine of a model, once it answers no request."""
        client = self._clients.get(path)
        if client is None:
            return
        async with self._idle:
            await self._idle.wait_for(lambda: client.replies == 0)
        await self._end(path, client)

    async def _end(self, path: Path, client: _EngineClient) -> None:
        if self._clients.get(path) is client:
            del self._clients[path]
        await client.aclose()
        client.use.release()
        await engine.ended(client.use)

    async def _on_idle(self) -> None:
        async with self._idle:
            self._idle.notify_all()
        if self._is_retired:
            self._schedule_end()

    def set_limits(self, limits: WireLimits | None) -> None:
        """Use other limits of time, also with engines that run."""
        self.limits = limits
        for client in self._clients.values():
            client.set_limits(limits)

    def set_retired(self, retired: bool) -> None:
        """End the engines soon, as the session uses another server now, or keep them again. A run that still uses them
        may start them again."""
        self._is_retired = retired
        if self._retirement is not None:
            self._retirement.cancel()
        if retired:
            self._schedule_end()

    def _schedule_end(self) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
        self._retirement = asyncio.get_running_loop().call_later(RETIREMENT, self._end_idle)

    def _end_idle(self) -> None:
        for path, client in tuple(self._clients.items()):
            if client.replies == 0:
                ending = asyncio.ensure_future(self._end(path, client))
                ending.add_done_callback(lambda task: task.cancelled() or task.exception())

    # --- information ------------------------------------------------------------------

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model. Comes from the header of the file, and from the engine if it runs."""
        try:
            return await asyncio.to_thread(self._describe_file, model)
        except EngineError as error:
            return Fault(kind="status", status=404, message=str(error), advice=error.advice)

    def _describe_file(self, name: str) -> ModelInfo:
        info = self._header(name)
        status = engine.running_status(info.path)
        described = info.model_info(name)
        if status is None:
            largest = _fit(info, None).largest_window
            if largest is not None and largest != info.context_window:
                largest = round(largest * _SLACK)
            return msgspec.structs.replace(described, loaded=False, fitting_window=largest)
        cache = status.slots * (info.fixed_cache + (info.cache_bytes or 0) * status.window)
        client = self._clients.get(info.path)
        is_own = client is not None and client.use.is_own and client.status == status
        return msgspec.structs.replace(
            described,
            loaded=True,
            loaded_window=status.window,
            fitting_window=None if is_own else status.window,  # chosen by another session
            memory=info.size + cache,
        )

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model: the files in the library, and those elsewhere that were asked for."""
        try:
            files = await asyncio.to_thread(library.local_files)
        except OSError as error:
            return Fault(kind="status", message=f"The folder of models can't be read: {error.strerror or error}.")
        paths = {str(file.path) for file in files}
        others = [name for name, (_, info) in self._headers.items() if name == str(info.path) and name not in paths]
        return (*(file.name for file in files), *others)

    async def load(self, model: str, window: int | None = None, keep_alive: str | int | None = None) -> Fault | None:
        """See LoadsModels. The engine runs as long as this client, or another session, uses it."""
        self.set_retired(False)
        try:
            await self._start(model, window)
        except EngineError as error:
            return Fault(kind="unreachable", message=str(error), advice=error.advice)
        return None

    async def unload(self, model: str) -> Fault | None:
        """See LoadsModels. Fails while another session uses the engine."""
        async with self._lock:
            try:
                await self._release((await asyncio.to_thread(self._header, model)).path)
            except EngineError as error:
                return Fault(kind="status", status=404, message=str(error), advice=error.advice)
        info = await self.describe(model)
        if isinstance(info, Fault) or not info.loaded:
            return info if isinstance(info, Fault) else None
        return Fault(kind="status", message=f"Another session uses {_api_name(model)}.", advice="Close it first.")

    async def aclose(self) -> None:
        """See Model. Ends the engines, unless another session uses them."""
        if self._retirement is not None:
            self._retirement.cancel()
        starting: tuple[asyncio.Task[Any], ...] = tuple(self._starting)
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        for path, client in tuple(self._clients.items()):
            await self._end(path, client)


def _api_name(name: str) -> str:
    """Return the name that a model has in requests to the engine."""
    return Path(name).stem if name.endswith(library.SUFFIX) else name


def _fit(info: GgufInfo, window: int | None) -> Fit:
    return fit_model(info.size, info.cache_bytes, info.context_window, read_memory(), window, fixed=info.fixed_cache)

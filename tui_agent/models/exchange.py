"""One request and its streamed answer, watched by the timeouts of M7 and closed as soon as nobody reads it."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from tui_agent.common.domain import Fault
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    ModelRequest,
    Phase,
    ReasoningFragment,
    ReplyPart,
    RetryWait,
    TextFragment,
    UsageReport,
)
from tui_agent.models.decoding import Decoder
from tui_agent.models.faults import RetryPolicy, WireFault, broken_stream, fault_from_status
from tui_agent.models.wire import Wire, encode_payload, fault_from_exception, reject_encoding

ERROR_BODY = 256 * 1024
"""Maximum size of an error body that is read, in bytes."""
_MAX_QUEUED = 64
"""Maximum number of buffered chunks; a slow reader makes the server wait."""
_CRITICAL = ("connection.connect_tcp.complete", "connection.start_tls.complete", "http11.response_closed.started")
"""Events of httpcore after which a cancelled request would leave its connection in the pool, open and never used
again."""
_UNCRITICAL = (
    "connection.start_tls.started",
    "http11.send_request_headers.started",
    "http11.response_closed.complete",
    "http11.response_closed.failed",
)
"""Events after which it no longer would. Between the two there is no input or output."""
_CANCEL_DELAY = 0.1
"""Seconds that the end of an exchange waits for them."""
_DRAIN_TIMEOUT = 0.2
"""Seconds to wait for the end of the body after the end of the reply."""

_READ_PAUSE = 0.016
"""Seconds between two reads of a slow stream: what arrives meanwhile is read and decoded at once, for less work."""
_AT_ONCE = 0.001
"""Seconds within which the next chunk of a fast stream arrives."""

_MIN_TIMED_MS = 200
"""Minimum duration, in milliseconds, of a reply that is timed here; a shorter one may have arrived at once."""

MAX_ADAPTATIONS = 8
"""Maximum number of rejections that one request adapts to."""

PhaseProbe: TypeAlias = Callable[[], Awaitable[Phase | None]]
"""Returns whether a silent server is loading or reading; None if unknown."""
BusyProbe: TypeAlias = Callable[[], Awaitable[bool]]
"""Returns whether a silent server is still working."""

log = logging.getLogger(__name__)


class ServerAnswer(msgspec.Struct, frozen=True):
    """Status and headers of the answer."""

    status: int
    headers: Mapping[str, str]


_QueueItem: TypeAlias = ServerAnswer | bytes | Phase | Exception | None
"""What the connection task reports: None at the end of the body, an exception if the connection failed."""


class Exchange:
    """POSTs `payload` to `path` on entry and closes the connection on exit.

    `decoder` decodes the answer. `initial_phase` is reported once the request has been sent. `probe_phase` is called
    repeatedly until the first byte arrives, `is_busy` after `no_bytes` seconds of silence.
    """

    def __init__(
        self,
        wire: Wire,
        path: str,
        payload: Any,
        decoder: Decoder,
        *,
        initial_phase: Phase,
        probe_phase: PhaseProbe | None = None,
        is_busy: BusyProbe | None = None,
    ) -> None:
        self._wire = wire
        self._limits = wire.limits
        self._decoder = decoder
        self._peer = decoder.peer
        self._path = path
        self._payload = payload
        self._initial_phase = initial_phase
        self._probe_phase = probe_phase
        self._is_busy = is_busy
        self._queue: asyncio.Queue[_QueueItem] = asyncio.Queue(_MAX_QUEUED)
        self._next_items: list[_QueueItem] = []
        """Taken from the queue after a chunk; returned next."""
        self._tasks: list[asyncio.Task[None]] = []
        self._clock = asyncio.get_running_loop().time
        self._sent_at: float | None = None
        self._first_byte_at: float | None = None
        self._last_byte_at = self._progress_at = self._busy_at = 0.0
        self._tail_deadline: float | None = None
        self._request_sent = asyncio.Event()
        self._can_cancel = asyncio.Event()
        """Cleared between the events `_CRITICAL` and `_UNCRITICAL`."""
        self._can_cancel.set()
        self._reading_since: float | None = None
        """When the server began to read the prompt; None while it may still be loading the model."""
        self._answering_since: float | None = None
        """When the first part of the answer arrived."""

    async def __aenter__(self) -> Exchange:
        _ = self._wire.client  # raises before anything starts if no client can be built
        self._tasks = [asyncio.create_task(self._pump())]
        if self._probe_phase is not None:
            self._tasks.append(asyncio.create_task(self._poll_phase(self._probe_phase)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._can_cancel.is_set() and not self._tasks[0].done():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._can_cancel.wait(), _CANCEL_DELAY)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def next(self) -> list[ReplyPart] | None:
        """Return the next parts, or None at the end of the reply. Raises WireFault for an error answer, an expired
        timeout or a broken connection."""
        decoder = self._decoder
        if decoder.finished:
            await self._drain()
            return None
        try:
            item = await self._next_item()
            if isinstance(item, ServerAnswer):
                if not 200 <= item.status < 300:
                    raise await self._error_fault(item)
                decoder.check_content_type(item.headers.get("content-type", "").lower())
                return []
        except WireFault as error:
            if not decoder.complete:
                raise _after_output(error, decoder) from error
            item = None
        if isinstance(item, Phase):
            return self._add_timings([item])
        before = decoder.progress
        parts = decoder.feed(item)
        if decoder.progress != before:
            self._progress_at = self._clock()
        if decoder.complete and self._tail_deadline is None:  # wait only `tail` for the end of the stream
            self._tail_deadline = self._clock() + self._limits.tail
        return self._add_timings(parts)

    async def _drain(self) -> None:
        """Read the end of the body if it arrives at once, so that the connection can be reused."""
        with suppress(TimeoutError, WireFault):
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                while await self._next_item() is not None:
                    pass

    async def _error_fault(self, answer: ServerAnswer) -> WireFault:
        """Return the fault for an error answer, with as much of its body as arrives in reasonable time."""
        body = bytearray()
        try:
            async with asyncio.timeout(10):
                while len(body) < ERROR_BODY and (item := await self._next_item()) is not None:
                    if isinstance(item, bytes):
                        body += item
        except (TimeoutError, WireFault):
            log.debug("the body of an error answer of %s was incomplete", self._peer.address)
        text = body.decode("utf-8", errors="replace")
        return WireFault(fault_from_status(answer.status, text, answer.headers, self._peer), text)

    async def _next_item(self) -> ServerAnswer | Phase | bytes | None:
        """Return the next item, None at the end. Raises WireFault for an expired timeout or a broken connection."""
        item: _QueueItem
        while True:
            if self._next_items:
                item = self._next_items.pop()
            elif self._queue.empty():
                try:
                    async with asyncio.timeout_at(self._deadline()):
                        item = await self._queue.get()
                except TimeoutError:
                    if await self._on_timeout():
                        return None
                    continue
            else:
                if (
                    self._tail_deadline is None
                    and self._first_byte_at is not None
                    and self._last_byte_at >= self._progress_deadline()
                ):
                    await self._on_timeout()  # with a flood of pings the queue is never empty
                item = self._queue.get_nowait()
            if isinstance(item, Exception):
                raise fault_from_exception(item, self._peer, self._limits.connect) from item
            if isinstance(item, ServerAnswer):
                reject_encoding(item.headers.get("content-encoding", ""), self._peer)
            if isinstance(item, bytes):  # join it with the chunks queued behind it: decoding them together is cheaper
                chunks = [item]
                while not self._queue.empty() and not self._next_items:
                    item = self._queue.get_nowait()
                    if isinstance(item, bytes):
                        chunks.append(item)
                    else:
                        self._next_items.append(item)
                return b"".join(chunks)
            if not (isinstance(item, Phase) and self._first_byte_at is not None):
                return item

    # --- watchdogs ----------------------------------------------------------------------

    def _deadline(self) -> float | None:
        """Return when the current timeout expires; None while connecting, which httpx times itself."""
        if self._tail_deadline is not None:
            return self._tail_deadline
        if self._first_byte_at is not None:
            silence = max(self._last_byte_at, self._busy_at) + self._limits.no_bytes
            return min(silence, self._progress_deadline())
        return None if self._sent_at is None else self._sent_at + self._limits.first_byte

    def _progress_deadline(self) -> float:
        """Return when a reply without progress times out."""
        return max(self._progress_at, self._first_byte_at or 0.0) + self._limits.no_progress

    async def _on_timeout(self) -> bool:
        """Handle an expired timeout: True for a regular end, False to keep waiting. Raises WireFault otherwise."""
        if self._tail_deadline is not None:
            return True
        limits, now = self._limits, self._clock()
        if self._first_byte_at is None:
            text = f"{self._peer.address} accepted the request but sent nothing for {limits.first_byte:g} s."
            advice = "The model may be too large for this machine, or the server may hang."
        elif now >= self._progress_deadline():
            text = f"{self._peer.address} kept the connection open but sent nothing new for {limits.no_progress:g} s."
            advice = "Try again; if it happens often, check the server's log."
        elif now < max(self._last_byte_at, self._busy_at) + limits.no_bytes:
            return False
        elif now < self._last_byte_at + limits.buffering and self._is_busy is not None and await self._is_busy():
            self._busy_at = now
            return False
        else:
            text = f"{self._peer.address} sent nothing for {now - self._last_byte_at:.3g} s in the middle of its reply."
            advice = "Try again; if it happens often, check the server's log."
        raise WireFault(Fault(kind="timeout", message=text, advice=advice))

    def _add_timings(self, parts: list[ReplyPart]) -> list[ReplyPart]:
        """Add the times that the server left out of its counts, and note when the phases began."""
        now = self._clock()
        for index, part in enumerate(parts):
            if isinstance(part, UsageReport):
                parts[index] = self._with_timings(part, now)
            elif self._answering_since is None:
                if isinstance(part, TextFragment | ReasoningFragment | CallProgress | CallReady):
                    self._answering_since = now
                elif isinstance(part, Phase) and part.phase == "reading" and self._reading_since is None:
                    self._reading_since = now
        return parts

    def _with_timings(self, part: UsageReport, now: float) -> UsageReport:
        usage = part.usage
        if self._answering_since is None or usage.generate_ms is not None or usage.prompt_ms is not None:
            return part
        generate_ms = round((now - self._answering_since) * 1000)
        if generate_ms < _MIN_TIMED_MS:
            return part
        prompt_ms = (
            round((self._answering_since - self._reading_since) * 1000) if self._reading_since is not None else None
        )
        return UsageReport(usage=msgspec.structs.replace(usage, prompt_ms=prompt_ms, generate_ms=generate_ms))

    async def _poll_phase(self, probe_phase: PhaseProbe) -> None:
        await self._request_sent.wait()
        previous: Phase | None = None
        delay = self._limits.probe_after
        while self._first_byte_at is None:
            await asyncio.sleep(delay)
            delay = min(delay * 1.5, max(15.0, delay))
            try:
                phase = await probe_phase()
            except Exception:  # only a hint for the status line
                log.exception("probing the phase of %s failed", self._peer.address)
                return
            if phase is not None and phase != previous and self._first_byte_at is None:
                previous = phase
                await self._queue.put(phase)

    # --- the connection -----------------------------------------------------------------

    async def _pump(self) -> None:
        """Own the connection: all calls of httpx happen in this task."""
        try:
            await self._run_request()
        except Exception as failure:  # translated by the reader
            await self._queue.put(failure)
        else:
            await self._queue.put(None)

    async def _run_request(self) -> None:
        client = self._wire.client
        import httpx

        limits = self._limits
        request = client.build_request(
            "POST",
            self._wire.endpoint.url(self._path),
            content=encode_payload(self._payload),
            headers={"Content-Type": "application/json", "Accept": "text/event-stream, application/x-ndjson, */*"},
            timeout=httpx.Timeout(None, connect=limits.connect, write=limits.no_bytes),
            extensions={"trace": self._trace},
        )
        response = await client.send(request, stream=True)
        try:
            await self._queue.put(ServerAnswer(response.status_code, response.headers))
            ready_at = 0.0
            async for chunk in response.aiter_raw():
                self._last_byte_at = self._clock()
                if self._first_byte_at is None:
                    self._first_byte_at = self._last_byte_at
                await self._queue.put(chunk)
                if _AT_ONCE < self._last_byte_at - ready_at < _READ_PAUSE:
                    await asyncio.sleep(_READ_PAUSE)
                ready_at = self._clock()
        finally:
            await response.aclose()

    async def _trace(self, event: str, _info: Mapping[str, Any]) -> None:
        if event in _CRITICAL:
            self._can_cancel.clear()
        elif event in _UNCRITICAL:
            self._can_cancel.set()
        elif event.endswith("send_request_body.complete"):
            self._sent_at = self._clock()
            self._request_sent.set()
            await self._queue.put(self._initial_phase)


def _after_output(error: WireFault, decoder: Decoder) -> WireFault:
    """Return the fault as it applies after output: never retried."""
    fault = error.fault
    if not decoder.has_output:
        return error
    if fault.kind == "broken":
        fault = broken_stream(decoder.peer, has_output=True)
    return WireFault(msgspec.structs.replace(fault, retryable=False), error.body)


class HttpModel(ABC):
    """A Model (see base.py) on an HTTP server; subclasses implement the server's API."""

    provider = ""

    def __init__(self, wire: Wire, retries: RetryPolicy) -> None:
        self._wire = wire
        self.retries = retries
        self.endpoint = wire.endpoint.base
        self._answered: set[str] = set()
        """Models that have answered before, so that another wait is not reported as loading."""

    def new_wire(self) -> Wire:
        """Return another connection to the same server, with the same token; the caller closes it."""
        return Wire(self.provider, self._wire.endpoint)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """See Model. A rejection that the client can adapt to is answered by another request at once, a retryable
        failure by one after a delay. Cancelling takes effect immediately."""
        clock = asyncio.get_running_loop().time
        attempt, adaptations, started_at = 1, 0, clock()
        body: dict[str, Any] = {}
        yield Phase(phase="connecting")
        while True:
            try:
                body = await self._body(request)
                if not body["messages"]:  # Ollama would only load the model
                    raise WireFault(Fault(kind="protocol", message="There is no message to send."))
                async with self._exchange(request, body) as exchange:
                    while (parts := await exchange.next()) is not None:
                        for part in parts:
                            if isinstance(part, Failed):
                                raise WireFault(part.fault)
                            yield part
                self._on_answer(request.model)
                return
            except WireFault as error:
                fault = error.fault
                if adaptations < MAX_ADAPTATIONS and self._adapt(request.model, error, body):
                    adaptations += 1
                    continue
                if _is_loading(error) and clock() < started_at + self._wire.limits.first_byte:
                    yield Phase(phase="loading")
                    await asyncio.sleep(self._wire.limits.probe_after)
                    continue
            except Exception as error:  # a defect of this program must not end the session
                log.exception("reading a reply of %s failed", self.endpoint)
                message = f"A reply of {self.endpoint} could not be read ({type(error).__name__}); see the debug log."
                fault = Fault(kind="protocol", message=message)
            seconds = self.retries.delay(fault, attempt)
            if seconds is None:
                yield Failed(fault=self.retries.final_fault(fault, attempt))
                return
            attempt += 1
            yield RetryWait(attempt=attempt, of=self.retries.attempts, seconds=seconds, why=fault.message)
            await self.retries.sleep(seconds)
            adaptations, started_at = 0, clock()
            yield Phase(phase="connecting")

    @abstractmethod
    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Build the request body."""

    @abstractmethod
    def _exchange(self, request: ModelRequest, body: dict[str, Any]) -> Exchange:
        """Create the exchange that sends `body`."""

    @abstractmethod
    def _adapt(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        """Adapt to a rejected request; return whether sending it again may succeed."""

    def _on_answer(self, model: str) -> None:
        self._answered.add(model)

    async def aclose(self) -> None:
        """See Model."""
        await self._wire.aclose()


def _is_loading(error: WireFault) -> bool:
    """Whether llama.cpp is still loading the model."""
    return error.fault.status == 503 and "loading model" in error.body.lower()

"""One request and its streamed answer, under the watchdogs of M7, closed the moment nobody reads it any more."""

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
    CallReady,
    CallStarted,
    Failed,
    ModelRequest,
    Phase,
    Piece,
    RetryWait,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from tui_agent.models.decoding import Decoder
from tui_agent.models.faults import Retries, WireFault, broken, from_status
from tui_agent.models.wire import Wire, encode_payload, refuse_encoding, transport_fault

ERROR_BODY = 256 * 1024
"""Bytes of an error body that are read."""
_QUEUED = 64
"""Chunks read ahead: a slow reader makes the server wait."""
_DRAIN = 0.2
"""Seconds that the end of the body may lag behind the end of the reply."""

_TIMED_LEAST = 200
"""Milliseconds that a reply takes at the least to be timed here: a shorter one may have come in one go."""

MAX_LESSONS = 8
"""Refusals that one request may learn from."""

Doubt: TypeAlias = Callable[[], Awaitable[Phase | None]]
"""Asks a silent server whether it loads or reads; None when it does not say."""
Alive: TypeAlias = Callable[[], Awaitable[bool]]
"""Asks a server that fell silent whether it is still at work."""

log = logging.getLogger(__name__)


class ServerAnswer(msgspec.Struct, frozen=True):
    """Status and headers came."""

    status: int
    headers: Mapping[str, str]


_Item: TypeAlias = ServerAnswer | bytes | Phase | Exception | None
"""What the task that owns the connection tells: None when the body ended, an exception when the connection did."""


class Exchange:
    """POSTs `payload` to `path` as soon as it is entered; leaving it closes the connection.

    `decoder` reads the answer. `waiting` is the phase once the request is sent. `doubt` is asked again and again before
    the first byte; `alive` once `no_bytes` has passed in silence.
    """

    def __init__(
        self,
        wire: Wire,
        path: str,
        payload: Any,
        decoder: Decoder,
        *,
        waiting: Phase,
        doubt: Doubt | None = None,
        alive: Alive | None = None,
    ) -> None:
        self._wire = wire
        self._limits = wire.limits
        self._decoder = decoder
        self._peer = decoder.peer
        self._path = path
        self._payload = payload
        self._waiting = waiting
        self._doubt = doubt
        self._alive = alive
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(_QUEUED)
        self._ahead: list[_Item] = []
        """Taken out of the queue behind a chunk; it comes next."""
        self._tasks: list[asyncio.Task[None]] = []
        self._clock = asyncio.get_running_loop().time
        self._sent: float | None = None
        self._first: float | None = None
        self._last = self._progress = self._borne = 0.0
        self._tail: float | None = None
        self._sending = asyncio.Event()
        self._reading: float | None = None
        """When the server began to read the prompt; None while the model may have to be loaded, too."""
        self._answering: float | None = None
        """When the first piece of the answer came."""

    async def __aenter__(self) -> Exchange:
        _ = self._wire.client  # a client that can't be built is told before anything starts
        self._tasks = [asyncio.create_task(self._pump())]
        if self._doubt is not None:
            self._tasks.append(asyncio.create_task(self._wonder(self._doubt)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def next(self) -> list[Piece] | None:
        """The pieces that came next; None once the reply has ended. Raises WireFault for an answer that is an error,
        when a watchdog barks and when the connection breaks."""
        decoder = self._decoder
        if decoder.finished:
            await self._drain()
            return None
        try:
            got = await self._take()
            if isinstance(got, ServerAnswer):
                if not 200 <= got.status < 300:
                    raise await self._refused(got)
                decoder.opened(got.headers.get("content-type", "").lower())
                return []
        except WireFault as error:
            if not decoder.complete:
                raise _after(error, decoder) from error
            got = None
        if isinstance(got, Phase):
            return self._timed([got])
        before = decoder.progress
        pieces = decoder.feed(got)
        if decoder.progress != before:
            self._progress = self._clock()
        if decoder.complete and self._tail is None:  # wait only `tail` for the end of the stream
            self._tail = self._clock() + self._limits.tail
        return self._timed(pieces)

    async def _drain(self) -> None:
        """Read the end of the body, so that the connection can be used again, if it comes at once."""
        with suppress(TimeoutError, WireFault):
            async with asyncio.timeout(_DRAIN):
                while await self._take() is not None:
                    pass

    async def _refused(self, opened: ServerAnswer) -> WireFault:
        """The fault for an answer that is not 200, with as much of its body as comes in reasonable time."""
        body = bytearray()
        try:
            async with asyncio.timeout(10):
                while len(body) < ERROR_BODY and (got := await self._take()) is not None:
                    if isinstance(got, bytes):
                        body += got
        except (TimeoutError, WireFault):
            log.debug("the body of an error answer of %s was cut", self._peer.shown)
        text = body.decode("utf-8", errors="replace")
        return WireFault(from_status(opened.status, text, opened.headers, self._peer), text)

    async def _take(self) -> ServerAnswer | Phase | bytes | None:
        """What comes next; None at the end. Raises WireFault when a watchdog barks or the connection breaks."""
        item: _Item
        while True:
            if self._ahead:
                item = self._ahead.pop()
            elif self._queue.empty():
                try:
                    async with asyncio.timeout_at(self._deadline()):
                        item = await self._queue.get()
                except TimeoutError:
                    if await self._expired():
                        return None
                    continue
            else:
                if self._tail is None and self._first is not None and self._last >= self._stuck():
                    await self._expired()  # a flood of pings never leaves the queue empty
                item = self._queue.get_nowait()
            if isinstance(item, Exception):
                raise transport_fault(item, self._peer, self._limits.connect) from item
            if isinstance(item, ServerAnswer):
                refuse_encoding(item.headers.get("content-encoding", ""), self._peer)
            if isinstance(item, bytes):  # with the chunks that wait behind it: reading them together costs less
                chunks = [item]
                while not self._queue.empty() and not self._ahead:
                    item = self._queue.get_nowait()
                    if isinstance(item, bytes):
                        chunks.append(item)
                    else:
                        self._ahead.append(item)
                return b"".join(chunks)
            if not (isinstance(item, Phase) and self._first is not None):
                return item

    # --- watchdogs ----------------------------------------------------------------------

    def _deadline(self) -> float | None:
        """When patience ends; None while the connection is made, which httpx watches itself."""
        if self._tail is not None:
            return self._tail
        if self._first is not None:
            silence = max(self._last, self._borne) + self._limits.no_bytes
            return min(silence, self._stuck())
        return None if self._sent is None else self._sent + self._limits.first_byte

    def _stuck(self) -> float:
        """When a reply that does not grow is given up."""
        return max(self._progress, self._first or 0.0) + self._limits.no_progress

    async def _expired(self) -> bool:
        """Patience ended: True if that is an orderly end, False to wait on. Raises WireFault otherwise."""
        if self._tail is not None:
            return True
        limits, now = self._limits, self._clock()
        if self._first is None:
            text = f"{self._peer.shown} accepted the request but sent nothing for {limits.first_byte:g} s."
            advice = "The model may be too large for this machine, or the server may hang."
        elif now >= self._stuck():
            text = f"{self._peer.shown} kept the connection open but sent nothing new for {limits.no_progress:g} s."
            advice = "Try again; if it happens often, check the server's log."
        elif now < max(self._last, self._borne) + limits.no_bytes:
            return False
        elif now < self._last + limits.buffering and self._alive is not None and await self._alive():
            self._borne = now
            return False
        else:
            text = f"{self._peer.shown} sent nothing for {now - self._last:.3g} s in the middle of its reply."
            advice = "Try again; if it happens often, check the server's log."
        raise WireFault(Fault(kind="timeout", message=text, advice=advice))

    def _timed(self, pieces: list[Piece]) -> list[Piece]:
        """`pieces`, their counts with the times that the server left out: until the first piece of the answer the
        prompt is read, then the answer is written."""
        now = self._clock()
        for place, piece in enumerate(pieces):
            if isinstance(piece, UsagePiece):
                pieces[place] = self._with_times(piece, now)
            elif self._answering is None:
                if isinstance(piece, TextPiece | ThinkingPiece | CallStarted | CallReady):
                    self._answering = now
                elif isinstance(piece, Phase) and piece.phase == "reading" and self._reading is None:
                    self._reading = now
        return pieces

    def _with_times(self, piece: UsagePiece, now: float) -> UsagePiece:
        usage = piece.usage
        if self._answering is None or usage.generate_ms is not None or usage.prompt_ms is not None:
            return piece
        wrote = round((now - self._answering) * 1000)
        if wrote < _TIMED_LEAST:
            return piece
        read = round((self._answering - self._reading) * 1000) if self._reading is not None else None
        return UsagePiece(usage=msgspec.structs.replace(usage, prompt_ms=read, generate_ms=wrote))

    async def _wonder(self, doubt: Doubt) -> None:
        await self._sending.wait()
        last: Phase | None = None
        pause = self._limits.ask_after
        while self._first is None:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, max(15.0, pause))
            try:
                phase = await doubt()
            except Exception:  # only a hint for the status line
                log.exception("asking %s what it does failed", self._peer.shown)
                return
            if phase is not None and phase != last and self._first is None:
                last = phase
                await self._queue.put(phase)

    # --- the connection -----------------------------------------------------------------

    async def _pump(self) -> None:
        """Owns the connection: everything of httpx happens in this one task."""
        try:
            await self._converse()
        except Exception as failure:  # told to the reader, who knows what it means
            await self._queue.put(failure)
        else:
            await self._queue.put(None)

    async def _converse(self) -> None:
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
            async for chunk in response.aiter_raw():
                self._last = self._clock()
                if self._first is None:
                    self._first = self._last
                await self._queue.put(chunk)
        finally:
            await response.aclose()

    async def _trace(self, event: str, _info: Mapping[str, Any]) -> None:
        if event.endswith("send_request_body.complete"):
            self._sent = self._clock()
            self._sending.set()
            await self._queue.put(self._waiting)


def _after(error: WireFault, decoder: Decoder) -> WireFault:
    """The fault as it is once something of the reply was shown: never retried, and said so."""
    fault = error.fault
    if not decoder.produced:
        return error
    if fault.kind == "broken":
        fault = broken(decoder.peer, produced=True)
    return WireFault(msgspec.structs.replace(fault, retryable=False), error.body)


class HttpModel(ABC):
    """A Model (see base.py) on a server that speaks HTTP; subclasses know the protocol."""

    provider = ""

    def __init__(self, wire: Wire, retries: Retries) -> None:
        self._wire = wire
        self.retries = retries
        self.endpoint = wire.endpoint.shown
        self._answered: set[str] = set()
        """Models that have answered, so that a further wait is not taken for loading."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """See Model. A refusal that teaches something about the server is answered by another request at once, a
        failure that passes by itself by one after a wait; cancelling ends a wait at once."""
        clock = asyncio.get_running_loop().time
        attempt, lessons, began = 1, 0, clock()
        body: dict[str, Any] = {}
        yield Phase(phase="connecting")
        while True:
            try:
                body = await self._body(request)
                if not body["messages"]:  # an empty list would only load the model on Ollama
                    raise WireFault(Fault(kind="protocol", message="There is no message to send."))
                async with self._exchange(request, body) as exchange:
                    while (pieces := await exchange.next()) is not None:
                        for piece in pieces:
                            if isinstance(piece, Failed):
                                raise WireFault(piece.fault)
                            yield piece
                self._note_answer(request.model)
                return
            except WireFault as error:
                fault = error.fault
                if lessons < MAX_LESSONS and self._learn(request.model, error, body):
                    lessons += 1
                    continue
                if _loads(error) and clock() < began + self._wire.limits.first_byte:
                    yield Phase(phase="loading")
                    await asyncio.sleep(self._wire.limits.ask_after)
                    continue
            except Exception as error:  # our own defect: it must not end the session, failures are pieces
                log.exception("reading a reply of %s failed", self.endpoint)
                message = f"A reply of {self.endpoint} could not be read ({type(error).__name__}); see the debug log."
                fault = Fault(kind="protocol", message=message)
            seconds = self.retries.pause(fault, attempt)
            if seconds is None:
                yield Failed(fault=self.retries.last(fault, attempt))
                return
            attempt += 1
            yield RetryWait(attempt=attempt, of=self.retries.attempts, seconds=seconds, why=fault.message)
            await self.retries.sleep(seconds)
            lessons, began = 0, clock()
            yield Phase(phase="connecting")

    @abstractmethod
    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        """The request's body, as the server is known to accept it."""

    @abstractmethod
    def _exchange(self, request: ModelRequest, body: dict[str, Any]) -> Exchange:
        """The exchange that sends `body`."""

    @abstractmethod
    def _learn(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        """True if the refusal says what to send differently."""

    def _note_answer(self, model: str) -> None:
        self._answered.add(model)

    async def aclose(self) -> None:
        """See Model."""
        await self._wire.aclose()


def _loads(error: WireFault) -> bool:
    """Whether llama.cpp still loads the model."""
    return error.fault.status == 503 and "loading model" in error.body.lower()

"""One request and its streamed answer, under the watchdogs of M7, closed the moment nobody reads it any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from itertools import groupby
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from tui_agent.domain import Fault
from tui_agent.models.base import CallBegun, CallReady, Counted, Failed, Phase, Piece, Text, Thought
from tui_agent.models.decoding import Decoder
from tui_agent.models.faults import Peer, WireFault, broken, from_status
from tui_agent.models.wire import Wire, encode, refuse_encoding, transport_fault

ERROR_BODY = 256 * 1024
"""Bytes of an error body that are read."""
_QUEUED = 64
"""Chunks read ahead: a slow reader makes the server wait."""
_DRAIN = 0.2
"""Seconds that the end of the body may lag behind the end of the reply."""

_TIMED_LEAST = 200
"""Milliseconds that a reply takes at the least to be timed here: a shorter one may have come in one go."""

READING = Phase(phase="reading")

Doubt: TypeAlias = Callable[[], Awaitable[Phase | None]]
"""Asks a silent server whether it loads or reads; None when it does not say."""
Alive: TypeAlias = Callable[[], Awaitable[bool]]
"""Asks a server that fell silent whether it is still at work."""

log = logging.getLogger(__name__)


class Opened(msgspec.Struct, frozen=True):
    """Status and headers came."""

    status: int
    headers: Mapping[str, str]


class Ended(msgspec.Struct, frozen=True):
    """The body ended, or the connection did."""

    error: Exception | None = None


class Exchange:
    """POSTs `payload` to `path` as soon as it is entered; leaving it closes the connection.

    `waiting` is the phase once the request is sent. `doubt` is asked again and again before
    the first byte; `alive` once `no_bytes` has passed in silence.
    """

    def __init__(
        self,
        wire: Wire,
        path: str,
        payload: Any,
        peer: Peer,
        *,
        waiting: Phase = READING,
        doubt: Doubt | None = None,
        alive: Alive | None = None,
    ) -> None:
        self._wire = wire
        self._limits = wire.limits
        self._peer = peer
        self._path = path
        self._payload = payload
        self._waiting = waiting
        self._doubt = doubt
        self._alive = alive
        self._queue: asyncio.Queue[Opened | bytes | Ended | Phase] = asyncio.Queue(_QUEUED)
        self._ahead: Opened | Ended | Phase | None = None
        """Taken out of the queue behind a chunk; it comes next."""
        self._tasks: list[asyncio.Task[None]] = []
        self._clock = asyncio.get_running_loop().time
        self._sent: float | None = None
        self._first: float | None = None
        self._last = self._progress = self._borne = 0.0
        self._tail: float | None = None
        self._sending = asyncio.Event()

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

    def progressed(self) -> None:
        """The reply grew: the watchdog of progress starts again."""
        self._progress = self._clock()

    async def drain(self) -> None:
        """Read the end of the body, so that the connection can be used again, if it comes at once."""
        with suppress(TimeoutError, WireFault):
            async with asyncio.timeout(_DRAIN):
                while await self.next() is not None:
                    pass

    def ending(self) -> None:
        """The reply is complete: wait only `tail` for the end of the stream."""
        if self._tail is None:
            self._tail = self._clock() + self._limits.tail

    async def next(self) -> Opened | Phase | bytes | None:
        """What comes next; None at the end. Raises WireFault when a watchdog barks or the connection breaks."""
        item: Opened | bytes | Ended | Phase
        while True:
            if self._ahead is not None:
                item, self._ahead = self._ahead, None
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
            if isinstance(item, Ended):
                if item.error is not None:
                    raise transport_fault(item.error, self._peer, self._limits.connect) from item.error
                return None
            if isinstance(item, Opened):
                refuse_encoding(item.headers.get("content-encoding", ""), self._peer)
            if isinstance(item, bytes):
                return self._joined(item)
            if not (isinstance(item, Phase) and self._first is not None):
                return item

    def _joined(self, chunk: bytes) -> bytes:
        """The chunk with those that wait behind it: reading them together costs less."""
        chunks = [chunk]
        while not self._queue.empty() and self._ahead is None:
            item: Opened | bytes | Ended | Phase = self._queue.get_nowait()
            if isinstance(item, bytes):
                chunks.append(item)
            else:
                self._ahead = item
        return b"".join(chunks)

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
            text = f"{self._peer.shown} took the request but said nothing for {limits.first_byte:g} s."
            advice = "The model may be too large for this machine, or its server may hang."
        elif now >= self._stuck():
            text = (
                f"{self._peer.shown} kept the connection but sent nothing new for {limits.no_progress:g} s."
            )
            advice = "Ask again; if it happens often, look at the server's log."
        elif now < max(self._last, self._borne) + limits.no_bytes:
            return False
        elif now < self._last + limits.buffering and self._alive is not None and await self._alive():
            self._borne = now
            return False
        else:
            text = f"{self._peer.shown} fell silent for {now - self._last:.3g} s in the middle of its reply."
            advice = "Ask again; if it happens often, look at the server's log."
        raise WireFault(Fault(kind="timeout", message=text, advice=advice))

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
        error: Exception | None = None
        try:
            await self._converse()
        except Exception as failure:  # told to the reader, who knows what it means
            error = failure
        await self._queue.put(Ended(error))

    async def _converse(self) -> None:
        client = self._wire.client
        import httpx

        limits = self._limits
        request = client.build_request(
            "POST",
            self._wire.endpoint.url(self._path),
            content=encode(self._payload),
            headers={
                "Content-Type": "application/json",
                "Accept": "text/event-stream, application/x-ndjson, */*",
            },
            timeout=httpx.Timeout(None, connect=limits.connect, write=limits.no_bytes),
            extensions={"trace": self._trace},
        )
        response = await client.send(request, stream=True)
        try:
            await self._queue.put(Opened(response.status_code, response.headers))
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


async def converse(exchange: Exchange, decoder: Decoder) -> AsyncGenerator[Piece, None]:
    """The pieces of one exchange. Raises WireFault for an answer that is an error, and for a broken connection."""
    watch = _Stopwatch()
    try:
        while (got := await exchange.next()) is not None:
            if isinstance(got, Phase):
                yield watch.timed(got)
            elif isinstance(got, Opened):
                if not 200 <= got.status < 300:
                    raise await _refused(exchange, got, decoder.peer)
                decoder.opened(got.headers.get("content-type", "").lower())
            else:
                before = decoder.progress
                for piece in _merged(decoder.feed(got)):
                    yield watch.timed(piece)
                if decoder.progress != before:
                    exchange.progressed()
                if decoder.finished:
                    await exchange.drain()
                    return
                if decoder.complete:
                    exchange.ending()
    except WireFault as error:
        if not decoder.complete:
            raise _after(error, decoder) from error
    for piece in decoder.end():
        yield watch.timed(piece)


class _Stopwatch:
    """Times a reply for servers that tell only counts: until the first piece the prompt is read, then it is written."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._sent: float | None = None
        """None while the model may have to be loaded, too."""
        self._first: float | None = None

    def timed(self, piece: Piece) -> Piece:
        """The piece, counts with the times that the server left out."""
        if isinstance(piece, Counted):
            return self._filled(piece)
        if self._first is None:
            if isinstance(piece, Text | Thought | CallBegun | CallReady):
                self._first = self._clock()
            elif isinstance(piece, Phase) and piece.phase == "reading" and self._sent is None:
                self._sent = self._clock()
        return piece

    def _filled(self, piece: Counted) -> Counted:
        usage = piece.usage
        if self._first is None or usage.generate_ms is not None or usage.prompt_ms is not None:
            return piece
        wrote = round((self._clock() - self._first) * 1000)
        if wrote < _TIMED_LEAST:
            return piece
        read = round((self._first - self._sent) * 1000) if self._sent is not None else None
        return Counted(usage=msgspec.structs.replace(usage, prompt_ms=read, generate_ms=wrote))


def _merged(pieces: list[Piece]) -> Iterator[Piece]:
    """Fragments of text that came together as one, and of thought likewise."""
    for kind, run in groupby(pieces, type):
        if kind is Text or kind is Thought:
            yield kind(text="".join(piece.text for piece in run if isinstance(piece, Text | Thought)))
        else:
            yield from run


def _after(error: WireFault, decoder: Decoder) -> WireFault:
    """The fault as it is once something of the reply was shown: never retried, and said so."""
    fault = error.fault
    if not decoder.produced:
        return error
    if fault.kind == "broken":
        fault = broken(decoder.peer, produced=True)
    return WireFault(msgspec.structs.replace(fault, retryable=False), error.body)


async def _refused(exchange: Exchange, opened: Opened, peer: Peer) -> WireFault:
    """The fault for an answer that is not 200, with as much of its body as comes in reasonable time."""
    body = bytearray()
    try:
        async with asyncio.timeout(10):
            while len(body) < ERROR_BODY and (got := await exchange.next()) is not None:
                if isinstance(got, bytes):
                    body += got
    except (TimeoutError, WireFault):
        log.debug("the body of an error answer of %s was cut", peer.shown)
    text = body.decode("utf-8", errors="replace")
    return WireFault(from_status(opened.status, text, opened.headers, peer), text)


async def settled(pieces: AsyncGenerator[Piece, None], peer: Peer) -> AsyncGenerator[Piece, None]:
    """`pieces`, with whatever they raise turned into a Failed at their end."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except WireFault as error:
            yield Failed(fault=error.fault)
        except Exception as error:  # our own defect: it must not end the session, failures are pieces
            log.exception("reading a reply of %s failed", peer.shown)
            message = (
                f"A reply of {peer.shown} could not be read ({type(error).__name__}); see the debug log."
            )
            yield Failed(fault=Fault(kind="protocol", message=message))

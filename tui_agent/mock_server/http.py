"""HTTP/1.1 connections of the mock server, with exact control of what is sent and of how the connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import struct
from collections.abc import Callable, Sequence

import h11
import msgspec

BODY_MAX = 64 * 1024 * 1024
"""Size limit of a request in bytes; a client that sends more is disconnected."""

Headers = Sequence[tuple[str, str]]


class Disconnected(Exception):
    """The client closed the connection."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A complete request."""

    method: str
    path: str
    """Without the query."""
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


class HttpConnection:
    """A keep-alive connection. It always reads ahead, to notice a disconnect while replying."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._h11 = h11.Connection(h11.SERVER)
        self._disconnected = asyncio.Event()
        self._received = asyncio.Event()
        self._request_bytes = 0
        self._reading = asyncio.create_task(self._read())
        self.sent = 0
        """Bytes of the current reply's body that were written to the socket."""
        self.on_write: Callable[[], None] = lambda: None
        """Called before anything is written."""

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65536):
                self._request_bytes += len(data)
                if self._request_bytes > BODY_MAX:
                    break
                self._h11.receive_data(data)
                self._received.set()
        except (OSError, h11.RemoteProtocolError):
            pass
        finally:
            self._disconnected.set()
            self._received.set()
            if self._h11.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
                self._writer.transport.abort()

    async def request(self) -> Request | None:
        """The next request; None if the client is done or sends an invalid one."""
        if self.is_reusable:
            self._h11.start_next_cycle()
        head: h11.Request | None = None
        body = bytearray()
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError:
                return None
            match event:
                case h11.Request():
                    head = event
                    if self._h11.they_are_waiting_for_100_continue:
                        await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                case h11.Data():
                    body += event.data
                case h11.EndOfMessage() if head is not None:
                    self._request_bytes = 0
                    return _request(head, bytes(body))
                case h11.NEED_DATA:
                    self._received.clear()
                    if self._disconnected.is_set():
                        return None
                    await self._received.wait()
                case _:
                    return None

    async def start(self, status: int, headers: Headers) -> None:
        """Send the status line and headers; without a Content-Length the body is chunked."""
        self.sent = 0
        reason = http.client.responses.get(status, "")
        await self._write(h11.Response(status_code=status, headers=list(headers), reason=reason))

    async def send(self, data: bytes) -> None:
        """Send a part of the body. Raises Disconnected."""
        await self._write(h11.Data(data=data))
        self.sent += len(data)

    async def end(self) -> None:
        """Complete the reply; the connection can be reused."""
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        if self._disconnected.is_set():
            raise Disconnected
        data = self._h11.send(event)
        self.on_write()
        self._writer.write(data or b"")
        try:
            await self._writer.drain()
        except OSError:
            raise Disconnected from None
        await asyncio.sleep(0)

    async def pause(self, seconds: float | None) -> None:
        """Wait, forever if None. Raises Disconnected as soon as the client disconnects."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._disconnected.wait(), seconds)
            raise Disconnected

    async def reset(self) -> None:
        """Abort with a TCP reset after flushing what was sent."""
        await self._flush()
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def cut(self) -> None:
        """Close the connection without completing the reply."""
        await self._flush()
        self._writer.close()

    async def _flush(self) -> None:
        self._writer.transport.set_write_buffer_limits(0)
        with contextlib.suppress(OSError):
            await self._writer.drain()

    @property
    def is_reusable(self) -> bool:
        """Whether request and reply are complete."""
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    async def aclose(self) -> None:
        """Close the connection and wait until it is closed."""
        self._reading.cancel()
        if self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._reading
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


def _request(head: h11.Request, body: bytes) -> Request:
    return Request(
        method=head.method.decode("ascii"),
        path=head.target.decode("ascii", "replace").split("?", 1)[0],
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
        body=body,
    )

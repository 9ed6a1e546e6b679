"""A server on a raw socket, scripted byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

REASONS = {200: "OK", 302: "Found", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error"}


@dataclass
class FakeRequest:
    """A request of a client."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeConnection:
    """The server side of a connection during one request."""

    server: FakeRawServer
    request: FakeRequest
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    chunked: bool = False
    closed: bool = False

    async def send(self, data: bytes | str) -> None:
        """Send bytes as they are."""
        self.writer.write(data.encode() if isinstance(data, str) else data)
        await self.writer.drain()

    async def head(
        self, status: int = 200, kind: str = "", *, length: int | None = None, chunked: bool = False, **more: str
    ) -> None:
        """Send status line and headers. Without `length` or `chunked`, the body ends with the connection."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        if kind:
            lines.append(f"Content-Type: {kind}")
        if length is not None:
            lines.append(f"Content-Length: {length}")
        elif chunked:
            lines.append("Transfer-Encoding: chunked")
        else:
            lines.append("Connection: close")
            self.closed = True
        self.chunked = chunked
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
        await self.send("\r\n".join(lines) + "\r\n\r\n")

    async def body(self, data: bytes | str) -> None:
        """Send a part of the body, as a chunk if `chunked`."""
        data = data.encode() if isinstance(data, str) else data
        await self.send(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    async def lines(self, *values: Any) -> None:
        """Send values as NDJSON."""
        for value in values:
            await self.body(json.dumps(value) + "\n")

    async def events(self, *values: Any) -> None:
        """Send server-sent events: strings as they are, other values as JSON."""
        for value in values:
            await self.body(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n")

    async def end(self) -> None:
        """End the body."""
        if self.chunked:
            await self.send(b"0\r\n\r\n")
        else:
            self.close()

    async def answer(self, status: int, value: Any = None, *, kind: str = "application/json", **more: str) -> None:
        """Send a complete response."""
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        await self.head(status, kind, length=len(body), **more)  # type: ignore[arg-type] # headers, all of them text
        await self.send(body)

    def note(self, what: str) -> None:
        """Record a fault in the log of the server."""
        self.server.log.append(what)

    async def gone(self) -> None:
        """Wait until the client has closed the connection; discard what it still sends."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.closed = True
        self.server.disconnected.append(asyncio.get_running_loop().time())
        self.server.left.set()

    def close(self) -> None:
        """Close the connection (FIN)."""
        self.closed = True
        self.note("fin")
        self.writer.close()

    def reset(self) -> None:
        """Reset the connection (RST)."""
        self.closed = True
        self.note("rst")
        plain: socket.socket = self.writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script: TypeAlias = Callable[[FakeConnection], Awaitable[None]]


@dataclass
class FakeRawServer:
    """Runs the script of the requested path; other paths return 404. Started and stopped by `async with`."""

    routes: dict[str, Script] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    requests: list[FakeRequest] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    """Injected faults, in order."""
    disconnected: list[float] = field(default_factory=list)
    """Loop times at which clients disconnected."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def asked_for(self, path: str) -> list[FakeRequest]:
        """Return the requests to one path."""
        return [request for request in self.requests if request.path == path]

    async def __aenter__(self) -> FakeRawServer:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            request = FakeRequest(method, path, headers, body, asyncio.get_running_loop().time())
            self.requests.append(request)
            self.asked.set()
            connection = FakeConnection(self, request, reader, writer)
            script = self.routes.get(path.partition("?")[0], _missing)
            await script(connection)
            if connection.closed:
                await writer.drain()
                writer.close()
                await writer.wait_closed()
                return


async def _missing(connection: FakeConnection) -> None:
    await connection.answer(404, {"error": "404 page not found"})

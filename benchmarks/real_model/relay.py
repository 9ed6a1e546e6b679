"""A proxy in front of the model server that records requests and token counts."""

from __future__ import annotations

import http.client
import http.server
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from benchmarks.real_model.counting import Call, call_of

TIMEOUT = 1800
"""Time limit of a request to the server, in seconds."""
_HOP_HEADERS = ("host", "connection", "content-length", "accept-encoding", "transfer-encoding")
"""Hop-by-hop headers, and those that would make the reply unreadable."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request with a body, and its response."""

    path: str
    status: int | None
    """None if the server could not be reached or a side disconnected."""
    seconds: float
    request: str
    response: str
    call: Call | None
    error: str = ""


class Relay(http.server.ThreadingHTTPServer):
    """Listens on a free loopback port. `target` is the server's address, with or without a path."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        self.target = urllib.parse.urlsplit(target)
        self.exchanges: list[Exchange] = []
        self._started = 0
        self._condition = threading.Condition()
        super().__init__(("127.0.0.1", 0), _RequestHandler)
        self.url = f"http://127.0.0.1:{self.server_port}{self.target.path}"

    def begin(self) -> None:
        """Count a request with a body."""
        with self._condition:
            self._started += 1

    def end(self, exchange: Exchange) -> None:
        """Record an answered request."""
        with self._condition:
            self.exchanges.append(exchange)
            self._condition.notify_all()

    def wait_for_exchanges(self, timeout: float = 2.0) -> None:
        """Wait up to `timeout` seconds until every request is recorded."""
        with self._condition:
            self._condition.wait_for(lambda: len(self.exchanges) == self._started, timeout)

    @property
    def calls(self) -> list[Call]:
        """The token counts of the requests that the model answered."""
        return [exchange.call for exchange in self.exchanges if exchange.call]


@contextmanager
def serving_in_thread(server: http.server.ThreadingHTTPServer) -> Iterator[None]:
    """Run a server in a thread for the duration of the block."""
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Forward the request."""
        self._forward(b"")

    def do_POST(self) -> None:
        """Forward the request with its body, and record it."""
        self._forward(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _forward(self, body: bytes) -> None:
        started, response, error = time.monotonic(), bytearray(), ""
        status: int | None = None
        target = self.server.target
        if body:
            self.server.begin()
        upstream = http.client.HTTPConnection(target.hostname or "", target.port, timeout=TIMEOUT)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        try:
            upstream.request(self.command, self.path, body or None, headers)
            reply = upstream.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in _HOP_HEADERS:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := reply.read1(65_536):
                response += data
                self.wfile.write(data)
                self.wfile.flush()
            status = reply.status
        except (OSError, http.client.HTTPException) as failure:
            error = repr(failure)
        finally:
            upstream.close()
            self.close_connection = True
        if body:
            self.server.end(
                Exchange(
                    path=self.path,
                    status=status,
                    seconds=round(time.monotonic() - started, 2),
                    request=body.decode("utf-8", "replace"),
                    response=response.decode("utf-8", "replace"),
                    call=call_of(bytes(response)),
                    error=error,
                )
            )

"""A proxy in front of the model server that passes everything on and counts."""

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

PATIENCE = 1800
"""Seconds to wait for the server."""
_OF_THE_LINK = ("host", "connection", "content-length", "accept-encoding", "transfer-encoding")
"""Headers that hold between two neighbours only, or that would make the reply unreadable."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request that had a body, and what came back."""

    path: str
    status: int | None
    """None when the server could not be reached, or one of the two sides broke off."""
    seconds: float
    request: str
    response: str
    call: Call | None
    error: str = ""


class Relay(http.server.ThreadingHTTPServer):
    """Listens on a free port of this machine. `target` is the server's address, with or without a path."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        self.target = urllib.parse.urlsplit(target)
        self.exchanges: list[Exchange] = []
        self._begun = 0
        self._counted = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Passing)
        self.url = f"http://127.0.0.1:{self.server_port}{self.target.path}"

    def begin(self) -> None:
        """A request with a body has come."""
        with self._counted:
            self._begun += 1

    def end(self, exchange: Exchange) -> None:
        """It was answered."""
        with self._counted:
            self.exchanges.append(exchange)
            self._counted.notify_all()

    def settle(self, within: float = 2.0) -> None:
        """Wait, at most so many seconds, until every request is counted."""
        with self._counted:
            self._counted.wait_for(lambda: len(self.exchanges) == self._begun, within)

    @property
    def calls(self) -> list[Call]:
        """Of the requests that the model answered."""
        return [exchange.call for exchange in self.exchanges if exchange.call]


@contextmanager
def running(server: http.server.ThreadingHTTPServer) -> Iterator[None]:
    """Let a server answer as long as the block lasts."""
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        """Pass it on."""
        self._pass_on(b"")

    def do_POST(self) -> None:
        """Pass it on with its body, and count."""
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _pass_on(self, body: bytes) -> None:
        began, got, error = time.monotonic(), bytearray(), ""
        status: int | None = None
        target = self.server.target
        if body:
            self.server.begin()
        up = http.client.HTTPConnection(target.hostname or "", target.port, timeout=PATIENCE)
        heads = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THE_LINK}
        try:
            up.request(self.command, self.path, body or None, heads)
            reply = up.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in _OF_THE_LINK:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := reply.read1(65_536):
                got += data
                self.wfile.write(data)
                self.wfile.flush()
            status = reply.status
        except (OSError, http.client.HTTPException) as fault:
            error = repr(fault)
        finally:
            up.close()
            self.close_connection = True
        if body:
            self.server.end(
                Exchange(
                    path=self.path,
                    status=status,
                    seconds=round(time.monotonic() - began, 2),
                    request=body.decode("utf-8", "replace"),
                    response=got.decode("utf-8", "replace"),
                    call=call_of(bytes(got)),
                    error=error,
                )
            )

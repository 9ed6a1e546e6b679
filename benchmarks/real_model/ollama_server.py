"""A server with Ollama's API in front of an OpenAI-compatible one."""

from __future__ import annotations

import http.client
import http.server
import json
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

from benchmarks.real_model.ollama_protocol import Body, Reply, ServedModel, chat_request, error_text, join_lines
from benchmarks.real_model.relay import TIMEOUT

VERSION = "0.12.10"
"""The version of Ollama whose API is implemented here."""


class OllamaServer(http.server.ThreadingHTTPServer):
    """Listens on a free loopback port. `target` is the other server's address, with /v1."""

    daemon_threads = True

    def __init__(self, target: str, model: str) -> None:
        self.target = urllib.parse.urlsplit(target)
        self.window: int | None = None
        """The context window last requested."""
        self.served_model = ServedModel(model, self.fetch("/props"), self.fetch(f"{self.target.path}/models"))
        super().__init__(("127.0.0.1", 0), _RequestHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def connection(self) -> http.client.HTTPConnection:
        """Open a connection to the other server."""
        return http.client.HTTPConnection(self.target.hostname or "", self.target.port, timeout=TIMEOUT)

    def fetch(self, path: str) -> Body:
        """GET a JSON object from the other server; {} if it does not have the path."""
        upstream = self.connection()
        try:
            upstream.request("GET", path)
            reply = upstream.getresponse()
            body = reply.read()
            found = json.loads(body) if reply.status == 200 else {}
        finally:
            upstream.close()
        return found if isinstance(found, dict) else {}


def read_chunks(reply: http.client.HTTPResponse) -> Iterator[Body]:
    """Yield the events of a streamed reply."""
    while line := reply.readline():
        text = line.decode("utf-8", "replace").strip().removeprefix("data:").strip()
        if text.startswith("{"):
            yield json.loads(text)


class _RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OllamaServer

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Describe the server."""
        server = self.server
        match self.path:
            case "/":
                self._send(200, b"Ollama is running", "text/plain")
            case "/api/version":
                self._answer({"version": VERSION})
            case "/api/tags":
                self._answer(server.served_model.tags())
            case "/api/ps":
                self._answer(server.served_model.loaded(server.window))
            case _:
                self._answer({"error": "404 page not found"}, 404)

    def do_POST(self) -> None:
        """Describe a model, or chat."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            self._answer({"error": "invalid JSON"}, 400)
            return
        model = str(body.get("model") or body.get("name") or "")
        if self.path not in ("/api/show", "/api/chat"):
            self._answer({"error": "404 page not found"}, 404)
        elif model.removesuffix(":latest") != self.server.served_model.name.removesuffix(":latest"):
            self._answer({"error": f"model '{model}' not found"}, 404)
        elif self.path == "/api/show":
            self._answer(self.server.served_model.show())
        else:
            self._chat(body)

    def _chat(self, body: Body) -> None:
        self.server.window = (body.get("options") or {}).get("num_ctx") or self.server.window
        started_at, upstream, has_started = time.monotonic_ns(), self.server.connection(), False
        try:
            path = f"{self.server.target.path}/chat/completions"
            data = json.dumps(chat_request(body)).encode()
            upstream.request("POST", path, data, {"Content-Type": "application/json"})
            reply = upstream.getresponse()
            if reply.status != 200:
                self._answer({"error": error_text(reply.read())}, reply.status)
                return
            lines = self._lines(reply, body["model"], started_at)
            if body.get("stream") is False:
                self._answer(join_lines(list(lines)))
                return
            has_started = True
            self._begin(200, "application/x-ndjson")
            for line in lines:
                self._send_line(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._fail(repr(error), has_started)
        finally:
            upstream.close()

    def _lines(self, reply: http.client.HTTPResponse, model: str, started_at: int) -> Iterator[Body]:
        """Yield the lines of a reply. Raises ValueError for an invalid reply and for an error in it."""
        reply_lines = Reply(model)
        for chunk in read_chunks(reply):
            if "error" in chunk:
                raise ValueError(error_text(json.dumps(chunk).encode()))
            yield from reply_lines.lines(chunk)
        yield from reply_lines.ending(time.monotonic_ns() - started_at)

    def _fail(self, error: str, has_started: bool) -> None:
        try:
            if has_started:
                self._send_line({"error": error})
            else:
                self._answer({"error": error}, 500)
        except OSError:
            pass  # the client has disconnected, which was the error

    # --- sending ------------------------------------------------------------------------

    def _answer(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), "application/json; charset=utf-8")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self._begin(status, kind)
        self.wfile.write(data)

    def _begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def _send_line(self, line: Body) -> None:
        self.wfile.write(json.dumps(line).encode() + b"\n")
        self.wfile.flush()

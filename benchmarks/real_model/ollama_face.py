"""A server that speaks Ollama's API and has the work done by an OpenAI-compatible one."""

from __future__ import annotations

import http.client
import http.server
import json
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

from benchmarks.real_model.ollama_words import Body, Reply, Served, chat_request, error_text, whole
from benchmarks.real_model.relay import PATIENCE

VERSION = "0.12.10"
"""What the server calls itself: the version whose API is spoken here."""


class OllamaFace(http.server.ThreadingHTTPServer):
    """Listens on a free port of this machine. `target` is the other server's address, with its /v1."""

    daemon_threads = True

    def __init__(self, target: str, model: str) -> None:
        self.target = urllib.parse.urlsplit(target)
        self.window: int | None = None
        """What was last asked for."""
        self.served = Served(model, self.fetch("/props"), self.fetch(f"{self.target.path}/models"))
        super().__init__(("127.0.0.1", 0), _Speaking)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def connection(self) -> http.client.HTTPConnection:
        """A new one to the other server."""
        return http.client.HTTPConnection(self.target.hostname or "", self.target.port, timeout=PATIENCE)

    def fetch(self, path: str) -> Body:
        """What the other server says there; empty when it has no such path."""
        up = self.connection()
        try:
            up.request("GET", path)
            reply = up.getresponse()
            body = reply.read()
            found = json.loads(body) if reply.status == 200 else {}
        finally:
            up.close()
        return found if isinstance(found, dict) else {}


def chunks(reply: http.client.HTTPResponse) -> Iterator[Body]:
    """The events of a streamed reply."""
    while line := reply.readline():
        text = line.decode("utf-8", "replace").strip().removeprefix("data:").strip()
        if text.startswith("{"):
            yield json.loads(text)


class _Speaking(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OllamaFace

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        """What the server has."""
        server = self.server
        match self.path:
            case "/":
                self._send(200, b"Ollama is running", "text/plain")
            case "/api/version":
                self._answer({"version": VERSION})
            case "/api/tags":
                self._answer(server.served.tags())
            case "/api/ps":
                self._answer(server.served.loaded(server.window))
            case _:
                self._answer({"error": "404 page not found"}, 404)

    def do_POST(self) -> None:
        """A question about a model, or a chat."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            self._answer({"error": "invalid JSON"}, 400)
            return
        model = str(body.get("model") or body.get("name") or "")
        if self.path not in ("/api/show", "/api/chat"):
            self._answer({"error": "404 page not found"}, 404)
        elif model.removesuffix(":latest") != self.server.served.name.removesuffix(":latest"):
            self._answer({"error": f"model '{model}' not found"}, 404)
        elif self.path == "/api/show":
            self._answer(self.server.served.show())
        else:
            self._chat(body)

    def _chat(self, body: Body) -> None:
        self.server.window = (body.get("options") or {}).get("num_ctx") or self.server.window
        began, up, started = time.monotonic_ns(), self.server.connection(), False
        try:
            path = f"{self.server.target.path}/chat/completions"
            sent = json.dumps(chat_request(body)).encode()
            up.request("POST", path, sent, {"Content-Type": "application/json"})
            reply = up.getresponse()
            if reply.status != 200:
                self._answer({"error": error_text(reply.read())}, reply.status)
                return
            lines = self._lines(reply, body["model"], began)
            if body.get("stream") is False:
                self._answer(whole(list(lines)))
                return
            started = True
            self._begin(200, "application/x-ndjson")
            for line in lines:
                self._put(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._break_off(repr(error), started)
        finally:
            up.close()

    def _lines(self, reply: http.client.HTTPResponse, model: str, began: int) -> Iterator[Body]:
        """Raises ValueError for what is no reply, and for an error in the middle of one."""
        made = Reply(model)
        for chunk in chunks(reply):
            if "error" in chunk:
                raise ValueError(error_text(json.dumps(chunk).encode()))
            yield from made.lines(chunk)
        yield from made.ending(time.monotonic_ns() - began)

    def _break_off(self, why: str, started: bool) -> None:
        try:
            if started:
                self._put({"error": why})
            else:
                self._answer({"error": why}, 500)
        except OSError:
            pass  # the client is gone, which was the error

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

    def _put(self, line: Body) -> None:
        self.wfile.write(json.dumps(line).encode() + b"\n")
        self.wfile.flush()

"""Stands in for llama.cpp in the process of the local engine: the same names, and a server that answers `pong`.

Instructions are in the environment: GGML_FAKE_HOLD names a file without which loading does not end, GGML_FAKE_REPLY one
without which a reply does not begin (one with the suffix .asked says that it was requested). GGML_FAKE_PROBLEM is an
error of loading.
"""

from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any


class CommonParams:
    """Takes any parameter."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(path="")
        self.api_keys: list[str] = []
        self.model_alias: set[str] = set()
        self.n_ctx = self.n_parallel = 0

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value


class Server:
    """Listens when it is made; fails for a file that is not GGUF."""

    def __init__(self, params: CommonParams) -> None:
        with open(params.model.path, "rb") as file:
            if file.read(4) != b"GGUF":
                print("0.00.010 E llama: invalid magic characters", flush=True)
                raise RuntimeError("Failed to init server, please check the input params.")
        if problem := os.environ.get("GGML_FAKE_PROBLEM"):
            raise RuntimeError(problem)
        _wait_for(os.environ.get("GGML_FAKE_HOLD"))
        self._server = _Http(params)
        self.listening_address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


def _wait_for(path: str | None) -> None:
    while path and not os.path.exists(path):
        time.sleep(0.01)


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, params: CommonParams) -> None:
        self.params = params
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        params = self.server.params
        meta = {"n_ctx": params.n_ctx // max(1, params.n_parallel)}
        self._send("application/json", json.dumps({"data": [{"id": min(params.model_alias), "meta": meta}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {self.server.params.api_keys[0]}":
            self.send_error(401)
            return
        if reply := os.environ.get("GGML_FAKE_REPLY"):
            open(f"{reply}.asked", "w").close()
            _wait_for(reply)
        text = "pong" if body["model"] in self.server.params.model_alias else f"no model {body['model']}"
        chunk = {"choices": [{"index": 0, "finish_reason": "stop", "delta": {"content": text}}]}
        self._send("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

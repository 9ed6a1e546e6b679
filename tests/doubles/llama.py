"""A llama.cpp server with scripted replies."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Chunk = dict[str, Any]

USAGE: Chunk = {
    "choices": [],
    "usage": {"prompt_tokens": 31, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 24}},
    "timings": {"cache_n": 24, "prompt_n": 7, "prompt_ms": 2.5, "predicted_n": 4, "predicted_ms": 10.0},
}


def stream_chunk(finish: str | None = None, **parts: Any) -> Chunk:
    """Return a chunk of a streamed reply."""
    return {"choices": [{"index": 0, "finish_reason": finish, "delta": parts}]}


class FakeLlama(ThreadingHTTPServer):
    """Sends `replies` (lists of chunks) in turn and repeats the last one; a string is sent as an error 400."""

    daemon_threads = True

    def __init__(self, *replies: list[Chunk] | str, template: str = "{% if tools %}") -> None:
        self.replies = list(replies)
        self.template = template
        self.bodies: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: FakeLlama

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        match self.path:
            case "/props":
                settings = {"n_ctx": 16_384}
                facts = {"default_generation_settings": settings, "model_ftype": "Q4_K - Medium"}
                self._send(200, json.dumps(facts | {"chat_template": self.server.template}))
            case "/v1/models":
                meta = {"n_ctx": 16_384, "n_ctx_train": 32_768, "n_params": 1_777_088_000, "size": 1_111_370_240}
                self._send(200, json.dumps({"data": [{"id": "qwen.gguf", "meta": meta}]}))
            case _:
                self._send(404, "{}")

    def do_POST(self) -> None:
        server = self.server
        server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        reply = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
        if isinstance(reply, str):
            self._send(400, json.dumps({"error": {"code": 400, "message": reply}}))
        else:
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in reply]
            self._send(200, "".join([*lines, "data: [DONE]\n\n"]))

    def _send(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())

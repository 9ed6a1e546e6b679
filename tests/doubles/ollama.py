"""An Ollama server with configurable window, token counts and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tui_agent.mock_server.http import Disconnected, HttpConnection, Request

Body = dict[str, Any]


def estimate_tokens(body: Body) -> int:
    """Estimate the tokens of a request as a quarter of its characters."""
    return len(json.dumps([body["messages"], body.get("tools") or []], ensure_ascii=False)) // 4


class FakeOllama:
    """`answer` gets the body of a chat request and gives a message, or (status, error) to refuse.

    `window` is the one in effect whatever is asked for, `trained` what /api/show says. `count` says how many tokens
    the prompt has; None leaves the count out. `says` gives more of the last line. `refuses` makes prompts over the window a 400, as O-7 has it.
    """

    def __init__(
        self,
        answer: Callable[[Body], Body],
        *,
        window: int | None = None,
        trained: int = 131_072,
        count: Callable[[Body], int | None] = estimate_tokens,
        says: Callable[[Body], Body] = lambda body: {},
        refuses: bool = False,
    ) -> None:
        self.answer = answer
        self.window = window
        self.trained = trained
        self.count = count
        self.says = says
        self.refuses = refuses
        self.bodies: list[Body] = []
        self.refused: list[Body] = []
        self._loaded: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> FakeOllama:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._converse(HttpConnection(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, connection: HttpConnection) -> None:
        try:
            while (request := await connection.request()) is not None:
                status, body = self._route(request)
                data = json.dumps(body).encode() + b"\n"
                headers = [("Content-Type", "application/x-ndjson"), ("Content-Length", str(len(data)))]
                await connection.start(status, headers)
                await connection.send(data)
                await connection.end()
                if not connection.is_reusable:
                    break
        except Disconnected:
            pass
        finally:
            await connection.aclose()

    def _route(self, request: Request) -> tuple[int, Body]:
        match request.path:
            case "/api/show":
                info = {"general.architecture": "fake", "fake.context_length": self.trained}
                return 200, {"model_info": info, "capabilities": ["completion", "tools"]}
            case "/api/tags":
                return 200, {"models": [{"name": "mock-model", "model": "mock-model"}]}
            case "/api/ps":
                held = [{"name": name, "model": name, "context_length": n} for name, n in self._loaded.items()]
                return 200, {"models": held}
            case "/api/chat":
                return self._chat(json.loads(request.body))
        return 404, {"error": "404 page not found"}

    def _chat(self, body: Body) -> tuple[int, Body]:
        window = self.window or body["options"]["num_ctx"]
        self._loaded[body["model"]] = window
        tokens = self.count(body)
        if self.refuses and estimate_tokens(body) > window:
            self.refused.append(body)
            said = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": estimate_tokens(body)}
            text = "request exceeds the available context size"
            return 400, {"error": said | {"message": text, "n_ctx": window}}
        self.bodies.append(body)
        message = {"role": "assistant", "content": ""} | self.answer(body)
        said = self.says(body)
        counts = {} if tokens is None else {"prompt_eval_count": tokens}
        return 200, {"model": body["model"], "message": message, "done": True, "done_reason": "stop"} | counts | said


def request_text(body: Body) -> str:
    """Return the text of all messages of a request."""
    return "\n".join(message["content"] for message in body["messages"])

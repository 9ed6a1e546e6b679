"""The mock model server: OpenAI's and Ollama's paths on one port, answering from scenarios (M4)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.mock_server import ollama_api, openai_api
from tui_agent.mock_server.answering import Refusal, plain, refuse, send_reply
from tui_agent.mock_server.exchanges import Exchange, RequestLog
from tui_agent.mock_server.faults import FaultPlan, Spoilt, parse_fault
from tui_agent.mock_server.http import Connection, Disconnected, Request
from tui_agent.mock_server.noise import Responder, Spoken
from tui_agent.mock_server.replies import Reply, ServedModel, prompt_tokens
from tui_agent.mock_server.strict import Api, strict_fault
from tui_agent.models.choosing import Choice, choose, from_wire
from tui_agent.models.scenarios import Misbehaviour, Scenarios, convert, load

DEFAULT_MODEL = ServedModel(name="mock-model")
WAIT = 20.0
"""Seconds that `wait_for_request` waits at most."""


class MockServer:
    """A model server on a port of its own: `async with MockServer(scenarios, strict=True) as server: server.url`.

    `scenarios` are a file's path, its content as a dict, or read already; none serves only the default response.
    A `Responder`, such as the `NoisyModel`, makes its replies itself.
    `faults` strike the first chat requests in order. `models` limits which names are served; by default any is.
    `token` demands that bearer token. `pace` is the time between fragments in seconds.
    `log` gets a JSON line for each request, first byte, end and disconnect. `keep` bounds how many requests are
    remembered; None remembers all.
    """

    def __init__(
        self,
        scenarios: Scenarios | dict[str, Any] | Path | Responder | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        strict: bool = False,
        faults: Iterable[Misbehaviour | str] = (),
        models: Iterable[ServedModel | str] | None = None,
        token: str | None = None,
        pace: float = 0.0,
        log: Path | None = None,
        keep: int | None = None,
    ) -> None:
        self._responder = scenarios if isinstance(scenarios, Responder) else None
        self.scenarios = scenarios.scenarios if isinstance(scenarios, Responder) else _scenarios(scenarios)
        self.strict = strict
        self.pace = pace
        self.exchanges: list[Exchange] = []
        """Every request, of any path."""
        self.requests: list[Exchange] = []
        """The chat requests."""
        self._models = [ServedModel(name=m) if isinstance(m, str) else m for m in models or ()]
        self._host, self._port = host, port
        self._token = token
        self._faults = FaultPlan(_misbehaviour(fault) for fault in faults)
        self._log_path = log
        self._keep = keep
        self._count = 0
        self._log = RequestLog(None)
        self._loaded: dict[str, int] = {}
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()

    # --- life ---

    async def __aenter__(self) -> MockServer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Listen. Raises OSError when the port is taken or the log can't be written."""
        self._log = RequestLog(self._log_path)
        self._server = await asyncio.start_server(self._connected, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # a connection that was just accepted gets to where it can be closed
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self._log.close()

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def misbehave(self, *faults: Misbehaviour | str) -> None:
        """Let the next chat requests meet these faults; one without `times` stays for good."""
        for fault in faults:
            self._faults.add(_misbehaviour(fault))

    async def wait_for_request(self, n: int = 1, timeout: float = WAIT) -> Exchange:
        """The n-th chat request (from 1), as soon as it has arrived. Raises TimeoutError."""

        async def arrived() -> Exchange:
            async with self._arrived:
                await self._arrived.wait_for(lambda: len(self.requests) >= n)
            return self.requests[n - 1]

        return await asyncio.wait_for(arrived(), timeout)

    # --- connections and requests ---

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._converse(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        try:
            while (request := await connection.request()) is not None:
                await self._serve(connection, request)
                if not connection.reusable:
                    break
        except Disconnected:
            pass
        finally:
            await connection.aclose()

    async def _serve(self, connection: Connection, request: Request) -> None:
        self._count += 1
        exchange = Exchange(self._count, request.method, request.path, request.headers)
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(request.body or b"{}")
            exchange.body = body if isinstance(body, dict) else {}
        self._remember(self.exchanges, exchange)
        self._log.write("request", exchange, method=request.method, path=request.path, body=exchange.body)

        def first_byte() -> None:
            if exchange.first_byte_at is None:
                exchange.first_byte_at = time.monotonic()
                exchange.answering.set()
                self._log.write("first_byte", exchange)

        connection.on_byte = first_byte
        connection.sent = 0
        try:
            await self._route(connection, request, exchange)
            exchange.outcome = "done"
        except Spoilt:
            exchange.outcome = "broken"
        except (Disconnected, asyncio.CancelledError):
            exchange.outcome = "disconnected"
            raise
        finally:
            exchange.ended_at = time.monotonic()
            exchange.sent = connection.sent
            event = "disconnect" if exchange.outcome == "disconnected" else "end"
            self._log.write(
                event,
                exchange,
                status=exchange.status,
                sent=exchange.sent,
                outcome=exchange.outcome,
                **({"noise": exchange.noise} if exchange.noise else {}),
            )
            exchange.finished.set()

    def _remember(self, past: list[Exchange], exchange: Exchange) -> None:
        past.append(exchange)
        if self._keep is not None:
            del past[: -self._keep]

    async def _route(self, connection: Connection, request: Request, exchange: Exchange) -> None:
        path = request.path.rstrip("/") or "/"
        api: Api = "ollama" if path == "/" or path.startswith("/api/") else "openai"
        if api == "openai" and path.startswith("/v1/"):
            path = path.removeprefix("/v1")
        try:
            self._authorise(request)
            if path in ("/chat/completions", "/api/chat"):
                _expect(request, "POST")
                await self._chat(connection, request, exchange, api)
                return
            answer = self._plain(request, path, exchange.body)
        except Refusal as refusal:
            await refuse(connection, exchange, refusal, api)
            return
        except (Disconnected, Spoilt):
            raise
        except Exception as defect:
            traceback.print_exc(file=sys.stderr)
            if exchange.status is not None:
                raise Spoilt from defect
            await refuse(connection, exchange, Refusal(500, f"defect of the mock server: {defect!r}"), api)
            return
        await plain(connection, exchange, answer)

    def _authorise(self, request: Request) -> None:
        if self._token is not None and request.headers.get("authorization") != f"Bearer {self._token}":
            raise Refusal(401, "Incorrect API key provided.")

    def _plain(self, request: Request, path: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """The answer of every path but chat."""
        served = self._models or [DEFAULT_MODEL]
        now = int(time.time())
        match path:
            case "/":
                return "Ollama is running"
            case "/api/version":
                return {"version": ollama_api.VERSION}
            case "/api/tags":
                return ollama_api.tags(served)
            case "/api/ps":
                return ollama_api.running(self._loaded, now)
            case "/api/show":
                _expect(request, "POST")
                return ollama_api.show(self._model(body.get("model") or body.get("name"), "ollama"))
            case "/models":
                return openai_api.models(served, now)
            case _ if path.startswith("/models/"):
                return openai_api.model(self._model(path.removeprefix("/models/"), "openai"), now)
            case _:
                raise Refusal(404, f"404 page not found: {request.method} {request.path}")

    def _model(self, name: object, api: Api) -> ServedModel:
        if not isinstance(name, str) or not name:
            if api == "openai" and not self._models:
                return DEFAULT_MODEL
            raise Refusal(
                400, "model is required" if api == "ollama" else "you must provide a model parameter"
            )
        for served in self._models:
            if served.name in (name, f"{name}:latest"):
                return served
        if self._models:
            known = "model '{}' not found" if api == "ollama" else "The model `{}` does not exist."
            raise Refusal(404, known.format(name))
        return ServedModel(name=name)

    # --- chat ---

    async def _chat(self, connection: Connection, request: Request, exchange: Exchange, api: Api) -> None:
        async with self._arrived:
            self._remember(self.requests, exchange)
            self._arrived.notify_all()
        payload = exchange.body
        _check_json(request.body)
        model = self._model(payload.get("model"), api)
        if api == "ollama":
            self._check_ollama(model, payload)
            options = payload.get("options")
            wanted = options.get("num_ctx") if isinstance(options, dict) else None
            window = wanted if isinstance(wanted, int) else ollama_api.DEFAULT_WINDOW
            self._loaded[model.name] = min(window, model.context_length)
            if not payload.get("messages") and not (self.strict and "messages" in payload):
                await plain(connection, exchange, ollama_api.loaded(model.name, int(time.time())))
                return
        if self.strict and (wrong := strict_fault(payload.get("messages"), api)) is not None:
            raise Refusal(400, wrong)
        spoken = self._speak(exchange, api)
        reply = _reply(exchange, model, spoken.choice)
        step = spoken.choice.step
        fault = spoken.fault or self._faults.take(spoken.choice.scenario, spoken.choice.index, step.fault)
        pace = self.pace if step.pace is None else step.pace
        await send_reply(connection, exchange, reply, api, fault=fault, pace=pace)

    def _check_ollama(self, model: ServedModel, payload: dict[str, Any]) -> None:
        if payload.get("tools") and "tools" not in model.capabilities:
            raise Refusal(400, f"registry.ollama.ai/library/{model.name} does not support tools")
        if payload.get("think") and "thinking" not in model.capabilities:
            raise Refusal(400, f'"{model.name}" does not support thinking')

    def _speak(self, exchange: Exchange, api: Api) -> Spoken:
        """What the model says, and what noise does to it."""
        if self._responder is None:
            spoken = Spoken(choice=choose(self.scenarios, from_wire(exchange.body)))
        else:
            spoken = self._responder.answer(exchange.body)
        exchange.scenario, exchange.step = spoken.choice.scenario, spoken.choice.index
        exchange.noise = spoken.family
        fault = spoken.fault
        if fault is not None and isinstance(fault.body, str) and fault.code is not None:
            wire = ollama_api if api == "ollama" else openai_api
            shaped = msgspec.structs.replace(fault, body=wire.error(fault.code, fault.body))
            return msgspec.structs.replace(spoken, fault=shaped)
        return spoken


def _reply(exchange: Exchange, model: ServedModel, choice: Choice) -> Reply:
    return Reply(
        id=f"mock-{exchange.number:05d}",
        created=int(time.time()),
        model=model.name,
        choice=choice,
        prompt_tokens=prompt_tokens(exchange.body, choice),
        payload=exchange.body,
    )


def _scenarios(given: Scenarios | dict[str, Any] | Path | None) -> Scenarios:
    if given is None:
        return Scenarios()
    if isinstance(given, Scenarios):
        return given
    return load(given) if isinstance(given, Path) else convert(given)


def _misbehaviour(fault: Misbehaviour | str) -> Misbehaviour:
    return parse_fault(fault) if isinstance(fault, str) else fault


def _expect(request: Request, method: str) -> None:
    if request.method != method:
        raise Refusal(405, f"405 method not allowed: {request.method} {request.path}")


def _check_json(body: bytes) -> None:
    try:
        readable = isinstance(json.loads(body), dict)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"invalid JSON in the request body: {error}") from None
    if not readable:
        raise Refusal(400, "the request body must be a JSON object")

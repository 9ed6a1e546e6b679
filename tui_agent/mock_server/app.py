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
from typing import IO, Any, Literal

import msgspec

from tui_agent.mock_server import faults, replies
from tui_agent.mock_server.faults import FaultInjector, FaultPlan, ReplyBroken, parse_fault, strict_fault
from tui_agent.mock_server.http import Disconnected, Headers, HttpConnection, Request
from tui_agent.mock_server.replies import OLLAMA, OPENAI, MockReply, Responder, ResponderReply, ServedModel, WireFormat
from tui_agent.models.scenario_matching import choose_reply, from_wire
from tui_agent.models.scenarios import Scenarios, SimulatedFault, convert_scenarios, load_scenarios

Outcome = Literal["", "done", "broken", "disconnected"]
_SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization", "x-api-key")


class RecordedExchange:
    """A request and its reply, updated while the reply is sent. Times are `time.monotonic()` seconds."""

    def __init__(self, number: int, method: str, path: str, headers: dict[str, str]) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.headers = {name: "…" if name in _SECRET_HEADERS else value for name, value in headers.items()}
        """Names in lower case, secrets masked."""
        self.body: dict[str, Any] = {}
        """The JSON body; {} if there is none or it is invalid."""
        self.scenario: str | None = None
        """Name of the scenario that answered; "" for the default response, None if none was used."""
        self.step: int | None = None
        self.fault: str | None = None
        """Kind of the fault assigned to this reply."""
        self.fired = False
        """Whether that fault had an effect."""
        self.noise = ""
        """Family of the noisy model's mistake in this reply; "" if it is correct."""
        self.status: int | None = None
        self.outcome: Outcome = ""
        """`done`: sent completely. `broken`: ended by a fault. `disconnected`: ended by the client."""
        self.first_byte_at: float | None = None
        self.sent = 0
        """Bytes of the body sent."""
        self.answering = asyncio.Event()
        """Set at the first byte of the reply."""
        self.finished = asyncio.Event()
        """Set when the reply has ended in any way."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of a chat request."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else []

    def __repr__(self) -> str:
        return f"<Exchange {self.number} {self.method} {self.path} {self.status} {self.outcome}>"


class RequestLog:
    """Writes the log file, one JSON object per line."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[str] | None = path.open("a", encoding="utf-8", buffering=1) if path else None

    def write(self, event: str, exchange: RecordedExchange, **fields: object) -> None:
        """Log an event."""
        if self._file is None:
            return
        line = {"t": time.monotonic(), "at": time.time(), "event": event, "id": exchange.number} | fields
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


RUNNER_DIED = "the model runner has unexpectedly stopped"


class MockRefusal(Exception):
    """Answer the request with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ReplySender:
    """Sends the reply to one request in the format of its API."""

    def __init__(self, connection: HttpConnection, exchange: RecordedExchange, wire: WireFormat) -> None:
        self._connection = connection
        self._exchange = exchange
        self._wire = wire

    async def error(self, refusal: MockRefusal) -> None:
        """Send an error status with the API's error object."""
        await self.object(self._wire.error(refusal.status, str(refusal)), refusal.status)

    async def object(self, value: dict[str, Any] | str, status: int = 200) -> None:
        """Send an object as JSON, or text."""
        if isinstance(value, str):
            content_type, data = "text/plain; charset=utf-8", value.encode()
        else:
            content_type, data = "application/json", replies.json_bytes(value)
        await self._respond(status, [("Content-Type", content_type)], data)

    async def _respond(self, status: int, headers: Headers, data: bytes) -> None:
        self._exchange.status = status
        await self._connection.start(status, [*headers, ("Content-Length", str(len(data)))])
        if self._exchange.method != "HEAD":
            await self._connection.send(data)
        await self._connection.end()

    async def model_reply(self, reply: MockReply, fault: SimulatedFault | None, pace: float) -> None:
        """Send the model's reply, streamed if requested. Raises MockRefusal, ReplyBroken, Disconnected."""
        exchange, wire = self._exchange, self._wire
        exchange.fault = fault.kind if fault else None
        if fault is not None and fault.kind == "truncate":
            reply, exchange.fired = replies.truncated(reply, fault.window)
            fault = None
        if reply.choice.step.delay:
            await self._connection.pause(reply.choice.step.delay)
        if fault is not None and (code := fault.code) is not None:
            exchange.fired = True
            await self._respond(code, *faults.status_reply(fault, code, wire.error(code, faults.status_message(code))))
            return
        is_streamed = bool(reply.payload.get("stream", wire.streams))
        has_started = is_streamed and bool(reply.content or reply.thinking)
        if not has_started and (call_error := wire.call_error(reply)) is not None:
            raise MockRefusal(500, call_error)
        error = wire.error_frame(_stream_error(fault, wire.error(500, RUNNER_DIED)))
        injector = FaultInjector(self._connection, fault, ping=wire.ping(reply.model), error=error)
        try:
            await injector.before_status()
            await (self._send_stream(reply, injector, pace) if is_streamed else self._send_object(reply, injector))
            await self._connection.end()
        finally:
            exchange.fired = exchange.fired or injector.fired

    async def _send_object(self, reply: MockReply, injector: FaultInjector) -> None:
        body = self._wire.body(reply)
        self._exchange.status = 200
        await self._connection.start(200, [("Content-Type", "application/json")])
        await injector.send(replies.json_bytes(body))

    async def _send_stream(self, reply: MockReply, injector: FaultInjector, pace: float) -> None:
        self._exchange.status = 200
        headers = [("Content-Type", self._wire.stream_type), ("Cache-Control", "no-cache")]
        await self._connection.start(200, headers)
        for frame in self._wire.frames(reply):
            if pace and frame.kind == "piece":
                await self._connection.pause(pace)
            await injector.send(frame.data, end=frame.kind == "end")


def _stream_error(fault: SimulatedFault | None, default: dict[str, Any]) -> dict[str, Any]:
    """The error object that an `error` fault inserts into a stream."""
    body = fault.body if fault is not None else None
    if isinstance(body, dict):
        return body
    if isinstance(body, str):
        inner = default["error"]
        return {"error": inner | {"message": body} if isinstance(inner, dict) else body}
    return default


DEFAULT_MODEL = ServedModel(name="mock-model")
WAIT_SECONDS = 20.0
"""Default time limit of `wait_for_request`."""


class MockServer:
    """A model server: `async with MockServer(scenarios, strict=True) as server: server.url`.

    `scenarios`: a path, the content as a dict, or loaded scenarios; None serves only the default response. A
    `Responder` computes the replies instead.
    `faults`: applied to the first chat requests in order. `models`: the served models; any name by default.
    `token`: the required bearer token. `pace`: seconds between fragments of a stream.
    `log`: file for JSON lines of requests, first bytes, ends and disconnects. `keep`: how many exchanges are
    retained; None for all.
    """

    def __init__(
        self,
        scenarios: Scenarios | dict[str, Any] | Path | Responder | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        strict: bool = False,
        faults: Iterable[SimulatedFault | str] = (),
        models: Iterable[ServedModel | str] | None = None,
        token: str | None = None,
        pace: float = 0.0,
        log: Path | None = None,
        keep: int | None = None,
    ) -> None:
        self._responder = scenarios if isinstance(scenarios, Responder) else None
        self.scenarios = scenarios.scenarios if isinstance(scenarios, Responder) else _to_scenarios(scenarios)
        self.strict = strict
        self.pace = pace
        self.exchanges: list[RecordedExchange] = []
        """Every request, of any path."""
        self.requests: list[RecordedExchange] = []
        """The chat requests."""
        self._models = [ServedModel(name=m) if isinstance(m, str) else m for m in models or ()]
        self._host, self._port = host, port
        self._token = token
        self._faults = FaultPlan(map(_to_fault, faults))
        self._log_path = log
        self._keep = keep
        self._exchange_count = 0
        self._log = RequestLog(None)
        self._loaded: dict[str, int] = {}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._chat_arrived = asyncio.Condition()

    # --- start and stop ---

    async def __aenter__(self) -> MockServer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Start listening. Raises OSError if the port is taken or the log can't be written."""
        self._log = RequestLog(self._log_path)
        self._server = await asyncio.start_server(self._on_connect, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # let a connection that was just accepted start its task
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
        self._log.close()

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def misbehave(self, *faults: SimulatedFault | str) -> None:
        """Apply these faults to the next chat requests; one without `times` stays in effect."""
        for fault in faults:
            self._faults.add(_to_fault(fault))

    async def wait_for_request(self, n: int = 1, timeout: float = WAIT_SECONDS) -> RecordedExchange:
        """Wait for the n-th chat request, counted from 1. Raises TimeoutError."""

        async def nth_request() -> RecordedExchange:
            async with self._chat_arrived:
                await self._chat_arrived.wait_for(lambda: len(self.requests) >= n)
            return self.requests[n - 1]

        return await asyncio.wait_for(nth_request(), timeout)

    # --- connections and requests ---

    def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve_connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = HttpConnection(reader, writer)
        try:
            while (request := await connection.request()) is not None:
                await self._serve_request(connection, request)
                if not connection.is_reusable:
                    break
        except Disconnected:
            pass
        finally:
            await connection.aclose()

    async def _serve_request(self, connection: HttpConnection, request: Request) -> None:
        self._exchange_count += 1
        exchange = RecordedExchange(self._exchange_count, request.method, request.path, request.headers)
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(request.body or b"{}")
            exchange.body = body if isinstance(body, dict) else {}
        self._record(self.exchanges, exchange)
        self._log.write("request", exchange, method=request.method, path=request.path, body=exchange.body)

        def on_write() -> None:
            if exchange.first_byte_at is None:
                exchange.first_byte_at = time.monotonic()
                exchange.answering.set()
                self._log.write("first_byte", exchange)

        connection.on_write = on_write
        connection.sent = 0
        try:
            await self._route(connection, request, exchange)
            exchange.outcome = "done"
        except ReplyBroken:
            exchange.outcome = "broken"
        except (Disconnected, asyncio.CancelledError):
            exchange.outcome = "disconnected"
            raise
        finally:
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

    def _record(self, exchanges: list[RecordedExchange], exchange: RecordedExchange) -> None:
        exchanges.append(exchange)
        if self._keep is not None:
            del exchanges[: -self._keep]

    async def _route(self, connection: HttpConnection, request: Request, exchange: RecordedExchange) -> None:
        path = request.path.rstrip("/") or "/"
        wire = OLLAMA if path == "/" or path.startswith("/api/") else OPENAI
        if wire is OPENAI and path.startswith("/v1/"):
            path = path.removeprefix("/v1")
        sender = ReplySender(connection, exchange, wire)
        try:
            self._check_token(request)
            if path in ("/chat/completions", "/api/chat"):
                _require_method(request, "POST")
                await self._chat(sender, request, exchange, wire)
                return
            response = self._metadata_response(request, path, exchange.body)
        except MockRefusal as refusal:
            await sender.error(refusal)
            return
        except (Disconnected, ReplyBroken):
            raise
        except Exception as defect:
            traceback.print_exc(file=sys.stderr)
            if exchange.status is not None:
                raise ReplyBroken from defect
            await sender.error(MockRefusal(500, f"defect of the mock server: {defect!r}"))
            return
        await sender.object(response)

    def _check_token(self, request: Request) -> None:
        if self._token is not None and request.headers.get("authorization") != f"Bearer {self._token}":
            raise MockRefusal(401, "Incorrect API key provided.")

    def _metadata_response(self, request: Request, path: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """The response of every path but chat."""
        served = self._models or [DEFAULT_MODEL]
        now = int(time.time())
        match path:
            case "/":
                return "Ollama is running"
            case "/api/version":
                return {"version": replies.VERSION}
            case "/api/tags":
                return replies.tags_response(served)
            case "/api/ps":
                return replies.loaded_response(self._loaded, now)
            case "/api/show":
                _require_method(request, "POST")
                return replies.show_response(self._find_model(body.get("model") or body.get("name"), OLLAMA))
            case "/models":
                return replies.models_response(served, now)
            case _ if path.startswith("/models/"):
                return replies.model_response(self._find_model(path.removeprefix("/models/"), OPENAI), now)
            case _:
                raise MockRefusal(404, f"404 page not found: {request.method} {request.path}")

    def _find_model(self, name: object, wire: WireFormat) -> ServedModel:
        if not isinstance(name, str) or not name:
            if wire is OPENAI and not self._models:
                return DEFAULT_MODEL
            raise MockRefusal(400, "model is required" if wire is OLLAMA else "you must provide a model parameter")
        for served in self._models:
            if served.name in (name, f"{name}:latest"):
                return served
        if self._models:
            raise MockRefusal(
                404, f"model '{name}' not found" if wire is OLLAMA else f"The model `{name}` does not exist."
            )
        return ServedModel(name=name)

    # --- chat ---

    async def _chat(self, sender: ReplySender, request: Request, exchange: RecordedExchange, wire: WireFormat) -> None:
        async with self._chat_arrived:
            self._record(self.requests, exchange)
            self._chat_arrived.notify_all()
        payload = exchange.body
        _check_json(request.body)
        model = self._find_model(payload.get("model"), wire)
        if wire is OLLAMA:
            self._check_ollama(model, payload)
            window = replies.requested_window(payload)
            window = replies.DEFAULT_WINDOW if window is None else window
            self._loaded[model.name] = min(window, model.context_length)
            if not payload.get("messages") and not (self.strict and "messages" in payload):
                await sender.object(replies.load_response(model.name, int(time.time())))
                return
        if self.strict and (error := strict_fault(payload.get("messages"), wire.name)) is not None:
            raise MockRefusal(400, error)
        response = self._respond(exchange, wire)
        choice, step = response.choice, response.choice.step
        reply = MockReply(
            id=f"mock-{exchange.number:05d}",
            created=int(time.time()),
            model=model.name,
            choice=choice,
            payload=payload,
            usage=replies.reply_usage(payload, choice),
        )
        fault = response.fault or self._faults.next_fault(choice)
        pace = self.pace if step.pace is None else step.pace
        await sender.model_reply(reply, fault, pace)

    def _check_ollama(self, model: ServedModel, payload: dict[str, Any]) -> None:
        if payload.get("tools") and "tools" not in model.capabilities:
            raise MockRefusal(400, f"registry.ollama.ai/library/{model.name} does not support tools")
        if payload.get("think") and "thinking" not in model.capabilities:
            raise MockRefusal(400, f'"{model.name}" does not support thinking')

    def _respond(self, exchange: RecordedExchange, wire: WireFormat) -> ResponderReply:
        """The reply of the scenarios or the responder."""
        if self._responder is None:
            response = ResponderReply(choice=choose_reply(self.scenarios, from_wire(exchange.body)))
        else:
            response = self._responder.answer(exchange.body)
        exchange.scenario, exchange.step = response.choice.scenario, response.choice.index
        exchange.noise = response.family
        fault = response.fault
        if fault is not None and isinstance(fault.body, str) and fault.code is not None:
            fault = msgspec.structs.replace(fault, body=wire.error(fault.code, fault.body))
            return msgspec.structs.replace(response, fault=fault)
        return response


def _to_scenarios(source: Scenarios | dict[str, Any] | Path | None) -> Scenarios:
    if source is None:
        return Scenarios()
    if isinstance(source, Scenarios):
        return source
    return load_scenarios(source) if isinstance(source, Path) else convert_scenarios(source)


def _to_fault(fault: SimulatedFault | str) -> SimulatedFault:
    return parse_fault(fault) if isinstance(fault, str) else fault


def _require_method(request: Request, method: str) -> None:
    if request.method != method:
        raise MockRefusal(405, f"405 method not allowed: {request.method} {request.path}")


def _check_json(body: bytes) -> None:
    try:
        is_object = isinstance(json.loads(body), dict)
    except (ValueError, RecursionError) as error:
        raise MockRefusal(400, f"invalid JSON in the request body: {error}") from None
    if not is_object:
        raise MockRefusal(400, "the request body must be a JSON object")

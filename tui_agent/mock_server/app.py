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
from tui_agent.mock_server.faults import FaultPlan, Spoiler, Spoilt, parse_fault, strict_fault
from tui_agent.mock_server.http import Disconnected, Headers, HttpConnection, Request
from tui_agent.mock_server.replies import OLLAMA, OPENAI, MockReply, Responder, ResponderReply, ServedModel, WireFormat
from tui_agent.models.scenario_matching import ScriptedReply, choose_reply, from_wire
from tui_agent.models.scenarios import Scenarios, SimulatedFault, convert_scenarios, load_scenarios

Outcome = Literal["", "done", "broken", "disconnected"]
_SECRETS = ("authorization", "cookie", "proxy-authorization", "x-api-key")


class RecordedExchange:
    """One request and its reply; filled in while the reply is sent. Times are `time.monotonic()` seconds."""

    def __init__(self, number: int, method: str, path: str, headers: dict[str, str]) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.headers = {name: "…" if name in _SECRETS else value for name, value in headers.items()}
        """Names in lower case, secrets masked."""
        self.body: dict[str, Any] = {}
        """The JSON body; {} when there was none or it could not be read."""
        self.scenario: str | None = None
        """Name of the scenario that answered; "" is the default response, None means that none was asked."""
        self.step: int | None = None
        self.fault: str | None = None
        """Kind of the fault that was chosen for this reply."""
        self.fired = False
        """Whether that fault really struck."""
        self.noise = ""
        """Family of the noisy model's fault in this reply; "" when the reply was as it should be."""
        self.status: int | None = None
        self.outcome: Outcome = ""
        """`done`: sent to its end. `broken`: a fault ended it. `disconnected`: the client hung up."""
        self.first_byte_at: float | None = None
        self.sent = 0
        """Bytes of the body."""
        self.answering = asyncio.Event()
        """Set at the reply's first byte."""
        self.finished = asyncio.Event()
        """Set when the reply has ended, however it did."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of a chat request."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else []

    def __repr__(self) -> str:
        return f"<Exchange {self.number} {self.method} {self.path} {self.status} {self.outcome}>"


class RequestLog:
    """Writes the log file; a JSON object a line, each flushed."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[str] | None = path.open("a", encoding="utf-8", buffering=1) if path else None

    def write(self, event: str, exchange: RecordedExchange, **more: object) -> None:
        """Note that `event` happened now."""
        if self._file is None:
            return
        line = {"t": time.monotonic(), "at": time.time(), "event": event, "id": exchange.number} | more
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


RUNNER_DIED = "the model runner has unexpectedly stopped"


class MockRefusal(Exception):
    """The request is answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ReplySender:
    """Sends the reply to one request, in the form of the API that was asked."""

    def __init__(self, connection: HttpConnection, exchange: RecordedExchange, wire: WireFormat) -> None:
        self._connection = connection
        self._exchange = exchange
        self._wire = wire

    async def error(self, refusal: MockRefusal) -> None:
        """Answer with the refusal's status, in the error shape of the API."""
        await self.object(self._wire.error(refusal.status, str(refusal)), refusal.status)

    async def object(self, value: dict[str, Any] | str, status: int = 200) -> None:
        """Answer with an object as JSON, or with text."""
        if isinstance(value, str):
            kind, data = "text/plain; charset=utf-8", value.encode()
        else:
            kind, data = "application/json", replies.encoded(value)
        await self._respond(status, [("Content-Type", kind)], data)

    async def _respond(self, status: int, headers: Headers, data: bytes) -> None:
        self._exchange.status = status
        await self._connection.start(status, [*headers, ("Content-Length", str(len(data)))])
        if self._exchange.method != "HEAD":
            await self._connection.send(data)
        await self._connection.end()

    async def model_reply(self, reply: MockReply, fault: SimulatedFault | None, pace: float) -> None:
        """Send what the model says, whole or streamed as the request asks. Raises MockRefusal, Spoilt, Disconnected."""
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
        streamed = bool(reply.payload.get("stream", wire.streams))
        shown_before = streamed and bool(reply.content or reply.thinking)
        if not shown_before and (unreadable := wire.unreadable(reply)) is not None:
            raise MockRefusal(500, unreadable)
        broken = wire.error_frame(_in_stream(fault, wire.error(500, RUNNER_DIED)))
        spoiler = Spoiler(self._connection, fault, ping=wire.ping(reply.model), error=broken)
        try:
            await spoiler.before()
            await (self._stream(reply, spoiler, pace) if streamed else self._whole(reply, spoiler))
            await self._connection.end()
        finally:
            exchange.fired = exchange.fired or spoiler.fired

    async def _whole(self, reply: MockReply, spoiler: Spoiler) -> None:
        body = self._wire.body(reply)
        self._exchange.status = 200
        await self._connection.start(200, [("Content-Type", "application/json")])
        await spoiler.send(replies.encoded(body))

    async def _stream(self, reply: MockReply, spoiler: Spoiler, pace: float) -> None:
        self._exchange.status = 200
        kind = ("Content-Type", self._wire.stream_type)
        await self._connection.start(200, [kind, ("Cache-Control", "no-cache")])
        for frame in self._wire.frames(reply):
            if pace and frame.kind == "piece":
                await self._connection.pause(pace)
            await spoiler.send(frame.data, end=frame.kind == "end")


def _in_stream(fault: SimulatedFault | None, shaped: dict[str, Any]) -> dict[str, Any]:
    """The error object that an `error` fault puts into a reply."""
    body = fault.body if fault is not None else None
    if isinstance(body, dict):
        return body
    if isinstance(body, str):
        inner = shaped["error"]
        return {"error": inner | {"message": body} if isinstance(inner, dict) else body}
    return shaped


DEFAULT_MODEL = ServedModel(name="mock-model")
WAIT = 20.0
"""Seconds that `wait_for_request` waits at most."""


class MockServer:
    """A model server on a port of its own: `async with MockServer(scenarios, strict=True) as server: server.url`.

    `scenarios` are a file's path, its content as a dict, or read already; none serves only the default response.
    A `Responder` computes its replies itself.
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
        faults: Iterable[SimulatedFault | str] = (),
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
        self.exchanges: list[RecordedExchange] = []
        """Every request, of any path."""
        self.requests: list[RecordedExchange] = []
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

    def misbehave(self, *faults: SimulatedFault | str) -> None:
        """Let the next chat requests meet these faults; one without `times` stays for good."""
        for fault in faults:
            self._faults.add(_misbehaviour(fault))

    async def wait_for_request(self, n: int = 1, timeout: float = WAIT) -> RecordedExchange:
        """The n-th chat request (from 1), as soon as it has arrived. Raises TimeoutError."""

        async def arrived() -> RecordedExchange:
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
        connection = HttpConnection(reader, writer)
        try:
            while (request := await connection.request()) is not None:
                await self._serve(connection, request)
                if not connection.reusable:
                    break
        except Disconnected:
            pass
        finally:
            await connection.aclose()

    async def _serve(self, connection: HttpConnection, request: Request) -> None:
        self._count += 1
        exchange = RecordedExchange(self._count, request.method, request.path, request.headers)
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

    def _remember(self, past: list[RecordedExchange], exchange: RecordedExchange) -> None:
        past.append(exchange)
        if self._keep is not None:
            del past[: -self._keep]

    async def _route(self, connection: HttpConnection, request: Request, exchange: RecordedExchange) -> None:
        path = request.path.rstrip("/") or "/"
        wire = OLLAMA if path == "/" or path.startswith("/api/") else OPENAI
        if wire is OPENAI and path.startswith("/v1/"):
            path = path.removeprefix("/v1")
        sender = ReplySender(connection, exchange, wire)
        try:
            self._authorise(request)
            if path in ("/chat/completions", "/api/chat"):
                _expect(request, "POST")
                await self._chat(sender, request, exchange, wire)
                return
            answer = self._plain(request, path, exchange.body)
        except MockRefusal as refusal:
            await sender.error(refusal)
            return
        except (Disconnected, Spoilt):
            raise
        except Exception as defect:
            traceback.print_exc(file=sys.stderr)
            if exchange.status is not None:
                raise Spoilt from defect
            await sender.error(MockRefusal(500, f"defect of the mock server: {defect!r}"))
            return
        await sender.object(answer)

    def _authorise(self, request: Request) -> None:
        if self._token is not None and request.headers.get("authorization") != f"Bearer {self._token}":
            raise MockRefusal(401, "Incorrect API key provided.")

    def _plain(self, request: Request, path: str, body: dict[str, Any]) -> dict[str, Any] | str:
        """The answer of every path but chat."""
        served = self._models or [DEFAULT_MODEL]
        now = int(time.time())
        match path:
            case "/":
                return "Ollama is running"
            case "/api/version":
                return {"version": replies.VERSION}
            case "/api/tags":
                return replies.tags(served)
            case "/api/ps":
                return replies.running(self._loaded, now)
            case "/api/show":
                _expect(request, "POST")
                return replies.show_response(self._model(body.get("model") or body.get("name"), OLLAMA))
            case "/models":
                return replies.models_response(served, now)
            case _ if path.startswith("/models/"):
                return replies.model_response(self._model(path.removeprefix("/models/"), OPENAI), now)
            case _:
                raise MockRefusal(404, f"404 page not found: {request.method} {request.path}")

    def _model(self, name: object, wire: WireFormat) -> ServedModel:
        if not isinstance(name, str) or not name:
            if wire is OPENAI and not self._models:
                return DEFAULT_MODEL
            raise MockRefusal(400, "model is required" if wire is OLLAMA else "you must provide a model parameter")
        for served in self._models:
            if served.name in (name, f"{name}:latest"):
                return served
        if self._models:
            known = "model '{}' not found" if wire is OLLAMA else "The model `{}` does not exist."
            raise MockRefusal(404, known.format(name))
        return ServedModel(name=name)

    # --- chat ---

    async def _chat(self, sender: ReplySender, request: Request, exchange: RecordedExchange, wire: WireFormat) -> None:
        async with self._arrived:
            self._remember(self.requests, exchange)
            self._arrived.notify_all()
        payload = exchange.body
        _check_json(request.body)
        model = self._model(payload.get("model"), wire)
        if wire is OLLAMA:
            self._check_ollama(model, payload)
            options = payload.get("options")
            wanted = options.get("num_ctx") if isinstance(options, dict) else None
            window = wanted if isinstance(wanted, int) else replies.DEFAULT_WINDOW
            self._loaded[model.name] = min(window, model.context_length)
            if not payload.get("messages") and not (self.strict and "messages" in payload):
                await sender.object(replies.load_response(model.name, int(time.time())))
                return
        if self.strict and (wrong := strict_fault(payload.get("messages"), wire.name)) is not None:
            raise MockRefusal(400, wrong)
        spoken = self._speak(exchange, wire)
        reply = _reply(exchange, model, spoken.choice)
        step = spoken.choice.step
        fault = spoken.fault or self._faults.take(spoken.choice.scenario, spoken.choice.index, step.fault)
        pace = self.pace if step.pace is None else step.pace
        await sender.model_reply(reply, fault, pace)

    def _check_ollama(self, model: ServedModel, payload: dict[str, Any]) -> None:
        if payload.get("tools") and "tools" not in model.capabilities:
            raise MockRefusal(400, f"registry.ollama.ai/library/{model.name} does not support tools")
        if payload.get("think") and "thinking" not in model.capabilities:
            raise MockRefusal(400, f'"{model.name}" does not support thinking')

    def _speak(self, exchange: RecordedExchange, wire: WireFormat) -> ResponderReply:
        """What the model says, and what noise does to it."""
        if self._responder is None:
            spoken = ResponderReply(choice=choose_reply(self.scenarios, from_wire(exchange.body)))
        else:
            spoken = self._responder.answer(exchange.body)
        exchange.scenario, exchange.step = spoken.choice.scenario, spoken.choice.index
        exchange.noise = spoken.family
        fault = spoken.fault
        if fault is not None and isinstance(fault.body, str) and fault.code is not None:
            shaped = msgspec.structs.replace(fault, body=wire.error(fault.code, fault.body))
            return msgspec.structs.replace(spoken, fault=shaped)
        return spoken


def _reply(exchange: RecordedExchange, model: ServedModel, choice: ScriptedReply) -> MockReply:
    return MockReply(
        id=f"mock-{exchange.number:05d}",
        created=int(time.time()),
        model=model.name,
        choice=choice,
        prompt_tokens=replies.prompt_tokens(exchange.body, choice),
        payload=exchange.body,
    )


def _scenarios(given: Scenarios | dict[str, Any] | Path | None) -> Scenarios:
    if given is None:
        return Scenarios()
    if isinstance(given, Scenarios):
        return given
    return load_scenarios(given) if isinstance(given, Path) else convert_scenarios(given)


def _misbehaviour(fault: SimulatedFault | str) -> SimulatedFault:
    return parse_fault(fault) if isinstance(fault, str) else fault


def _expect(request: Request, method: str) -> None:
    if request.method != method:
        raise MockRefusal(405, f"405 method not allowed: {request.method} {request.path}")


def _check_json(body: bytes) -> None:
    try:
        readable = isinstance(json.loads(body), dict)
    except (ValueError, RecursionError) as error:
        raise MockRefusal(400, f"invalid JSON in the request body: {error}") from None
    if not readable:
        raise MockRefusal(400, "the request body must be a JSON object")

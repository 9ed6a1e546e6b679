"""The web server of a page: connections, limits and timeouts, admission of browsers, static files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tui_agent.frontends.web.addresses import address_of
from tui_agent.frontends.web.guard import Guard, PageRefused, Tickets, cookie_name, refusal_response, refuse_other_users

MAX_CONNECTIONS = 32
"""A browser opens up to six; there are at most eight streams."""
HEAD_SECONDS = 5.0
"""Time limit for the head of a request."""
BODY_SECONDS = 10.0
"""Time limit for the body of a request."""
KEEP_ALIVE_SECONDS = 5
BURST = 48
"""Connections that are accepted at once."""
PER_SECOND = 200.0
"""Connections that are accepted in a second after a burst; the kernel keeps the others waiting, up to its backlog."""
PAUSE_SECONDS = 0.02
"""Pause once a burst is used up."""
RETRY_SECONDS = 1.0
"""Pause if the process has no descriptors left."""
SHUTDOWN_SECONDS = 2
HEAD_MAX = 32 << 10
"""Size limit of a request's head in bytes."""
LINK_SECONDS = 86_400.0
NEXT_LINK_SECONDS = 600.0
"""Validity of a link that the page itself shows, for another browser."""
MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
PUBLIC_FILES = ("door.html", "door.css", "door.js", "mark.svg")
"""Files that are served without the token."""

log = logging.getLogger(__name__)


class Acceptor:
    """Accepts connections of `listener` until `stop`: few at a time, so that a flood takes no descriptors and no time.

    The listener itself stays open.
    """

    def __init__(self, listener: socket.socket, create_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listener = listener
        self._create_protocol = create_protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._allowance = float(BURST)
        self._updated = self._loop.time()
        self._resume()

    def stop(self) -> None:
        """Accept nothing more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _wait(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        """Accept one connection; the loop calls again while there are more."""
        now = self._loop.time()
        self._allowance = min(float(BURST), self._allowance + (now - self._updated) * PER_SECOND)
        self._updated = now
        if self._allowance < 1.0:
            self._wait(PAUSE_SECONDS)
            return
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._wait(RETRY_SECONDS)
            return
        self._allowance -= 1.0
        connection.setblocking(False)
        task = asyncio.ensure_future(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._create_protocol, connection)
        except OSError:
            connection.close()


class PageConnection(H11Protocol):
    """A connection with a deadline for request heads; if there are too many, the one that has waited longest goes."""

    head_seconds = HEAD_SECONDS
    max_connections = MAX_CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it says there
        """Start the deadline; drop a connection if there are too many."""
        super().connection_made(transport)
        self._upgraded = False
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_since = self.loop.time()
        self._update_deadline()
        self._drop_surplus()

    def _drop_surplus(self) -> None:
        """Above the limit, drop the connection that has waited longest for a request, or else this one."""
        opened = [each for each in self.connections if not each.transport.is_closing()]
        if len(opened) > self.max_connections:
            waiting = [each for each in opened if isinstance(each, PageConnection) and each._awaits_head]
            oldest = min(waiting, key=lambda each: each._waits_since, default=self)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Process data; a complete head ends the deadline."""
        super().data_received(data)
        self._update_deadline()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """End the deadline; the websocket protocol takes over."""
        self._upgraded = True
        self._cancel_deadline()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """End the deadline; uvicorn limits idle connections."""
        self._waits_since = self.loop.time()
        super().on_response_complete()
        self._cancel_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadline."""
        self._cancel_deadline()
        super().connection_lost(exc)

    @property
    def _awaits_head(self) -> bool:
        return not self._upgraded and (self.cycle is None or self.cycle.response_complete)

    def _update_deadline(self) -> None:
        if not self._awaits_head:
            self._cancel_deadline()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.head_seconds, self._abort_late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _abort_late(self) -> None:
        if self._awaits_head:
            self.transport.abort()


class _ExceptionHandler(logging.Handler):
    """Copies only exceptions to our log: clients can provoke other messages, and those may contain cookies."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log an exception."""
        if record.exc_info:
            log.error("the page's server failed", exc_info=record.exc_info)


def _configure_uvicorn_logging() -> None:
    logger = logging.getLogger("uvicorn")
    logger.handlers = [_ExceptionHandler()]
    logger.propagate = False
    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.ERROR)


class _Server(uvicorn.Server):
    """A server that leaves signals to the program, and reports when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening. uvicorn itself would accept thousands of connections at once."""
        await super().startup([])
        self._acceptors = [Acceptor(listener, self._create_connection) for listener in sockets or ()]
        self.listening.set()

    def _create_connection(self) -> PageConnection:
        return PageConnection(self.config, self.server_state, self.lifespan.state)

    def stop_accepting(self) -> None:
        """Accept no more connections."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._acceptors = []

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and end the connections."""
        self.stop_accepting()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON body of a POST."""


class EnterBody(RequestBody, frozen=True):
    """A ticket to be exchanged for the token."""

    ticket: str


class EmptyBody(RequestBody, frozen=True):
    """`{}`."""


B = TypeVar("B", bound=RequestBody)


async def read_body(request: Request, kind: type[B]) -> B:
    """Parse the body of a request. Raises PageRefused."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.body()
    except TimeoutError as error:
        raise PageRefused(408, "the request is incomplete") from error
    except ClientDisconnect as error:
        raise PageRefused(400, "the request is incomplete") from error
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PageRefused(400, f"the request could not be parsed: {error}") from error


_IMPORT = re.compile(r'^import (\{.*\}) from "\./(\w+\.js)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+|\$))", re.MULTILINE)
_CSS_IMPORT = re.compile(r'^@import "(\w+\.css)";$', re.MULTILINE)


@cache
def static_files() -> dict[str, bytes]:
    """File name → content of everything that can be requested by name; main.js and styles.css with all they import."""
    folder = resources.files("tui_agent.frontends.web") / "static"
    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in MEDIA_TYPES}
    styles = _CSS_IMPORT.sub(lambda match: files[match[1]].decode(), files["styles.css"].decode())
    return {**files, "main.js": join_modules("main.js", files).encode(), "styles.css": styles.encode()}


def join_modules(main: str, files: Mapping[str, bytes]) -> str:
    """Return the script `main` with the modules that it imports, each in a function: a page loads one file faster.

    The modules use `import { … } from "./name.js";` on one line and export declarations only. Raises ValueError if
    modules import each other in a circle.
    """
    joined: dict[str, str] = {}

    def join(name: str, importing: tuple[str, ...]) -> None:
        if name in importing:
            raise ValueError(f"modules import each other: {', '.join(importing)}")
        text = files[name].decode()
        for _, imported in _IMPORT.findall(text):
            if imported not in joined:
                join(imported, (*importing, name))
        exported = ", ".join(_EXPORT.findall(text))
        body = _EXPORT.sub("", _IMPORT.sub(lambda match: f"const {match[1]} = {_variable(match[2])};", text))
        joined[name] = f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"

    join(main, ())
    return "".join(joined.values())


def _variable(module: str) -> str:
    return f"module_{module.removesuffix('.js')}"


class PageServer:
    """Serves a page at a loopback address behind the guard: `start`, `link()` for each browser, finally `stop`.

    It serves the entrance (`door.html`), the page, its static files, and the routes that a subclass adds. It runs in
    the event loop of the session or program that it shows, and does not close that.
    """

    page = "page.html"
    """File that an admitted browser gets for `/`."""
    page_headers: Mapping[str, str] = {}
    """Additional headers of the page."""
    websocket_max = 64 << 10
    """Size limit of a websocket message in bytes."""

    def __init__(self, listener: socket.socket, *routes: BaseRoute, files: Mapping[str, bytes] | None = None) -> None:
        """`listener` comes from `addresses.listen` and is closed by `stop`. `files` are served besides our own."""
        self._listener = listener
        self.address = address_of(listener)
        self.port: int = listener.getsockname()[1]
        self.tickets = Tickets()
        self.cookie = cookie_name(self.port)
        self._files = static_files() | dict(files or {})
        guarded = Guard(self._app(routes), port=self.port, tickets=self.tickets)
        self._server = _Server(_uvicorn_config(guarded, self.websocket_max))
        self._task: asyncio.Task[None] | None = None

    def _app(self, routes: Sequence[BaseRoute]) -> Starlette:
        common = [
            Route("/enter", self._enter, methods=["POST"]),
            Route("/link", self._create_link, methods=["POST"]),
            Route("/", self._front_page, methods=["GET"]),
            Route("/{name}", self._static_file, methods=["GET"]),
        ]
        handlers = {PageRefused: _handle_refusal, HTTPException: _handle_http_error}
        compress = Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)  # not of streams
        app = Starlette(routes=[*routes, *common], middleware=[compress], exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    async def start(self) -> None:
        """Start serving."""
        _configure_uvicorn_logging()
        self._task = asyncio.create_task(self._server.serve([self._listener]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait([listening, self._task], return_when="FIRST_COMPLETED")
        listening.cancel()

    async def stop(self) -> None:
        """Close port and connections; streams end at once."""
        if self._task is not None:
            self._server.should_exit = True
            (result,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("the page's server failed", exc_info=result)
        self._listener.close()

    def drop(self) -> None:
        """Close everything immediately, without waiting."""
        self._server.stop_accepting()
        for connection in tuple(self._server.server_state.connections):
            connection.transport.abort()
        self._listener.close()

    def link(self, seconds: float = LINK_SECONDS) -> str:
        """A URL that admits one browser once within `seconds`. Browsers don't send the part after the #."""
        return f"{self.address}/#{self.tickets.issue(seconds)}"

    async def _front_page(self, request: Request) -> Response:
        entered = request.scope["entered"]
        response = self._file_response(self.page if entered else "door.html")
        response.headers["x-tui-agent"] = "page" if entered else "door"
        if entered:
            response.headers.update(self.page_headers)
        return response

    async def _static_file(self, request: Request) -> Response:
        name = request.path_params["name"]
        is_visible = request.scope["entered"] or name in PUBLIC_FILES
        if name not in self._files or name.endswith(".html") or not is_visible:
            raise HTTPException(404)
        return self._file_response(name)

    def _file_response(self, name: str) -> Response:
        return Response(self._files[name], media_type=MEDIA_TYPES[name.rpartition(".")[2]])

    async def _enter(self, request: Request) -> Response:
        """Exchange a ticket for the token, in a cookie that scripts and other sites can't use."""
        body = await read_body(request, EnterBody)
        await refuse_other_users(request.scope)
        if not (request.scope["entered"] or self.tickets.redeem(body.ticket)):
            raise PageRefused(401, "this link was already used or has expired")
        path = self.tickets.path
        response = JSONResponse({"status": "ok", "path": path})
        response.set_cookie(self.cookie, self.tickets.token, httponly=True, samesite="strict", path=path)
        return response

    async def _create_link(self, request: Request) -> Response:
        await read_body(request, EmptyBody)
        return JSONResponse({"link": self.link(NEXT_LINK_SECONDS)})


async def _handle_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, PageRefused)
    return refusal_response(error)


async def _handle_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _uvicorn_config(app: Any, websocket_max: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=PageConnection,
        ws="auto",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=HEAD_MAX,
        ws_max_size=websocket_max,
        ws_max_queue=8,
    )

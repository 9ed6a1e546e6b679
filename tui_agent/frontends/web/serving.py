"""The server around a page: sockets, limits and times, how a browser comes in, and the files that it is given."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import h11
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tui_agent.frontends.web.addresses import address_of
from tui_agent.frontends.web.guard import Guard, PageRefused, Tickets, cookie_name, refusal_response, refuse_other_users

CONNECTIONS = 32
"""At once. A browser opens up to six; more than eight streams there are not."""
HEADERS = 5.0
"""Seconds in which the head of a request must have come."""
IDLE = 5
"""Seconds that a connection may wait for its next request."""
ENDING = 2
"""Seconds that what is being answered gets when the server stops."""
HEAD_MAX = 32 << 10
"""Bytes of a request's head."""
DAY = 86_400.0

log = logging.getLogger(__name__)


class PageConnection(H11Protocol):
    """One connection: there are few of them, and none may keep its head back."""

    headers_within = HEADERS
    at_most = CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it says there
        """Take it, or drop it when there are enough."""
        super().connection_made(transport)
        self._upgraded = False
        self._due: asyncio.TimerHandle | None = None
        if len(self.connections) > self.at_most:
            transport.abort()
        else:
            self._expect()

    def data_received(self, data: bytes) -> None:
        """More of it."""
        super().data_received(data)
        self._expect()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on another protocol minds the time."""
        self._upgraded = True
        self._forget()
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Idle from now on, which uvicorn bounds."""
        super().on_response_complete()
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._forget()
        super().connection_lost(exc)

    @property
    def _waits(self) -> bool:
        """Whether the head of a request is still to come."""
        return not self._upgraded and (self.cycle is None or self.cycle.response_complete)

    def _expect(self) -> None:
        if not self._waits:
            self._forget()
        elif self._due is None and not self.transport.is_closing():
            self._due = self.loop.call_later(self.headers_within, self._late)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _late(self) -> None:
        if self._waits:
            self.transport.abort()


class _Failures(logging.Handler):
    """Of what the server says only its failures are of use, in our own log: anybody can send it nonsense to complain
    of, and the finer it tells, the sooner a cookie is in what it says."""

    def emit(self, record: logging.LogRecord) -> None:
        """Hand it on."""
        if record.exc_info:
            log.error("the page's server failed", exc_info=record.exc_info)


def _quieten() -> None:
    told = logging.getLogger("uvicorn")
    told.handlers = [_Failures()]
    told.propagate = False
    for one in (told, logging.getLogger("uvicorn.error")):
        one.setLevel(logging.ERROR)


class _Server(uvicorn.Server):
    """Leaves signals to who started it, and tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.listens.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Catch none."""
        yield


READING = 10.0
"""Seconds in which the body of a request must have come."""
LINK = 600.0
"""Seconds that a link for another browser is good for."""

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
SHELL = ("door.html", "door.css", "door.js", "mark.svg")
"""What there is without the token."""


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JSON body of a POST."""


class EnterBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """A ticket, to be exchanged for the token."""

    ticket: str


class EmptyBody(RequestBody, frozen=True, forbid_unknown_fields=True):
    """`{}`."""


B = TypeVar("B", bound=RequestBody)


@cache
def static_files() -> dict[str, bytes]:
    """Everything that can be asked for by name; nothing else can, whatever a path looks like."""
    folder = resources.files("tui_agent.frontends.web") / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in KINDS}


class PageServer:
    """A page at a loopback address of ours, behind the guard: `start`, then `link()` for every browser, at the end
    `stop`. There are the door, the page behind it, its files, and the routes that a subclass adds.

    Runs in the event loop of what it shows, which is not closed by it.
    """

    page = "page.html"
    """The file that is shown to who was let in."""
    page_headers: Mapping[str, str] = {}
    """Headers of its own."""
    frame = 64 << 10
    """Bytes that a message of a socket may have."""

    def __init__(self, listener: socket.socket, *routes: BaseRoute, files: Mapping[str, bytes] | None = None) -> None:
        """`listener` is what `addresses.listen` gave; it is closed with the server. `files` are beside our own."""
        self._listener = listener
        self.address = address_of(listener)
        self.port: int = listener.getsockname()[1]
        self.tickets = Tickets()
        self.cookie = cookie_name(self.port)
        self._files = static_files() | dict(files or {})
        self._server = _Server(_configured(Guard(self._app(routes), port=self.port, tickets=self.tickets), self.frame))
        self._task: asyncio.Task[None] | None = None

    def _app(self, routes: Sequence[BaseRoute]) -> Starlette:
        own = [
            Route("/enter", self._enter, methods=["POST"]),
            Route("/link", self._link, methods=["POST"]),
            Route("/", self._front, methods=["GET"]),
            Route("/{name}", self._file, methods=["GET"]),
        ]
        handlers = {PageRefused: _refusal, HTTPException: _missing}
        app = Starlette(routes=[*routes, *own], exception_handlers=handlers)
        app.router.redirect_slashes = False
        return app

    async def start(self) -> None:
        """Answer browsers."""
        _quieten()
        self._task = asyncio.create_task(self._server.serve([self._listener]))
        listens = asyncio.create_task(self._server.listens.wait())
        await asyncio.wait([listens, self._task], return_when="FIRST_COMPLETED")
        listens.cancel()

    async def stop(self) -> None:
        """Let go of port and connections; streams end at once."""
        if self._task is not None:
            self._server.should_exit = True
            (result,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("the page's server failed", exc_info=result)
        self._listener.close()

    def drop(self) -> None:
        """Let go of everything at once, where there is no time for more."""
        for server in getattr(self._server, "servers", ()):
            server.close()
        for connection in tuple(self._server.server_state.connections):
            connection.transport.abort()
        self._listener.close()

    def link(self, seconds: float = DAY) -> str:
        """An address that lets one browser in, once, within that time. What is behind the # stays in the browser."""
        return f"{self.address}/#{self.tickets.issue(seconds)}"

    async def _front(self, request: Request) -> Response:
        entered = request.scope["entered"]
        response = self._served(self.page if entered else "door.html")
        response.headers["x-tui-agent"] = "page" if entered else "door"
        if entered:
            response.headers.update(self.page_headers)
        return response

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files or name.endswith(".html") or not (request.scope["entered"] or name in SHELL):
            raise HTTPException(404)
        return self._served(name)

    def _served(self, name: str) -> Response:
        return Response(self._files[name], media_type=KINDS[name.rpartition(".")[2]])

    async def _enter(self, request: Request) -> Response:
        """A ticket becomes the token. Browsers are told it in a cookie that no script and no other site can use."""
        wish = await read_body(request, EnterBody)
        await refuse_other_users(request.scope)
        if not (request.scope["entered"] or self.tickets.redeem(wish.ticket)):
            raise PageRefused(401, "this link was already used or has expired")
        path = self.tickets.path
        response = JSONResponse({"status": "ok", "path": path})
        response.set_cookie(self.cookie, self.tickets.token, httponly=True, samesite="strict", path=path)
        return response

    async def _link(self, request: Request) -> Response:
        await read_body(request, EmptyBody)
        return JSONResponse({"link": self.link(LINK)})


async def read_body(request: Request, kind: type[B]) -> B:
    """What the body of a request asks for. Raises PageRefused."""
    try:
        async with asyncio.timeout(READING):
            body = await request.body()
    except TimeoutError as error:
        raise PageRefused(408, "the request is incomplete") from error
    except ClientDisconnect as error:
        raise PageRefused(400, "the request is incomplete") from error
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PageRefused(400, f"the request could not be parsed: {error}") from error


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, PageRefused)
    return refusal_response(error)


async def _missing(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _configured(guarded: Any, frame: int) -> uvicorn.Config:
    return uvicorn.Config(
        guarded,
        http=PageConnection,
        ws="auto",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=ENDING,
        h11_max_incomplete_event_size=HEAD_MAX,
        ws_max_size=frame,
        ws_max_queue=8,
    )

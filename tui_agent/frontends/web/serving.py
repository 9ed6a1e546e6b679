"""The server around the page: sockets, limits and times, started and stopped with the session that it shows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tui_agent.frontends.web.addresses import address_of
from tui_agent.frontends.web.app import Page
from tui_agent.frontends.web.doing import Doing
from tui_agent.frontends.web.door import WebDoor
from tui_agent.frontends.web.feed import Feed
from tui_agent.frontends.web.guard import App, Guard, cookie_name
from tui_agent.frontends.web.tickets import Tickets

CONNECTIONS = 32
"""At once. A browser opens up to six; more than eight streams there are not."""
HEADERS = 5.0
"""Seconds in which the head of a request must have come (H08)."""
IDLE = 5
"""Seconds that a connection may wait for its next request."""
ENDING = 2
"""Seconds that what is being answered gets when the server stops."""
HEAD_MAX = 32 << 10
"""Bytes of a request's head."""
FRAME = 64 << 10
"""Bytes of a message of a socket, where the page says nothing else."""

DAY = 86_400.0

log = logging.getLogger(__name__)


class Connection(H11Protocol):
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
    of, and the finer it tells, the sooner a cookie is in what it says (FAULTS H13)."""

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


class Listening:
    """A page that is answered at an address of ours, behind the guard: `start` with its routes, at the end `stop`."""

    def __init__(self, listener: socket.socket) -> None:
        """`listener` is what `addresses.listen` gave; it is closed with the server."""
        self._listener = listener
        self.address = address_of(self._listener)
        self.port: int = self._listener.getsockname()[1]
        self.tickets = Tickets()
        self.cookie = cookie_name(self.port)
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, app: App, *, frame: int = FRAME) -> None:
        """Answer with `app`; `frame` is how many bytes a message of a socket may have."""
        _quieten()
        self._server = _Server(_configured(Guard(app, port=self.port, tickets=self.tickets), frame))
        self._task = asyncio.create_task(self._server.serve([self._listener]))
        listens = asyncio.create_task(self._server.listens.wait())
        await asyncio.wait([listens, self._task], return_when="FIRST_COMPLETED")
        listens.cancel()

    async def stop(self) -> None:
        """Let go of port and connections."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            (result,) = await asyncio.gather(self._task, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("the page's server failed", exc_info=result)
        self._listener.close()

    def drop(self) -> None:
        """Let go of everything at once, where there is no time for more."""
        if self._server is not None:
            for server in getattr(self._server, "servers", ()):
                server.close()
            for connection in tuple(self._server.server_state.connections):
                connection.transport.abort()
        self._listener.close()


class Serving:
    """A session's page while it is served: `start`, then `link()` for every browser, at the end `stop`.

    Runs in the event loop of the session; the session itself is not closed by it.
    """

    def __init__(self, door: WebDoor, listener: socket.socket) -> None:
        """`listener` is what `addresses.listen` gave; it is closed with the server."""
        self._listening = Listening(listener)
        self.address = self._listening.address
        self.port = self._listening.port
        self.tickets = self._listening.tickets
        self.feed = Feed(door)
        self._doing = Doing(door, self.feed)
        self._page = Page(
            self._doing, self.feed, self.tickets, address=self.address, cookie=self._listening.cookie
        )
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow the session and answer browsers."""
        self._following = asyncio.create_task(self.feed.run())
        await self._listening.start(self._page.app())

    def link(self, seconds: float = DAY) -> str:
        """An address that lets one browser in, once, within that time."""
        return self._page.link(seconds)

    async def ended(self) -> None:
        """Until the session is closed, by whomever."""
        if self._following is not None:
            await asyncio.wait([self._following])

    async def stop(self) -> None:
        """Let go of port and connections; streams end at once."""
        self.feed.end()
        await self._doing.close()
        if self._following is not None:
            self._following.cancel()
            (result,) = await asyncio.gather(self._following, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("the page could not follow the session", exc_info=result)
        await self._listening.stop()

    def drop(self) -> None:
        """Let go of everything at once, where there is no time for more."""
        self._listening.drop()


def _configured(guarded: Any, frame: int) -> uvicorn.Config:
    return uvicorn.Config(
        guarded,
        http=Connection,
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

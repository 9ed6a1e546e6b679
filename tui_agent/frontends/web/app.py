"""The routes of the page (X4): what is read, what is done, and the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from importlib import resources
from typing import TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tui_agent.frontends.web import peers
from tui_agent.frontends.web.doing import (
    Decide,
    Doing,
    Enter,
    Named,
    Nothing,
    Say,
    Settle,
    Shell,
    Switch,
    Wish,
    read,
)
from tui_agent.frontends.web.feed import Feed, Frame, Reader
from tui_agent.frontends.web.guard import Refused
from tui_agent.frontends.web.tickets import Tickets

STREAMS = 8
"""Event streams at once (R-40)."""
PING = 15
"""Seconds between signs of life on a silent stream."""
STUCK = 60.0
"""Seconds after which a browser that takes nothing is given up."""
READING = 10.0
"""Seconds in which the body of a request must have come."""
LINK = 600.0
"""Seconds that a link for another browser is good for."""

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
SHELL = ("door.html", "door.css", "door.js", "mark.svg")
"""What there is without the token."""

W = TypeVar("W", bound=Wish)


@cache
def files() -> dict[str, bytes]:
    """Everything that can be asked for by name; nothing else can, whatever a path looks like."""
    folder = resources.files("tui_agent.frontends.web") / "static"
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name.rpartition(".")[2] in KINDS}


class Page:
    """One session as routes. `address` is where it is served, `cookie` the name of the token's cookie."""

    def __init__(self, doing: Doing, feed: Feed, tickets: Tickets, *, address: str, cookie: str) -> None:
        self._doing = doing
        self._feed = feed
        self._tickets = tickets
        self._address = address
        self._cookie = cookie

    def link(self, seconds: float = LINK) -> str:
        """An address that lets one browser in, once. What is behind the # stays in the browser."""
        return f"{self._address}/#{self._tickets.issue(seconds)}"

    def app(self) -> Starlette:
        """The application, to be put behind the guard."""
        reading = [
            Route("/", self._front, methods=["GET"]),
            Route("/events", self._events, methods=["GET"]),
            Route("/{name}", self._file, methods=["GET"]),
        ]
        wishes: list[tuple[str, Callable[[Request], Awaitable[Response]]]] = [
            ("/enter", self._enter),
            ("/chat", self._chat),
            ("/clear", self._clear),
            ("/answer", self._answer),
            ("/interrupt", self._interrupt),
            ("/modes", self._modes),
            ("/plan", self._plan),
            ("/shell", self._shell),
            ("/reveal", self._reveal),
            ("/withdraw", self._withdraw),
            ("/link", self._link),
        ]
        routes = [*(Route(path, take, methods=["POST"]) for path, take in wishes), *reading]
        app = Starlette(routes=routes, exception_handlers={Refused: _refused, HTTPException: _missing})
        app.router.redirect_slashes = False
        return app

    # --- what is read ---

    async def _front(self, request: Request) -> Response:
        entered = request.scope["entered"]
        response = _served("page.html" if entered else "door.html")
        response.headers["x-tui-agent"] = "page" if entered else "door"
        return response

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in files() or name.endswith(".html") or not (request.scope["entered"] or name in SHELL):
            raise HTTPException(404)
        return _served(name)

    async def _events(self, request: Request) -> Response:
        after = request.headers.get("last-event-id", "") or request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 16):
            raise Refused(400, "Last-Event-ID is no number")
        return _streamed(self._reader(int(after)).frames())

    def _reader(self, after: int) -> Reader:
        if len(self._feed.readers) >= STREAMS:
            raise Refused(503, f"{STREAMS} pages are open already; close one")
        return self._feed.read(after)

    # --- what is done ---

    async def _enter(self, request: Request) -> Response:
        """A ticket becomes the token. Browsers are told it in a cookie that no script and no other site can use."""
        wish = await _wish(request, Enter)
        client, here = request.scope.get("client"), request.scope.get("server")
        if await asyncio.to_thread(peers.is_stranger, client, here):
            raise Refused(403, "this page belongs to another user of this machine")
        if not (request.scope["entered"] or self._tickets.redeem(wish.ticket)):
            raise Refused(401, "this link was used already, or is too old")
        response = JSONResponse({"status": "ok"})
        response.set_cookie(self._cookie, self._tickets.token, httponly=True, samesite="strict", path="/")
        return response

    async def _chat(self, request: Request) -> Response:
        """Say something. What comes of it is the answer, up to `done`; who wants JSON gets the message's id at once."""
        wish = await _wish(request, Say)
        if request.headers.get("accept", "").startswith("application/json"):
            return JSONResponse({"id": await _or_refused(self._doing.say(wish))}, 202)
        reader = self._reader(self._feed.last)
        message = await _or_refused(self._doing.say(wish))
        return _streamed(_until_done(reader.frames(), message))

    async def _clear(self, request: Request) -> Response:
        await _wish(request, Nothing)
        await _or_refused(self._doing.clear(), 409)
        return JSONResponse({"status": "ok"})

    async def _answer(self, request: Request) -> Response:
        taken = self._doing.decide(await _wish(request, Decide))
        return JSONResponse({"status": "ok" if taken else "settled"}, 200 if taken else 409)

    async def _interrupt(self, request: Request) -> Response:
        await _wish(request, Nothing)
        await self._doing.interrupt()
        return JSONResponse({"status": "ok"})

    async def _modes(self, request: Request) -> Response:
        await self._doing.switch(await _wish(request, Switch))
        return JSONResponse({"status": "ok"})

    async def _plan(self, request: Request) -> Response:
        taken = await self._doing.settle(await _wish(request, Settle))
        return JSONResponse({"status": "ok" if taken else "settled"}, 200 if taken else 409)

    async def _shell(self, request: Request) -> Response:
        wish = await _wish(request, Shell)
        try:
            self._doing.shell(wish)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return JSONResponse({"status": "ok"}, 202)

    async def _reveal(self, request: Request) -> Response:
        wish = await _wish(request, Named)
        try:
            return JSONResponse({"action": self._doing.reveal(wish)})
        except ValueError as error:
            raise Refused(409, str(error)) from error

    async def _withdraw(self, request: Request) -> Response:
        taken = self._doing.withdraw((await _wish(request, Named)).id)
        return JSONResponse({"status": "ok" if taken else "settled"}, 200 if taken else 409)

    async def _link(self, request: Request) -> Response:
        await _wish(request, Nothing)
        return JSONResponse({"link": self.link()})


def _served(name: str) -> Response:
    return Response(files()[name], media_type=KINDS[name.rpartition(".")[2]])


async def _wish(request: Request, kind: type[W]) -> W:
    try:
        async with asyncio.timeout(READING):
            body = await request.body()
    except TimeoutError as error:
        raise Refused(408, "the request did not come to its end") from error
    except ClientDisconnect as error:
        raise Refused(400, "the request did not come to its end") from error
    try:
        return read(body, kind)
    except ValueError as error:
        raise Refused(400, str(error)) from error


T = TypeVar("T")


async def _or_refused(job: Awaitable[T], status: int = 400) -> T:
    try:
        return await job
    except ValueError as error:
        raise Refused(status, str(error)) from error


def _streamed(frames: AsyncIterator[Frame]) -> Response:
    return EventSourceResponse(_told(frames), ping=PING, sep="\n", send_timeout=STUCK)


async def _told(frames: AsyncIterator[Frame]) -> AsyncIterator[ServerSentEvent]:
    async for frame in frames:
        id = None if frame.id is None else str(frame.id)
        yield ServerSentEvent(frame.data, event=frame.name, id=id, sep="\n")


async def _until_done(frames: AsyncIterator[Frame], message: str) -> AsyncIterator[Frame]:
    """Up to the end of the run that the message began or guided; a message that is taken back has no run."""
    said = f'"id":"{message}"'
    begun = False
    async for frame in frames:
        yield frame
        if frame.name == "user.said" and said in frame.data:
            begun = True
        elif frame.name == "message.withdrawn" and said in frame.data:
            yield Frame("done", "{}")
            return
        elif frame.name == "done" and begun:
            return


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse({"error": error.why}, error.status, {"connection": "close"})


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)

"""The routes of the page (X4): what is read, what is done, and the stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tui_agent.frontends.web.doing import (
    Decide,
    Doing,
    Named,
    Nothing,
    PartsTyped,
    PartText,
    PlanEdited,
    PlanText,
    Say,
    Seen,
    Settle,
    Shell,
    Switch,
)
from tui_agent.frontends.web.entering import LINK, Entrance, missing, refused, wished
from tui_agent.frontends.web.feed import Feed, Frame, Reader
from tui_agent.frontends.web.guard import Refused
from tui_agent.frontends.web.tickets import Tickets

STREAMS = 8
"""Event streams at once (R-40)."""
PING = 15
"""Seconds between signs of life on a silent stream."""
STUCK = 60.0
"""Seconds after which a browser that takes nothing is given up."""


class Page:
    """One session as routes. `address` is where it is served, `cookie` the name of the token's cookie."""

    def __init__(self, doing: Doing, feed: Feed, tickets: Tickets, *, address: str, cookie: str) -> None:
        self._doing = doing
        self._feed = feed
        self._entrance = Entrance(tickets, address=address, cookie=cookie, page="page.html")

    def link(self, seconds: float = LINK) -> str:
        """An address that lets one browser in, once. What is behind the # stays in the browser."""
        return self._entrance.link(seconds)

    def app(self) -> Starlette:
        """The application, to be put behind the guard."""
        events = Route("/events", self._events, methods=["GET"])
        wishes: list[tuple[str, Callable[[Request], Awaitable[Response]]]] = [
            ("/chat", self._chat),
            ("/clear", self._clear),
            ("/answer", self._answer),
            ("/interrupt", self._interrupt),
            ("/modes", self._modes),
            ("/plan", self._plan),
            ("/plan/proposal", self._proposal),
            ("/plan/text", self._plan_text),
            ("/plan/edit", self._edit_plan),
            ("/shell", self._shell),
            ("/reveal", self._reveal),
            ("/part/text", self._part_text),
            ("/part/typed", self._parts_typed),
            ("/withdraw", self._withdraw),
        ]
        routes = [*(Route(path, take, methods=["POST"]) for path, take in wishes), events]
        app = Starlette(
            routes=[*routes, *self._entrance.routes()],
            exception_handlers={Refused: refused, HTTPException: missing},
        )
        app.router.redirect_slashes = False
        return app

    # --- what is read ---

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

    async def _chat(self, request: Request) -> Response:
        """Say something. What comes of it is the answer, up to `done`; who wants JSON gets the message's id at once."""
        wish = await wished(request, Say)
        if request.headers.get("accept", "").startswith("application/json"):
            return JSONResponse({"id": await _or_refused(self._doing.say(wish))}, 202)
        reader = self._reader(self._feed.last)
        message = await _or_refused(self._doing.say(wish))
        return _streamed(_until_done(reader.frames(), message))

    async def _clear(self, request: Request) -> Response:
        await wished(request, Nothing)
        await _or_refused(self._doing.clear(), 409)
        return JSONResponse({"status": "ok"})

    async def _answer(self, request: Request) -> Response:
        wish = await wished(request, Decide)
        try:
            taken = self._doing.decide(wish)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return JSONResponse({"status": "ok" if taken else "settled"}, 200 if taken else 409)

    async def _interrupt(self, request: Request) -> Response:
        await wished(request, Nothing)
        await self._doing.interrupt()
        return JSONResponse({"status": "ok"})

    async def _modes(self, request: Request) -> Response:
        await self._doing.switch(await wished(request, Switch))
        return JSONResponse({"status": "ok"})

    async def _plan(self, request: Request) -> Response:
        taken = await self._doing.settle(await wished(request, Settle))
        return JSONResponse({"status": "ok" if taken else "settled"}, 200 if taken else 409)

    async def _proposal(self, request: Request) -> Response:
        return JSONResponse(await _or_refused(self._doing.proposed(await wished(request, Seen)), 409))

    async def _plan_text(self, request: Request) -> Response:
        wish = await wished(request, PlanText)
        try:
            return JSONResponse(self._doing.plan_text(wish))
        except ValueError as error:
            raise Refused(409, str(error)) from error

    async def _edit_plan(self, request: Request) -> Response:
        became = await _or_refused(self._doing.edit_plan(await wished(request, PlanEdited)))
        return JSONResponse({"status": became}, 409 if became == "settled" else 200)

    async def _shell(self, request: Request) -> Response:
        wish = await wished(request, Shell)
        try:
            self._doing.shell(wish)
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return JSONResponse({"status": "ok"}, 202)

    async def _reveal(self, request: Request) -> Response:
        wish = await wished(request, Named)
        try:
            return JSONResponse({"action": self._doing.reveal(wish)})
        except ValueError as error:
            raise Refused(409, str(error)) from error

    async def _part_text(self, request: Request) -> Response:
        wish = await wished(request, PartText)
        try:
            return JSONResponse({"text": self._doing.part_text(wish)})
        except ValueError as error:
            raise Refused(409, str(error)) from error

    async def _parts_typed(self, request: Request) -> Response:
        wish = await wished(request, PartsTyped)
        return JSONResponse({"diff": await _or_refused(self._doing.parts_typed(wish), 409)})

    async def _withdraw(self, request: Request) -> Response:
        taken = self._doing.withdraw((await wished(request, Named)).id)
        return JSONResponse({"status": "ok" if taken else "settled"}, 200 if taken else 409)


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

"""How a browser comes in, and what it is given by name: the same whatever the page shows (R-40)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tui_agent.frontends.web.doing import Enter, Nothing, Wish, read
from tui_agent.frontends.web.guard import Refused, keep_out_strangers
from tui_agent.frontends.web.tickets import Tickets

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


class Entrance:
    """The routes of the door, the page behind it, and its files.

    `address` is where it is served, `cookie` the name of the token's cookie, `page` the file that is shown to who was
    let in, with `headers` of its own; `more` are files beside our own.
    """

    def __init__(
        self,
        tickets: Tickets,
        *,
        address: str,
        cookie: str,
        page: str,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, bytes] | None = None,
    ) -> None:
        self._tickets = tickets
        self._address = address
        self._cookie = cookie
        self._page = page
        self._headers = dict(headers or {})
        self._files = files() | dict(more or {})

    def link(self, seconds: float = LINK) -> str:
        """An address that lets one browser in, once. What is behind the # stays in the browser."""
        return f"{self._address}/#{self._tickets.issue(seconds)}"

    def routes(self) -> list[Route]:
        """To be put behind the routes of the page: the last one takes any name."""
        return [
            Route("/enter", self._enter, methods=["POST"]),
            Route("/link", self._link, methods=["POST"]),
            Route("/", self._front, methods=["GET"]),
            Route("/{name}", self._file, methods=["GET"]),
        ]

    async def _front(self, request: Request) -> Response:
        entered = request.scope["entered"]
        response = self._served(self._page if entered else "door.html")
        response.headers["x-tui-agent"] = "page" if entered else "door"
        if entered:
            response.headers.update(self._headers)
        return response

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if (
            name not in self._files
            or name.endswith(".html")
            or not (request.scope["entered"] or name in SHELL)
        ):
            raise HTTPException(404)
        return self._served(name)

    def _served(self, name: str) -> Response:
        return Response(self._files[name], media_type=KINDS[name.rpartition(".")[2]])

    async def _enter(self, request: Request) -> Response:
        """A ticket becomes the token. Browsers are told it in a cookie that no script and no other site can use."""
        wish = await wished(request, Enter)
        await keep_out_strangers(request.scope)
        if not (request.scope["entered"] or self._tickets.redeem(wish.ticket)):
            raise Refused(401, "this link was used already, or is too old")
        path = self._tickets.path
        response = JSONResponse({"status": "ok", "path": path})
        response.set_cookie(self._cookie, self._tickets.token, httponly=True, samesite="strict", path=path)
        return response

    async def _link(self, request: Request) -> Response:
        await wished(request, Nothing)
        return JSONResponse({"link": self.link()})


async def wished(request: Request, kind: type[W]) -> W:
    """What the body of a request asks for. Raises Refused."""
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


async def refused(request: Request, error: Exception) -> Response:
    """The answer to what is refused."""
    assert isinstance(error, Refused)
    return JSONResponse({"error": error.why}, error.status, {"connection": "close"})


async def missing(request: Request, error: Exception) -> Response:
    """The answer to what is not there."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)

"""What stands before every route and socket: address, origin, token, form and size of a request (R-40, FAULTS H)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from tui_agent.frontends.web import peers
from tui_agent.frontends.web.addresses import is_ours, same_origin
from tui_agent.frontends.web.tickets import Tickets

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_MAX = 1 << 20
"""Bytes of a request's body."""
COOKIES_MAX = 16_384

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "object-src 'none'; worker-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
READING = ("GET", "HEAD")
OPEN = {"/": READING, "/enter": ("POST",), "/door.js": READING, "/door.css": READING, "/mark.svg": READING}
"""What is there before the token is: a page that holds nothing, and the exchange of a ticket for the token."""

INSIDE = re.compile(r"/in-[A-Za-z0-9_-]{16}(/.*)", re.DOTALL)
"""A path as `Tickets.path` begins it, of this run or of an earlier one. It lets nobody in: the cookie does."""


def cookie_name(port: int) -> str:
    """Cookies do not heed ports, so each port has a name of its own."""
    return f"tui_agent_{port}"


class Refused(Exception):
    """A request that is not let in, with its status and the reason, which is told."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Guard:
    """Lets in what comes from our own page in a browser that has the token, and nothing else.

    Everything is decided by the headers, before a byte of the body is read. `scope["entered"]` tells the app whether
    the token came along on the few routes that need none.
    """

    def __init__(self, app: App, *, port: int, tickets: Tickets) -> None:
        self._app = app
        self._port = port
        self._tickets = tickets
        self._cookie = cookie_name(port).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            _strip(scope)
            self._look_at(scope)
            if scope["entered"]:
                await keep_out_strangers(scope)
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, Measured(receive), _with_headers(send))

    def _look_at(self, scope: Scope) -> None:
        headers = Headers(scope["headers"])
        host = headers.only(b"host")
        if not host:
            raise Refused(400, "one Host header is needed")
        if not is_ours(host, self._port):
            raise Refused(403, "this is not the name of the page")
        origin = headers.only(b"origin")
        if origin is not None and not same_origin(origin, host):
            raise Refused(403, "another page may not ask this")
        if (headers.only(b"sec-fetch-site") or b"none") not in (b"same-origin", b"none"):
            raise Refused(403, "another page may not ask this")
        if scope["type"] == "websocket" and origin is None:
            raise Refused(403, "a socket is opened by the page itself")
        scope["entered"] = self._has_token(headers)
        free = scope["type"] == "http" and scope["method"] in OPEN.get(scope["path"], ())
        if not free and not scope["entered"]:
            raise Refused(401, "open the page with the link that tui-agent shows")
        if scope["type"] == "http" and scope["method"] not in READING:
            _look_at_body(headers)

    def _has_token(self, headers: Headers) -> bool:
        """Other programs of this machine may have set cookies too, also of our name: any that fits will do."""
        for value in headers.all(b"cookie"):
            for one in value[:COOKIES_MAX].split(b";"):
                name, _, given = one.strip().partition(b"=")
                if name == self._cookie and self._tickets.knows(given.decode("ascii", "replace")):
                    return True
        return False


def _strip(scope: Scope) -> None:
    if found := INSIDE.fullmatch(scope["path"]):
        scope["path"] = found[1]
        scope["raw_path"] = found[1].encode()


async def keep_out_strangers(scope: Scope) -> None:
    """A token or ticket is of no use to other users of this machine, however they came by it. Raises Refused."""
    if await asyncio.to_thread(peers.is_stranger, scope.get("client"), scope.get("server")):
        raise Refused(403, "this page belongs to another user of this machine")


class Headers:
    """A request's headers as they came: names in lower case, several of a name apart."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)

    def all(self, name: bytes) -> list[bytes]:
        """Every value of a name."""
        return [value for key, value in self._raw if key.lower() == name]

    def only(self, name: bytes) -> bytes | None:
        """The value of a name, None when there is none. Raises Refused when there are several."""
        found = self.all(name)
        if len(found) > 1:
            raise Refused(400, f"more than one {name.decode()} header")
        return found[0].strip() if found else None


def _look_at_body(headers: Headers) -> None:
    kind = (headers.only(b"content-type") or b"").lower().replace(b" ", b"")
    if kind not in (b"application/json", b"application/json;charset=utf-8"):
        raise Refused(415, "only application/json is read")
    length = headers.only(b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 12 or int(length) > BODY_MAX):
        raise Refused(413, f"a request may have {BODY_MAX:,} bytes")


class Measured:
    """Receives a body and stops when it becomes too long, whatever its headers said."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0

    async def __call__(self) -> Message:
        """The next message. Raises Refused."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > BODY_MAX:
            raise Refused(413, f"a request may have {BODY_MAX:,} bytes")
        return message


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in HEADERS if name not in known]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sending


async def refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """Answer with the reason, and close the connection: what is left of the body is not read."""
    body = json.dumps({"error": refused.why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *HEADERS,
    ]
    kind = "http"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        kind = "websocket.http"
    await send({"type": f"{kind}.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body, "more_body": False})

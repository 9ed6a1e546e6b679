"""What stands before every route and socket: address, origin, token, form and size of a request."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import os
import re
import secrets
import sys
import time
from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tui_agent.frontends.web.addresses import is_ours, same_origin

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


class PageRefused(Exception):
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

    def __init__(self, app: ASGIApp, *, port: int, tickets: Tickets) -> None:
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
            _strip_prefix(scope)
            self._check(scope)
            if scope["entered"]:
                await refuse_other_users(scope)
        except PageRefused as refused:
            await _refuse(scope, receive, send, refused)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, BoundedBody(receive), _with_headers(send))

    def _check(self, scope: Scope) -> None:
        host = _only(scope, b"host")
        if not host:
            raise PageRefused(400, "exactly one Host header is required")
        if not is_ours(host, self._port):
            raise PageRefused(403, "wrong host name for this page")
        origin = _only(scope, b"origin")
        if origin is not None and not same_origin(origin, host):
            raise PageRefused(403, "requests from other pages are refused")
        if (_only(scope, b"sec-fetch-site") or b"none") not in (b"same-origin", b"none"):
            raise PageRefused(403, "requests from other pages are refused")
        if scope["type"] == "websocket" and origin is None:
            raise PageRefused(403, "only the page itself may open a socket")
        scope["entered"] = self._has_token(scope)
        free = scope["type"] == "http" and scope["method"] in OPEN.get(scope["path"], ())
        if not free and not scope["entered"]:
            raise PageRefused(401, "open the page with the link that tui-agent shows")
        if scope["type"] == "http" and scope["method"] not in READING:
            _check_body(scope)

    def _has_token(self, scope: Scope) -> bool:
        """Other programs of this machine may have set cookies too, also of our name: any that fits will do."""
        for value in _all(scope, b"cookie"):
            for one in value[:COOKIES_MAX].split(b";"):
                name, _, given = one.strip().partition(b"=")
                if name == self._cookie and self._tickets.knows(given.decode("ascii", "replace")):
                    return True
        return False


def _strip_prefix(scope: Scope) -> None:
    if found := INSIDE.fullmatch(scope["path"]):
        scope["path"] = found[1]
        scope["raw_path"] = found[1].encode()


async def refuse_other_users(scope: Scope) -> None:
    """A token or ticket is of no use to other users of this machine, however they came by it. Raises PageRefused."""
    if await asyncio.to_thread(is_other_user, scope.get("client"), scope.get("server")):
        raise PageRefused(403, "this page belongs to another user of this machine")


def _all(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key.lower() == name]


def _only(scope: Scope, name: bytes) -> bytes | None:
    """The value of a header, None when there is none. Raises PageRefused when there are several."""
    found = _all(scope, name)
    if len(found) > 1:
        raise PageRefused(400, f"more than one {name.decode()} header")
    return found[0].strip() if found else None


def _check_body(scope: Scope) -> None:
    kind = (_only(scope, b"content-type") or b"").lower().replace(b" ", b"")
    if kind not in (b"application/json", b"application/json;charset=utf-8"):
        raise PageRefused(415, "only application/json is accepted")
    length = _only(scope, b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 12 or int(length) > BODY_MAX):
        raise PageRefused(413, f"the limit for a request is {BODY_MAX:,} bytes")


class BoundedBody:
    """Receives a body and stops when it becomes too long, whatever its headers said."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0

    async def __call__(self) -> Message:
        """The next message. Raises PageRefused."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > BODY_MAX:
            raise PageRefused(413, f"the limit for a request is {BODY_MAX:,} bytes")
        return message


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            known = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in HEADERS if name not in known]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sending


async def _refuse(scope: Scope, receive: Receive, send: Send, refused: PageRefused) -> None:
    """Answer with the reason, and close the connection: what is left of the body is not read."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await refusal_response(refused)(scope, receive, _with_headers(send))


def refusal_response(refused: PageRefused) -> JSONResponse:
    """The answer to what is refused."""
    return JSONResponse({"error": refused.why}, refused.status, {"connection": "close"})


BITS = 256
TICKETS = 16
"""Links that can be open at once; the oldest one goes."""


class Tickets:
    """The token is made anew for each run, and is only ever told in a cookie. A link holds a ticket instead, which
    is worth nothing once it was used: history, a screenshot or a list of processes give nobody anything."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self.token = secrets.token_urlsafe(BITS // 8)
        """What a browser that was let in sends with every request."""
        self.path = f"/in-{secrets.token_urlsafe(12)}/"
        """Where the page is for who was let in. Browsers tell the token there only: a cookie of the bare address would
        also go to every other program of this machine that has a page on a port of its own."""
        self._open: dict[str, float] = {}
        self._now = now

    def knows(self, token: str) -> bool:
        """Whether this is the token; takes as long whatever it is."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    def issue(self, seconds: float = 86_400.0) -> str:
        """A new ticket, good for one use within `seconds`."""
        while len(self._open) >= TICKETS:
            del self._open[next(iter(self._open))]
        ticket = secrets.token_urlsafe(BITS // 8)
        self._open[ticket] = self._now() + seconds
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Use a ticket up; False when it is unknown, used or too old."""
        given = ticket.encode("utf-8", "replace")
        found = ""
        for one in self._open:
            if hmac.compare_digest(one.encode(), given):
                found = one
        return bool(found) and self._open.pop(found) >= self._now()


Address = tuple[str, int]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def owner(peer: Address, here: Address) -> int | None:
    """The user id that the socket at `peer`, connected to us at `here`, belongs to; None where that can't be told."""
    wanted = (_hexadecimal(peer), _hexadecimal(here))
    for table in _TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 7 and (fields[1], fields[2]) == wanted and fields[7].isdigit():
                    return int(fields[7])
    return None


def is_other_user(peer: Address | None, here: Address | None) -> bool:
    """Whether another user of this machine is known to be at the other end."""
    if peer is None or here is None:
        return False
    found = owner(peer, here)
    return found not in (None, 0, os.geteuid())


def _hexadecimal(address: Address) -> str:
    """As the kernel writes it: words of four bytes in the machine's order."""
    packed = ipaddress.ip_address(address[0]).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{address[1]:04X}"

"""Access control in front of every route and socket: host, origin, token, content type and size of a request."""

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

from tui_agent.frontends.web.addresses import is_own_host, is_same_origin

BODY_MAX = 1 << 20
"""Size limit of a request body in bytes."""
COOKIES_MAX = 16_384
"""Bytes of a Cookie header that are read."""
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
READ_METHODS = ("GET", "HEAD")
PUBLIC_ROUTES = {
    "/": READ_METHODS,
    "/enter": ("POST",),
    "/door.js": READ_METHODS,
    "/door.css": READ_METHODS,
    "/mark.svg": READ_METHODS,
}
"""Path → methods allowed without the token: a page without content, and the exchange of a ticket for the token."""
_PREFIXED_PATH = re.compile(r"/in-[A-Za-z0-9_-]{16}(/.*)", re.DOTALL)
"""A path that starts like `Tickets.path`, of this run or an earlier one. It grants nothing: the cookie does."""


def cookie_name(port: int) -> str:
    """The name of the token's cookie; cookies are shared by all ports of a host."""
    return f"tui_agent_{port}"


class PageRefused(Exception):
    """A refused request, with the status and the reason sent to the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Guard:
    """ASGI middleware that admits only requests of our own page from a browser that has the token.

    It decides from the headers alone, before the body is read. `scope["entered"]` tells the app whether the
    request had the token.
    """

    def __init__(self, app: ASGIApp, *, port: int, tickets: Tickets) -> None:
        self._app = app
        self._port = port
        self._tickets = tickets
        self._cookie = cookie_name(port).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection as an ASGI application."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if match := _PREFIXED_PATH.fullmatch(scope["path"]):
            scope["path"] = match[1]
            scope["raw_path"] = match[1].encode()
        try:
            self._check(scope)
            if scope["entered"]:
                await refuse_other_users(scope)
        except PageRefused as refusal:
            await _refuse(scope, receive, send, refusal)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, _limit_body(receive), _add_headers(send))

    def _check(self, scope: Scope) -> None:
        """Raise PageRefused unless the request is admitted; set `scope["entered"]`."""
        host = _single_header(scope, b"host")
        if not host:
            raise PageRefused(400, "exactly one Host header is required")
        if not is_own_host(host, self._port):
            raise PageRefused(403, "wrong host name for this page")
        origin = _single_header(scope, b"origin")
        site = _single_header(scope, b"sec-fetch-site") or b"none"
        if (origin is not None and not is_same_origin(origin, host)) or site not in (b"same-origin", b"none"):
            raise PageRefused(403, "requests from other pages are refused")
        is_socket = scope["type"] == "websocket"
        if is_socket and origin is None:
            raise PageRefused(403, "only the page itself may open a socket")
        scope["entered"] = self._has_token(scope)
        is_public = not is_socket and scope["method"] in PUBLIC_ROUTES.get(scope["path"], ())
        if not is_public and not scope["entered"]:
            raise PageRefused(401, "open the page with the link that tui-agent shows")
        if not is_socket and scope["method"] not in READ_METHODS:
            _check_body_headers(scope)

    def _has_token(self, scope: Scope) -> bool:
        """Whether any cookie of our name is the token; other programs on this host may have set some, too."""
        for header in _header_values(scope, b"cookie"):
            for cookie in header[:COOKIES_MAX].split(b";"):
                name, _, value = cookie.strip().partition(b"=")
                if name == self._cookie and self._tickets.is_token(value.decode("ascii", "replace")):
                    return True
        return False


async def refuse_other_users(scope: Scope) -> None:
    """Raise PageRefused if the client belongs to another user of this machine, whatever token or ticket it has."""
    if await asyncio.to_thread(is_other_user, scope.get("client"), scope.get("server")):
        raise PageRefused(403, "this page belongs to another user of this machine")


def _header_values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key.lower() == name]


def _single_header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a header, or None. Raises PageRefused if it is repeated."""
    values = _header_values(scope, name)
    if len(values) > 1:
        raise PageRefused(400, f"more than one {name.decode()} header")
    return values[0].strip() if values else None


def _check_body_headers(scope: Scope) -> None:
    content_type = (_single_header(scope, b"content-type") or b"").lower().replace(b" ", b"")
    if content_type not in (b"application/json", b"application/json;charset=utf-8"):
        raise PageRefused(415, "only application/json is accepted")
    length = _single_header(scope, b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 12 or int(length) > BODY_MAX):
        raise _too_large()


def _too_large() -> PageRefused:
    return PageRefused(413, f"the limit for a request is {BODY_MAX:,} bytes")


def _limit_body(receive: Receive) -> Receive:
    """Receive a body, and raise PageRefused when it exceeds the limit, whatever its headers say."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_MAX:
            raise _too_large()
        return message

    return limited


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"].endswith("http.response.start"):
            present = {name.lower() for name, _ in message.get("headers", ())}
            added = [(name, value) for name, value in HEADERS if name not in present]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return send_with_headers


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: PageRefused) -> None:
    """Answer with the reason and close the connection without reading the body."""
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await refusal_response(refusal)(scope, receive, _add_headers(send))


def refusal_response(refusal: PageRefused) -> JSONResponse:
    """The response to a refused request."""
    return JSONResponse({"error": refusal.reason}, refusal.status, {"connection": "close"})


# --- token and tickets ----------------------------------------------------------------------

TOKEN_BYTES = 32
MAX_TICKETS = 16
"""Unused links; the oldest is dropped."""


class Tickets:
    """The token of this run, and the tickets that are exchanged for it.

    The token is only ever sent in a cookie. A link contains a ticket, which is worthless once used, so that history,
    screenshots and process lists reveal nothing.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        """The secret that an admitted browser sends with every request."""
        self.path = f"/in-{secrets.token_urlsafe(12)}/"
        """The cookie's path, where the page is for admitted browsers. A cookie for `/` would also be sent to every
        other server on this host."""
        self._expiry: dict[str, float] = {}
        self._now = now

    def is_token(self, value: str) -> bool:
        """Compare `value` with the token in constant time."""
        return hmac.compare_digest(value.encode("utf-8", "replace"), self.token.encode())

    def issue(self, seconds: float = 86_400.0) -> str:
        """Return a new ticket, valid for one use within `seconds`."""
        while len(self._expiry) >= MAX_TICKETS:
            del self._expiry[next(iter(self._expiry))]
        ticket = secrets.token_urlsafe(TOKEN_BYTES)
        self._expiry[ticket] = self._now() + seconds
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Use up a ticket; return False if it is unknown, used or expired."""
        given = ticket.encode("utf-8", "replace")
        match = next((known for known in self._expiry if hmac.compare_digest(known.encode(), given)), None)
        return match is not None and self._expiry.pop(match) >= self._now()


# --- other users ----------------------------------------------------------------------------

Address = tuple[str, int]
_CONNECTION_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def is_other_user(peer: Address | None, local: Address | None) -> bool:
    """Whether the client at `peer`, connected to us at `local`, is known to belong to another user."""
    if peer is None or local is None:
        return False
    return socket_owner(peer, local) not in (None, 0, os.geteuid())


def socket_owner(peer: Address, local: Address) -> int | None:
    """The user id that owns the client's socket; None if unknown."""
    addresses = [_kernel_format(peer), _kernel_format(local)]
    for table in _CONNECTION_TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1:3] == addresses and len(fields) > 7 and fields[7].isdigit():
                    return int(fields[7])
    return None


def _kernel_format(address: Address) -> str:
    """The address as in /proc/net/tcp: four-byte words in the machine's byte order."""
    packed = ipaddress.ip_address(address[0]).packed
    words = [packed[start : start + 4] for start in range(0, len(packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{address[1]:04X}"

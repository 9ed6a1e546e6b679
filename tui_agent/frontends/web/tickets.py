"""Who may come in: tickets that stand in a link and let one browser in once, and the token that it then has (R-40)."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

BITS = 256
TICKETS = 16
"""Links that can be open at once; the oldest one goes."""


class Tickets:
    """The token is made anew for each run, and is only ever told in a cookie. A link holds a ticket instead, which
    is worth nothing once it was used: history, a screenshot or a list of processes give nobody anything."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._token = secrets.token_urlsafe(BITS // 8)
        self.path = f"/in-{secrets.token_urlsafe(12)}/"
        """Where the page is for who was let in. Browsers tell the token there only: a cookie of the bare address would
        also go to every other program of this machine that has a page on a port of its own."""
        self._open: dict[str, float] = {}
        self._now = now

    @property
    def token(self) -> str:
        """What a browser that was let in sends with every request."""
        return self._token

    def knows(self, token: str) -> bool:
        """Whether this is the token; takes as long whatever it is."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())

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

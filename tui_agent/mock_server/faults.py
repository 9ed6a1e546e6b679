"""Misbehaviour of the mock server: read from the command line, applied to a reply while it is sent (M4)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from tui_agent.mock_server.http import Connection
from tui_agent.models.scenarios import Misbehaviour

DRIP_SECONDS = 0.05
JUNK = b"\x00\xff\xfe}{]garbage[{\xc3\x28\n"
"""Neither UTF-8 nor JSON nor an event."""
HTML = (
    "<html>\n<head><title>502 Bad Gateway</title></head>\n"
    "<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body>\n</html>\n"
)
_MESSAGES = {
    429: "Rate limit reached, please try again later.",
    500: "Internal server error.",
    503: "Server busy, please try again. Maximum pending requests exceeded.",
}


class FaultSyntaxError(ValueError):
    """A `--fault` that can't be understood; the message says why."""


def parse_fault(spec: str) -> Misbehaviour:
    """Read `KIND[:field=value,…]`, such as `drop:after=200,times=1`. Raises FaultSyntaxError."""
    kind, _, rest = spec.partition(":")
    fields: dict[str, Any] = {"kind": kind}
    for pair in filter(None, rest.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise FaultSyntaxError(f"`{spec}`: `{pair}` is not of the form field=value")
        fields[name] = value
    try:
        return msgspec.convert(fields, Misbehaviour, strict=False)
    except msgspec.ValidationError as error:
        raise FaultSyntaxError(f"`{spec}`: {error}") from None


class FaultPlan:
    """Which request meets which fault: the server's own come first, in order, then those of the scenarios."""

    def __init__(self, faults: Iterable[Misbehaviour] = ()) -> None:
        self._queue: list[tuple[Misbehaviour, int | None]] = []
        self._met: dict[tuple[str, int], int] = {}
        for fault in faults:
            self.add(fault)

    def add(self, fault: Misbehaviour) -> None:
        """Append a fault for the next `times` requests that no earlier one takes."""
        self._queue.append((fault, fault.times))

    def take(self, scenario: str, index: int, own: Misbehaviour | None) -> Misbehaviour | None:
        """The fault for a request that is answered by this step, whose own fault is `own`."""
        if self._queue:
            fault, left = self._queue[0]
            if left == 1:
                del self._queue[0]
            elif left is not None:
                self._queue[0] = (fault, left - 1)
            return None if fault.kind == "none" else fault
        if own is None or own.kind == "none":
            return None
        met = self._met[scenario, index] = self._met.get((scenario, index), 0) + 1
        return own if own.times is None or met <= own.times else None


def status_reply(
    fault: Misbehaviour, status: int, shaped: dict[str, Any]
) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of an error status. `shaped` is the error body that the API would use by itself."""
    headers = []
    if fault.retry_after is not None:
        headers.append(("Retry-After", f"{fault.retry_after:g}"))
    if isinstance(fault.body, dict):
        kind, data = "application/json", json.dumps(fault.body).encode()
    elif isinstance(fault.body, str):
        kind, data = "text/plain; charset=utf-8", fault.body.encode()
    elif status == 502:
        kind, data = "text/html", HTML.encode()
    else:
        kind, data = "application/json", json.dumps(shaped).encode()
    return [("Content-Type", kind), *headers], data


def status_message(status: int) -> str:
    """What an error status says when the fault doesn't."""
    return _MESSAGES.get(status, f"The mock server was told to answer with {status}.")


class Spoilt(Exception):
    """The fault has ended the reply; nothing more is to be sent."""


class Spoiler:
    """Stands between a reply and its connection and spoils it where the fault says."""

    def __init__(
        self, connection: Connection, fault: Misbehaviour | None, *, ping: bytes, error: bytes
    ) -> None:
        self._connection = connection
        self._fault = fault
        self._ping = ping
        self._error = error
        self._ours = 0
        """Bytes of pings and junk, which don't count as the reply's."""
        self.fired = False

    async def before(self) -> None:
        """Act on a fault that strikes before the status line. Raises Spoilt."""
        fault = self._fault
        if fault is not None and fault.after is None and fault.kind in ("delay", "stall", "drop", "cut"):
            await self._strike(fault, started=False)

    async def send(self, data: bytes, *, end: bool = False) -> None:
        """Send one frame of the reply; `end` marks those that a broken reply lacks. Raises Spoilt, Disconnected."""
        fault = self._fault
        if fault is None or (self.fired and fault.kind not in ("no_end", "drip")):
            await self._send(data)
        elif fault.kind == "no_end":
            self.fired = self.fired or end
            if not end:
                await self._send(data)
        elif fault.kind == "drip":
            self.fired = True
            await self._drip(data, fault)
        elif fault.kind == "error":
            await self._report(data, fault)
        else:
            await self._split(data, fault)

    async def _split(self, data: bytes, fault: Misbehaviour) -> None:
        left = (fault.after or 0) - self._arrived
        if left > len(data):
            await self._send(data)
            return
        if left > 0:
            await self._send(data[:left])
        await self._strike(fault, started=True)
        if rest := data[max(left, 0) :]:
            await self._send(rest)

    async def _strike(self, fault: Misbehaviour, *, started: bool) -> None:
        self.fired = True
        if fault.kind == "garbage":
            junk = fault.body.encode("latin-1", "replace") if isinstance(fault.body, str) else JUNK
            await self._extra(junk)
            return
        if fault.kind in ("delay", "stall"):
            await self._hold(fault, pings=started)
        if fault.kind == "delay":
            return
        await (self._connection.cut() if fault.kind == "cut" else self._connection.reset())
        raise Spoilt

    async def _hold(self, fault: Misbehaviour, *, pings: bool) -> None:
        seconds = fault.seconds if fault.seconds is not None or fault.kind == "stall" else 1.0
        if fault.ping is None or not pings:
            await self._connection.pause(seconds)
            return
        held = 0.0
        while seconds is None or held < seconds:
            await self._connection.pause(fault.ping)
            held += fault.ping
            await self._extra(self._ping)

    async def _report(self, data: bytes, fault: Misbehaviour) -> None:
        if self._arrived + len(data) <= (fault.after or 0):
            await self._send(data)
            return
        self.fired = True
        await self._extra(self._error)
        await self._connection.end()
        raise Spoilt

    async def _drip(self, data: bytes, fault: Misbehaviour) -> None:
        for start in range(0, len(data), fault.size):
            await self._send(data[start : start + fault.size])
            await self._connection.pause(DRIP_SECONDS if fault.seconds is None else fault.seconds)

    @property
    def _arrived(self) -> int:
        return self._connection.sent - self._ours

    async def _send(self, data: bytes) -> None:
        await self._connection.send(data)

    async def _extra(self, data: bytes) -> None:
        self._ours += len(data)
        await self._connection.send(data)

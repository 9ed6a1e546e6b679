"""Serves one file over HTTP like a download server: with ranges and an ETag, or bent as a test needs it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.doubles.raw_server import FakeConnection


@dataclass
class FakeFile:
    """The script of a path of `FakeRawServer`."""

    content: bytes
    etag: str = '"one"'
    ranges: bool = True
    minds: bool = True
    """Whether If-Range counts."""
    announces: bool = True
    """Whether the length is announced."""
    breaks: list[int] = field(default_factory=list)
    """After how many bytes of the next answers the connection breaks."""
    hold: asyncio.Event | None = None
    """Waited for at half of the bytes."""
    refusals: list[int] = field(default_factory=list)
    """Statuses of the first answers."""
    ranges_asked: list[str] = field(default_factory=list)
    """The Range header of each request."""

    async def __call__(self, connection: FakeConnection) -> None:
        headers = connection.request.headers
        self.ranges_asked.append(headers.get("range", ""))
        if self.refusals:
            await connection.answer(self.refusals.pop(0), {"error": "no"}, Retry_After="0")
            return
        start = 0
        known = headers.get("if-range", self.etag) if self.minds else self.etag
        if self.ranges and known == self.etag and (asked := headers.get("range")):
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.content):
                await connection.answer(416)
                return
        more = {"ETag": self.etag} if self.etag else {}
        if start:
            more["Content_Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
        body = self.content[start:]
        length = len(body) if self.announces else None
        await connection.head(206 if start else 200, length=length, chunked=not self.announces, **more)
        await self._send(connection, body)

    async def _send(self, connection: FakeConnection, body: bytes) -> None:
        if self.breaks:
            await connection.body(body[: self.breaks.pop(0)])
            connection.close()
            return
        if self.hold is not None:
            await connection.body(body[: len(body) // 2])
            await self.hold.wait()
            body = body[len(body) // 2 :]
        await connection.body(body)
        if not self.announces:
            await connection.end()

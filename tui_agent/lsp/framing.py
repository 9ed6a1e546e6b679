"""JSON-RPC messages out of a server's bytes: `Content-Length: N`, a blank line, N bytes of JSON."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

HEADER_CAP = 8 * 1024
"""Bytes of one header."""
BODY_CAP = 8 << 20
"""Bytes of one message; a larger one is passed over."""
NOISE_CAP = 1 << 20
"""Bytes outside of messages after which a server is given up."""
FAULTS = 20
"""Messages that can't be read after which it is given up."""

Message: TypeAlias = dict[str, Any]

_LENGTH = re.compile(rb"content-length: *(\d{1,15}) *\r?\n", re.IGNORECASE)
_END = re.compile(rb"\r?\n\r?\n")
SEEN = 512
"""Bytes at the beginning and at the end of a message that is passed over in which its number is looked for."""

# Only what stands on the outermost level counts: within an answer there may be any number of ids.
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ANSWER = rb'"(?:result|error)"\s*:'
_NUMBER = rb'"id"\s*:\s*(\d{1,18})'
_ANSWER_TO = re.compile(
    rb"\s*\{\s*(?:%b\s*,\s*)?%b\s*,\s*(?:%b\s*,\s*)?%b" % (_VERSION, _NUMBER, _VERSION, _ANSWER)
)
_ANSWER_FIRST = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b" % (_VERSION, _ANSWER))
_NUMBER_LAST = re.compile(
    rb"[\]}\"\w]\s*,\s*(?:%b\s*,\s*)?%b\s*(?:,\s*%b\s*)?\}\s*\Z" % (_VERSION, _NUMBER, _VERSION)
)


class Garbled(Exception):
    """What comes is no Language Server Protocol."""


def framed(message: Message) -> bytes:
    """The message as it is sent."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class Framing:
    """Takes bytes as they come, gives whole messages. Memory is bounded; what is no message is passed over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = self._size = 0
        self._head = self._tail = b""
        """Of a message that is passed over."""
        self._noise = self._faults = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now. Raises Garbled."""
        messages: list[Message] = []
        if self._skip:
            passed = min(self._skip, len(data))
            messages = self._passed(data[:passed])
            data = data[passed:]
        self._buffer += data
        while (message := self._next()) is not None:
            if message:
                messages.append(message)
        return messages

    def _next(self) -> Message | None:
        """The next message, empty for one that could not be read; None when more bytes are needed."""
        found = _LENGTH.search(self._buffer)
        if found is None:
            # A header may have begun: as many bytes as its first line can have are kept.
            self._drop(max(0, len(self._buffer) - 64))
            return None
        if found.start():
            before = self._buffer[: found.start()]
            self._drop(0 if _in_header(before) else found.start())
            if not _in_header(before):
                return {}
        end = _END.search(self._buffer, found.end() - 2)
        if end is None or end.start() > HEADER_CAP:
            if len(self._buffer) <= HEADER_CAP:
                return None
            self._drop(found.end())
            return {}
        size = int(found[1])
        if size > BODY_CAP:
            return self._pass_over(end.end(), size)
        if len(self._buffer) - end.end() < size:
            return None
        body = bytes(self._buffer[end.end() : end.end() + size])
        del self._buffer[: end.end() + size]
        return self._read(body)

    def _read(self, body: bytes) -> Message:
        try:
            message = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            self._fault()
            # A length that says too much swallows the beginning of the next message: that is given back.
            if (swallowed := _LENGTH.search(body)) is not None:
                self._buffer[:0] = body[swallowed.start() :]
            return {}
        if not isinstance(message, dict):
            self._fault()
            return {}
        return message

    def _pass_over(self, start: int, size: int) -> Message:
        """A message that is too large: whoever waits for it is told."""
        self._fault()
        body = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size]
        self._head, self._tail = body[:SEEN], b""
        self._skip = self._size = size
        told = self._passed(body)
        return told[0] if told else {}

    def _passed(self, data: bytes) -> list[Message]:
        """Part of it came: at its end the answer that tells so, if it was one."""
        self._skip -= len(data)
        self._tail = (self._tail + data[-SEEN:])[-SEEN:]
        if self._skip:
            return []
        found = _ANSWER_TO.match(self._head)
        if found is None and _ANSWER_FIRST.match(self._head):
            found = _NUMBER_LAST.search(self._tail)
        if found is None:
            return []
        error = {"code": -32000, "message": f"the answer has {self._size:,} bytes"}
        return [{"id": int(found[1]), "error": error}]

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._noise += count
        if self._noise > NOISE_CAP:
            raise Garbled("it writes other things than messages")

    def _fault(self) -> None:
        self._faults += 1
        if self._faults > FAULTS:
            raise Garbled("its messages can't be read")


def _in_header(before: bytearray) -> bool:
    """True for other header lines that may stand before the length."""
    return before.lower().startswith(b"content-type:") and before.count(b"\n") == 1

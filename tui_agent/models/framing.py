"""Cutting a byte stream into records, and reading the JSON in them, whatever a server may send.

Everything is cut on bytes: a line ends where the protocol says so and nowhere else, so U+2028, U+0085 or a form
feed inside a JSON string never tear a record. UTF-8 is decoded after cutting, with U+FFFD for what is no UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from tui_agent.text.json_values import DEPTH_LIMIT, LENIENT, is_too_deep, whole_characters

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of the longest line that is accepted."""
BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of the longest body that is accepted."""

_BOM = b"\xef\xbb\xbf"
_TOO_DEEP = f"nested deeper than {DEPTH_LIMIT} levels"


class FrameTooLarge(Exception):
    """A line or a body is longer than its limit; the message says which."""


class InvalidJson(Exception):
    """Text that should be JSON is not; the message says why."""


class Frame(msgspec.Struct, frozen=True):
    """One record of the stream: an NDJSON line, or an SSE event."""

    data: str
    event: str = ""
    """SSE only: the event's type, empty for the usual one."""


class Splitter(Protocol):
    """Turns chunks of bytes into frames; where the chunks are torn makes no difference."""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that this chunk completes; to be read to its end. Raises FrameTooLarge."""
        ...

    def end(self) -> Iterator[Frame]:
        """The frames that were waiting for an end that never came."""
        ...


class _Body:
    """Bytes not yet cut, and how many there were in all."""

    def __init__(self, line_limit: int, body_limit: int) -> None:
        self.line_limit = line_limit
        self.body_limit = body_limit
        self.rest = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes; a byte order mark at the start of them all is dropped. Raises FrameTooLarge."""
        if self.total < len(_BOM) and self.total == len(self.rest):  # the start, and nothing was cut off yet
            held = bytes(self.rest) + chunk
            if held.startswith(_BOM):
                self.rest.clear()
                self.total, chunk = len(_BOM), held[len(_BOM) :]
        self.total += len(chunk)
        if self.total > self.body_limit:
            raise FrameTooLarge(f"the reply is larger than {self.body_limit:,} bytes")
        self.rest += chunk

    def lines(self, chunk: bytes) -> Iterator[bytearray]:
        """The lines that these bytes complete, without their \\n; to be read to their end. Raises FrameTooLarge."""
        self.add(chunk)
        if b"\n" in chunk:  # what waits holds none, and may be long
            *lines, self.rest = self.rest.split(b"\n")
            for line in lines:
                self.check(line)
                yield line
        self.check(self.rest)

    def end(self) -> bytearray:
        """What waited for an end."""
        rest, self.rest = self.rest, bytearray()
        self.check(rest)
        return rest

    def check(self, line: bytearray) -> None:
        """Raise FrameTooLarge for a line beyond the limit."""
        if len(line) > self.line_limit:
            raise FrameTooLarge(f"one line of the reply is longer than {self.line_limit:,} bytes")


def _text(line: bytes | bytearray) -> str:
    return line.decode("utf-8", errors="replace")


class NdjsonLines:
    """Newline-delimited JSON: a record ends at \\n only (O-1). Blank lines are skipped."""

    def __init__(self, line_limit: int = LINE_LIMIT, body_limit: int = BODY_LIMIT) -> None:
        self._body = _Body(line_limit, body_limit)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """See Splitter."""
        for line in self._body.lines(chunk):
            if line := line.strip(b" \t\r"):
                yield Frame(_text(line))

    def end(self) -> Iterator[Frame]:
        """The last line, if it came without \\n."""
        if rest := self._body.end().strip(b" \t\r"):
            yield Frame(_text(rest))


class SseEvents:
    """Server-sent events by the standard: lines end at \\n, \\r or \\r\\n, several `data:` lines are one event.

    Deviations of servers are accepted (C-1): a last event without its blank line counts, an event without data is
    nothing, a field named `error` makes an event of that type, and a body that begins with a brace is one JSON document
    (content types can't be trusted).
    """

    def __init__(self, line_limit: int = LINE_LIMIT, body_limit: int = BODY_LIMIT) -> None:
        self._body = _Body(line_limit, body_limit)
        self._data: list[str] = []
        self._event = ""
        self._size = 0
        self._after_return = False
        """The last chunk ended in \\r: a \\n at the start of the next one belongs to it."""
        self.whole: bool | None = None
        """The body is one document; None before its first byte."""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """See Splitter. Blanks before the first other byte are dropped."""
        if self.whole is None:
            chunk = chunk.lstrip(b" \t\r\n")
            if chunk:
                self.whole = chunk.startswith(b"{")
        if self.whole is not False:
            self._body.add(chunk)
            return
        if self._after_return and chunk:
            chunk, self._after_return = chunk.removeprefix(b"\n"), False
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for line in self._body.lines(chunk):
            yield from self._line(line)

    def end(self) -> Iterator[Frame]:
        """The last event, if the stream ended without a blank line after it; or the document."""
        if self.whole:
            if text := _text(self._body.rest).strip():
                yield Frame(text)
            return
        if rest := self._body.end():
            yield from self._line(rest)
        yield from self._line(bytearray())

    def _line(self, line: bytearray) -> Iterator[Frame]:
        if line:
            name, _, value = _text(line).partition(":")
            self._field(name, value.removeprefix(" "))
            return
        if any(self._data):
            yield Frame("\n".join(self._data), self._event)
        self._data, self._event, self._size = [], "", 0

    def _field(self, name: str, value: str) -> None:
        if name in ("data", "error"):
            self._size += len(value)
            if self._size > self._body.line_limit:
                raise FrameTooLarge(f"one event of the reply is longer than {self._body.line_limit:,} bytes")
            self._data.append(value)
            if name == "error":
                self._event = "error"
        elif name == "event":
            self._event = value


# --- JSON -----------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """The JSON value in `text`, safe to keep and to write again. Raises InvalidJson.

    Raw control characters in strings are accepted, NaN and the infinities become None, numbers of absurd length
    floats, lone surrogates U+FFFD; the last of duplicate keys counts. Deeper nesting than DEPTH_LIMIT is unreadable.
    """
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    except msgspec.DecodeError:
        value = _read_leniently(text)
    if is_too_deep(text, value):
        raise InvalidJson(_TOO_DEEP)
    return value


def _read_leniently(text: str) -> Any:
    """What the fast reader refuses although its meaning is plain."""
    try:
        value = LENIENT.decode(text)
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise InvalidJson(str(error)) from None
    if is_too_deep(text, value):
        raise InvalidJson(_TOO_DEEP)
    return whole_characters(value) if "\\ud" in text.lower() else value

"""Split a byte stream into records and parse their JSON, whatever a server may send.

Splitting works on bytes: a line ends only where the protocol says so, so U+2028, U+0085 or a form feed inside a JSON
string never tear a record. UTF-8 is decoded afterwards; invalid bytes become U+FFFD.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tui_agent.text.json_values import LENIENT, MAX_DEPTH, is_too_deep, repair_surrogates

LINE_LIMIT = 16 * 1024 * 1024
"""Maximum size of one line, in bytes."""
BODY_LIMIT = 64 * 1024 * 1024
"""Maximum size of a whole body, in bytes."""

_BOM = b"\xef\xbb\xbf"
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


class FrameTooLarge(Exception):
    """A line or body exceeds its limit; the message says which."""


class InvalidJson(Exception):
    """A text is not valid JSON; the message says why."""


class Frame(msgspec.Struct, frozen=True):
    """One record of the stream: an NDJSON line or an SSE event."""

    data: str
    event: str = ""
    """SSE only: the event type; empty for the default type."""


class Splitter(ABC):
    """Splits chunks of bytes into frames, within size limits; chunk boundaries make no difference."""

    is_document: bool | None = False
    """Whether the body is a single JSON document; None before its first byte."""

    def __init__(self, line_limit: int = LINE_LIMIT, body_limit: int = BODY_LIMIT) -> None:
        self._line_limit = line_limit
        self._body_limit = body_limit
        self._buffer = bytearray()
        self._total = 0
        """Bytes received."""

    @abstractmethod
    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Yield the frames completed by this chunk. The iterator must be exhausted. Raises FrameTooLarge."""

    @abstractmethod
    def flush(self) -> Iterator[Frame]:
        """Yield what remains after the last chunk as frames."""

    def _add(self, chunk: bytes) -> None:
        """Append `chunk`; drop a byte order mark at the start of the stream. Raises FrameTooLarge."""
        if self._total < len(_BOM) and self._total == len(self._buffer):  # still at the very start
            start = bytes(self._buffer) + chunk
            if start.startswith(_BOM):
                self._buffer.clear()
                self._total, chunk = len(_BOM), start[len(_BOM) :]
        self._total += len(chunk)
        if self._total > self._body_limit:
            raise FrameTooLarge(f"the reply is larger than {self._body_limit:,} bytes")
        self._buffer += chunk

    def _lines(self, chunk: bytes) -> Iterator[bytearray]:
        r"""Yield the lines completed by `chunk`, without \n. The iterator must be exhausted. Raises FrameTooLarge."""
        self._add(chunk)
        if b"\n" in chunk:  # the buffer contains none so far and may be long
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                self._check_size(line)
                yield line
        self._check_size(self._buffer)

    def _last_line(self) -> bytearray:
        """Return the bytes after the last line end."""
        line, self._buffer = self._buffer, bytearray()
        self._check_size(line)
        return line

    def _check_size(self, line: bytearray) -> None:
        if len(line) > self._line_limit:
            raise FrameTooLarge(f"one line of the reply is longer than {self._line_limit:,} bytes")


def _decode(line: bytes | bytearray) -> str:
    return line.decode("utf-8", errors="replace")


class NdjsonLines(Splitter):
    r"""Newline-delimited JSON: a record ends at \n only (O-1). Blank lines are skipped."""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        return self._frames(self._lines(chunk))

    def flush(self) -> Iterator[Frame]:
        return self._frames([self._last_line()])

    def _frames(self, lines: Iterable[bytearray]) -> Iterator[Frame]:
        for line in lines:
            if data := line.strip(b" \t\r"):
                yield Frame(_decode(data))


class SseEvents(Splitter):
    r"""Server-sent events: lines end at \n, \r or \r\n, several `data:` lines form one event.

    Tolerated deviations of servers (C-1): the last event may lack its blank line, an event without data is ignored, a
    field named `error` makes an event of that type, and a body that starts with a brace is one JSON document, as
    content types can't be trusted.
    """

    def __init__(self, line_limit: int = LINE_LIMIT, body_limit: int = BODY_LIMIT) -> None:
        super().__init__(line_limit, body_limit)
        self._data: list[str] = []
        self._event = ""
        self._size = 0
        self._after_cr = False
        r"""The last chunk ended in \r; a \n at the start of the next one belongs to it."""
        self.is_document = None

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        if self.is_document is None:
            chunk = chunk.lstrip(b" \t\r\n")
            if chunk:
                self.is_document = chunk.startswith(b"{")
        if self.is_document is not False:
            self._add(chunk)
            return
        if self._after_cr and chunk:
            chunk, self._after_cr = chunk.removeprefix(b"\n"), False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for line in self._lines(chunk):
            yield from self._add_line(line)

    def flush(self) -> Iterator[Frame]:
        if self.is_document:
            if text := _decode(self._buffer).strip():
                yield Frame(text)
            return
        if line := self._last_line():
            yield from self._add_line(line)
        yield from self._add_line(bytearray())

    def _add_line(self, line: bytearray) -> Iterator[Frame]:
        if line:
            name, _, value = _decode(line).partition(":")
            self._add_field(name, value.removeprefix(" "))
            return
        if any(self._data):
            yield Frame("\n".join(self._data), self._event)
        self._data, self._event, self._size = [], "", 0

    def _add_field(self, name: str, value: str) -> None:
        if name in ("data", "error"):
            self._size += len(value)
            if self._size > self._line_limit:
                raise FrameTooLarge(f"one event of the reply is longer than {self._line_limit:,} bytes")
            self._data.append(value)
            if name == "error":
                self._event = "error"
        elif name == "event":
            self._event = value


# --- JSON -----------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """Parse JSON into a value that can be stored and encoded again. Raises InvalidJson.

    Accepts raw control characters in strings. NaN and infinities become None, overlong numbers floats, lone surrogates
    U+FFFD; the last of duplicate keys wins. Nesting deeper than MAX_DEPTH is an error.
    """
    try:
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:  # the strict parser also rejects text with a clear meaning
            value = LENIENT.decode(text)
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise InvalidJson(str(error)) from None
    if is_too_deep(text, value):
        raise InvalidJson(_TOO_DEEP)
    return repair_surrogates(value) if "\\ud" in text or "\\uD" in text else value

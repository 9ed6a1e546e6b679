"""Cutting a byte stream into records, and reading the JSON in them, whatever a server may send (R-36).

Everything is cut on bytes: a line ends where the protocol says so and nowhere else, so U+2028, U+0085 or a form
feed inside a JSON string never tear a record. UTF-8 is decoded after cutting, with U+FFFD for what is no UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of the longest line that is accepted."""
BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of the longest body that is accepted."""
DEPTH_LIMIT = 64
"""How deep JSON may be nested."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n?|\n")


class FrameTooLarge(Exception):
    """A line or a body is longer than its limit; the message says which."""


class Unreadable(Exception):
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
        self.searched = 0
        """Up to here `rest` holds no line end: a long line in small chunks is looked through once."""

    def add(self, chunk: bytes) -> None:
        if self.total < len(_BOM) and self.total == len(self.rest):  # the start, and nothing was cut off yet
            held = bytes(self.rest) + chunk
            if held.startswith(_BOM):
                self.rest.clear()
                self.searched = 0
                self.total, chunk = len(_BOM), held[len(_BOM) :]
        self.total += len(chunk)
        if self.total > self.body_limit:
            raise FrameTooLarge(f"the reply is larger than {self.body_limit:,} bytes")
        self.rest += chunk

    def drop(self, count: int) -> None:
        """Forget what was cut off; what is left over is a line that may still grow."""
        del self.rest[:count]
        self.searched = max(0, self.searched - count)
        self.check(self.rest)

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
        body, start = self._body, 0
        body.add(chunk)
        while (at := body.rest.find(b"\n", max(start, body.searched))) >= 0:
            yield from self._frame(body.rest[start:at])
            start = at + 1
        body.searched = len(body.rest)
        body.drop(start)

    def end(self) -> Iterator[Frame]:
        """The last line, if it came without \\n."""
        rest, self._body.rest = self._body.rest, bytearray()
        yield from self._frame(rest)

    def _frame(self, line: bytearray) -> Iterator[Frame]:
        self._body.check(line)
        if line := line.strip(b" \t\r"):
            yield Frame(_text(line))


class SseEvents:
    """Server-sent events by the standard: lines end at \\n, \\r or \\r\\n, several `data:` lines are one event.

    Three liberties that servers take are honoured (C-1): a last event without its blank line counts, an event without
    data is nothing, and a field named `error` makes an event of that type.
    """

    def __init__(self, line_limit: int = LINE_LIMIT, body_limit: int = BODY_LIMIT) -> None:
        self._body = _Body(line_limit, body_limit)
        self._data: list[str] = []
        self._event = ""
        self._size = 0
        self._after_return = False
        """The last chunk ended in \\r: a \\n at the start of the next one belongs to it."""
        self.retry_ms: int | None = None
        self.last_id = ""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """See Splitter."""
        if self._after_return and chunk:
            chunk, self._after_return = chunk.removeprefix(b"\n"), False
        body, start = self._body, 0
        body.add(chunk)
        if b"\r" not in chunk:  # nearly always, and much faster; what waits holds no line end
            if b"\n" in chunk:
                *lines, body.rest = body.rest.split(b"\n")
                for line in lines:
                    yield from self._line(line)
            body.searched = len(body.rest)
            body.check(body.rest)
            return
        while (found := _LINE_END.search(body.rest, max(start, body.searched))) is not None:
            at, after = found.span()
            self._after_return = after == len(body.rest) and body.rest[-1] == 0x0D
            yield from self._line(body.rest[start:at])
            start = after
        body.searched = len(body.rest)
        body.drop(start)

    def end(self) -> Iterator[Frame]:
        """The last event, if the stream ended without a blank line after it."""
        rest, self._body.rest = self._body.rest, bytearray()
        if rest:
            yield from self._line(rest)
        yield from self._line(bytearray())

    def _line(self, line: bytearray) -> Iterator[Frame]:
        self._body.check(line)
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
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value[:9])


class Whole:
    """A body that is one JSON document, for servers that answer a streaming request without streaming."""

    def __init__(self, body_limit: int = BODY_LIMIT) -> None:
        self._body = _Body(body_limit, body_limit)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Nothing: the document is complete at the end only. Raises FrameTooLarge."""
        self._body.add(chunk)
        return iter(())

    def end(self) -> Iterator[Frame]:
        """The document."""
        if text := _text(self._body.rest).strip():
            yield Frame(text)


class SseOrWhole:
    """Server-sent events, or one JSON document where the body begins with a brace: content types can't be trusted."""

    def __init__(self, line_limit: int = LINE_LIMIT, body_limit: int = BODY_LIMIT) -> None:
        self._limits = line_limit, body_limit
        self._chosen: SseEvents | Whole | None = None

    @property
    def whole(self) -> bool:
        """The body is one document."""
        return isinstance(self._chosen, Whole)

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """See Splitter. Blanks before the first byte that counts are dropped."""
        if self._chosen is None:
            chunk = chunk.lstrip(b" \t\r\n")
            if not chunk:
                return iter(())
            self._chosen = Whole(self._limits[1]) if chunk.startswith(b"{") else SseEvents(*self._limits)
        return self._chosen.feed(chunk)

    def end(self) -> Iterator[Frame]:
        """See Splitter."""
        return iter(()) if self._chosen is None else self._chosen.end()


# --- JSON -----------------------------------------------------------------------------------


def read_json(text: str) -> Any:
    """The JSON value in `text`, safe to keep and to write again. Raises Unreadable.

    Raw control characters in strings are accepted (C17), NaN and the infinities become None, numbers of absurd length
    floats, lone surrogates U+FFFD; the last of duplicate keys counts. Deeper nesting than DEPTH_LIMIT is unreadable.
    """
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise Unreadable(f"nested deeper than {DEPTH_LIMIT} levels") from None
    except msgspec.DecodeError:
        value = _read_leniently(text)
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _check_depth(value)
    return value


def _read_leniently(text: str) -> Any:
    """What the fast reader refuses although its meaning is plain."""
    try:
        value = json.loads(text, strict=False, parse_int=_integer, parse_constant=_nothing)
    except RecursionError:
        raise Unreadable(f"nested deeper than {DEPTH_LIMIT} levels") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"{error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _check_depth(value)
    return whole_characters(value) if "\\ud" in text.lower() else value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 40 else float(digits)


def _nothing(_name: str) -> None:
    return None


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = [item for item in inner if isinstance(item, (dict, list))]
        if not level:
            return
    raise Unreadable(f"nested deeper than {DEPTH_LIMIT} levels")


def whole_characters(value: Any) -> Any:
    """`value` with surrogate pairs joined and lone ones replaced; it must not be nested deeply."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(item) for key, item in value.items()}
    return value

"""The JSON-RPC connection to a language server: framing, requests and replies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from tui_agent.platform.interactive import DuplexProcess, WriteBlocked
from tui_agent.platform.proc import ProcessError
from tui_agent.text import one_line

MAX_HEADER = 8 * 1024
"""Bytes of one header."""
MAX_BODY = 8 << 20
"""Bytes of one message; a larger one is skipped."""
MAX_NOISE = 1 << 20
"""Maximum number of bytes outside of messages."""
MAX_FAULTS = 20
"""Maximum number of unreadable messages."""

Message: TypeAlias = dict[str, Any]

_LENGTH = re.compile(rb"content-length: *(\d{1,15}) *\r?\n", re.IGNORECASE)
_END = re.compile(rb"\r?\n\r?\n")
ID_RANGE = 512
"""Bytes at the start and at the end of a skipped message that are searched for its id."""

# Only the id on the outermost level counts: the result of a reply may contain others.
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_OUTCOME = rb'"(?:result|error)"\s*:'
_ID = rb'"id"\s*:\s*(\d{1,18})'
_ID_FIRST = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b\s*,\s*(?:%b\s*,\s*)?%b" % (_VERSION, _ID, _VERSION, _OUTCOME))
_OUTCOME_FIRST = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b" % (_VERSION, _OUTCOME))
_ID_LAST = re.compile(rb"[\]}\"\w]\s*,\s*(?:%b\s*,\s*)?%b\s*(?:,\s*%b\s*)?\}\s*\Z" % (_VERSION, _ID, _VERSION))


class FramingError(Exception):
    """The server sends something other than the Language Server Protocol."""


def encode_message(message: Message) -> bytes:
    """Return the message as bytes with its header."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class MessageDecoder:
    """Decodes messages from bytes as they arrive. Memory is bounded; what is not a message is skipped."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = self._size = 0
        """Remaining bytes of a message that is too large, and its size."""
        self._head = self._tail = b""
        """Its start and end."""
        self._noise = self._faults = 0

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that are complete now. Raises FramingError."""
        messages: list[Message] = []
        if self._skip:
            skipped = min(self._skip, len(data))
            messages = self._skip_bytes(data[:skipped])
            data = data[skipped:]
        self._buffer += data
        while (message := self._next()) is not None:
            if message:
                messages.append(message)
        return messages

    def _next(self) -> Message | None:
        """Return the next message, an empty one if it could not be read, or None if more bytes are needed."""
        length = _LENGTH.search(self._buffer)
        if length is None:
            # A header may have begun: keep as many bytes as its first line can have.
            self._drop(max(0, len(self._buffer) - 64))
            return None
        if length.start() and not _is_header(self._buffer[: length.start()]):
            self._drop(length.start())
            return {}
        end = _END.search(self._buffer, length.end() - 2)
        if end is None or end.start() > MAX_HEADER:
            if len(self._buffer) <= MAX_HEADER:
                return None
            self._drop(length.end())
            return {}
        size = int(length[1])
        if size <= MAX_BODY and len(self._buffer) - end.end() < size:
            return None
        body = bytes(self._buffer[end.end() : end.end() + size])
        del self._buffer[: end.end() + size]
        return self._decode(body) if size <= MAX_BODY else self._skip_message(body, size)

    def _decode(self, body: bytes) -> Message:
        try:
            message = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            self._count_fault()
            # With a wrong length, the body contains the beginning of the next message: put that back.
            is_valid_json = isinstance(error, msgspec.ValidationError)
            if not is_valid_json and (next_header := _LENGTH.search(body)) is not None:
                self._buffer[:0] = body[next_header.start() :]
            return {}
        return message

    def _skip_message(self, start: bytes, size: int) -> Message:
        """Skip a message that is too large; a reply is replaced by an error, which ends its request."""
        self._count_fault()
        self._head, self._tail = start[:ID_RANGE], b""
        self._skip = self._size = size
        messages = self._skip_bytes(start)
        return messages[0] if messages else {}

    def _skip_bytes(self, data: bytes) -> list[Message]:
        self._skip -= len(data)
        self._tail = (self._tail + data[-ID_RANGE:])[-ID_RANGE:]
        if self._skip:
            return []
        match = _ID_FIRST.match(self._head)
        if match is None and _OUTCOME_FIRST.match(self._head):
            match = _ID_LAST.search(self._tail)
        if match is None:
            return []
        error = {"code": -32000, "message": f"the answer has {self._size:,} bytes"}
        return [{"id": int(match[1]), "error": error}]

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._noise += count
        if self._noise > MAX_NOISE:
            raise FramingError("it sends something other than LSP messages")

    def _count_fault(self) -> None:
        self._faults += 1
        if self._faults > MAX_FAULTS:
            raise FramingError("its messages can't be read")


def _is_header(data: bytearray) -> bool:
    """Whether the data is another header line, which may precede the length."""
    return data.lower().startswith(b"content-type:") and data.count(b"\n") == 1


log = logging.getLogger(__name__)

CONTENT_CHANGED = (-32800, -32801, -32802)
"""Error codes of a request canceled by the server because something changed; it is sent once more."""
_METHOD_NOT_FOUND = {"code": -32601, "message": "not supported"}
_INTERNAL_ERROR = {"code": -32603, "message": "it could not be understood"}


class LspError(Exception):
    """A failed request. The message is a clause for the user."""


class ServerGone(LspError):
    """The server has ended, or was stopped because of invalid data."""


class ServerTimeout(LspError):
    """No reply came in time."""


class RequestRejected(LspError):
    """The server replied with an error, whose `code` is defined by JSON-RPC or by the protocol."""

    def __init__(self, message: str, code: object = None) -> None:
        super().__init__(message)
        self.code = code


class RpcConnection:
    """The connection to a running server program."""

    def __init__(
        self, name: str, on_request: Callable[[str, Any], Any], on_notification: Callable[[str, Any], None]
    ) -> None:
        self.name = name
        self._on_request = on_request
        self._on_notification = on_notification
        self._decoder = MessageDecoder()
        self._process: DuplexProcess | None = None
        self.on_closed: Callable[[], None] = lambda: None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self.close_reason = ""
        """Why it is closed; empty while it is open."""
        self.closed = asyncio.Event()
        self.last_received = asyncio.get_running_loop().time()
        """Time of the last data, on the loop's clock."""

    @classmethod
    async def start(
        cls,
        program: str,
        argv: tuple[str, ...],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        on_request: Callable[[str, Any], Any],
        on_notification: Callable[[str, Any], None],
    ) -> Self:
        """Start a server. `on_request` returns the result of a request by the server, or raises LookupError.

        Raises ServerGone if the server can't be started.
        """
        connection = cls(Path(program).name, on_request, on_notification)
        try:
            connection._process = await DuplexProcess.with_program(
                Path(program),
                argv,
                cwd=cwd,
                environment=environment,
                on_output=connection._receive,
                on_end=lambda: connection.stop("its process ended"),
            )
        except ProcessError as error:
            raise ServerGone(f"it can't be started: {error}") from error
        return connection

    async def request(self, method: str, params: Any, seconds: float) -> Any:
        """Return the result of a request. Raises LspError."""
        try:
            return await self._request(method, params, seconds)
        except RequestRejected as error:
            if error.code not in CONTENT_CHANGED:
                raise
            return await self._request(method, params, seconds)

    async def _request(self, method: str, params: Any, seconds: float) -> Any:
        self._last_id += 1
        request_id = self._last_id
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = reply
        try:
            self._send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            async with asyncio.timeout(seconds):
                return await reply
        except (TimeoutError, asyncio.CancelledError) as error:
            with contextlib.suppress(LspError):
                self.notify("$/cancelRequest", {"id": request_id})
            if isinstance(error, TimeoutError):
                raise ServerTimeout(f"it did not answer within {seconds:g} s") from None
            raise
        finally:
            del self._pending[request_id]

    def notify(self, method: str, params: Any) -> None:
        """Send a notification. Raises ServerGone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Message) -> None:
        if self.close_reason or self._process is None:
            raise ServerGone(self.close_reason or "it was not started")
        try:
            self._process.send(encode_message(message))
        except WriteBlocked:
            self.stop("it stopped reading its input")
            raise ServerGone(self.close_reason) from None

    # --- incoming messages ---

    def _receive(self, data: bytes) -> None:
        self.last_received = asyncio.get_running_loop().time()
        try:
            messages = self._decoder.feed(data)
        except FramingError as error:
            self.stop(str(error))
            return
        for message in messages:
            try:
                self._handle(message)
            except Exception:
                log.warning("a message of %s could not be handled", self.name, exc_info=True)

    def _handle(self, message: Message) -> None:
        method, request_id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._handle_reply(message)
        elif request_id is None:
            self._on_notification(method, message.get("params"))
        else:
            reply: Message = {"jsonrpc": "2.0", "id": request_id}
            try:
                reply["result"] = self._on_request(method, message.get("params"))
            except LookupError:
                reply["error"] = _METHOD_NOT_FOUND
            except Exception:
                log.warning("%s of %s could not be answered", method, self.name, exc_info=True)
                reply["error"] = _INTERNAL_ERROR
            with contextlib.suppress(ServerGone):
                self._send(reply)

    def _handle_reply(self, message: Message) -> None:
        request_id = message.get("id")
        reply = self._pending.get(request_id) if isinstance(request_id, int) else None
        if reply is None or reply.done():
            return
        error = message.get("error")
        if error is None:
            reply.set_result(message.get("result"))
            return
        details = error if isinstance(error, dict) else {}
        text = one_line(str(details.get("message") or "it reports an error"), 200)
        reply.set_exception(RequestRejected(text, details.get("code")))

    # --- closing ---

    def stop(self, reason: str) -> None:
        """Kill the server now; its processes are dead within 2 s."""
        if self.close_reason:
            return
        self.close_reason = reason
        log.debug("%s is closed: %s", self.name, reason)
        for reply in self._pending.values():
            if not reply.done():
                reply.set_exception(ServerGone(reason))
        self.closed.set()
        self.on_closed()
        if self._process is not None:
            self._process.stop()

    async def close(self, seconds: float) -> None:
        """Shut the server down, with up to `seconds` for each step, then kill remaining processes."""
        with contextlib.suppress(LspError, TimeoutError):
            await self.request("shutdown", None, seconds)
            self.notify("exit", None)
            async with asyncio.timeout(seconds):
                await self.closed.wait()
        self.stop("it was stopped")
        await self.wait_gone()

    async def wait_gone(self) -> None:
        """Wait until all processes of a stopped server have ended."""
        if self._process is not None:
            await self._process.gone()

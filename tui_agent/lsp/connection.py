"""JSON-RPC messages out of a server's bytes: `Content-Length: N`, a blank line, N bytes of JSON."""

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
_ANSWER_TO = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b\s*,\s*(?:%b\s*,\s*)?%b" % (_VERSION, _NUMBER, _VERSION, _ANSWER))
_ANSWER_FIRST = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b" % (_VERSION, _ANSWER))
_NUMBER_LAST = re.compile(rb"[\]}\"\w]\s*,\s*(?:%b\s*,\s*)?%b\s*(?:,\s*%b\s*)?\}\s*\Z" % (_VERSION, _NUMBER, _VERSION))


class FramingError(Exception):
    """What comes is no Language Server Protocol."""


def encode_message(message: Message) -> bytes:
    """The message as it is sent."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


class MessageDecoder:
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
            raise FramingError("it sends something other than LSP messages")

    def _fault(self) -> None:
        self._faults += 1
        if self._faults > FAULTS:
            raise FramingError("its messages can't be read")


def _in_header(before: bytearray) -> bool:
    """True for other header lines that may stand before the length."""
    return before.lower().startswith(b"content-type:") and before.count(b"\n") == 1


log = logging.getLogger(__name__)

AGAIN = (-32800, -32801, -32802)
"""Codes of a request that the server gave up because something changed meanwhile: asked once more."""
_UNKNOWN = {"code": -32601, "message": "not supported"}
_FAILED = {"code": -32603, "message": "it could not be understood"}


class LspError(Exception):
    """A request that was not answered. The message is a clause for people."""


class ServerGone(LspError):
    """The server has ended, or is ended for what it wrote."""


class ServerTimeout(LspError):
    """No answer came in time."""


class RequestRejected(LspError):
    """The server answered with an error, whose `code` JSON-RPC or the protocol defines."""

    def __init__(self, message: str, code: object = None) -> None:
        super().__init__(message)
        self.code = code


class RpcConnection:
    """One running server. `answer` gives the result of what it asks, `hear` gets what it announces."""

    def __init__(self, name: str, answer: Callable[[str, Any], Any], hear: Callable[[str, Any], None]) -> None:
        self.name = name
        self._answer = answer
        self._hear = hear
        self._framing = MessageDecoder()
        self._talk: DuplexProcess | None = None
        self.at_end: Callable[[], None] = lambda: None
        """Called when it is over."""
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self.why = ""
        """Why it is over; empty as long as it is not."""
        self.over = asyncio.Event()
        self.heard = asyncio.get_running_loop().time()
        """When something came last, on the loop's clock."""

    @classmethod
    async def to_program(
        cls,
        program: str,
        argv: tuple[str, ...],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        answer: Callable[[str, Any], Any],
        hear: Callable[[str, Any], None],
    ) -> Self:
        """Start a server. Raises Gone when that is not possible."""
        made = cls(Path(program).name, answer, hear)
        try:
            made._talk = await DuplexProcess.with_program(
                Path(program),
                argv,
                cwd=cwd,
                environment=environment,
                hear=made._take,
                over=lambda: made.stop("its process ended"),
            )
        except ProcessError as error:
            raise ServerGone(f"it can't be started: {error}") from error
        return made

    async def request(self, method: str, params: Any, seconds: float) -> Any:
        """The result. Raises LspError."""
        try:
            return await self._request(method, params, seconds)
        except RequestRejected as declined:
            if declined.code not in AGAIN:
                raise
            return await self._request(method, params, seconds)

    async def _request(self, method: str, params: Any, seconds: float) -> Any:
        self._count += 1
        number = self._count
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        answered = False
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            async with asyncio.timeout(seconds):
                result = await answer
            answered = True
            return result
        except TimeoutError:
            raise ServerTimeout(f"it did not answer within {seconds:g} s") from None
        except LspError:
            answered = True
            raise
        finally:
            self._waiting.pop(number, None)
            if not answered and not self.why:
                with contextlib.suppress(LspError):
                    self.notify("$/cancelRequest", {"id": number})

    def notify(self, method: str, params: Any) -> None:
        """Tell something. Raises Gone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Message) -> None:
        if self.why or self._talk is None:
            raise ServerGone(self.why or "it was not started")
        try:
            self._talk.send(encode_message(message))
        except WriteBlocked:
            self.stop("it stopped reading its input")
            raise ServerGone(self.why) from None

    # --- what comes ---

    def _take(self, data: bytes) -> None:
        self.heard = asyncio.get_running_loop().time()
        try:
            messages = self._framing.feed(data)
        except FramingError as error:
            self.stop(str(error))
            return
        for message in messages:
            try:
                self._take_message(message)
            except Exception:
                log.warning("a message of %s could not be taken in", self.name, exc_info=True)

    def _take_message(self, message: Message) -> None:
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._take_answer(message)
        elif number is None:
            self._hear(method, message.get("params"))
        else:
            reply: Message = {"jsonrpc": "2.0", "id": number}
            try:
                reply["result"] = self._answer(method, message.get("params"))
            except LookupError:
                reply["error"] = _UNKNOWN
            except Exception:
                log.warning("%s of %s could not be answered", method, self.name, exc_info=True)
                reply["error"] = _FAILED
            with contextlib.suppress(ServerGone):
                self._send(reply)

    def _take_answer(self, message: Message) -> None:
        number = message.get("id")
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
            return
        told = error if isinstance(error, dict) else {}
        text = one_line(str(told.get("message") or "it reports an error"), 200)
        answer.set_exception(RequestRejected(text, told.get("code")))

    # --- the end ---

    def stop(self, why: str) -> None:
        """End it now; its processes are dead within 2 s."""
        if self.why:
            return
        self.why = why
        log.debug("%s is over: %s", self.name, why)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ServerGone(why))
        self.over.set()
        self.at_end()
        if self._talk is not None:
            self._talk.stop()

    async def close(self, seconds: float) -> None:
        """Ask it to end, wait that long for it, then make sure that nothing of it is left."""
        if not self.why:
            with contextlib.suppress(LspError):
                await self.request("shutdown", None, seconds)
                self.notify("exit", None)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self.over.wait()
        self.stop("it was stopped")
        await self.gone()

    async def gone(self) -> None:
        """Until nothing of an ended one is left."""
        if self._talk is not None:
            await self._talk.gone()

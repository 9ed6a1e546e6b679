"""The core of a client without its sockets: bytes of a reply in, pieces out, the same wherever the bytes are torn."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import Any

import msgspec

from tui_agent.common.domain import Fault, ToolCall, Usage
from tui_agent.models.base import CallReady, CallStarted, Failed, Piece, Stop, TextPiece, ThinkingPiece, UsagePiece
from tui_agent.models.faults import Peer, WireFault, broken, for_display, from_stream
from tui_agent.models.framing import Frame, FrameTooLarge, InvalidJson, Splitter, read_json

ARGUMENTS_LIMIT = 4 * 1024 * 1024
"""Characters of the longest arguments that are read."""


class Decoder(ABC):
    """Reads one reply. After `finished` nothing more comes out; the last piece was a Stop or a Failed."""

    def __init__(self, peer: Peer, splitter: Splitter, taken_ids: frozenset[str] = frozenset()) -> None:
        self.peer = peer
        self.splitter = splitter
        self.finished = False
        self.complete = False
        """An end marker was seen: what may still come is counts, and silence is no fault."""
        self.produced = False
        """Something of the answer came out."""
        self.progress = 0
        """Grows with every token, thought and fragment of a call; pings and empty deltas leave it as it is."""
        self._ids = set(taken_ids)
        self._pieces: list[Piece] = []
        self._fragments: list[str] = []
        """Fragments of text or of a thought that came one behind the other: they become one piece."""
        self._kind: type[TextPiece | ThinkingPiece] = TextPiece

    def opened(self, content_type: str) -> None:
        """The headers came. Raises WireFault for a content type that can't be a reply."""
        if "html" in content_type:
            fault = Fault(
                kind="protocol",
                message=f"{self.peer.shown} answered with an HTML page instead of a reply.",
                advice="Check the base URL.",
            )
            raise WireFault(fault)

    def feed(self, chunk: bytes | None) -> list[Piece]:
        """The pieces that this chunk completes; None is the end of the stream, and without an end marker the last
        piece is Failed then."""
        if self.finished:
            return []
        try:
            for frame in self.splitter.end() if chunk is None else self.splitter.feed(chunk):
                self.take(frame)
                if self.finished:
                    break
            if chunk is None and not self.finished:
                self.close()
        except FrameTooLarge as error:
            self.fail(Fault(kind="too_large", message=f"{self.peer.shown}: {error}."))
        self._join()
        pieces, self._pieces = self._pieces, []
        return pieces

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Read one frame, calling the methods below."""

    def close(self) -> None:
        """The stream ended: settle if it is complete, else it is broken."""
        if self.complete:
            self.settle()
        else:
            self.fail(broken(self.peer, produced=self.produced))

    def settle(self) -> None:  # noqa: B027 # nothing is held back by most
        """Give out what was held back, and Stop: called at the end of a complete reply."""

    # --- for subclasses -----------------------------------------------------------------

    def value(self, text: str) -> dict[str, Any] | None:
        """The JSON object in `text`; anything else fails the reply and gives None."""
        try:
            value = read_json(text)
        except InvalidJson as error:
            why = f"unreadable data ({error})"
        else:
            if isinstance(value, dict):
                return value
            why = "something other than an object"
        quote = for_display(text, self.peer, 160)
        self.fail(Fault(kind="protocol", message=f"{self.peer.shown} sent {why}: {quote}"))
        return None

    def text(self, value: Any, kind: type[TextPiece | ThinkingPiece] = TextPiece) -> None:
        """A fragment of the answer or of a thought, if it is one."""
        if isinstance(value, str) and value:
            if kind is not self._kind:
                self._join()
                self._kind = kind
            self._fragments.append(value)
            self.progress += 1
            self.produced = True

    def _join(self) -> None:
        if self._fragments:
            self._pieces.append(self._kind(text="".join(self._fragments)))
            self._fragments.clear()

    def add(self, piece: Piece) -> None:
        """A piece that is no text."""
        self._join()
        self._pieces.append(piece)
        if not isinstance(piece, UsagePiece):
            self.progress += 1
        if isinstance(piece, CallStarted | CallReady):
            self.produced = True

    def call(self, call_id: Any, name: Any, arguments: Any) -> None:
        """A complete call. Its id is replaced if there is none or if it is taken."""
        if not isinstance(call_id, str) or not call_id or call_id in self._ids:
            call_id = new_call_id()
        self._ids.add(call_id)
        self.add(CallReady(call=read_call(call_id, name.strip() if isinstance(name, str) else "", arguments)))

    def count(self, usage: Usage) -> None:
        """Token counts."""
        if usage != Usage():
            self.add(UsagePiece(usage=usage))

    def stop(self, reason: str) -> None:
        """The reply ended in order."""
        self.finished = True
        self.add(Stop(reason=reason))

    def fail(self, fault: Fault) -> None:
        """The reply ended badly; it is never asked for again once something of it came out."""
        self.finished = True
        if self.produced and fault.retryable:
            fault = msgspec.structs.replace(fault, retryable=False)
        self.add(Failed(fault=fault))

    def fail_from(self, value: Any) -> None:
        """The server told of an error inside the stream (O-4, C-1)."""
        self.fail(from_stream(value, self.peer))


def whole_count(value: Any) -> int | None:
    """A count as servers send it; None for what is missing or can't be one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 1e15 else None


def taken_ids(messages: tuple[object, ...]) -> frozenset[str]:
    """Ids of the calls in a history, so that a new call never gets one of them."""
    calls: list[ToolCall] = [call for message in messages for call in getattr(message, "calls", ())]
    return frozenset(call.id for call in calls)


# --- calls ------------------------------------------------------------------------------------


def new_call_id() -> str:
    """An id for a call that came without one, or with one that is taken (O-14, C-5)."""
    return "call_" + secrets.token_hex(6)


def read_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """The call, its arguments given as an object or as JSON text. What can't be read becomes its `fault` (C-12)."""
    raw = arguments if isinstance(arguments, str) else None
    if not name:
        return ToolCall(id=call_id, name="", arguments={}, fault="The call names no tool.", raw=raw)
    try:
        return ToolCall(id=call_id, name=name, arguments=_as_object(arguments))
    except ValueError as error:
        shown = None if raw is not None and len(raw) > ARGUMENTS_LIMIT else str(arguments)[:ARGUMENTS_LIMIT]
        return ToolCall(id=call_id, name=name, arguments={}, fault=str(error), raw=shown)


def _as_object(arguments: Any) -> dict[str, Any]:
    """Arguments as an object. Raises ValueError with what is wrong with them."""
    if isinstance(arguments, str):
        if len(arguments) > ARGUMENTS_LIMIT:
            raise ValueError(f"The arguments are longer than {ARGUMENTS_LIMIT:,} characters.")
        try:
            value = read_json(arguments) if arguments.strip() else None
            value = read_json(value) if isinstance(value, str) else value
        except InvalidJson as error:
            raise ValueError(f"The arguments are not valid JSON: {error}.") from None
        if value is not None and not isinstance(value, dict):
            raise ValueError("The arguments must be one JSON object.")
        return value or {}
    if arguments is not None and not isinstance(arguments, dict):
        raise ValueError(f"The arguments must be one JSON object, not {type(arguments).__name__}.")
    return arguments or {}

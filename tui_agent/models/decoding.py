"""The core of a client without its sockets: bytes of a reply in, pieces out, the same wherever the bytes are torn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from tui_agent.domain import Fault, ToolCall, Usage
from tui_agent.models.base import CallBegun, CallReady, Counted, Failed, Piece, Stop, Text, Thought
from tui_agent.models.calls import new_id, read_call
from tui_agent.models.faults import Peer, WireFault, broken, from_stream, tidy
from tui_agent.models.framing import Frame, FrameTooLarge, Splitter, Unreadable, read_json


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
        """Grows with every token, thought and fragment of a call; pings and empty deltas leave it as it is (C07)."""
        self._ids = set(taken_ids)
        self._pieces: list[Piece] = []

    def opened(self, content_type: str) -> None:
        """The headers came. Raises WireFault for a content type that can't be a reply."""
        if "html" in content_type:
            fault = Fault(
                kind="protocol",
                message=f"{self.peer.shown} answered with an HTML page instead of a reply.",
                advice="Check the base URL.",
            )
            raise WireFault(fault)

    def feed(self, chunk: bytes) -> list[Piece]:
        """The pieces that this chunk completes."""
        return self._read(chunk)

    def end(self) -> list[Piece]:
        """The pieces at the end of the stream; without an end marker the last one is Failed (R15.5)."""
        return self._read(None)

    def _read(self, chunk: bytes | None) -> list[Piece]:
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

    @abstractmethod
    def settle(self) -> None:
        """Give out what was held back, and Stop: called at the end of a complete reply."""

    # --- for subclasses -----------------------------------------------------------------

    def value(self, text: str) -> dict[str, Any] | None:
        """The JSON object in `text`; anything else fails the reply and gives None (C22)."""
        try:
            value = read_json(text)
        except Unreadable as error:
            why = f"unreadable data ({error})"
        else:
            if isinstance(value, dict):
                return value
            why = "something else than an object"
        quote = tidy(text, self.peer, 160)
        self.fail(Fault(kind="protocol", message=f"{self.peer.shown} sent {why}: {quote}"))
        return None

    def text(self, value: Any) -> None:
        """A fragment of the answer, if it is one."""
        if isinstance(value, str) and value:
            self._add(Text(text=value))

    def thought(self, value: Any) -> None:
        """A fragment of thinking, if it is one."""
        if isinstance(value, str) and value:
            self._add(Thought(text=value))

    def begun(self, call: CallBegun) -> None:
        """A call whose arguments arrive."""
        self._add(call)

    def call(self, call_id: Any, name: Any, arguments: Any) -> None:
        """A complete call. Its id is replaced if there is none or if it is taken."""
        if not isinstance(call_id, str) or not call_id or call_id in self._ids:
            call_id = new_id()
        self._ids.add(call_id)
        self._add(
            CallReady(call=read_call(call_id, name.strip() if isinstance(name, str) else "", arguments))
        )

    def count(self, usage: Usage) -> None:
        """Token counts."""
        if usage != Usage():
            self._pieces.append(Counted(usage=usage))

    def note(self, piece: Piece) -> None:
        """A piece that is progress but nothing of the answer."""
        self.progress += 1
        self._pieces.append(piece)

    def stop(self, reason: str) -> None:
        """The reply ended in order."""
        self.finished = True
        self._pieces.append(Stop(reason=reason))

    def fail(self, fault: Fault) -> None:
        """The reply ended badly; it is never asked for again once something of it came out."""
        self.finished = True
        if self.produced and fault.retryable:
            fault = msgspec.structs.replace(fault, retryable=False)
        self._pieces.append(Failed(fault=fault))

    def fail_from(self, value: Any) -> None:
        """The server told of an error inside the stream (O-4, C-1, C13)."""
        self.fail(from_stream(value, self.peer))

    def _add(self, piece: Text | Thought | CallBegun | CallReady) -> None:
        self.progress += 1
        self.produced = True
        self._pieces.append(piece)


def whole_number(value: Any) -> int | None:
    """A count as servers send it; None for what is missing or can't be one (C34)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 1e15 else None


def taken_ids(messages: tuple[object, ...]) -> frozenset[str]:
    """Ids of the calls in a history, so that a new call never gets one of them."""
    calls: list[ToolCall] = [call for message in messages for call in getattr(message, "calls", ())]
    return frozenset(call.id for call in calls)

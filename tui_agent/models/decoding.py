"""Reply decoders without sockets: bytes of a reply in, reply parts out, independent of chunk boundaries."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from tui_agent.common.domain import AssistantMessage, Fault, Message, ToolCall, Usage
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    ReasoningFragment,
    ReplyPart,
    Stop,
    TextFragment,
    UsageReport,
)
from tui_agent.models.faults import Peer, WireFault, broken_stream, fault_from_error, for_display
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, Frame, FrameTooLarge, InvalidJson, Splitter, read_json
from tui_agent.text import one_line

ARGUMENTS_LIMIT = 4 * 1024 * 1024
"""Maximum length of a call's arguments, in characters."""


class Decoder(ABC):
    """Decodes one reply. Its last part is a Stop or a Failed; after that, `finished` is set and nothing follows."""

    splitter_type: ClassVar[type[Splitter]]

    def __init__(
        self, peer: Peer, used_ids: frozenset[str] = frozenset(), line: int = LINE_LIMIT, body: int = BODY_LIMIT
    ) -> None:
        """`used_ids`: ids of earlier calls. `line`, `body`: size limits in bytes."""
        self.peer = peer
        self.splitter = self.splitter_type(line, body)
        self.finished = False
        self.complete = False
        """An end marker was seen: only token counts may follow, and silence is not a fault."""
        self.has_output = False
        """Some part of the answer was produced."""
        self.progress = 0
        """Grows with every fragment of text, reasoning or a call; pings and empty deltas don't change it."""
        self._used_ids = set(used_ids)
        self._has_calls = False
        self._parts: list[ReplyPart] = []
        self._fragments: list[str] = []
        """Consecutive fragments of the same kind, joined into one part."""
        self._fragment_type: type[TextFragment | ReasoningFragment] = TextFragment

    def check_content_type(self, content_type: str) -> None:
        """Raise WireFault for a content type that can't be a reply."""
        if "html" in content_type:
            fault = Fault(
                kind="protocol",
                message=f"{self.peer.address} answered with an HTML page instead of a reply.",
                advice="Check the base URL.",
            )
            raise WireFault(fault)

    def feed(self, chunk: bytes | None) -> list[ReplyPart]:
        """Return the parts completed by `chunk`. None marks the end of the stream: the last part is then Failed
        unless an end marker was seen."""
        if self.finished:
            return []
        try:
            for frame in self.splitter.flush() if chunk is None else self.splitter.feed(chunk):
                self.decode(frame)
                if self.finished:
                    break
            if chunk is None and not self.finished:
                if self.complete:
                    self.finish()
                else:
                    self.fail(broken_stream(self.peer, has_output=self.has_output))
        except FrameTooLarge as error:
            self.fail(Fault(kind="too_large", message=f"{self.peer.address}: {error}."))
        self._join_fragments()
        parts, self._parts = self._parts, []
        return parts

    @abstractmethod
    def decode(self, frame: Frame) -> None:
        """Decode one frame, using the methods below."""

    def finish(self) -> None:  # noqa: B027 # only decoders that set `complete` need it
        """Emit what was held back until the end of a complete reply, and Stop."""

    # --- for subclasses -----------------------------------------------------------------

    def parse_object(self, text: str) -> dict[str, Any] | None:
        """Parse `text` as a JSON object; anything else fails the reply and returns None."""
        try:
            value = read_json(text)
        except InvalidJson as error:
            why = f"unreadable data ({error})"
        else:
            if isinstance(value, dict):
                return value
            why = "something other than an object"
        quote = for_display(text, self.peer, 160)
        self.fail(Fault(kind="protocol", message=f"{self.peer.address} sent {why}: {quote}"))
        return None

    def add_text(self, value: Any, fragment_type: type[TextFragment | ReasoningFragment] = TextFragment) -> None:
        """Add a fragment of the answer or the reasoning; anything but a non-empty string is ignored."""
        if isinstance(value, str) and value:
            if fragment_type is not self._fragment_type:
                self._join_fragments()
                self._fragment_type = fragment_type
            self._fragments.append(value)
            self.progress += 1
            self.has_output = True

    def _join_fragments(self) -> None:
        if self._fragments:
            self._parts.append(self._fragment_type(text="".join(self._fragments)))
            self._fragments.clear()

    def add(self, part: ReplyPart) -> None:
        """Add a part that is not text."""
        self._join_fragments()
        self._parts.append(part)
        if not isinstance(part, UsageReport):
            self.progress += 1
        if isinstance(part, CallProgress | CallReady):
            self.has_output = True

    def add_call(self, call_id: Any, name: Any, arguments: Any) -> None:
        """Add a complete call. A missing or already used id is replaced."""
        if not isinstance(call_id, str) or not call_id or call_id in self._used_ids:
            call_id = new_call_id()
        self._used_ids.add(call_id)
        self._has_calls = True
        self.add(CallReady(call=build_call(call_id, name.strip() if isinstance(name, str) else "", arguments)))

    def add_usage(self, usage: Usage) -> None:
        """Add token counts, if there are any."""
        if usage != Usage():
            self.add(UsageReport(usage=usage))

    def stop(self, reason: str) -> None:
        """End the reply normally; not every server reports `tool_calls` as the reason (O-2)."""
        self.finished = True
        self.add(Stop(reason="tool_calls" if self._has_calls and reason in ("", "stop") else reason))

    def fail(self, fault: Fault) -> None:
        """End the reply with a fault, which is not retryable once there was output."""
        self.finished = True
        if self.has_output and fault.retryable:
            fault = msgspec.structs.replace(fault, retryable=False)
        self.add(Failed(fault=fault))

    def fail_on_error(self, value: dict[str, Any]) -> bool:
        """Fail the reply if `value` reports an error inside the stream (O-4, C-1); return whether it does.

        Ollama uses the key `error`, in some versions `error parsing tool call`.
        """
        if not any(key.startswith("error") and value[key] for key in value):
            return False
        self.fail(fault_from_error(value, self.peer))
        return True


# --- values as servers send them --------------------------------------------------------------


def as_count(value: Any) -> int | None:
    """Return `value` as a non-negative integer; None if it is missing or not a plausible count."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 1e15 else None


def as_object(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the objects in the list `value`; empty if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# --- calls ------------------------------------------------------------------------------------


def build_summary(parameters: Any, quantization: Any, size: int | None) -> str:
    """Summarize a model's build, such as `7.6B · Q4_K_M · 4.7 GB`; `size` is in bytes. Unknown parts are omitted."""
    facts = (parameters, quantization, f"{size / 1e9:.1f} GB" if size and size >= 5e7 else None)
    return " · ".join(one_line(fact, 20) for fact in facts if isinstance(fact, str) and fact)


def used_call_ids(messages: Iterable[Message]) -> frozenset[str]:
    """Return the ids of all calls in a history, which a new call must not reuse."""
    return frozenset(call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls)


def new_call_id() -> str:
    """Return an id for a call whose own id is missing or already used (O-14, C-5)."""
    return "call_" + secrets.token_hex(6)


def build_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """Build a call from arguments as an object or as JSON text; a parse error becomes its `fault` (C-12)."""
    raw = arguments if isinstance(arguments, str) else None
    if not name:
        return ToolCall(id=call_id, name="", arguments={}, fault="The call names no tool.", raw=raw)
    try:
        return ToolCall(id=call_id, name=name, arguments=_parse_arguments(arguments))
    except ValueError as error:
        shown = None if raw is not None and len(raw) > ARGUMENTS_LIMIT else str(arguments)[:ARGUMENTS_LIMIT]
        return ToolCall(id=call_id, name=name, arguments={}, fault=str(error), raw=shown)


def _parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return arguments as an object. Raises ValueError whose message is for the model."""
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

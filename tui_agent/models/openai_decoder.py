"""Decodes replies of OpenAI-compatible servers: chunks of /chat/completions, with all their deviations."""

from __future__ import annotations

from typing import Any

import msgspec

from tui_agent.common.domain import Usage
from tui_agent.models.base import CallStarted, Phase, ThinkingPiece
from tui_agent.models.decoding import ARGUMENTS_LIMIT, Decoder, whole_count
from tui_agent.models.faults import Peer
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, Frame, InvalidJson, SseEvents, read_json

_FIRST_LOOK = 64
"""Characters of arguments at which they are read for the status line; then at every doubling, so that the work
stays linear in their length."""
_LOOKS = 200
"""How often a call's arguments are checked for being complete."""
_SHOWN = 200
"""Characters of one argument that the status line may get."""


class Slot:
    """One call in the making."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.whole: Any = None
        """Arguments that came as an object instead of text."""
        self._parts: list[str] = []
        self.length = 0
        self._next_look = self._looks = 0

    @property
    def arguments(self) -> Any:
        """The arguments as they came: text, or an object."""
        return self.whole if self.whole is not None else "".join(self._parts)

    @property
    def started(self) -> bool:
        """Some arguments are there."""
        return self.whole is not None or self.length > 0

    @property
    def closed(self) -> bool:
        """The arguments are a complete object. Asked only when a new call may begin, and not without end."""
        if self.whole is not None or not self._parts:
            return self.whole is not None
        self._looks += 1
        return self._looks <= _LOOKS and self._parts[-1].rstrip().endswith("}") and _is_object("".join(self._parts))

    def add_name(self, name: str) -> None:
        """Names come once, again and again in full, or (seldom) in parts; an empty one never overwrites."""
        if not self.name or name.startswith(self.name):
            self.name = name
        elif not self.started and not self.name.startswith(name):
            self.name += name

    def add_arguments(self, arguments: Any) -> None:
        """Text is a fragment; an object is all of it."""
        if isinstance(arguments, (dict, list)):
            if arguments or not self.length:
                self.whole = arguments
        elif isinstance(arguments, str) and arguments:
            self.length += len(arguments)
            if self.length <= ARGUMENTS_LIMIT + len(arguments):
                self._parts.append(arguments)

    def glimpse(self) -> CallStarted | None:
        """What the status line may show, when there is something new to look at."""
        if not self.name or self.length < self._next_look:
            return None
        self._next_look = max(_FIRST_LOOK, self.length * 2)
        if self.whole is not None:
            return CallStarted(name=self.name, arguments=_brief(self.whole))
        return CallStarted(name=self.name, arguments=_brief(_partial("".join(self._parts))))


class Slots:
    """All calls of a reply, in the order in which they began."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self._by_index: dict[int, Slot] = {}

    def add(self, delta: Any) -> Slot | None:
        """Take one entry of `tool_calls`; the call that it belongs to, or None for an entry that is none."""
        if not isinstance(delta, dict):
            return None
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        index = delta.get("index") if isinstance(delta.get("index"), int) else None
        call_id, name, arguments = _word(delta.get("id")), _word(function.get("name")), function.get("arguments")
        if index is None and not (call_id or name or arguments):
            return None
        slot = self._known(call_id, index, name)
        if slot is None or _begins_another(name, arguments, slot):
            slot = Slot()
            self.slots.append(slot)
        slot.id = slot.id or call_id
        if name:
            slot.add_name(name)
        slot.add_arguments(arguments)
        if index is not None:
            self._by_index[index] = slot
        return slot

    def _known(self, call_id: str, index: int | None, name: str) -> Slot | None:
        """Which call an entry continues: its id tells first, then its index, then the order (C-5)."""
        last = self.slots[-1] if self.slots else None
        if call_id:
            known = next((slot for slot in reversed(self.slots) if slot.id == call_id), None)
            at = last if index is None else self._by_index.get(index)
            # parallel calls that all say index 0: a new id is a new call
            return known or (at if at is not None and not at.id else None)
        if index is None:
            return last
        known = self._by_index.get(index)
        if known is None and not name and last is not None and not last.started:
            known = last  # the arguments of a call that was named under another index
        return known


def _begins_another(name: str, arguments: Any, slot: Slot) -> bool:
    """A named entry with arguments from their beginning, for a call that has all of its own, is another call, even
    with the same index or id. A repetition of the same call is none."""
    if not name or not slot.started:
        return False
    if isinstance(arguments, str):
        if not arguments.lstrip().startswith("{"):
            return False
    elif not isinstance(arguments, dict):
        return False
    return slot.closed


def _word(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_object(text: str) -> bool:
    try:
        return isinstance(read_json(text), dict)
    except InvalidJson:
        return False


def _partial(text: str) -> Any:
    """What can be read of arguments that are still arriving."""
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}


def _brief(arguments: Any) -> dict[str, Any]:
    """Short scalars only: paths and names, not contents."""
    if not isinstance(arguments, dict):
        return {}
    out: dict[str, Any] = {}
    for key, value in arguments.items():
        if isinstance(value, str):
            out[key] = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
        elif isinstance(value, (int, float, bool)):
            out[key] = value
    return out


def arguments_text(arguments: Any) -> str:
    """Arguments for the wire: always one valid JSON object in a text (C-9, C-12)."""
    return msgspec.json.encode(arguments).decode() if arguments else "{}"


_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_REASONS = {
    "function_call": "tool_calls",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
}


class OpenAIDecoder(Decoder):
    """Reads one reply. What it is made of decides, not what `finish_reason` claims (C-4)."""

    def __init__(
        self, peer: Peer, taken: frozenset[str] = frozenset(), line: int = LINE_LIMIT, body: int = BODY_LIMIT
    ) -> None:
        self._splitter = SseEvents(line, body)
        super().__init__(peer, self._splitter, taken)
        self._slots = Slots()
        self._usage = Usage()
        self._reason = ""
        self._read_percent = -1
        self.reading = False
        """The server tells how far it has read the prompt."""

    def take(self, frame: Frame) -> None:
        """One event."""
        data = frame.data.strip()
        if not data:
            return
        if data == "[DONE]":
            self.settle()
        elif frame.event == "error":
            self.fail_from(data)
        elif data[0] in "{[" or self._splitter.whole:
            value = self.value(data)
            if value is not None:
                self._take_chunk(value)

    def _take_chunk(self, value: dict[str, Any]) -> None:
        if "choices" not in value and any(key.startswith("error") and value[key] for key in value):
            self.fail_from(value)
            return
        if value.get("error"):
            self.fail_from({"error": value["error"]})
            return
        self._take_usage(value)
        self._take_prompt_progress(value.get("prompt_progress"))
        choices = value.get("choices")
        first = (
            next((choice for choice in choices if isinstance(choice, dict)), {}) if isinstance(choices, list) else {}
        )
        for key in ("delta", "message"):
            if isinstance(first.get(key), dict):
                self._take_delta(first[key])
                break
        reason = first.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = _REASONS.get(reason, reason)
            self.complete = True

    def _take_delta(self, delta: dict[str, Any]) -> None:
        self._take_thought(delta)
        self.text(_content(delta.get("content")))
        self.text(delta.get("refusal"))
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._take_call(call)
        if isinstance(delta.get("function_call"), dict):  # the form before `tool_calls`
            self._take_call({"index": 0, "function": delta["function_call"]})

    def _take_thought(self, delta: dict[str, Any]) -> None:
        """Thinking comes under several names, under two at once from some; one of them is taken (C-6)."""
        for name in _THOUGHTS:
            if isinstance(delta.get(name), str) and delta[name]:
                self.text(delta[name], ThinkingPiece)
                return
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                self.text(detail.get("text") or detail.get("summary"), ThinkingPiece)

    def _take_call(self, delta: Any) -> None:
        slot = self._slots.add(delta)
        if slot is None:
            return
        self.progress += 1
        self.produced = True
        if (glimpse := slot.glimpse()) is not None:
            self.add(glimpse)

    def _take_usage(self, value: dict[str, Any]) -> None:
        """Counts come once after the end, or cumulated in every chunk: the last ones count (C-3)."""
        usage, timings = value.get("usage"), value.get("timings")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            self._usage = msgspec.structs.replace(
                self._usage,
                prompt_tokens=whole_count(usage.get("prompt_tokens")) or None,
                completion_tokens=whole_count(usage.get("completion_tokens")),
                cached_tokens=whole_count(cached),
            )
        if isinstance(timings, dict):
            self._usage = _with_timings(self._usage, timings)

    def _take_prompt_progress(self, value: Any) -> None:
        """How much of the prompt llama.cpp has read (C-11)."""
        if not isinstance(value, dict):
            return
        self.reading = True
        total, done = whole_count(value.get("total")), whole_count(value.get("processed"))
        if total and done is not None and (percent := min(100, done * 100 // total)) > self._read_percent:
            self._read_percent = percent
            if not self.produced:
                self.add(Phase(phase="reading", done=min(done, total), total=total))

    def settle(self) -> None:
        """Give out calls and counts, and Stop."""
        reason, called = self._reason, False
        for slot in self._slots.slots:
            if slot.name or slot.started:
                called = True
                self.call(slot.id, slot.name, slot.arguments)
        self.count(self._usage)
        self.stop("tool_calls" if called and reason in ("", "stop") else reason)


def _with_timings(usage: Usage, timings: dict[str, Any]) -> Usage:
    """What llama.cpp adds: milliseconds, and how many tokens it read and wrote. `prompt_n` is without those that it
    still had; `cache_n`, which older versions lack, is their number."""
    read, cached = whole_count(timings.get("prompt_n")), whole_count(timings.get("cache_n"))
    prompt = usage.prompt_tokens
    if prompt is None and read is not None and cached is not None:
        prompt = read + cached or None
    if cached is None and prompt is not None and read is not None and read <= prompt:
        cached = prompt - read
    written = whole_count(timings.get("predicted_n"))
    return msgspec.structs.replace(
        usage,
        prompt_tokens=prompt,
        completion_tokens=written if usage.completion_tokens is None else usage.completion_tokens,
        cached_tokens=cached if usage.cached_tokens is None else usage.cached_tokens,
        prompt_ms=whole_count(timings.get("prompt_ms")),
        generate_ms=whole_count(timings.get("predicted_ms")),
    )


def _content(value: Any) -> Any:
    """Text, also where it comes as a list of parts."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return value

"""Reading the reply of an OpenAI-compatible server: SSE chunks of /chat/completions, with every liberty they take."""

from __future__ import annotations

from typing import Any

import msgspec

from tui_agent.domain import Usage
from tui_agent.models.base import Phase
from tui_agent.models.decoding import Decoder, whole_number
from tui_agent.models.faults import Peer
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, Frame, SseOrWhole
from tui_agent.models.openai_deltas import Slots

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
        self._splitter = SseOrWhole(line, body)
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
            self._take_error(data)
        elif data[0] in "{[" or self._splitter.whole:
            value = self.value(data)
            if value is not None:
                self._take_chunk(value)

    def _take_error(self, data: str) -> None:
        self.fail_from(data)

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
            next((choice for choice in choices if isinstance(choice, dict)), {})
            if isinstance(choices, list)
            else {}
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
                self.thought(delta[name])
                return
        details = delta.get("reasoning_details")
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict):
                self.thought(detail.get("text") or detail.get("summary"))

    def _take_call(self, delta: Any) -> None:
        slot = self._slots.add(delta)
        if slot is None:
            return
        self.progress += 1
        self.produced = True
        if (glimpse := slot.glimpse()) is not None:
            self.begun(glimpse)

    def _take_usage(self, value: dict[str, Any]) -> None:
        """Counts come once after the end, or cumulated in every chunk: the last ones count (C-3)."""
        usage, timings = value.get("usage"), value.get("timings")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            self._usage = msgspec.structs.replace(
                self._usage,
                prompt_tokens=whole_number(usage.get("prompt_tokens")) or None,
                completion_tokens=whole_number(usage.get("completion_tokens")),
                cached_tokens=whole_number(cached),
            )
        if isinstance(timings, dict):
            self._usage = _with_timings(self._usage, timings)

    def _take_prompt_progress(self, value: Any) -> None:
        """How much of the prompt llama.cpp has read (C-11)."""
        if not isinstance(value, dict):
            return
        self.reading = True
        total, done = whole_number(value.get("total")), whole_number(value.get("processed"))
        if total and done is not None and (percent := min(100, done * 100 // total)) > self._read_percent:
            self._read_percent = percent
            if not self.produced:
                self.note(Phase(phase="reading", done=min(done, total), total=total))

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
    read, cached = whole_number(timings.get("prompt_n")), whole_number(timings.get("cache_n"))
    prompt = usage.prompt_tokens
    if prompt is None and read is not None and cached is not None:
        prompt = read + cached or None
    if cached is None and prompt is not None and read is not None and read <= prompt:
        cached = prompt - read
    written = whole_number(timings.get("predicted_n"))
    return msgspec.structs.replace(
        usage,
        prompt_tokens=prompt,
        completion_tokens=written if usage.completion_tokens is None else usage.completion_tokens,
        cached_tokens=cached if usage.cached_tokens is None else usage.cached_tokens,
        prompt_ms=whole_number(timings.get("prompt_ms")),
        generate_ms=whole_number(timings.get("predicted_ms")),
    )


def _content(value: Any) -> Any:
    """Text, also where it comes as a list of parts."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return value

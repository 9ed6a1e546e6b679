"""Decode replies of OpenAI-compatible servers: chunks of /chat/completions, with all known deviations."""

from __future__ import annotations

from typing import Any

import msgspec

from tui_agent.common.domain import Usage
from tui_agent.models.base import CallProgress, Phase, ReasoningFragment
from tui_agent.models.decoding import ARGUMENTS_LIMIT, Decoder, as_count, as_object, objects_in
from tui_agent.models.faults import Peer, fault_from_error
from tui_agent.models.framing import BODY_LIMIT, LINE_LIMIT, Frame, InvalidJson, SseEvents, read_json

_FIRST_PARSE = 64
"""Length of the arguments, in characters, at which they are first parsed for the status line; then at every doubling,
which keeps the work linear."""
_COMPLETENESS_CHECKS = 200
"""How often a call's arguments are checked for completeness."""
_ARGUMENT_SHOWN = 200
"""Maximum length of an argument for the status line."""


class PendingCall:
    """A tool call that is still arriving."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.object: Any = None
        """Arguments received as an object instead of text."""
        self._fragments: list[str] = []
        self.length = 0
        self._next_parse = self._checks = 0

    @property
    def arguments(self) -> Any:
        """The arguments as received: text, or an object."""
        return self.object if self.object is not None else "".join(self._fragments)

    @property
    def has_arguments(self) -> bool:
        return self.object is not None or self.length > 0

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a complete object. Checked only when a new call may begin, and a limited number of
        times."""
        if self.object is not None or not self._fragments:
            return self.object is not None
        self._checks += 1
        if self._checks > _COMPLETENESS_CHECKS or not self._fragments[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(read_json("".join(self._fragments)), dict)
        except InvalidJson:
            return False

    def add_name(self, name: str) -> None:
        """Add a name: sent once, repeated in full, or (rarely) in fragments; an empty one never overwrites."""
        if not self.name or name.startswith(self.name):
            self.name = name
        elif not self.has_arguments and not self.name.startswith(name):
            self.name += name

    def add_arguments(self, arguments: Any) -> None:
        """Add arguments: text is a fragment, an object is all of them."""
        if isinstance(arguments, (dict, list)):
            if arguments or not self.length:
                self.object = arguments
        elif isinstance(arguments, str) and arguments:
            self.length += len(arguments)
            if self.length <= ARGUMENTS_LIMIT + len(arguments):
                self._fragments.append(arguments)

    def progress_update(self) -> CallProgress | None:
        """Return what the status line may show, if there is enough new to parse."""
        if not self.name or self.length < self._next_parse:
            return None
        self._next_parse = max(_FIRST_PARSE, self.length * 2)
        arguments = _parse_partial("".join(self._fragments)) if self.object is None else self.object
        return CallProgress(name=self.name, arguments=_short_scalars(arguments))


class PendingCalls:
    """Assigns the entries of `tool_calls` to calls, in the order in which these began."""

    def __init__(self) -> None:
        self.calls: list[PendingCall] = []
        self._by_index: dict[int, PendingCall] = {}

    def add(self, delta: dict[str, Any]) -> PendingCall | None:
        """Add an entry of `tool_calls`; return the call it belongs to, or None if it carries nothing."""
        function = as_object(delta.get("function"))
        index = delta.get("index") if isinstance(delta.get("index"), int) else None
        call_id, name = _stripped(delta.get("id")), _stripped(function.get("name"))
        arguments = function.get("arguments")
        if index is None and not (call_id or name or arguments):
            return None
        call = self._find_call(call_id, index, name)
        if call is None or _is_new_call(name, arguments, call):
            call = PendingCall()
            self.calls.append(call)
        call.id = call.id or call_id
        if name:
            call.add_name(name)
        call.add_arguments(arguments)
        if index is not None:
            self._by_index[index] = call
        return call

    def _find_call(self, call_id: str, index: int | None, name: str) -> PendingCall | None:
        """Return the call that an entry continues, by its id, then its index, then the order (C-5)."""
        last = self.calls[-1] if self.calls else None
        same_index = last if index is None else self._by_index.get(index)
        if call_id:
            same_id = next((call for call in reversed(self.calls) if call.id == call_id), None)
            # In parallel calls that all have index 0, a new id is a new call.
            return same_id or (same_index if same_index is not None and not same_index.id else None)
        if same_index is None and not name and last is not None and not last.has_arguments:
            return last  # these are the arguments of a call that was named under another index
        return same_index


def _is_new_call(name: str, arguments: Any, call: PendingCall) -> bool:
    """Whether an entry is a new call although its index or id belongs to `call`: it has a name and arguments from the
    beginning, and those of `call` are complete. A repetition of the same call is not."""
    is_beginning = arguments.lstrip().startswith("{") if isinstance(arguments, str) else isinstance(arguments, dict)
    return bool(name) and call.has_arguments and is_beginning and call.is_complete


def _stripped(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _parse_partial(text: str) -> Any:
    """Parse the readable part of incomplete arguments."""
    from pydantic_core import from_json

    try:
        return from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}


def _short_scalars(arguments: Any) -> dict[str, Any]:
    """Return the scalar arguments, long texts truncated."""
    if not isinstance(arguments, dict):
        return {}
    return {
        key: value[:_ARGUMENT_SHOWN] + "…" if isinstance(value, str) and len(value) > _ARGUMENT_SHOWN else value
        for key, value in arguments.items()
        if isinstance(value, str | int | float)
    }


def encode_arguments(arguments: Any) -> str:
    """Encode arguments as one valid JSON object, as text (C-9, C-12)."""
    return msgspec.json.encode(arguments).decode() if arguments else "{}"


_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_STOP_REASONS = {
    "function_call": "tool_calls",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
}


class OpenAIDecoder(Decoder):
    """Decodes one reply by its content, not by what `finish_reason` claims (C-4)."""

    splitter_type = SseEvents

    def __init__(
        self, peer: Peer, used_ids: frozenset[str] = frozenset(), line: int = LINE_LIMIT, body: int = BODY_LIMIT
    ) -> None:
        super().__init__(peer, used_ids, line, body)
        self._calls = PendingCalls()
        self._usage = Usage()
        self._reason = ""
        self._read_percent = -1
        self.reports_progress = False
        """The server reports its progress in reading the prompt."""

    def decode(self, frame: Frame) -> None:
        """Decode one event."""
        data = frame.data.strip()
        if not data:
            return
        if data == "[DONE]":
            self.finish()
        elif frame.event == "error":
            self.fail(fault_from_error(data, self.peer))
        elif data[0] in "{[" or self.splitter.is_document:
            value = self.parse_object(data)
            if value is not None:
                self._decode_chunk(value)

    def _decode_chunk(self, value: dict[str, Any]) -> None:
        if self.fail_on_error(value if "choices" not in value else {"error": value.get("error")}):
            return
        self._update_usage(value)
        self._report_prompt_progress(value.get("prompt_progress"))
        first = next(iter(objects_in(value.get("choices"))), {})
        for key in ("delta", "message"):
            if isinstance(first.get(key), dict):
                self._decode_delta(first[key])
                break
        reason = first.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = _STOP_REASONS.get(reason, reason)
            self.complete = True

    def _decode_delta(self, delta: dict[str, Any]) -> None:
        self._add_reasoning(delta)
        self.add_text(_content(delta.get("content")))
        self.add_text(delta.get("refusal"))
        for call in objects_in(delta.get("tool_calls")):
            self._add_call_delta(call)
        if isinstance(delta.get("function_call"), dict):  # the form before `tool_calls`
            self._add_call_delta({"index": 0, "function": delta["function_call"]})

    def _add_reasoning(self, delta: dict[str, Any]) -> None:
        """Add reasoning, which servers send under several names, some under two at once; only one of them is used
        (C-6)."""
        for name in _REASONING_FIELDS:
            if isinstance(delta.get(name), str) and delta[name]:
                self.add_text(delta[name], ReasoningFragment)
                return
        for detail in objects_in(delta.get("reasoning_details")):
            self.add_text(detail.get("text") or detail.get("summary"), ReasoningFragment)

    def _add_call_delta(self, delta: dict[str, Any]) -> None:
        call = self._calls.add(delta)
        if call is None:
            return
        self.progress += 1
        self.has_output = True
        if (update := call.progress_update()) is not None:
            self.add(update)

    def _update_usage(self, value: dict[str, Any]) -> None:
        """Update the counts, sent once after the end or cumulatively in every chunk: the last ones are valid (C-3)."""
        usage, timings = value.get("usage"), value.get("timings")
        if isinstance(usage, dict):
            self._usage = msgspec.structs.replace(
                self._usage,
                prompt_tokens=as_count(usage.get("prompt_tokens")) or None,
                completion_tokens=as_count(usage.get("completion_tokens")),
                cached_tokens=as_count(as_object(usage.get("prompt_tokens_details")).get("cached_tokens")),
            )
        if isinstance(timings, dict):
            self._usage = _with_timings(self._usage, timings)

    def _report_prompt_progress(self, value: Any) -> None:
        """Report how much of the prompt llama.cpp has processed (C-11)."""
        if not isinstance(value, dict):
            return
        self.reports_progress = True
        total, done = as_count(value.get("total")), as_count(value.get("processed"))
        if total and done is not None and (percent := min(100, done * 100 // total)) > self._read_percent:
            self._read_percent = percent
            if not self.has_output:
                self.add(Phase(phase="reading", done=min(done, total), total=total))

    def finish(self) -> None:
        """Emit calls and counts, and Stop."""
        for call in self._calls.calls:
            if call.name or call.has_arguments:
                self.add_call(call.id, call.name, call.arguments)
        self.add_usage(self._usage)
        self.stop(self._reason)


def _with_timings(usage: Usage, timings: dict[str, Any]) -> Usage:
    """Add llama.cpp's times and token counts. `prompt_n` excludes cached tokens; `cache_n`, missing in older versions,
    is their number."""
    uncached, cached = as_count(timings.get("prompt_n")), as_count(timings.get("cache_n"))
    prompt = usage.prompt_tokens
    if prompt is None and uncached is not None and cached is not None:
        prompt = uncached + cached or None
    if cached is None and prompt is not None and uncached is not None and uncached <= prompt:
        cached = prompt - uncached
    completion = as_count(timings.get("predicted_n"))
    return msgspec.structs.replace(
        usage,
        prompt_tokens=prompt,
        completion_tokens=completion if usage.completion_tokens is None else usage.completion_tokens,
        cached_tokens=cached if usage.cached_tokens is None else usage.cached_tokens,
        prompt_ms=as_count(timings.get("prompt_ms")),
        generate_ms=as_count(timings.get("predicted_ms")),
    )


def _content(value: Any) -> Any:
    """Return the text of `content`, which may be a list of parts."""
    if isinstance(value, list):
        parts = [part.get("text") for part in objects_in(value) if part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return value

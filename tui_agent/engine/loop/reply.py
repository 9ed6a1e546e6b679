"""One streamed reply: fragments from the model become events; text is buffered for at most 32 ms."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

import msgspec

from tui_agent.common.domain import Fault, ToolCall, ToolSpec, Usage
from tui_agent.engine.core.stream import EventSink
from tui_agent.engine.core.text_buffer import TextBuffer
from tui_agent.events import ReasoningDelta, ReplyEnded, ReplyPhase, RetryScheduled, TextDelta
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    Model,
    ModelRequest,
    Phase,
    ReasoningFragment,
    ReplyPart,
    RetryWait,
    Stop,
    TextFragment,
    UsageReport,
)
from tui_agent.protocols.calls import recovered_call, repair_arguments
from tui_agent.protocols.offer import clean_tool_name
from tui_agent.protocols.parser import INVENTED, ParsedReply, Protocol, ReplyParser
from tui_agent.text import Cleaner, clean, one_line

MAX_REPEATED_LINES = 50
"""How often a line may be repeated in a row."""
MAX_REPETITION = 3_000
"""Characters of a phrase of several words repeated without end before the reply is stopped."""
MAX_WORD_REPETITION = 40_000
"""The same for one or two words or symbols, which are common in tables, rulers and test data."""
MAX_PHRASE = 300
"""Characters of the longest repeated phrase that is detected."""
BUFFER_SECONDS = 0.032
"""How long fragments are buffered before they are journaled and shown (U1)."""

MAX_REPLY = 1_000_000
"""Characters of one reply, which has to fit into one journal record."""

Stage = Literal["connecting", "loading", "reading", "thinking", "writing"]

NextRequest = Callable[[str], ModelRequest | None]
"""Takes the raw text of a truncated reply and returns the request that continues it, or None."""


class ReceivedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply with what the loop needs in addition to its event."""

    ended: ReplyEnded
    parsed: ParsedReply = ParsedReply()
    raw: str = ""
    """The text with its markup."""
    repeated: str = ""
    """The phrase that was repeated until the reply was stopped."""


class ReplyReceiver:
    """Collects one reply and emits its events. A truncated reply is continued within the same reply (W14).

    On cancellation the reply so far is emitted as interrupted, then the cancellation continues.
    """

    def __init__(
        self,
        stream: EventSink,
        *,
        run: str,
        node: str,
        parent: str,
        new_call_id: Callable[[ToolCall], ToolCall],
        tools: Sequence[ToolSpec] = (),
        protocol: Protocol = "native",
        idle_timeout: float | None = None,
    ) -> None:
        """`idle_timeout`: seconds without progress, loading not counted, until the reply fails; None for no limit."""
        self._idle_timeout = idle_timeout
        self._emit = partial(stream.emit, run=run, node=node, parent=parent)
        self._new_call_id = new_call_id
        self._started = time.monotonic()
        self._text = TextBuffer(lambda text: self._emit(TextDelta(text=text)), BUFFER_SECONDS)
        self._thought = TextBuffer(lambda text: self._emit(ReasoningDelta(text=text)), BUFFER_SECONDS)
        self._thought_parts: list[str] = []
        self._cleaner, self._thought_cleaner = Cleaner(), Cleaner()
        self._parser = ReplyParser(tools, protocol, accept_attempts=bool(tools), on_reasoning=self._think)
        self._repetition = (RepetitionDetector(), RepetitionDetector())
        self._calls: list[ToolCall] = []
        self._usage = self._earlier_usage = Usage()
        self._stop = ""
        self._fault: Fault | None = None
        self._phase: tuple[str, str, int | None] = ("", "", None)
        self._thinking_since: float | None = None
        self._thought_ms = 0

    async def receive(
        self, model: Model, request: ModelRequest, next_request: NextRequest = lambda raw: None
    ) -> ReceivedReply:
        """Stream the reply to its end; failures become its fault. Raises only CancelledError."""
        interrupted = True
        try:
            following: ModelRequest | None = request
            while following is not None:
                await self._read(model, following)
                following = None
                if (
                    self._stop == "length"
                    and self._fault is None
                    and not self._calls
                    and not self._parser.is_over
                    and self._parser.raw.strip()
                ):
                    following = next_request(self._parser.raw)
                if following is not None:
                    self._parser.resume()
                    self._stop, self._earlier_usage = "", self._usage
            interrupted = False
        except TimeoutError:
            interrupted = False
            duration = "in time" if self._idle_timeout is None else f"for {self._idle_timeout:g} s"
            self._fault = Fault(kind="timeout", message=f"The model made no progress {duration}.")
        finally:
            received = self._end(interrupted)
        return received

    async def _read(self, model: Model, request: ModelRequest) -> None:
        """Read the reply to one request until it ends or nothing more is needed."""
        async with asyncio.timeout(self._idle_timeout) as deadline, aclosing(model.stream(request)) as parts:
            async for part in parts:
                self._process(part)
                if self._idle_timeout is not None:
                    loading = isinstance(part, Phase) and part.phase == "loading"
                    deadline.reschedule(None if loading else asyncio.get_running_loop().time() + self._idle_timeout)
                if self._is_complete():
                    break

    def _is_complete(self) -> bool:
        """Return whether the rest of the reply is not needed."""
        if self._parser.size + self._thought.size > MAX_REPLY:
            self._fault = Fault(kind="too_large", message=f"The reply was cut at {MAX_REPLY:,} characters.")
            return True
        return bool(self._repeated_phrase())

    def _process(self, part: ReplyPart) -> None:
        match part:
            case TextFragment(text=text):
                self._repetition[0].feed(text)
                self._show(self._parser.feed(self._cleaner.feed(text)))
            case ReasoningFragment(text=text):
                self._repetition[1].feed(text)
                self._think(self._thought_cleaner.feed(text))
            case CallProgress(name=name, arguments=arguments):
                self._stop_thinking()
                self._enter("writing", _call_label(clean_tool_name(name), arguments))
            case CallReady(call=call):
                self._stop_thinking()
                named = msgspec.structs.replace(call, name=clean_tool_name(clean(call.name)))
                self._calls.append(self._new_call_id(repair_arguments(named)))
            case Phase(phase=phase, detail=detail, done=done, total=total):
                self._enter(phase, detail, done, total)
            case RetryWait(attempt=attempt, of=of, seconds=seconds, why=why):
                self._emit(RetryScheduled(attempt=attempt, of=of, seconds=seconds, why=clean(why)))
                self._phase = ("", "", None)
            case UsageReport(usage=usage):
                self._usage = _continued_usage(self._earlier_usage, _merged_usage(self._usage, usage))
            case Stop(reason=reason):
                self._stop = reason
            case Failed(fault=fault):
                self._fault = fault

    # --- events ---

    def _show(self, text: str) -> None:
        if not text:
            return
        self._stop_thinking()
        if text.strip():
            self._enter("writing")
        self._text.add(text)

    def _think(self, text: str) -> None:
        if not text:
            return
        if self._thinking_since is None:
            self._text.flush()
            self._thinking_since = time.monotonic()
            self._enter("thinking")
        self._thought_parts.append(text)
        self._thought.add(text)

    def _enter(self, phase: Stage, detail: str = "", done: int | None = None, total: int | None = None) -> None:
        if (phase, detail, done) != self._phase:
            self._phase = (phase, detail, done)
            self._emit(ReplyPhase(phase=phase, detail=detail, done=done, total=total))

    def _stop_thinking(self) -> None:
        if self._thinking_since is not None:
            self._thought_ms += round((time.monotonic() - self._thinking_since) * 1000)
            self._thinking_since = None
            self._thought.flush()

    # --- the end ---

    def _repeated_phrase(self) -> str:
        """Return the phrase that text or reasoning repeat without end, or an empty string."""
        return self._repetition[0].phrase or self._repetition[1].phrase

    def _end(self, interrupted: bool) -> ReceivedReply:
        self._think(self._thought_cleaner.flush())
        self._show(self._parser.feed(self._cleaner.flush()))
        remaining, parsed = self._parser.finish()
        self._show(remaining)
        self._stop_thinking()
        self._thought.flush()
        self._text.flush()
        repeated = self._repeated_phrase()
        is_complete = self._fault is None and not interrupted and not repeated
        if self._calls and parsed.error == INVENTED:  # native calls precede it
            parsed = msgspec.structs.replace(parsed, error="")
        if self._stop == "length":
            self._calls[-1:] = [_truncated_call(call) for call in self._calls[-1:]]
        elif is_complete and not self._calls:
            self._calls = [self._new_call_id(call) for call in _calls_in(parsed)]
        text, thought = parsed.text, "".join(self._thought_parts)
        ended = ReplyEnded(
            text=without_repetition(text, clean(self._repetition[0].phrase)) if repeated else text,
            calls=tuple(self._calls),
            thought=without_repetition(thought, clean(self._repetition[1].phrase)) if repeated else thought,
            thought_ms=self._thought_ms,
            stop=self._stop,
            usage=self._usage,
            fault=self._fault,
            interrupted=interrupted,
            ms=round((time.monotonic() - self._started) * 1000),
        )
        self._emit(ended)
        return ReceivedReply(ended=ended, parsed=parsed, raw=self._parser.raw, repeated=repeated)


class RepetitionDetector:
    """Detects a stream that repeats itself. The work per fragment does not grow with the stream."""

    def __init__(self) -> None:
        self._line = ""
        self._last_line = ""
        self._line_count = 0
        self._tail = ""
        self._unchecked = 0
        self._repeated = 0
        self.phrase = ""
        """The repeated phrase, once one is detected."""

    def feed(self, text: str) -> None:
        """Check the next fragment."""
        if self.phrase:
            return
        *lines, last = text.split("\n")
        for line in lines:
            self._check_line((self._line + line).strip())
            self._line = ""
        self._line = (self._line + last)[-MAX_REPETITION:]
        self._tail = (self._tail + text)[-MAX_REPETITION:]
        self._unchecked += len(text)
        if self._unchecked >= MAX_REPETITION // 10 and len(self._tail) == MAX_REPETITION:
            self._unchecked = 0
            self._check_tail()

    def _check_line(self, line: str) -> None:
        if not line:
            return
        self._line_count = self._line_count + 1 if line == self._last_line else 1
        self._last_line = line
        if self._line_count > MAX_REPEATED_LINES:
            self.phrase = line

    def _check_tail(self) -> None:
        tail = self._tail
        period = tail.find(tail[: MAX_REPETITION - MAX_PHRASE], 1)
        if not (0 < period <= MAX_PHRASE and tail[period:] == tail[:-period]):
            self._repeated = 0
            return
        self._repeated += MAX_REPETITION // 10
        if len(tail[:period].split()) > 2 or self._repeated > MAX_WORD_REPETITION:
            self.phrase = tail[:period]


def without_repetition(text: str, phrase: str) -> str:
    """Cut a reply that ends in repetition after the first occurrence of the phrase."""
    start = text.find(phrase)
    return text if start < 0 or not phrase else text[: start + len(phrase)].rstrip() + " […]"


def _calls_in(parsed: ParsedReply) -> tuple[ToolCall, ...]:
    """Return the calls of a reply; a question in the protocol's format is a call of `ask_user`."""
    if parsed.error or parsed.calls or not parsed.question:
        return parsed.calls
    return (recovered_call("ask_user", {"question": parsed.question}),)


def _truncated_call(call: ToolCall) -> ToolCall:
    """Mark the last call of a truncated reply as faulty: it may be incomplete, so it is never run (W14)."""
    why = "the reply reached the limit of its length before the call was complete; send less at once"
    raw = json.dumps(call.arguments, ensure_ascii=False) if call.raw is None else call.raw
    return msgspec.structs.replace(call, arguments={}, raw=raw, fault=call.fault or why)


def _continued_usage(first: Usage, last: Usage) -> Usage:
    """Return the usage of a continued reply: the prompt of its first request and the completion tokens of both."""
    if first.completion_tokens is None and first.prompt_tokens is None:
        return last
    total = (first.completion_tokens or 0) + (last.completion_tokens or 0)
    return msgspec.structs.replace(
        last,
        prompt_tokens=first.prompt_tokens,
        cached_tokens=first.cached_tokens,
        completion_tokens=total if last.completion_tokens is not None else first.completion_tokens,
    )


def _call_label(name: str, arguments: dict[str, Any]) -> str:
    """Return the tool and the file that the status line shows while arguments arrive (C6)."""
    path = next((arguments[key] for key in ("path", "file_path", "file") if key in arguments), "")
    return one_line(clean(f"{name} {path}".strip()), 60)


def _merged_usage(old: Usage, new: Usage) -> Usage:
    """Return the usage with the values that the newer report has."""
    reported = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **reported)

"""One streamed reply: the pieces of a model become events, text gathered for at most 32 ms."""

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

LINES = 50
"""How often the same line may follow itself."""
STRETCH = 3_000
"""Characters that are one phrase of several words over and over: no text is so."""
STRETCH_WORD = 40_000
"""The same for a single word or sign: tables, rulers and test texts have many of them."""
PHRASE = 300
"""Characters of the longest phrase that is looked for."""
GATHER_SECONDS = 0.032
"""How long fragments are gathered before they are journaled and shown (U1)."""

REPLY_MAX = 1_000_000
"""Characters of one reply, whatever the server was asked for: it has to fit into one record."""

Stage = Literal["connecting", "loading", "reading", "thinking", "writing"]

More = Callable[[str], ModelRequest | None]
"""Gets what a reply holds that was cut off at its limit; gives the request that continues it, or None."""


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A reply and what the loop must know of it beside its event."""

    ended: ReplyEnded
    parsed: ParsedReply = ParsedReply()
    raw: str = ""
    """The text as it came, with its markup."""
    repeated: str = ""
    """What it repeated until it was cut."""


class ReplyReceiver:
    """Collects one reply and emits its events; cut off at its limit, it is continued within the same reply (W14).

    Cancelling keeps what was produced: it is emitted as an interrupted
    reply before the cancellation goes on.
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
        quiet: float | None = None,
    ) -> None:
        """`quiet`: seconds after which a model that says nothing is given up, loading not counted; None is never."""
        self._quiet = quiet
        self._emit = partial(stream.emit, run=run, node=node, parent=parent)
        self._new_call_id = new_call_id
        self._started = time.monotonic()
        self._text = TextBuffer(lambda text: self._emit(TextDelta(text=text)), GATHER_SECONDS)
        self._thought = TextBuffer(lambda text: self._emit(ReasoningDelta(text=text)), GATHER_SECONDS)
        self._thought_parts: list[str] = []
        self._cleaner, self._thought_cleaner = Cleaner(), Cleaner()
        self._parser = ReplyParser(tools, protocol, accept_attempts=bool(tools), on_reasoning=self._think)
        self._repetition = (RepetitionDetector(), RepetitionDetector())
        self._calls: list[ToolCall] = []
        self._usage = self._before = Usage()
        self._stop = ""
        self._fault: Fault | None = None
        self._phase: tuple[str, str, int | None] = ("", "", None)
        self._thinking_since: float | None = None
        self._thought_ms = 0

    async def receive(self, model: Model, request: ModelRequest, more: More = lambda raw: None) -> Received:
        """Stream the reply to its end, whatever that is. Raises only CancelledError."""
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
                    following = more(self._parser.raw)
                if following is not None:
                    self._parser.resume()
                    self._stop, self._before = "", self._usage
            interrupted = False
        except TimeoutError:
            interrupted = False
            waited = "in time" if self._quiet is None else f"for {self._quiet:g} s"
            self._fault = Fault(kind="timeout", message=f"The model made no progress {waited}.")
        finally:
            received = self._end(interrupted)
        return received

    async def _read(self, model: Model, request: ModelRequest) -> None:
        """The reply to one request, as far as it is wanted."""
        async with asyncio.timeout(self._quiet) as deadline, aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                self._take(piece)
                if self._quiet is not None:
                    loading = isinstance(piece, Phase) and piece.phase == "loading"
                    deadline.reschedule(None if loading else asyncio.get_running_loop().time() + self._quiet)
                if self._is_enough():
                    break

    def _is_enough(self) -> bool:
        """Whether nothing more of the reply is read."""
        if self._parser.size + self._thought.size > REPLY_MAX:
            self._fault = Fault(kind="too_large", message=f"The reply was cut at {REPLY_MAX:,} characters.")
            return True
        return bool(self._repeated())

    def _take(self, piece: ReplyPart) -> None:
        match piece:
            case TextFragment(text=text):
                self._repetition[0].feed(text)
                self._show(self._parser.feed(self._cleaner.feed(text)))
            case ReasoningFragment(text=text):
                self._repetition[1].feed(text)
                self._think(self._thought_cleaner.feed(text))
            case CallProgress(name=name, arguments=arguments):
                self._stop_thinking()
                self._enter("writing", _subject(clean_tool_name(name), arguments))
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
                self._usage = _continued(self._before, _merged(self._usage, usage))
            case Stop(reason=reason):
                self._stop = reason
            case Failed(fault=fault):
                self._fault = fault

    # --- what is seen of it ---

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

    def _repeated(self) -> str:
        """What text or thoughts repeat without end; empty where they don't."""
        return self._repetition[0].found or self._repetition[1].found

    def _end(self, interrupted: bool) -> Received:
        self._think(self._thought_cleaner.flush())
        self._show(self._parser.feed(self._cleaner.flush()))
        rest, parsed = self._parser.finish()
        self._show(rest)
        self._stop_thinking()
        self._thought.flush()
        self._text.flush()
        repeated = self._repeated()
        whole = self._fault is None and not interrupted and not repeated
        if self._calls and parsed.error == INVENTED:  # calls of the native form stand before it
            parsed = msgspec.structs.replace(parsed, error="")
        if self._stop == "length":
            self._calls[-1:] = [_cut_off(call) for call in self._calls[-1:]]
        elif whole and not self._calls:
            self._calls = [self._new_call_id(call) for call in _wanted(parsed)]
        text, thought = parsed.text, "".join(self._thought_parts)
        ended = ReplyEnded(
            text=without_repetition(text, clean(self._repetition[0].found)) if repeated else text,
            calls=tuple(self._calls),
            thought=without_repetition(thought, clean(self._repetition[1].found)) if repeated else thought,
            thought_ms=self._thought_ms,
            stop=self._stop,
            usage=self._usage,
            fault=self._fault,
            interrupted=interrupted,
            ms=round((time.monotonic() - self._started) * 1000),
        )
        self._emit(ended)
        return Received(ended=ended, parsed=parsed, raw=self._parser.raw, repeated=repeated)


class RepetitionDetector:
    """Notices a stream that says the same over and over. Work per piece does not grow with the stream."""

    def __init__(self) -> None:
        self._line = ""
        self._last = ""
        self._count = 0
        self._tail = ""
        self._unseen = 0
        self._same = 0
        self.found = ""
        """What is repeated; empty while nothing is."""

    def feed(self, text: str) -> None:
        """Check the next piece."""
        if self.found:
            return
        *lines, rest = text.split("\n")
        for line in lines:
            self._check_line((self._line + line).strip())
            self._line = ""
        self._line = (self._line + rest)[-STRETCH:]
        self._tail = (self._tail + text)[-STRETCH:]
        self._unseen += len(text)
        if self._unseen >= STRETCH // 10 and len(self._tail) == STRETCH:
            self._unseen = 0
            self._check_tail()

    def _check_line(self, line: str) -> None:
        if not line:
            return
        self._count = self._count + 1 if line == self._last else 1
        self._last = line
        if self._count > LINES:
            self.found = line

    def _check_tail(self) -> None:
        tail = self._tail
        at = tail.find(tail[: STRETCH - PHRASE], 1)
        if not (0 < at <= PHRASE and tail[at:] == tail[:-at]):
            self._same = 0
            return
        self._same += STRETCH // 10
        if len(tail[:at].split()) > 2 or self._same > STRETCH_WORD:
            self.found = tail[:at]


def without_repetition(text: str, phrase: str) -> str:
    """A reply that ends in endless repetition, with the phrase in it once."""
    at = text.find(phrase)
    return text if at < 0 or not phrase else text[: at + len(phrase)].rstrip() + " […]"


def _wanted(parsed: ParsedReply) -> tuple[ToolCall, ...]:
    """The calls that a reply holds; a question in the form of its protocol is one, too."""
    if parsed.error or parsed.calls or not parsed.question:
        return parsed.calls
    return (recovered_call("ask_user", {"question": parsed.question}),)


def _cut_off(call: ToolCall) -> ToolCall:
    """The last call of a reply that reached its limit: it may lack its end, so it is never run (W14)."""
    why = "the reply reached the limit of its length before the call was complete; send less at once"
    raw = json.dumps(call.arguments, ensure_ascii=False) if call.raw is None else call.raw
    return msgspec.structs.replace(call, arguments={}, raw=raw, fault=call.fault or why)


def _continued(first: Usage, last: Usage) -> Usage:
    """The counts of a reply that was continued: the prompt of its first request, all that was written."""
    if first.completion_tokens is None and first.prompt_tokens is None:
        return last
    written = (first.completion_tokens or 0) + (last.completion_tokens or 0)
    return msgspec.structs.replace(
        last,
        prompt_tokens=first.prompt_tokens,
        cached_tokens=first.cached_tokens,
        completion_tokens=written if last.completion_tokens is not None else first.completion_tokens,
    )


def _subject(name: str, arguments: dict[str, Any]) -> str:
    """What the status line names while arguments stream in: the tool and the file (C6)."""
    path = next((arguments[key] for key in ("path", "file_path", "file") if key in arguments), "")
    return one_line(clean(f"{name} {path}".strip()), 60)


def _merged(old: Usage, new: Usage) -> Usage:
    known = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **known)

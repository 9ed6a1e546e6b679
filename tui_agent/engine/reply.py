"""One streamed reply: the pieces of a model become events, text gathered for at most 32 ms."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from tui_agent.domain import Fault, ToolCall, ToolSpec, Usage
from tui_agent.engine.emitting import Emitting
from tui_agent.engine.pipe import Babble, TextPipe, trimmed
from tui_agent.engine.plain_pipe import PlainPipe
from tui_agent.events import (
    ReplyEnded,
    ReplyPhase,
    ReplyText,
    ReplyThought,
    RetryWaiting,
)
from tui_agent.models.base import (
    CallBegun,
    CallReady,
    Counted,
    Failed,
    Model,
    ModelRequest,
    Phase,
    Piece,
    Stop,
    Text,
    Thought,
    Waiting,
)
from tui_agent.protocols.mending import mended
from tui_agent.protocols.offer import plain_name
from tui_agent.protocols.parser import INVENTED, Found, Parsed, Protocol
from tui_agent.text import Cleaner, clean, one_line

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
    parsed: Parsed = Parsed()
    raw: str = ""
    """The text as it came, with its markup."""
    babble: str = ""
    """What it repeated until it was cut (R10.3)."""


class Reply:
    """Collects one reply and emits its events; cut off at its limit, it is continued within the same reply (W14).

    Text goes through one pipe (see pipe.py). Cancelling keeps what was produced: it is emitted as an interrupted
    reply before the cancellation goes on.
    """

    def __init__(
        self,
        stream: Emitting,
        *,
        run: str,
        node: str,
        parent: str,
        new_call_id: Callable[[ToolCall], ToolCall],
        tools: Sequence[ToolSpec] = (),
        protocol: Protocol = "native",
    ) -> None:
        self._stream = stream
        self._place = {"run": run, "node": node, "parent": parent}
        self._new_call_id = new_call_id
        self._started = time.monotonic()
        self._text = _Gathered(self._emit_text)
        self._thought = _Gathered(self._emit_thought)
        self._thought_cleaner = Cleaner()
        self._pipe = (
            PlainPipe(show=self._show, think=self._think)
            if protocol == "files"
            else TextPipe(tools, protocol, show=self._show, think=self._think)
        )
        self._babble = (Babble(), Babble())
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
                await self._receive(model, following)
                following = None
                if (
                    self._stop == "length"
                    and self._fault is None
                    and not self._calls
                    and not self._pipe.over
                    and self._pipe.raw.strip()
                ):
                    following = more(self._pipe.raw)
                if following is not None:
                    self._pipe.join()
                    self._stop, self._before = "", self._usage
            interrupted = False
        finally:
            received = self._end(interrupted)
        return received

    async def _receive(self, model: Model, request: ModelRequest) -> None:
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                self._take(piece)
                if self._pipe.size + self._thought.size > REPLY_MAX:
                    self._fault = Fault(
                        kind="too_large", message=f"The reply was cut at {REPLY_MAX:,} characters."
                    )
                    break
                if self._babble[0].found or self._babble[1].found:
                    break

    def _take(self, piece: Piece) -> None:
        match piece:
            case Text(text=text):
                self._babble[0].feed(text)
                self._pipe.feed(text)
            case Thought(text=text):
                self._babble[1].feed(text)
                self._think(self._thought_cleaner.feed(text))
            case CallBegun(name=name, arguments=arguments):
                self._stop_thinking()
                self._enter("writing", _subject(plain_name(name), arguments))
            case CallReady(call=call):
                self._stop_thinking()
                named = msgspec.structs.replace(call, name=plain_name(clean(call.name)))
                self._calls.append(self._new_call_id(mended(named)))
            case Phase(phase=phase, detail=detail, done=done, total=total):
                self._enter(phase, detail, done, total)
            case Waiting(attempt=attempt, of=of, seconds=seconds, why=why):
                waiting = RetryWaiting(attempt=attempt, of=of, seconds=seconds, why=clean(why))
                self._stream.emit(waiting, **self._place)
                self._phase = ("", "", None)
            case Counted(usage=usage):
                self._usage = _continued(self._before, _merged(self._usage, usage))
            case Stop(reason=reason):
                self._stop = reason
            case Failed(fault=fault):
                self._fault = fault

    # --- what is seen of it ---

    def _show(self, text: str) -> None:
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
        self._thought.add(text)

    def _enter(
        self, phase: Stage, detail: str = "", done: int | None = None, total: int | None = None
    ) -> None:
        if (phase, detail, done) != self._phase:
            self._phase = (phase, detail, done)
            event = ReplyPhase(phase=phase, detail=detail, done=done, total=total)
            self._stream.emit(event, **self._place)

    def _stop_thinking(self) -> None:
        if self._thinking_since is not None:
            self._thought_ms += round((time.monotonic() - self._thinking_since) * 1000)
            self._thinking_since = None
            self._thought.flush()

    # --- the end ---

    def _end(self, interrupted: bool) -> Received:
        self._think(self._thought_cleaner.flush())
        parsed = self._pipe.finish()
        self._stop_thinking()
        self._thought.flush()
        self._text.flush()
        babble = self._babble[0].found or self._babble[1].found
        whole = self._fault is None and not interrupted and not babble
        if self._calls and parsed.error == INVENTED:  # calls of the native form stand before it
            parsed = msgspec.structs.replace(parsed, error="")
        if self._stop == "length":
            self._calls[-1:] = [_cut_off(call) for call in self._calls[-1:]]
        elif whole and not self._calls:
            self._calls = [self._new_call_id(_call(found)) for found in _wanted(parsed)]
        text, thought = parsed.text, self._thought.whole()
        ended = ReplyEnded(
            text=trimmed(text, clean(self._babble[0].found)) if babble else text,
            calls=tuple(self._calls),
            thought=trimmed(thought, clean(self._babble[1].found)) if babble else thought,
            thought_ms=self._thought_ms,
            stop=self._stop,
            usage=self._usage,
            fault=self._fault,
            interrupted=interrupted,
            ms=round((time.monotonic() - self._started) * 1000),
        )
        self._stream.emit(ended, **self._place)
        return Received(ended=ended, parsed=parsed, raw=self._pipe.raw, babble=babble)

    def _emit_text(self, text: str) -> None:
        self._stream.emit(ReplyText(text=text), **self._place)

    def _emit_thought(self, text: str) -> None:
        self._stream.emit(ReplyThought(text=text), **self._place)


class _Gathered:
    """Fragments that are joined for GATHER_SECONDS and handed on; the whole is kept."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        self._hand_on = hand_on
        self._waiting: list[str] = []
        self._all: list[str] = []
        self.size = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        if not text:
            return
        self._waiting.append(text)
        self.size += len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            text = "".join(self._waiting)
            self._waiting.clear()
            self._all.append(text)
            self._hand_on(text)

    def whole(self) -> str:
        return "".join(self._all)


def _call(found: Found) -> ToolCall:
    """A call that was found in the text; its id is given later."""
    return ToolCall(
        id="",
        name=found.name,
        arguments=found.arguments,
        fault=found.fault,
        raw=found.raw,
        recovered=found.recovered,
    )


def _wanted(parsed: Parsed) -> tuple[Found, ...]:
    """The calls that a reply holds; a question in the form of its protocol is one, too."""
    if parsed.error or parsed.calls or not parsed.question:
        return parsed.calls
    return (Found(name="ask_user", arguments={"question": parsed.question}),)


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

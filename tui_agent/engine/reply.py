"""One streamed reply: the pieces of a model become events, text gathered for at most 32 ms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from tui_agent.domain import Fault, ToolCall, Usage
from tui_agent.engine.stream import EventStream
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
from tui_agent.text import Cleaner, clean, one_line

GATHER_SECONDS = 0.032
"""How long fragments are gathered before they are journaled and shown (U1)."""

REPLY_MAX = 1_000_000
"""Characters of one reply, whatever the server was asked for: it has to fit into one record."""

Stage = Literal["connecting", "loading", "reading", "thinking", "writing"]


class Reply:
    """Collects one reply and emits its events. `ended` holds the last one when `receive` returns.

    Text is cleaned of control once, here. Cancelling keeps what was produced: it is emitted as an interrupted reply
    before the cancellation goes on.
    """

    def __init__(
        self,
        stream: EventStream,
        *,
        run: str,
        node: str,
        parent: str,
        new_call_id: Callable[[ToolCall], ToolCall],
    ) -> None:
        self._stream = stream
        self._place = {"run": run, "node": node, "parent": parent}
        self._new_call_id = new_call_id
        self._started = time.monotonic()
        self._text = _Gathered(self._emit_text)
        self._thought = _Gathered(self._emit_thought)
        self._calls: list[ToolCall] = []
        self._usage = Usage()
        self._stop = ""
        self._fault: Fault | None = None
        self._phase: tuple[str, str] = ("", "")
        self._thinking_since: float | None = None
        self._thought_ms = 0

    async def receive(self, model: Model, request: ModelRequest) -> ReplyEnded:
        """Stream the reply to its end, whatever that is. Raises only CancelledError."""
        interrupted = True
        try:
            async with aclosing(model.stream(request)) as pieces:
                async for piece in pieces:
                    self._take(piece)
                    if self._text.size + self._thought.size > REPLY_MAX:
                        self._fault = Fault(
                            kind="too_large", message=f"The reply was cut at {REPLY_MAX:,} characters."
                        )
                        break
            interrupted = False
        finally:
            ended = self._end(interrupted)
        return ended

    def _take(self, piece: Piece) -> None:
        match piece:
            case Text(text=text):
                self._stop_thinking()
                if text.strip():
                    self._enter("writing")
                self._text.add(text)
            case Thought(text=text):
                if self._thinking_since is None:
                    self._text.flush()
                    self._thinking_since = time.monotonic()
                    self._enter("thinking")
                self._thought.add(text)
            case CallBegun(name=name, arguments=arguments):
                self._stop_thinking()
                self._enter("writing", _subject(name, arguments))
            case CallReady(call=call):
                self._stop_thinking()
                self._calls.append(self._new_call_id(call))
            case Phase(phase=phase, detail=detail):
                self._enter(phase, detail)
            case Waiting(attempt=attempt, of=of, seconds=seconds, why=why):
                waiting = RetryWaiting(attempt=attempt, of=of, seconds=seconds, why=clean(why))
                self._stream.emit(waiting, **self._place)
                self._phase = ("", "")
            case Counted(usage=usage):
                self._usage = _merged(self._usage, usage)
            case Stop(reason=reason):
                self._stop = reason
            case Failed(fault=fault):
                self._fault = fault

    def _enter(self, phase: Stage, detail: str = "") -> None:
        if (phase, detail) != self._phase:
            self._phase = (phase, detail)
            self._stream.emit(ReplyPhase(phase=phase, detail=detail), **self._place)

    def _stop_thinking(self) -> None:
        if self._thinking_since is not None:
            self._thought_ms += round((time.monotonic() - self._thinking_since) * 1000)
            self._thinking_since = None
            self._thought.flush()

    def _end(self, interrupted: bool) -> ReplyEnded:
        self._stop_thinking()
        self._thought.close()
        self._text.close()
        ended = ReplyEnded(
            text=self._text.whole(),
            calls=tuple(self._calls),
            thought=self._thought.whole(),
            thought_ms=self._thought_ms,
            stop=self._stop,
            usage=self._usage,
            fault=self._fault,
            interrupted=interrupted,
            ms=round((time.monotonic() - self._started) * 1000),
        )
        self._stream.emit(ended, **self._place)
        return ended

    def _emit_text(self, text: str) -> None:
        self._stream.emit(ReplyText(text=text), **self._place)

    def _emit_thought(self, text: str) -> None:
        self._stream.emit(ReplyThought(text=text), **self._place)


class _Gathered:
    """Fragments that are cleaned, joined for GATHER_SECONDS and handed on; the whole is kept."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        self._hand_on = hand_on
        self._cleaner = Cleaner()
        self._waiting: list[str] = []
        self._all: list[str] = []
        self.size = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, fragment: str) -> None:
        text = self._cleaner.feed(fragment)
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

    def close(self) -> None:
        rest = self._cleaner.flush()
        if rest:
            self._waiting.append(rest)
        self.flush()

    def whole(self) -> str:
        return "".join(self._all)


def _subject(name: str, arguments: dict[str, Any]) -> str:
    """What the status line names while arguments stream in: the tool and the file (C6)."""
    path = next((arguments[key] for key in ("path", "file_path", "file") if key in arguments), "")
    return one_line(clean(f"{name} {path}".strip()), 60)


def _merged(old: Usage, new: Usage) -> Usage:
    known = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **known)

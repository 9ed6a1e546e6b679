"""One short call to a model for one JSON object, apart from the conversation: nothing of it enters the history."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tui_agent.domain import Fault, Message, Usage
from tui_agent.engine.brain import Brain
from tui_agent.engine.roles import Roles
from tui_agent.engine.stream import EventStream
from tui_agent.engine.tokens import Gauge, of_request
from tui_agent.events import ReplyEnded, ReplyPhase, ReplyStarted, ReplyThought
from tui_agent.models.base import Counted as CountedPiece
from tui_agent.models.base import Failed, ModelRequest, Phase, Piece, Text, Thought
from tui_agent.models.selection import Role
from tui_agent.protocols.thinking import ThinkSplitter
from tui_agent.text import clean

LONGEST = 200_000
"""Characters of a reply that are read."""
PREAMBLE = 2_000
"""Characters of text in which an object must have begun: a model that only talks isn't waited for."""
_BEGUN = re.compile(r"""^(?:[^\n]{0,200}[:>`.!?)])?[ \t]*[\[{]\s*["'“\]}{]""", re.MULTILINE)
"""At the beginning of a line, or after the words that lead to it: an object in the middle of code is none."""


def begun(text: str) -> bool:
    """Whether an object seems to begin in a reply."""
    return _BEGUN.search(text) is not None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    text: str
    ms: int


class Structured:
    """Asks on behalf of one run. The model and the options are those of the role (M5)."""

    def __init__(self, *, run: str, stream: EventStream, roles: Roles, brain: Brain) -> None:
        self._run = run
        self._stream = stream
        self._roles = roles
        self._brain = brain
        self._count = 0

    async def ask(
        self,
        role: Role,
        messages: Sequence[Message],
        *,
        parent: str,
        schema: dict[str, Any] | None,
        quiet: float = 120.0,
        task: str = "",
        purpose: str = "",
        preamble: int = PREAMBLE,
    ) -> Said | Fault:
        """The reply's text, which is JSON where there is a `schema`. A fault when the model says nothing for `quiet`
        seconds, loading not counted. `purpose` tells the user what it is for where the role alone doesn't (R15.1).

        A reply without an object in its first `preamble` characters is read no further, where JSON is asked for.
        """
        chosen = await self._roles.select(role, task)
        own = chosen.name == self._brain.name
        window = self._brain.num_ctx if own else await self._roles.window_of(chosen.name)
        sampling = self._roles.sampling(role, window, chosen.name)
        request = ModelRequest(
            model=chosen.name,
            messages=tuple(messages),
            num_ctx=window,
            format=schema,
            **msgspec.structs.asdict(sampling),
        )
        size = Gauge().tokens(of_request(request.messages, ()))
        if window is not None and size + 256 > window:
            return Fault(
                kind="context_overflow",
                message=f"The request for {role} has about {size:,} tokens, the window {window:,}.",
            )
        self._count += 1
        place = {"run": self._run, "node": f"{parent}.{role}{self._count}", "parent": parent}
        started = ReplyStarted(
            model=chosen.name,
            iteration=0,
            messages=len(request.messages),
            estimate=size,
            role=role,
            purpose=purpose,
        )
        self._stream.emit(started, **place)
        await self._stream.durable()
        return await _Quiet(self._stream, place, role, quiet, preamble if schema else LONGEST).receive(
            self._brain, request
        )


class _Quiet:
    """Receives a reply without showing its text; phases and thoughts are shown."""

    def __init__(
        self, stream: EventStream, place: dict[str, str], role: str, quiet: float, preamble: int
    ) -> None:
        self._stream = stream
        self._place = place
        self._role = role
        self._quiet = quiet
        self._preamble = preamble
        self._begun = False
        self._splitter = ThinkSplitter()
        self._text: list[str] = []
        self._thought: list[str] = []
        self._size = 0
        self._fault: Fault | None = None
        self._usage = Usage()
        self._phase = ""
        self._began = time.monotonic()

    async def receive(self, brain: Brain, request: ModelRequest) -> Said | Fault:
        interrupted = True
        try:
            async with (
                asyncio.timeout(self._quiet) as deadline,
                aclosing(brain.model.stream(request)) as pieces,
            ):
                async for piece in pieces:
                    self._take(piece)
                    loading = isinstance(piece, Phase) and piece.phase == "loading"
                    now = asyncio.get_running_loop().time()
                    deadline.reschedule(None if loading else now + self._quiet)
                    if self._size > LONGEST or self._only_talks():
                        break
            interrupted = False
        except TimeoutError:
            interrupted = False
            message = f"The model made no progress for {self._quiet:g} s."
            self._fault = Fault(kind="timeout", message=message)
        finally:
            ms = self._end(interrupted)
        if self._fault is not None:
            return self._fault
        return Said(text=clean("".join(self._text)).strip(), ms=ms)

    def _take(self, piece: Piece) -> None:
        match piece:
            case Text(text=text):
                self._enter("writing")
                self._size += len(text)
                self._split(self._splitter.feed(text))
            case Thought(text=text):
                self._think(text)
            case Phase(phase=phase):
                self._enter(phase)
            case CountedPiece(usage=usage):
                self._usage = usage
            case Failed(fault=fault):
                self._fault = fault

    def _only_talks(self) -> bool:
        if self._begun or not self._text:
            return False
        text = "".join(self._text)  # no longer than the preamble
        self._begun = begun(text)
        return not self._begun and len(text) > self._preamble

    def _split(self, parts: Sequence[tuple[str, str]]) -> None:
        for kind, text in parts:
            if kind == "text":
                self._text.append(text)
            else:
                self._think(text)

    def _think(self, text: str) -> None:
        self._enter("thinking")
        self._size += len(text)
        self._thought.append(text)
        self._stream.emit(ReplyThought(text=clean(text)), **self._place)

    def _enter(self, phase: str) -> None:
        if phase != self._phase:
            self._phase = phase
            event = ReplyPhase(phase=phase, detail=self._role)  # type: ignore[arg-type]  # one of the phases
            self._stream.emit(event, **self._place)

    def _end(self, interrupted: bool) -> int:
        self._split(self._splitter.finish())
        ms = round((time.monotonic() - self._began) * 1000)
        ended = ReplyEnded(
            text="",
            thought=clean("".join(self._thought)),
            usage=self._usage,
            fault=self._fault,
            interrupted=interrupted,
            role=self._role,
            ms=ms,
        )
        self._stream.emit(ended, **self._place)
        return ms

"""One short call to a model for one JSON object, apart from the conversation: nothing of it enters the history."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from tui_agent.domain import (
    AssistantMessage,
    Fault,
    Message,
    ProgramMessage,
    Usage,
    UserMessage,
    marked,
)
from tui_agent.engine.brain import Brain
from tui_agent.engine.context import RESERVE
from tui_agent.engine.reply import Stage
from tui_agent.engine.roles import Roles
from tui_agent.engine.stream import EventStream
from tui_agent.engine.tokens import Gauge, of_request
from tui_agent.events import ReplyEnded, ReplyPhase, ReplyStarted, ReplyThought
from tui_agent.models.base import CallBegun, Failed, ModelRequest, Phase, Piece, Text, Thought
from tui_agent.models.base import Counted as CountedPiece
from tui_agent.models.selection import Role
from tui_agent.protocols.thinking import ThinkSplitter
from tui_agent.text import clean

if TYPE_CHECKING:
    from tui_agent.engine.conversation import Conversation

LONGEST = 200_000
"""Characters of a reply that are read."""
PREAMBLE = 2_000
"""Characters of text in which an object must have begun: a model that only talks isn't waited for."""
_BEGUN = re.compile(r"""^(?:[^\n]{0,200}[:>`.!?)])?[ \t]*[\[{]\s*["'“\]}{]""", re.MULTILINE)
"""At the beginning of a line, or after the words that lead to it: an object in the middle of code is none."""


def begun(text: str) -> bool:
    """Whether an object seems to begin in a reply."""
    return _BEGUN.search(text) is not None


NO_TEXT = "(no text)"
"""Stands for an answer that had none: servers take no empty message."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked beside the conversation, in both forms."""

    alone: tuple[Message, ...]
    """A request of its own, which holds all that is needed: for another model, and where the window is too small."""
    task: str = ""
    """The same behind the conversation: the role's instruction, and what does not stand in there. Empty where the
    question is always asked alone."""
    since: tuple[tuple[str, str], ...] = ()
    """Answers that could not be used, and what was wrong with each."""

    def by_itself(self) -> tuple[Message, ...]:
        """The messages of the request of its own."""
        told: list[Message] = list(self.alone)
        for answer, wrong in self.since:
            told += [AssistantMessage(text=answer or NO_TEXT), UserMessage(text=wrong)]
        return tuple(told)

    def behind(self) -> tuple[Message, ...]:
        """The messages that follow the conversation."""
        told: list[Message] = [ProgramMessage(text=marked("task", self.task))]
        for answer, wrong in self.since:
            told.append(AssistantMessage(text=answer or NO_TEXT))
            told.append(ProgramMessage(text=marked("feedback", wrong)))
        return tuple(told)


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    text: str
    ms: int


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests for one answer share."""

    role: Role
    parent: str
    schema: dict[str, Any] | None
    quiet: float
    purpose: str
    preamble: int


class Structured:
    """Asks on behalf of one run. The model and the options are those of the role (M5).

    With a `conversation`, a question for the session's own model stands behind that, so that the server has read most
    of the request before (E7)."""

    def __init__(
        self,
        *,
        run: str,
        stream: EventStream,
        roles: Roles,
        brain: Brain,
        conversation: Conversation | None = None,
    ) -> None:
        self._run = run
        self._stream = stream
        self._roles = roles
        self._brain = brain
        self._conversation = conversation
        self._count = 0
        self._usage = Usage()
        """What the server counted of the last request."""

    async def ask(
        self,
        role: Role,
        question: Question,
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
        wanted = _Wanted(
            role=role,
            parent=parent,
            schema=schema,
            quiet=quiet,
            purpose=purpose,
            preamble=preamble if schema else LONGEST,
        )
        request = ModelRequest(
            model=chosen.name,
            messages=question.by_itself(),
            num_ctx=window,
            format=schema,
            **msgspec.structs.asdict(sampling),
        )
        if own and question.task and self._conversation is not None:
            said = await self._in_conversation(question, request, wanted, self._conversation)
            if said is not None:
                return said
        size = Gauge().tokens(of_request(request.messages, ()))
        if window is not None and size + 256 > window:
            return Fault(
                kind="context_overflow",
                message=f"The request for {role} has about {size:,} tokens, the window {window:,}.",
            )
        return await self._send(request, wanted, size, None)

    async def _in_conversation(
        self, question: Question, alone: ModelRequest, wanted: _Wanted, conversation: Conversation
    ) -> Said | Fault | None:
        """The reply to the question behind the conversation; None where there is no room for both."""
        most = alone.max_tokens or RESERVE
        while (opened := conversation.followed_by(question.behind(), wanted.schema, most)) is not None:
            ready = opened.ready
            request = msgspec.structs.replace(
                alone,
                messages=ready.messages,
                tools=opened.tools,
                format=opened.format,
                max_tokens=ready.max_tokens,
            )
            said = await self._send(request, wanted, ready.size, ready.fresh)
            conversation.heard(self._usage)
            if isinstance(said, Fault):
                if conversation.refused(said):
                    continue
                if said.kind == "context_overflow":
                    return None
            return said
        return None

    async def _send(
        self, request: ModelRequest, wanted: _Wanted, size: int, fresh: int | None
    ) -> Said | Fault:
        self._count += 1
        node = f"{wanted.parent}.{wanted.role}{self._count}"
        place = {"run": self._run, "node": node, "parent": wanted.parent}
        started = ReplyStarted(
            model=request.model,
            iteration=0,
            messages=len(request.messages),
            estimate=size,
            fresh=fresh,
            role=wanted.role,
            purpose=wanted.purpose,
        )
        self._stream.emit(started, **place)
        await self._stream.durable()
        quiet = _Quiet(self._stream, place, wanted, bool(request.tools))
        said = await quiet.receive(self._brain, request)
        self._usage = quiet.usage
        return said


class _Quiet:
    """Receives a reply without showing its text; phases and thoughts are shown."""

    def __init__(self, stream: EventStream, place: dict[str, str], wanted: _Wanted, tools: bool) -> None:
        self._stream = stream
        self._place = place
        self._role = wanted.role
        self._quiet = wanted.quiet
        self._preamble = wanted.preamble
        self._begun = False
        self._tools = tools
        self._calls = False
        """The reply calls a tool, although an object was asked for."""
        self._splitter = ThinkSplitter()
        self._text: list[str] = []
        self._thought: list[str] = []
        self._size = 0
        self._fault: Fault | None = None
        self.usage = Usage()
        """What the server counted."""
        self._phase: tuple[str, int | None] = ("", None)
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
                    if self._size > LONGEST or self._calls or self._only_talks():
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
            case CallBegun() if self._tools:
                self._calls = not begun("".join(self._text))
            case Phase(phase=phase, done=done, total=total):
                self._enter(phase, done, total)
            case CountedPiece(usage=usage):
                self.usage = usage
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

    def _enter(self, phase: Stage, done: int | None = None, total: int | None = None) -> None:
        if (phase, done) != self._phase:
            self._phase = (phase, done)
            event = ReplyPhase(phase=phase, detail=self._role, done=done, total=total)
            self._stream.emit(event, **self._place)

    def _end(self, interrupted: bool) -> int:
        self._split(self._splitter.finish())
        ms = round((time.monotonic() - self._began) * 1000)
        ended = ReplyEnded(
            text="",
            thought=clean("".join(self._thought)),
            usage=self.usage,
            fault=self._fault,
            interrupted=interrupted,
            role=self._role,
            ms=ms,
        )
        self._stream.emit(ended, **self._place)
        return ms

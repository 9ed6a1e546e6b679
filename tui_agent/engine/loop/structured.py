"""One short call to a model for one JSON object, apart from the conversation: nothing of it enters the history."""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec

from tui_agent.common.domain import (
    AssistantMessage,
    Fault,
    Message,
    ProgramMessage,
    ToolSpec,
    Usage,
    UserMessage,
    program_text,
)
from tui_agent.engine.context.system_prompt import RESERVE
from tui_agent.engine.context.window import Ready
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.core.tokens import Gauge, count_request
from tui_agent.engine.loop.ask import LoopDeps
from tui_agent.engine.loop.reply import Received, ReplyReceiver, Stage
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.events import ReplyEnded, ReplyStarted
from tui_agent.models.base import (
    CallProgress,
    Failed,
    ModelRequest,
    Phase,
    ReasoningFragment,
    ReplyPart,
    TextFragment,
    UsageReport,
)
from tui_agent.models.selection import Role
from tui_agent.text import clean

LONGEST = 200_000
"""Characters of a reply that are read."""
PREAMBLE = 2_000
"""Characters of text in which an object must have begun: a model that only talks isn't waited for."""
_BEGUN = re.compile(r"""^(?:[^\n]{0,200}[:>`.!?)])?[ \t]*[\[{]\s*["'“\]}{]""", re.MULTILINE)
"""At the beginning of a line, or after the words that lead to it: an object in the middle of code is none."""


def object_begun(text: str) -> bool:
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
        told: list[Message] = [ProgramMessage(text=program_text("task", self.task))]
        for answer, wrong in self.since:
            told.append(AssistantMessage(text=answer or NO_TEXT))
            told.append(ProgramMessage(text=program_text("feedback", wrong)))
        return tuple(told)


class StructuredReply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    text: str
    ms: int


class _AnswerOptions(msgspec.Struct, frozen=True, kw_only=True):
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
        roles: ModelRoles,
        brain: ModelConfig,
        conversation: SharedConversation | None = None,
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
    ) -> StructuredReply | Fault:
        """The reply's text, which is JSON where there is a `schema`. A fault when the model says nothing for `quiet`
        seconds, loading not counted. `purpose` tells the user what it is for where the role alone doesn't.

        A reply without an object in its first `preamble` characters is read no further, where JSON is asked for.
        """
        chosen = await self._roles.select(role, task)
        own = chosen.name == self._brain.name
        window = self._brain.num_ctx if own else await self._roles.window_of(chosen.name)
        sampling = self._roles.sampling(role, window, chosen.name)
        wanted = _AnswerOptions(
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
        size = Gauge().estimate(count_request(request.messages, ()))
        if window is not None and size + 256 > window:
            return Fault(
                kind="context_overflow",
                message=f"The request for {role} has about {size:,} tokens, the window {window:,}.",
            )
        return await self._send(request, wanted, size, None)

    async def _in_conversation(
        self, question: Question, alone: ModelRequest, wanted: _AnswerOptions, conversation: SharedConversation
    ) -> StructuredReply | Fault | None:
        """The reply to the question behind the conversation; None where there is no room for both."""
        most = alone.max_tokens or RESERVE
        while (found := conversation.followed_by(question.behind(), alone, most)) is not None:
            request, ready = found
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
        self, request: ModelRequest, wanted: _AnswerOptions, size: int, fresh: int | None
    ) -> StructuredReply | Fault:
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
        receiver = _AnswerReceiver(self._stream, place, wanted, tools=bool(request.tools))
        received = await receiver.receive(self._brain.model, request)
        ended = received.ended
        self._usage = ended.usage
        return ended.fault or StructuredReply(text=clean(received.raw).strip(), ms=ended.ms)


class _AnswerReceiver(ReplyReceiver):
    """Receives a reply without showing its text; phases and thoughts are shown."""

    def __init__(self, stream: EventStream, place: dict[str, str], wanted: _AnswerOptions, *, tools: bool) -> None:
        super().__init__(
            stream,
            run=place["run"],
            node=place["node"],
            parent=place["parent"],
            new_call_id=lambda call: call,
            protocol="files",
            quiet=wanted.quiet,
        )
        self._wanted = wanted
        self._tools = tools
        self._begun = False
        self._called = False
        """The reply calls a tool, although an object was asked for."""

    def _take(self, piece: ReplyPart) -> None:
        match piece:
            case TextFragment(text=text):
                self._stop_thinking()
                self._enter("writing")
                self._parser.feed(self._cleaner.feed(text))
            case CallProgress() if self._tools:
                self._called = not object_begun(self._parser.raw)
            case ReasoningFragment() | Phase() | UsageReport() | Failed():
                super()._take(piece)

    def _is_enough(self) -> bool:
        return self._parser.size + self._thought.size > LONGEST or self._called or self._only_talks()

    def _only_talks(self) -> bool:
        if self._begun:
            return False
        text = self._parser.raw  # no longer than the preamble
        self._begun = object_begun(text)
        return not self._begun and len(text) > self._wanted.preamble

    def _enter(self, phase: Stage, detail: str = "", done: int | None = None, total: int | None = None) -> None:
        super()._enter(phase, self._wanted.role, done, total)

    def _end(self, interrupted: bool) -> Received:
        self._think(self._thought_cleaner.flush())
        self._parser.feed(self._cleaner.flush())
        self._parser.finish()
        self._stop_thinking()
        ended = ReplyEnded(
            text="",
            thought="".join(self._thought_parts),
            usage=self._usage,
            fault=self._fault,
            interrupted=interrupted,
            role=self._wanted.role,
            ms=round((time.monotonic() - self._started) * 1000),
        )
        self._emit(ended)
        return Received(ended=ended, raw=self._parser.raw)


class SharedConversation:
    """The conversation of one run's loop: its messages in the form of its protocol, with the tools of its mode."""

    def __init__(self, deps: LoopDeps, tools: tuple[ToolSpec, ...], run: str) -> None:
        self._deps = deps
        self._tools = tools
        self._run = run

    def followed_by(
        self, extra: tuple[Message, ...], alone: ModelRequest, most: int
    ) -> tuple[ModelRequest, Ready] | None:
        """The request with the conversation and `extra` at its end instead of the messages of `alone`, for a reply of
        `most` tokens; None where it does not fit, and where the model is not asked in its conversation (the files
        strategy). Tools and format never go together (O-21)."""
        if self._deps.fallback.protocol == "files":
            return None
        tools = self._deps.fallback.request_format(self._tools).tools

        def context() -> tuple[Message, ...]:
            return self._deps.fallback.messages(self._deps.source.context(), self._tools)

        ready = self._deps.window.beside(context, tools, extra, most, run=self._run)
        if ready is None:
            return None
        form = None if tools else alone.format
        request = msgspec.structs.replace(
            alone, messages=ready.messages, tools=tools, format=form, max_tokens=ready.max_tokens
        )
        return request, ready

    def heard(self, usage: Usage) -> None:
        """Take in what the server counted of the last request."""
        self._deps.window.assess(usage, run=self._run)

    def refused(self, fault: Fault) -> bool:
        """Whether the form of the request was refused and another one is taken from now on: ask again."""
        return self._deps.fallback.refused(fault)

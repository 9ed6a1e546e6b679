"""Short model calls for one JSON object. Neither request nor reply enters the conversation's history."""

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
from tui_agent.engine.context.window import PreparedRequest
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.core.tokens import Gauge, count_request
from tui_agent.engine.loop.ask import LoopDeps
from tui_agent.engine.loop.reply import ReceivedReply, ReplyReceiver, Stage
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

MAX_REPLY_TEXT = 200_000
"""Characters of a reply that are read."""
MAX_PREAMBLE = 2_000
"""Characters of text before the object; a longer preamble ends the reply."""
_OBJECT_START = re.compile(r"""^(?:[^\n]{0,200}[:>`.!?)])?[ \t]*[\[{]\s*["'“\]}{]""", re.MULTILINE)
"""At the start of a line or after an introduction; an object in the middle of code does not count."""


def has_object_start(text: str) -> bool:
    """Return whether an object seems to start in a reply."""
    return _OBJECT_START.search(text) is not None


NO_TEXT = "(no text)"
"""Stands for an empty answer, since servers reject empty messages."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A side question to a model, as a request of its own and as an addition to the conversation."""

    alone: tuple[Message, ...]
    """The self-contained request: for another model, or if the window has no room for the conversation."""
    task: str = ""
    """The instruction to add to the conversation; empty if the question is always asked alone."""
    rejected: tuple[tuple[str, str], ...] = ()
    """Earlier unusable answers, each with its error."""

    def standalone_messages(self) -> tuple[Message, ...]:
        """Return the messages of the self-contained request."""
        messages: list[Message] = list(self.alone)
        for answer, error in self.rejected:
            messages += [AssistantMessage(text=answer or NO_TEXT), UserMessage(text=error)]
        return tuple(messages)

    def appended_messages(self) -> tuple[Message, ...]:
        """Return the messages to append to the conversation."""
        messages: list[Message] = [ProgramMessage(text=program_text("task", self.task))]
        for answer, error in self.rejected:
            messages.append(AssistantMessage(text=answer or NO_TEXT))
            messages.append(ProgramMessage(text=program_text("feedback", error)))
        return tuple(messages)


class StructuredReply(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a reply and how long it took, in milliseconds."""

    text: str
    ms: int


class _AnswerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options shared by all requests for one answer."""

    role: Role
    parent: str
    schema: dict[str, Any] | None
    idle_timeout: float
    purpose: str
    preamble: int


class Structured:
    """Asks side questions for one run, with the model and options of each role (M5).

    With a `conversation`, questions to the session's own model are appended to it, so that the server answers most of
    the prompt from its cache (E7)."""

    def __init__(
        self,
        *,
        run: str,
        stream: EventStream,
        roles: ModelRoles,
        config: ModelConfig,
        conversation: SharedConversation | None = None,
    ) -> None:
        self._run = run
        self._stream = stream
        self._roles = roles
        self._config = config
        self._conversation = conversation
        self._count = 0
        self._usage = Usage()
        """Usage reported for the last request."""

    async def ask(
        self,
        role: Role,
        question: Question,
        *,
        parent: str,
        schema: dict[str, Any] | None,
        idle_timeout: float = 120.0,
        task: str = "",
        purpose: str = "",
        preamble: int = MAX_PREAMBLE,
    ) -> StructuredReply | Fault:
        """Return the text of the reply, JSON if there is a `schema`, or a fault.

        `idle_timeout`: seconds without progress, not counting loading. `purpose` is shown to the user if the role alone
        does not explain the request. With a schema, a reply without an object in its first `preamble` characters ends.
        """
        chosen = await self._roles.select(role, task)
        is_own = chosen.name == self._config.name
        window = self._config.num_ctx if is_own else await self._roles.window_of(chosen.name)
        sampling = self._roles.sampling(role, window, chosen.name)
        options = _AnswerOptions(
            role=role,
            parent=parent,
            schema=schema,
            idle_timeout=idle_timeout,
            purpose=purpose,
            preamble=preamble if schema else MAX_REPLY_TEXT,
        )
        request = ModelRequest(
            model=chosen.name,
            messages=question.standalone_messages(),
            num_ctx=window,
            format=schema,
            **msgspec.structs.asdict(sampling),
        )
        if is_own and question.task and self._conversation is not None:
            reply = await self._ask_in_conversation(question, request, options, self._conversation)
            if reply is not None:
                return reply
        size = Gauge().estimate(count_request(request.messages, ()))
        if window is not None and size + 256 > window:
            return Fault(
                kind="context_overflow",
                message=f"The request for {role} has about {size:,} tokens, the window {window:,}.",
            )
        return await self._send(request, options, size, None)

    async def _ask_in_conversation(
        self, question: Question, alone: ModelRequest, options: _AnswerOptions, conversation: SharedConversation
    ) -> StructuredReply | Fault | None:
        """Return the reply to the question at the end of the conversation, or None if the window has no room for it."""
        max_tokens = alone.max_tokens or RESERVE
        while (extended := conversation.followed_by(question.appended_messages(), alone, max_tokens)) is not None:
            request, prepared = extended
            reply = await self._send(request, options, prepared.size, prepared.fresh)
            conversation.record_usage(self._usage)
            if isinstance(reply, Fault):
                if conversation.refused(reply):
                    continue
                if reply.kind == "context_overflow":
                    return None
            return reply
        return None

    async def _send(
        self, request: ModelRequest, options: _AnswerOptions, size: int, fresh: int | None
    ) -> StructuredReply | Fault:
        self._count += 1
        node = f"{options.parent}.{options.role}{self._count}"
        position = {"run": self._run, "node": node, "parent": options.parent}
        started = ReplyStarted(
            model=request.model,
            iteration=0,
            messages=len(request.messages),
            estimate=size,
            fresh=fresh,
            role=options.role,
            purpose=options.purpose,
        )
        self._stream.emit(started, **position)
        await self._stream.durable()
        receiver = _AnswerReceiver(self._stream, position, options, tools=bool(request.tools))
        received = await receiver.receive(self._config.model, request)
        ended = received.ended
        self._usage = ended.usage
        return ended.fault or StructuredReply(text=clean(received.raw).strip(), ms=ended.ms)


class _AnswerReceiver(ReplyReceiver):
    """Receives a reply without showing its text; phases and reasoning are shown."""

    def __init__(self, stream: EventStream, position: dict[str, str], options: _AnswerOptions, *, tools: bool) -> None:
        super().__init__(
            stream,
            run=position["run"],
            node=position["node"],
            parent=position["parent"],
            new_call_id=lambda call: call,
            protocol="files",
            idle_timeout=options.idle_timeout,
        )
        self._options = options
        self._tools = tools
        self._object_started = False
        self._called_tool = False
        """The reply calls a tool instead of giving an object."""

    def _process(self, part: ReplyPart) -> None:
        match part:
            case TextFragment(text=text):
                self._stop_thinking()
                self._enter("writing")
                self._parser.feed(self._cleaner.feed(text))
            case CallProgress() if self._tools:
                self._called_tool = not has_object_start(self._parser.raw)
            case ReasoningFragment() | Phase() | UsageReport() | Failed():
                super()._process(part)

    def _is_complete(self) -> bool:
        size = self._parser.size + self._thought.size
        return size > MAX_REPLY_TEXT or self._called_tool or self._exceeds_preamble()

    def _exceeds_preamble(self) -> bool:
        if self._object_started:
            return False
        text = self._parser.raw
        self._object_started = has_object_start(text)
        return not self._object_started and len(text) > self._options.preamble

    def _enter(self, phase: Stage, detail: str = "", done: int | None = None, total: int | None = None) -> None:
        super()._enter(phase, self._options.role, done, total)

    def _end(self, interrupted: bool) -> ReceivedReply:
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
            role=self._options.role,
            ms=round((time.monotonic() - self._started) * 1000),
        )
        self._emit(ended)
        return ReceivedReply(ended=ended, raw=self._parser.raw)


class SharedConversation:
    """The conversation of one run's loop: its messages in the loop's protocol, with the tools of its mode."""

    def __init__(self, deps: LoopDeps, tools: tuple[ToolSpec, ...], run: str) -> None:
        self._deps = deps
        self._tools = tools
        self._run = run

    def followed_by(
        self, extra: tuple[Message, ...], alone: ModelRequest, max_tokens: int
    ) -> tuple[ModelRequest, PreparedRequest] | None:
        """Return the request with the conversation and `extra` instead of the messages of `alone`.

        Return None if a reply of `max_tokens` does not fit, or if the strategy is `files`, which has no conversation of
        its own. Tools and format are never combined (O-21)."""
        if self._deps.fallback.protocol == "files":
            return None
        tools = self._deps.fallback.request_format(self._tools).tools

        def context() -> tuple[Message, ...]:
            return self._deps.fallback.messages(self._deps.source.context(), self._tools)

        prepared = self._deps.window.prepare_side_request(context, tools, extra, max_tokens, run=self._run)
        if prepared is None:
            return None
        reply_format = None if tools else alone.format
        request = msgspec.structs.replace(
            alone, messages=prepared.messages, tools=tools, format=reply_format, max_tokens=prepared.max_tokens
        )
        return request, prepared

    def record_usage(self, usage: Usage) -> None:
        """Pass the usage reported for the last request to the context window."""
        self._deps.window.assess(usage, run=self._run)

    def refused(self, fault: Fault) -> bool:
        """Return whether the server refused the request's format and the request should be repeated in another one."""
        return self._deps.fallback.refused(fault)

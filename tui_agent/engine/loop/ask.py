"""One request to the model and its reply, in the model's protocol (C1 to C3); truncated replies are continued."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from tui_agent.common.domain import (
    AssistantMessage,
    Message,
    ProgramMessage,
    ToolCall,
    ToolSpec,
    UserMessage,
    program_text,
)
from tui_agent.engine.context.window import Window
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.core.stream import EventSink
from tui_agent.engine.loop.calls import ToolCalls
from tui_agent.engine.loop.reply import ReceivedReply, ReplyReceiver
from tui_agent.engine.models.protocol_fallback import ProtocolFallback
from tui_agent.events import Notice, ReplyRejected, ReplyStarted, RunEnded
from tui_agent.models.base import ModelRequest

MAX_CONTINUATIONS = 3
"""How often a truncated reply is continued (W14)."""


class ConversationSource(Protocol):
    """What a loop needs from its session or sub-agent."""

    def context(self) -> tuple[Message, ...]:
        """Return the current system message and history."""
        ...

    def notes(self) -> str:
        """Return a few lines about what happened before the visible history (H6); may be empty."""
        ...

    def steer(self) -> bool:
        """Move pending steering messages into the history (W12); return whether there were any."""
        ...

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """Return the call with an id that is unique in the session."""
        ...

    async def save_raw(self, name: str, text: str) -> str:
        """Save a rejected reply and return its file name, or an empty string if it was not saved."""
        ...


class LoopNode(msgspec.Struct, frozen=True):
    """The place of a loop's replies in the progress tree."""

    run: str
    parent: str
    """The parent node of the replies: the run, a stage or a step."""
    prefix: str
    """The prefix of their node names."""


class LoopDeps(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies shared by the loops of one run."""

    stream: EventSink
    config: ModelConfig
    source: ConversationSource
    window: Window
    fallback: ProtocolFallback
    calls: ToolCalls


class ModelRequester:
    """Sends the requests of one run. `iteration` counts them."""

    def __init__(self, deps: LoopDeps, node: LoopNode, tools: tuple[ToolSpec, ...]) -> None:
        self._run = node.run
        self._node = node
        self._deps = deps
        self._stream = deps.stream
        self._tools = tools
        self._started = time.monotonic()
        self.iteration = 0
        self.limit: int | None = None
        """Maximum tokens of a reply, if lower than the model's own limit."""
        self.max_continuations = MAX_CONTINUATIONS
        """How often a truncated reply is continued (W14)."""

    @property
    def node(self) -> str:
        """The progress node of the current reply."""
        return f"{self._node.prefix}.{self.iteration}"

    def ended(self, outcome: str, text: str, tool_calls: int, said: str | None = None) -> RunEnded:
        """Return the end of the run. `said` is the model's answer, if `text` contains more than that."""
        return RunEnded(
            outcome=outcome,  # type: ignore[arg-type]  # every caller passes one of the literals
            text=text,
            said=said,
            iterations=self.iteration,
            tool_calls=tool_calls,
            ms=round((time.monotonic() - self._started) * 1000),
        )

    def trailing_messages(self, limit: int, files: list[str]) -> tuple[Message, ...]:
        """Return the last messages of a request: session facts (H6) and, after the first iteration, the control packet
        (W15). Nothing follows a steering message of the user."""
        facts = self._deps.source.notes()
        memory = (ProgramMessage(text=program_text("memory", f"{prompt('memory')}\n{facts}")),) if facts else ()
        if self.iteration < 2:
            return memory
        context = self._deps.source.context()
        if isinstance(context[-1], UserMessage):
            return ()
        task = next((message.text for message in reversed(context) if isinstance(message, UserMessage)), "")
        return (*memory, control_packet(iteration=self.iteration, limit=limit, files=files, task=task))

    async def ask(
        self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], temperature: float
    ) -> ReceivedReply | str:
        """Return the reply, or a string with the reason why nothing can be sent.

        `tools` are offered in this request. A text protocol describes all tools of the loop, so that the system
        message does not change."""
        fallback, window, config = self._deps.fallback, self._deps.window, self._deps.config
        offer = fallback.request_format(tools)

        def context() -> tuple[Message, ...]:
            return fallback.messages(self._deps.source.context(), self._tools)

        prepared = await window.prepare(context, offer.tools, extra, run=self._run)
        if isinstance(prepared, str):
            return prepared
        request = ModelRequest(
            model=config.name,
            messages=prepared.messages,
            tools=offer.tools,
            format=offer.format,
            temperature=temperature,
            max_tokens=min(prepared.max_tokens, self.limit or prepared.max_tokens),
            num_ctx=config.num_ctx,
            think=config.think if config.current_think is None else config.current_think(),
            keep_alive=config.keep_alive,
        )
        started = ReplyStarted(
            model=config.name,
            iteration=self.iteration,
            messages=len(prepared.messages),
            estimate=prepared.size,
            fresh=prepared.fresh,
        )
        self._stream.emit(started, run=self._run, node=self.node, parent=self._node.parent)
        await self._stream.durable()
        reply = ReplyReceiver(
            self._stream,
            run=self._run,
            node=self.node,
            parent=self._node.parent,
            new_call_id=self._deps.source.new_call_id,
            tools=tools,
            protocol=fallback.protocol,
        )
        received = await reply.receive(config.model, request, self._continuation_requests(request))
        if await window.measure(received.ended, run=self._run):
            self.iteration += 1
            return await self.ask(tools, extra, temperature)
        return received

    def _continuation_requests(self, request: ModelRequest) -> Callable[[str], ModelRequest | None]:
        """Return a function that makes the request for the rest of a reply, or None once the maximum is reached."""
        count = 0

        def next_request(raw: str) -> ModelRequest | None:
            nonlocal count
            if count >= self.max_continuations:
                return None
            count += 1
            limit = f"its limit of {request.max_tokens:,} tokens" if request.max_tokens else "its limit"
            text = f"The reply reached {limit} and is continued ({count} of {MAX_CONTINUATIONS})."
            rejected = ReplyRejected(kind="truncated", detail=text, attempt=count)
            self._stream.emit(rejected, run=self._run, node=self.node)
            self._stream.emit(Notice(level="info", text=text, code="reply.continued"), run=self._run)
            feedback = ProgramMessage(text=program_text("feedback", prompt("continue")))
            messages = (*request.messages, AssistantMessage(text=raw), feedback)
            return msgspec.structs.replace(request, messages=messages, format=None)

        return next_request


MAX_TASK_QUOTE = 120
"""Characters of the task quoted in a control packet."""
MAX_FILES = 10
"""Changed files named in a control packet."""


def control_packet(*, iteration: int, limit: int, files: Sequence[str] = (), task: str = "") -> ProgramMessage:
    """Return the message with state and remaining iterations as JSON and the directive not to repeat calls (W15)."""
    quoted = " ".join(task.split())
    quoted = quoted if len(quoted) <= MAX_TASK_QUOTE else quoted[: MAX_TASK_QUOTE - 1] + "…"
    fields = {
        "state": "need_tools",
        "iteration": iteration,
        "maxIterations": limit,
        "remainingIterations": max(0, limit - iteration),
        "filesChanged": list(files)[-MAX_FILES:],
        "note": f"Task: {quoted}",
    }
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return ProgramMessage(text=f"{program_text('control', body)}\n{prompt('directive')}")

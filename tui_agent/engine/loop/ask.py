"""One request to the model and its reply, in the form that the model can do (C1 to C3), continued when cut off."""

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
from tui_agent.engine.loop.reply import Received, ReplyReceiver
from tui_agent.engine.models.protocol_fallback import ProtocolFallback
from tui_agent.events import Notice, ReplyRejected, ReplyStarted, RunEnded
from tui_agent.models.base import ModelRequest

CONTINUED = 3
"""How often a reply that reached its limit is continued (W14)."""


class ConversationSource(Protocol):
    """What the loop needs of the session around it."""

    def context(self) -> tuple[Message, ...]:
        """System message and history as they are now."""
        ...

    def notes(self) -> str:
        """What happened before what the model sees, in a few lines (H6); may be empty."""
        ...

    def steer(self) -> bool:
        """Put the steering messages that wait into the history (W12); True if there were any."""
        ...

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """The call with an id that is unique within the session."""
        ...

    async def keep_raw(self, name: str, text: str) -> str:
        """Keep a reply that could not be used; the name of its file, empty if it is not kept."""
        ...


class LoopNode(msgspec.Struct, frozen=True):
    """Where in the progress tree the replies of a loop stand."""

    run: str
    parent: str
    """The node above them: the run, a stage or a step."""
    prefix: str
    """What the names of their own nodes begin with."""


class LoopDeps(msgspec.Struct, frozen=True, kw_only=True):
    """What the loops of one run share."""

    stream: EventSink
    config: ModelConfig
    source: ConversationSource
    window: Window
    fallback: ProtocolFallback
    calls: ToolCalls


class ModelRequester:
    """Asks the model on behalf of one run. `iteration` counts the requests."""

    def __init__(self, deps: LoopDeps, place: LoopNode, tools: tuple[ToolSpec, ...]) -> None:
        self._run = place.run
        self._place = place
        self._deps = deps
        self._stream = deps.stream
        self._tools = tools
        self._began = time.monotonic()
        self.iteration = 0
        self.limit: int | None = None
        """Tokens of a reply at most, where fewer will do than the model may write."""
        self.continues = CONTINUED
        """How often a reply that reached its limit is continued (W14)."""

    @property
    def node(self) -> str:
        """The progress node of the reply that is going on."""
        return f"{self._place.prefix}.{self.iteration}"

    def ended(self, outcome: str, text: str, tool_calls: int, said: str | None = None) -> RunEnded:
        """The end of the run; `said` are the model's own words, where `text` has more."""
        return RunEnded(
            outcome=outcome,  # type: ignore[arg-type]  # every caller passes one of the literals
            text=text,
            said=said,
            iterations=self.iteration,
            tool_calls=tool_calls,
            ms=round((time.monotonic() - self._began) * 1000),
        )

    def trailing_messages(self, limit: int, files: list[str]) -> tuple[Message, ...]:
        """What stands last in a request: notes of what lies before (H6), and after the first the control packet (W15).
        Words that the user puts in are followed by nothing."""
        notes = self._deps.source.notes()
        noted = (ProgramMessage(text=program_text("memory", f"{prompt('memory')}\n{notes}")),) if notes else ()
        if self.iteration < 2:
            return noted
        context = self._deps.source.context()
        if isinstance(context[-1], UserMessage):
            return ()
        task = next((message.text for message in reversed(context) if isinstance(message, UserMessage)), "")
        return (*noted, control_packet(iteration=self.iteration, limit=limit, files=files, task=task))

    async def ask(self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], temperature: float) -> Received | str:
        """The reply, or why nothing can be sent. `tools` are offered now; a text protocol always describes them all,
        so that the system message stays the same."""
        fallback, window, config = self._deps.fallback, self._deps.window, self._deps.config
        dressed = fallback.request_format(tools)

        def context() -> tuple[Message, ...]:
            return fallback.messages(self._deps.source.context(), self._tools)

        ready = await window.prepare(context, dressed.tools, extra, run=self._run)
        if isinstance(ready, str):
            return ready
        request = ModelRequest(
            model=config.name,
            messages=ready.messages,
            tools=dressed.tools,
            format=dressed.format,
            temperature=temperature,
            max_tokens=min(ready.max_tokens, self.limit or ready.max_tokens),
            num_ctx=config.num_ctx,
            think=config.think,
            keep_alive=config.keep_alive,
        )
        started = ReplyStarted(
            model=config.name,
            iteration=self.iteration,
            messages=len(ready.messages),
            estimate=ready.size,
            fresh=ready.fresh,
        )
        self._stream.emit(started, run=self._run, node=self.node, parent=self._place.parent)
        await self._stream.durable()
        reply = ReplyReceiver(
            self._stream,
            run=self._run,
            node=self.node,
            parent=self._place.parent,
            new_call_id=self._deps.source.new_call_id,
            tools=tools,
            protocol=fallback.protocol,
        )
        received = await reply.receive(config.model, request, self._continuing(request))
        if await window.measure(received.ended, run=self._run):
            self.iteration += 1
            return await self.ask(tools, extra, temperature)
        return received

    def _continuing(self, request: ModelRequest) -> Callable[[str], ModelRequest | None]:
        """Makes the requests that continue a reply, as often as is allowed."""
        count = 0

        def more(raw: str) -> ModelRequest | None:
            nonlocal count
            if count >= self.continues:
                return None
            count += 1
            limit = f"its limit of {request.max_tokens:,} tokens" if request.max_tokens else "its limit"
            text = f"The reply reached {limit} and is continued ({count} of {CONTINUED})."
            rejected = ReplyRejected(kind="truncated", detail=text, attempt=count)
            self._stream.emit(rejected, run=self._run, node=self.node)
            self._stream.emit(Notice(level="info", text=text, code="reply.continued"), run=self._run)
            said = (AssistantMessage(text=raw), ProgramMessage(text=program_text("feedback", prompt("continue"))))
            return msgspec.structs.replace(request, messages=request.messages + said, format=None)

        return more


QUOTED = 120
"""Characters of the task that the packet quotes."""
FILES = 10
"""Changed files that it names."""


def control_packet(*, iteration: int, limit: int, files: Sequence[str] = (), task: str = "") -> ProgramMessage:
    """State and budget of the run as JSON, and the directive not to repeat what is done."""
    quoted = " ".join(task.split())
    quoted = quoted if len(quoted) <= QUOTED else quoted[: QUOTED - 1] + "…"
    fields = {
        "state": "need_tools",
        "iteration": iteration,
        "maxIterations": limit,
        "remainingIterations": max(0, limit - iteration),
        "filesChanged": list(files)[-FILES:],
        "note": f"Task: {quoted}",
    }
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return ProgramMessage(text=f"{program_text('control', body)}\n{prompt('directive')}")

"""One request to the model and its reply, in the form that the model can do (C1 to C3), continued when cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tui_agent.domain import (
    AssistantMessage,
    Message,
    ProgramMessage,
    ToolCall,
    ToolSpec,
    UserMessage,
    marked,
)
from tui_agent.engine.brain import Brain
from tui_agent.engine.control import packet
from tui_agent.engine.emitting import Emitting
from tui_agent.engine.ladder import Ladder
from tui_agent.engine.prompts import prompt
from tui_agent.engine.reply import Received, Reply
from tui_agent.engine.window import Window
from tui_agent.events import Notice, ReplyRejected, ReplyStarted
from tui_agent.models.base import ModelRequest

CONTINUED = 3
"""How often a reply that reached its limit is continued (W14)."""


class Desk(Protocol):
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


class Place(msgspec.Struct, frozen=True):
    """Where in the progress tree the replies of a loop stand."""

    run: str
    parent: str
    """The node above them: the run, a stage or a step."""
    prefix: str
    """What the names of their own nodes begin with."""


class Asking:
    """Asks the model on behalf of one run. `iteration` counts the requests."""

    def __init__(
        self,
        *,
        place: Place,
        stream: Emitting,
        brain: Brain,
        desk: Desk,
        window: Window,
        ladder: Ladder,
        tools: tuple[ToolSpec, ...],
    ) -> None:
        self._run = place.run
        self._place = place
        self._stream = stream
        self._brain = brain
        self._desk = desk
        self._window = window
        self._ladder = ladder
        self._tools = tools
        self.iteration = 0
        self.limit: int | None = None
        """Tokens of a reply at most, where fewer will do than the model may write."""
        self.continues = CONTINUED
        """How often a reply that reached its limit is continued (W14)."""

    @property
    def node(self) -> str:
        """The progress node of the reply that is going on."""
        return f"{self._place.prefix}.{self.iteration}"

    def packet(self, limit: int, files: list[str]) -> tuple[Message, ...]:
        """What stands last in a request: notes of what lies before (H6), and after the first the control packet (W15).
        Words that the user puts in are followed by nothing."""
        notes = self._desk.notes()
        noted = (ProgramMessage(text=marked("memory", f"{prompt('memory')}\n{notes}")),) if notes else ()
        if self.iteration < 2:
            return noted
        context = self._desk.context()
        if isinstance(context[-1], UserMessage):
            return ()
        task = next((message.text for message in reversed(context) if isinstance(message, UserMessage)), "")
        return (*noted, packet(iteration=self.iteration, limit=limit, files=files, task=task))

    async def ask(
        self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], temperature: float
    ) -> Received | str:
        """The reply, or why nothing can be sent. `tools` are offered now; a text protocol always describes them all,
        so that the system message stays the same."""
        ladder, window, brain = self._ladder, self._window, self._brain
        dressed = ladder.dress(tools)

        def context() -> tuple[Message, ...]:
            return ladder.messages(self._desk.context(), self._tools)

        ready = await window.prepare(context, dressed.tools, extra, run=self._run)
        if isinstance(ready, str):
            return ready
        request = ModelRequest(
            model=brain.name,
            messages=ready.messages,
            tools=dressed.tools,
            format=dressed.format,
            temperature=temperature,
            max_tokens=min(ready.max_tokens, self.limit or ready.max_tokens),
            num_ctx=brain.num_ctx,
            think=brain.think,
            keep_alive=brain.keep_alive,
        )
        started = ReplyStarted(
            model=brain.name,
            iteration=self.iteration,
            messages=len(ready.messages),
            estimate=ready.size,
            fresh=ready.fresh,
        )
        self._stream.emit(started, run=self._run, node=self.node, parent=self._place.parent)
        await self._stream.durable()
        reply = Reply(
            self._stream,
            run=self._run,
            node=self.node,
            parent=self._place.parent,
            new_call_id=self._desk.new_call_id,
            tools=tools,
            protocol=ladder.protocol,
        )
        received = await reply.receive(brain.model, request, self._continuing(request))
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
            said = (AssistantMessage(text=raw), ProgramMessage(text=marked("feedback", prompt("continue"))))
            return msgspec.structs.replace(request, messages=request.messages + said, format=None)

        return more

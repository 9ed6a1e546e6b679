"""The direct loop (W10): call the model, run its tools, feed the results back, until it answers without a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from tui_agent.domain import Fault, Message, ToolCall, ToolSpec, marked
from tui_agent.engine.calls import Calls
from tui_agent.engine.context import RESERVE, estimate
from tui_agent.engine.prompts import prompt
from tui_agent.engine.reply import Reply
from tui_agent.engine.stream import EventStream
from tui_agent.events import ContextMeasured, ProgramSaid, ReplyEnded, ReplyStarted, RunEnded
from tui_agent.models.base import Model, ModelRequest

MODEL_OUTPUT_TRIES = 2
"""How often a reply that the server could not parse is asked for again (R9.1)."""


class Brain(msgspec.Struct, frozen=True):
    """Which model answers and with which options; constant within a session and model (R1.1)."""

    model: Model
    name: str
    num_ctx: int | None
    """Tokens of the window; None when unknown."""
    temperature: float
    max_tokens: int


class Desk(Protocol):
    """What the loop needs of the session around it."""

    def context(self) -> tuple[Message, ...]:
        """System message and history as they are now."""
        ...

    def steer(self) -> None:
        """Put the steering messages that wait into the history (W12)."""
        ...

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """The call with an id that is unique within the session."""
        ...


class DirectLoop:
    """One run of the loop for one user message."""

    def __init__(
        self,
        *,
        run: str,
        stream: EventStream,
        brain: Brain,
        desk: Desk,
        calls: Calls,
        tools: tuple[ToolSpec, ...],
        max_iterations: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._stream = stream
        self._brain = brain
        self._desk = desk
        self._calls = calls
        self._tools = tools
        self._max = max_iterations
        self._clock = clock
        self._began = clock()
        self._bad_outputs = 0
        self.iteration = 0

    async def work(self) -> RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        while self.iteration < self._max:
            self.iteration += 1
            self._desk.steer()
            too_full = self._too_full()
            if too_full:
                return self._ended("limit", too_full)
            reply = await self._ask_model(self._tools)
            if reply.fault is not None:
                if self._asks_again(reply.fault):
                    continue
                outcome = "unreachable" if reply.fault.kind == "unreachable" else "failed"
                return self._ended(outcome, _explain(reply.fault))
            if not reply.calls:
                return self._ended("done", reply.text or await self._closing())
            await self._calls.carry_out(reply.calls, self._node())
        text = (
            f"Stopped after {self._max} rounds without a final answer. "
            "Say «go on» to continue, or raise max_iterations."
        )
        return self._ended("limit", text)

    def _node(self) -> str:
        return f"{self._run}.{self.iteration}"

    def _too_full(self) -> str:
        window = self._brain.num_ctx
        used = estimate(self._desk.context(), self._tools)
        if window is None or used + min(RESERVE, window // 8) <= window:
            return ""
        return (
            f"The context is full: about {used:,} tokens for a window of {window:,}. Nothing was cut. "
            "Start a new message with less in it, or raise context_window in the settings."
        )

    async def _ask_model(self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...] = ()) -> ReplyEnded:
        messages = self._desk.context() + extra
        brain = self._brain
        request = ModelRequest(
            model=brain.name,
            messages=messages,
            tools=tools,
            temperature=brain.temperature,
            max_tokens=brain.max_tokens,
            num_ctx=brain.num_ctx,
        )
        size = estimate(messages, tools)
        started = ReplyStarted(
            model=brain.name, iteration=self.iteration, messages=len(messages), estimate=size
        )
        self._stream.emit(started, run=self._run, node=self._node(), parent=self._run)
        await self._stream.durable()
        reply = Reply(
            self._stream,
            run=self._run,
            node=self._node(),
            parent=self._run,
            new_call_id=self._desk.new_call_id,
        )
        ended = await reply.receive(brain.model, request)
        self._measure(ended, size)
        return ended

    def _measure(self, ended: ReplyEnded, size: int) -> None:
        real = ended.usage.prompt_tokens
        used = size if real is None else real + (ended.usage.completion_tokens or 0)
        measured = ContextMeasured(used=used, limit=self._brain.num_ctx, estimated=real is None)
        self._stream.emit(measured, run=self._run)

    def _asks_again(self, fault: Fault) -> bool:
        """A reply that the server could not parse goes back to the model, twice at the most (R9.1)."""
        if fault.kind != "model_output" or self._bad_outputs >= MODEL_OUTPUT_TRIES:
            return False
        self._bad_outputs += 1
        text = (
            f"Your last tool call could not be read: {fault.message[:300]}\n"
            "Send the call again with valid, smaller JSON arguments."
        )
        self._stream.emit(ProgramSaid(kind="feedback", text=text), run=self._run)
        return True

    async def _closing(self) -> str:
        """A short closing summary when the run would end without a word (W10)."""
        if not self._calls.count:
            return "The model answered with nothing. Try again, or put the request in other words."
        from tui_agent.domain import ProgramMessage

        nudge = ProgramMessage(text=marked("feedback", prompt("closing")))
        self.iteration += 1
        reply = await self._ask_model((), (nudge,))
        if reply.text.strip():
            return reply.text
        return f"Finished after {self._calls.count} tool calls; the model gave no summary."

    def _ended(self, outcome: str, text: str) -> RunEnded:
        return RunEnded(
            outcome=outcome,  # type: ignore[arg-type]  # every caller passes one of the literals
            text=text,
            iterations=self.iteration,
            tool_calls=self._calls.count,
            ms=round((self._clock() - self._began) * 1000),
        )


def _explain(fault: Fault) -> str:
    return f"{fault.message} {fault.advice}".strip()

"""Sub-agents: research with a context of its own, that only reads, and gives back its findings alone (T5).

A sub-agent is a direct loop beside the session's: own history, window and calls, no plan document unless its task
names it, no question to anybody, no sub-agents. What it does is on the session's stream below the call that started it,
marked so that it never becomes part of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from tui_agent import events
from tui_agent.common.domain import ApprovalMode, AssistantMessage, Message, SystemMessage, ToolCall, ToolResult
from tui_agent.engine.context.modes import SUBAGENT, for_subagent
from tui_agent.engine.context.window import Window
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.core.stream import EventSink
from tui_agent.engine.deps import SessionDeps
from tui_agent.engine.loop.ask import LoopDeps, LoopNode
from tui_agent.engine.loop.calls import ToolCalls
from tui_agent.engine.loop.loop import DirectLoop
from tui_agent.engine.models.protocol_fallback import ProtocolFallback
from tui_agent.text import one_line
from tui_agent.tools.base import SubagentTask
from tui_agent.tools.registry import Registry

ROLE = "explorer"
"""Role of a sub-agent's replies."""
WORDS = 1_500
"""Words of its findings that the caller gets (T5)."""
CHARACTERS = 12_000
"""The same where words can't be told apart."""
LOOKED = 20
"""Calls that are named when it did not come to an end."""
STOPPED = (
    "The user stopped this sub-agent before it had finished. Do not send it again unless they ask for that; go on with "
    "what is there."
)
_PLAN = re.compile(r"plan[_ ]doc|plan document", re.IGNORECASE)


class SubagentDeps(SessionDeps, frozen=True, kw_only=True):
    """What the sub-agents of a run share with the agent."""

    tools: Registry
    """All there are."""
    config: ModelConfig
    """The agent's own model."""
    protocol: str
    """In which form that one is asked for calls."""
    fallbacks: dict[str, ProtocolFallback]
    """By model, as far as they are known."""
    new_call_id: Callable[[ToolCall], ToolCall]


class SideStream:
    """Takes the events of one sub-agent: folds them for it alone, and hands on what is to be seen of them."""

    def __init__(self, main: EventSink, call: str, title: str) -> None:
        self.state = EngineState()
        self._main = main
        self._call = call
        self._title = title

    def emit(self, event: events.Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """See EventSink; 0 for what stays aside."""
        self.state.fold(event, run)
        shown = self._shown(event)
        return 0 if shown is None else self._main.emit(shown, run=run, node=node, parent=parent)

    async def durable(self, seq: int | None = None) -> None:
        """See EventSink."""
        await self._main.durable()

    def _shown(self, event: events.Event) -> events.Event | None:
        match event:
            case events.ReplyStarted() | events.ReplyEnded():
                return msgspec.structs.replace(event, role=ROLE)
            case events.ToolStarted() | events.ToolFinished() | events.ProgramMessageAdded():
                return msgspec.structs.replace(event, agent=self._call)
            case (
                events.TextDelta()
                | events.ContextMeasured()
                | events.ContextCompacted()
                | events.ProtocolChanged()
                | events.UserMessageAdded()
            ):
                return None
            case events.Notice(level=level, code=code) if level == "info" or code.startswith(("reply.", "context.")):
                return None
            case events.Notice(text=text):
                return msgspec.structs.replace(event, text=f"Sub-agent “{self._title}”: {text}")
        return event


class _Conversation:
    """What the loop needs around it: the sub-agent's own conversation."""

    def __init__(self, deps: SubagentDeps, stream: SideStream, head: tuple[Message, ...], call: str) -> None:
        self._stream = stream
        self._head = head
        self._call = call
        self._raw = deps.raw
        self.new_call_id = deps.new_call_id

    def context(self) -> tuple[Message, ...]:
        """See ConversationSource."""
        return (*self._head, *self._stream.state.history.window())

    def notes(self) -> str:
        """Nothing lies before its own conversation."""
        return ""

    def steer(self) -> bool:
        """Nobody guides a sub-agent: what the user says is for the agent."""
        return False

    async def save_raw(self, name: str, text: str) -> str:
        """See ConversationSource."""
        return await self._raw.save(f"{self._call}-{name}", text)


class Subagent:
    """One sub-agent, for the call `node` of `run`."""

    def __init__(self, subtask: SubagentTask, deps: SubagentDeps, *, run: str, node: str) -> None:
        self._subtask = subtask
        self._deps = deps
        self._run = run
        self._node = node
        self._stream = SideStream(deps.stream, node, one_line(subtask.title, 60))
        self._calls: ToolCalls | None = None
        self._rounds = deps.environment.settings.iterations.subagent

    async def work(self) -> ToolResult:
        """Its findings, or what kept it from them with what it found until then. Raises CancelledError and
        JournalBroken alone."""
        loop = await self._loop()
        hint = f"\n\nWhat is known, and where to look first:\n{self._subtask.hint}" if self._subtask.hint else ""
        self._stream.emit(
            events.UserMessageAdded(id=f"errand-{self._node}", text=self._subtask.task + hint), run=self._run
        )
        return self._told(await loop.work())

    def stopped(self) -> ToolResult:
        """What is told where the user stopped it."""
        return ToolResult(success=False, error=STOPPED, code="interrupted", data=self._found() or None)

    async def _loop(self) -> DirectLoop:
        deps, mode = self._deps, self._subtask.mode
        config = await deps.roles.explorer(deps.config)
        place = deps.environment.read_only_copy(self._stream, mode)
        tools = for_subagent(deps.tools, mode)
        self._calls = calls = ToolCalls(place, tools, self._run)
        prompt = deps.roles.catalog.current.entry(config.name).prompt.strip()
        system = await deps.project.system(mode, ApprovalMode.READ_ONLY, prompt, SUBAGENT, config.num_ctx)
        # The plan document comes with it where the subtask is about it.
        about_plan = _PLAN.search(f"{self._subtask.task} {self._subtask.hint}")
        texts = filter(None, (system, deps.memory.text() if about_plan else ""))
        head = tuple(SystemMessage(text=one) for one in texts)
        loop_deps = LoopDeps(
            stream=self._stream,
            config=config,
            source=_Conversation(deps, self._stream, head, self._node),
            window=Window(config, self._stream),
            fallback=self._fallback(config),
            calls=calls,
        )
        node = LoopNode(self._run, self._node, self._node)
        return DirectLoop(loop_deps, node, tools=tools.specs(), max_iterations=self._rounds, reports=True)

    def _fallback(self, config: ModelConfig) -> ProtocolFallback:
        deps = self._deps
        if config.name not in deps.fallbacks:
            entry = deps.roles.catalog.current.entry(config.name)
            deps.fallbacks[config.name] = ProtocolFallback(
                config.name,
                protocol=deps.protocol if config.name == deps.config.name else "",
                fixed=entry.options.strategy,
                calibration=entry.calibration,
                emit=lambda event: None,
            )
        return deps.fallbacks[config.name]

    # --- what comes of it ---

    def _told(self, ended: events.RunEnded) -> ToolResult:
        text = cut(ended.text)
        if ended.outcome == "done":
            return ToolResult(success=True, data=text)
        if ended.outcome == "limit" and ended.text.strip() == self._last():
            note = f"[It had used up its {self._rounds} rounds; this is what it found until then.]"
            return ToolResult(success=True, data=f"{text}\n{note}", code="limit")
        if ended.outcome == "limit":
            error = f"The sub-agent came to no end within {self._rounds} rounds. Send one with a narrower task."
        else:
            error = f"The sub-agent failed: {one_line(ended.text, 500)}"
        return ToolResult(success=False, error=error, code=ended.outcome, data=self._found() or None)

    def _last(self) -> str:
        return next(reversed(self._said()), "")

    def _said(self) -> list[str]:
        turns = self._stream.state.history.turns
        replies = [one for turn in turns for one in turn.messages if isinstance(one, AssistantMessage)]
        return [one.text.strip() for one in replies if one.text.strip()]

    def _found(self) -> str:
        """What it said and looked at, for a caller who gets no report."""
        parts = ["What it had said until then:", *self._said()[-5:]] if self._said() else []
        done = [] if self._calls is None else [call for call, result in self._calls.results if result.success]
        if done:
            named = dict.fromkeys(one_line(f"{one.name} {_first(one)}".strip(), 120) for one in done)
            parts += [f"What it had looked at ({len(done)} calls):", *list(named)[-LOOKED:]]
        return cut("\n".join(parts))


def _first(call: ToolCall) -> str:
    return next((value for value in call.arguments.values() if isinstance(value, str)), "")


def cut(text: str) -> str:
    """At most `WORDS` words of it, with a note of what is missing."""
    text = text.strip()
    words = [found.end() for found in re.finditer(r"\S+", text)]
    end = words[WORDS - 1] if len(words) > WORDS else len(text)
    end = min(end, CHARACTERS)
    if end >= len(text):
        return text
    return f"{text[:end].rstrip()}\n[Cut here: the report had {len(words):,} words, {WORDS:,} are handed on.]"

"""Sub-agents: research in a separate context that only reads, and reports its findings to the caller (T5).

A sub-agent is a direct loop next to the session's, with its own history, window and calls. It asks no questions, has no
sub-agents, and sees the plan document only if its task mentions it. Its events are children of the call that started
it, and marked so that they never become part of the conversation.
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
MAX_REPORT_WORDS = 1_500
"""Words of the report that the caller gets (T5)."""
MAX_REPORT = 12_000
"""The same in characters, for languages without spaces."""
MAX_LISTED_CALLS = 20
"""Calls that are listed if there is no report."""
STOPPED = (
    "The user stopped this sub-agent before it had finished. Do not send it again unless they ask for that; go on with "
    "what is there."
)
_PLAN = re.compile(r"plan[_ ]doc|plan document", re.IGNORECASE)


class SubagentDeps(SessionDeps, frozen=True, kw_only=True):
    """What the sub-agents of a run share with the agent."""

    tools: Registry
    """All tools of the session."""
    config: ModelConfig
    """The agent's model."""
    protocol: str
    """The protocol used with the agent's model."""
    fallbacks: dict[str, ProtocolFallback]
    """The protocol fallbacks by model, filled as models are used."""
    new_call_id: Callable[[ToolCall], ToolCall]


class SubagentStream:
    """The event sink of one sub-agent: folds its events into a state of its own, and forwards the visible ones."""

    def __init__(self, main: EventSink, call: str, title: str) -> None:
        self.state = EngineState()
        self._main = main
        self._call = call
        self._title = title

    def emit(self, event: events.Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """See EventSink; 0 for an event that is not forwarded."""
        self.state.fold(event, run)
        forwarded = self._forwarded(event)
        return 0 if forwarded is None else self._main.emit(forwarded, run=run, node=node, parent=parent)

    async def durable(self, seq: int | None = None) -> None:
        """See EventSink."""
        await self._main.durable()

    def _forwarded(self, event: events.Event) -> events.Event | None:
        """Return the event as the session's stream gets it, or None."""
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
    """The `ConversationSource` of a sub-agent."""

    def __init__(self, deps: SubagentDeps, stream: SubagentStream, head: tuple[Message, ...], call: str) -> None:
        self._stream = stream
        self._head = head
        self._call = call
        self._raw = deps.raw
        self.new_call_id = deps.new_call_id

    def context(self) -> tuple[Message, ...]:
        """See ConversationSource."""
        return (*self._head, *self._stream.state.history.window())

    def notes(self) -> str:
        """Return nothing: there are no earlier runs."""
        return ""

    def steer(self) -> bool:
        """Return False: steering messages are for the agent."""
        return False

    async def save_raw(self, name: str, text: str) -> str:
        """See ConversationSource."""
        return await self._raw.save(f"{self._call}-{name}", text)


class Subagent:
    """One sub-agent, started by the call `node` of `run`."""

    def __init__(self, subtask: SubagentTask, deps: SubagentDeps, *, run: str, node: str) -> None:
        self._subtask = subtask
        self._deps = deps
        self._run = run
        self._node = node
        self._stream = SubagentStream(deps.stream, node, one_line(subtask.title, 60))
        self._calls: ToolCalls | None = None
        self._max_iterations = deps.environment.settings.iterations.subagent

    async def work(self) -> ToolResult:
        """Return the report, or the failure with partial findings. Raises only CancelledError and JournalBroken."""
        loop = await self._create_loop()
        hint = f"\n\nWhat is known, and where to look first:\n{self._subtask.hint}" if self._subtask.hint else ""
        self._stream.emit(
            events.UserMessageAdded(id=f"errand-{self._node}", text=self._subtask.task + hint), run=self._run
        )
        return self._result(await loop.work())

    def interrupted_result(self) -> ToolResult:
        """Return the result for the caller after the user stopped the sub-agent."""
        return ToolResult(success=False, error=STOPPED, code="interrupted", data=self._partial_findings() or None)

    async def _create_loop(self) -> DirectLoop:
        deps, mode = self._deps, self._subtask.mode
        config = await deps.roles.explorer(deps.config)
        environment = deps.environment.read_only_copy(self._stream, mode)
        tools = for_subagent(deps.tools, mode)
        self._calls = calls = ToolCalls(environment, tools, self._run)
        prompt = deps.roles.catalog.current.entry(config.name).prompt.strip()
        system = await deps.project.system(mode, ApprovalMode.READ_ONLY, prompt, SUBAGENT, config.num_ctx)
        mentions_plan = _PLAN.search(f"{self._subtask.task} {self._subtask.hint}")
        texts = filter(None, (system, deps.memory.text() if mentions_plan else ""))
        head = tuple(SystemMessage(text=text) for text in texts)
        loop_deps = LoopDeps(
            stream=self._stream,
            config=config,
            source=_Conversation(deps, self._stream, head, self._node),
            window=Window(config, self._stream),
            fallback=self._fallback(config),
            calls=calls,
        )
        node = LoopNode(self._run, self._node, self._node)
        return DirectLoop(loop_deps, node, tools=tools.specs(), max_iterations=self._max_iterations, reports=True)

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

    # --- the result ---

    def _result(self, ended: events.RunEnded) -> ToolResult:
        text = truncate_report(ended.text)
        if ended.outcome == "done":
            return ToolResult(success=True, data=text)
        if ended.outcome == "limit" and ended.text.strip() in self._replies()[-1:]:
            note = f"[It had used up its {self._max_iterations} rounds; this is what it found until then.]"
            return ToolResult(success=True, data=f"{text}\n{note}", code="limit")
        if ended.outcome == "limit":
            error = f"The sub-agent came to no end within {self._max_iterations} rounds. Send one with a narrower task."
        else:
            error = f"The sub-agent failed: {one_line(ended.text, 500)}"
        return ToolResult(success=False, error=error, code=ended.outcome, data=self._partial_findings() or None)

    def _replies(self) -> list[str]:
        """Return the texts of its replies."""
        messages = [message for turn in self._stream.state.history.turns for message in turn.messages]
        texts = [message.text.strip() for message in messages if isinstance(message, AssistantMessage)]
        return [text for text in texts if text]

    def _partial_findings(self) -> str:
        """Return its last replies and calls, for a caller that gets no report."""
        replies = self._replies()
        parts = ["What it had said until then:", *replies[-5:]] if replies else []
        calls = [] if self._calls is None else [call for call, result in self._calls.results if result.success]
        if calls:
            rows = dict.fromkeys(one_line(f"{call.name} {_first_argument(call)}".strip(), 120) for call in calls)
            parts += [f"What it had looked at ({len(calls)} calls):", *list(rows)[-MAX_LISTED_CALLS:]]
        return truncate_report("\n".join(parts))


def _first_argument(call: ToolCall) -> str:
    return next((value for value in call.arguments.values() if isinstance(value, str)), "")


def truncate_report(text: str) -> str:
    """Return the report, truncated to the limits with a note."""
    text = text.strip()
    words = [match.end() for match in re.finditer(r"\S+", text)]
    end = words[MAX_REPORT_WORDS - 1] if len(words) > MAX_REPORT_WORDS else len(text)
    end = min(end, MAX_REPORT)
    if end >= len(text):
        return text
    return (
        f"{text[:end].rstrip()}\n[Cut here: the report had {len(words):,} words, {MAX_REPORT_WORDS:,} are handed on.]"
    )

"""Sub-agents: research with a context of its own, that only reads, and gives back its findings alone (T5).

A sub-agent is a direct loop beside the session's: own history, window and calls, no plan document unless its task
names it, no question to anybody, no sub-agents. What it does is on the session's stream below the call that started it,
marked so that it never becomes part of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from tui_agent.domain import (
    ApprovalMode,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
)
from tui_agent.engine.asking import Place
from tui_agent.engine.brain import Brain
from tui_agent.engine.calls import Calls
from tui_agent.engine.emitting import Emitting
from tui_agent.engine.ladder import Ladder
from tui_agent.engine.loop import DirectLoop
from tui_agent.engine.modes import SUBAGENT, for_subagent
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.project import Project
from tui_agent.engine.raw_replies import RawReplies
from tui_agent.engine.roles import Roles
from tui_agent.engine.state import EngineState
from tui_agent.engine.window import Window
from tui_agent.engine.workplace import Workplace
from tui_agent.events import (
    ContextCompacted,
    ContextMeasured,
    Event,
    Notice,
    ProgramSaid,
    ProtocolChanged,
    ReplyEnded,
    ReplyStarted,
    ReplyText,
    RunEnded,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from tui_agent.text import one_line
from tui_agent.tools.base import Errand
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


class Camp(msgspec.Struct, frozen=True, kw_only=True):
    """What the sub-agents of a run share with the agent."""

    stream: Emitting
    workplace: Workplace
    tools: Registry
    """All there are."""
    brain: Brain
    """The agent's own model."""
    protocol: str
    """In which form that one is asked for calls."""
    roles: Roles
    project: Project
    memory: PlanMemory
    raw: RawReplies
    ladders: dict[str, Ladder]
    """By model, as far as they are known."""
    new_call_id: Callable[[ToolCall], ToolCall]


class SideStream:
    """Takes the events of one sub-agent: folds them for it alone, and hands on what is to be seen of them."""

    def __init__(self, main: Emitting, call: str, title: str) -> None:
        self.state = EngineState()
        self._main = main
        self._call = call
        self._title = title

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """See Emitting; 0 for what stays aside."""
        self.state.fold(event, run)
        shown = self._shown(event)
        return 0 if shown is None else self._main.emit(shown, run=run, node=node, parent=parent)

    async def durable(self, seq: int | None = None) -> None:
        """See Emitting."""
        await self._main.durable()

    def _shown(self, event: Event) -> Event | None:
        match event:
            case ReplyStarted() | ReplyEnded():
                return msgspec.structs.replace(event, role=ROLE)
            case ToolStarted() | ToolFinished() | ProgramSaid():
                return msgspec.structs.replace(event, agent=self._call)
            case ReplyText() | ContextMeasured() | ContextCompacted() | ProtocolChanged() | UserSaid():
                return None
            case Notice(level=level, code=code) if level == "info" or code.startswith(("reply.", "context.")):
                return None
            case Notice(text=text):
                return msgspec.structs.replace(event, text=f"Sub-agent «{self._title}»: {text}")
        return event


class _Desk:
    """What the loop needs around it: the sub-agent's own conversation."""

    def __init__(self, camp: Camp, stream: SideStream, head: tuple[Message, ...], call: str) -> None:
        self._stream = stream
        self._head = head
        self._call = call
        self._raw = camp.raw
        self._new_call_id = camp.new_call_id

    def context(self) -> tuple[Message, ...]:
        """See Desk."""
        return (*self._head, *self._stream.state.history.window())

    def notes(self) -> str:
        """Nothing lies before its own conversation."""
        return ""

    def steer(self) -> bool:
        """Nobody guides a sub-agent: what the user says is for the agent."""
        return False

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """See Desk."""
        return self._new_call_id(call)

    async def keep_raw(self, name: str, text: str) -> str:
        """See Desk."""
        return await self._raw.keep(f"{self._call}-{name}", text)


class Subagent:
    """One sub-agent, for the call `node` of `run`."""

    def __init__(self, errand: Errand, camp: Camp, *, run: str, node: str) -> None:
        self._errand = errand
        self._camp = camp
        self._run = run
        self._node = node
        self._stream = SideStream(camp.stream, node, one_line(errand.title, 60))
        self._calls: Calls | None = None
        self._rounds = camp.workplace.settings.iterations.subagent

    async def work(self) -> ToolResult:
        """Its findings, or what kept it from them with what it found until then. Raises CancelledError and
        JournalBroken alone."""
        loop = await self._loop()
        hint = (
            f"\n\nWhat is known, and where to look first:\n{self._errand.hint}" if self._errand.hint else ""
        )
        self._stream.emit(UserSaid(id=f"errand-{self._node}", text=self._errand.task + hint), run=self._run)
        return self._told(await loop.work())

    def stopped(self) -> ToolResult:
        """What is told where the user stopped it."""
        return ToolResult(success=False, error=STOPPED, code="interrupted", data=self._found() or None)

    async def _loop(self) -> DirectLoop:
        camp, mode = self._camp, self._errand.mode
        brain = await camp.roles.explorer(camp.brain)
        place = camp.workplace.aside(self._stream, mode)
        tools = for_subagent(camp.tools, mode)
        self._calls = calls = Calls(place, tools, self._run)
        prompt = camp.roles.catalog.current.entry(brain.name).prompt.strip()
        system = await camp.project.system(mode, ApprovalMode.READ_ONLY, prompt, SUBAGENT, brain.num_ctx)
        return DirectLoop(
            place=Place(self._run, self._node, self._node),
            stream=self._stream,
            brain=brain,
            desk=_Desk(camp, self._stream, self._head(system), self._node),
            window=Window(brain, self._stream),
            ladder=self._ladder(brain),
            calls=calls,
            tools=tools.specs(),
            max_iterations=self._rounds,
            reports=True,
        )

    def _head(self, system: str) -> tuple[Message, ...]:
        """Rules, and the plan document where the errand is about it."""
        plan = ""
        if _PLAN.search(f"{self._errand.task} {self._errand.hint}"):
            plan = self._camp.memory.text()
        return (
            (SystemMessage(text=system), SystemMessage(text=plan)) if plan else (SystemMessage(text=system),)
        )

    def _ladder(self, brain: Brain) -> Ladder:
        camp = self._camp
        if brain.name not in camp.ladders:
            entry = camp.roles.catalog.current.entry(brain.name)
            camp.ladders[brain.name] = Ladder(
                brain.name,
                protocol=camp.protocol if brain.name == camp.brain.name else "",
                fixed=entry.options.strategy,
                calibration=entry.calibration,
                tell=lambda event: None,
            )
        return camp.ladders[brain.name]

    # --- what comes of it ---

    def _told(self, ended: RunEnded) -> ToolResult:
        text = cut(ended.text)
        if ended.outcome == "done":
            return ToolResult(success=True, data=text)
        if ended.outcome == "limit" and ended.text.strip() == self._last():
            note = f"[It had used up its {self._rounds} rounds; this is what it found until then.]"
            return ToolResult(success=True, data=f"{text}\n{note}", code="limit")
        if ended.outcome == "limit":
            error = (
                f"The sub-agent came to no end within {self._rounds} rounds. Send one with a narrower task."
            )
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
    """At most `WORDS` words of it, with a note of what is missing (R17.4)."""
    text = text.strip()
    words = [found.end() for found in re.finditer(r"\S+", text)]
    end = words[WORDS - 1] if len(words) > WORDS else len(text)
    end = min(end, CHARACTERS)
    if end >= len(text):
        return text
    return f"{text[:end].rstrip()}\n[Cut here: the report had {len(words):,} words, {WORDS:,} are handed on.]"

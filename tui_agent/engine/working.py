"""How a message is worked on, by mode: the direct loop, a read-only one, or the staged workflow (W1, W10, W11)."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from tui_agent import paths
from tui_agent.domain import Mode
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.desk import SessionDesk
from tui_agent.engine.offering import Offering
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.project import Project
from tui_agent.engine.raw_replies import RawReplies
from tui_agent.engine.roles import Roles
from tui_agent.engine.state import SessionStream
from tui_agent.engine.workplace import Workplace
from tui_agent.events import RunEnded
from tui_agent.plan.store import Unreadable

if TYPE_CHECKING:
    from tui_agent.engine.asking import Desk
    from tui_agent.engine.brain import Brain
    from tui_agent.engine.calls import Calls
    from tui_agent.engine.ladder import Ladder
    from tui_agent.engine.loop import DirectLoop
    from tui_agent.engine.structured import Structured
    from tui_agent.engine.window import Window
    from tui_agent.engine.workflow import Crew, Workflow
    from tui_agent.tools.registry import Registry

PLANS = "plans.json"
"""The plan cache, in the data folder."""


class Absent(msgspec.Struct, frozen=True):
    """What holds where no user is present (X3)."""

    accept_plan: bool = False
    accept_summary: bool = False


class Working:
    """Works on the messages of one session. What outlasts a run (window, protocol) is kept here."""

    def __init__(
        self,
        *,
        stream: SessionStream,
        approvals: Approvals,
        workplace: Workplace,
        roles: Roles,
        project: Project,
        memory: PlanMemory,
        absent: Absent,
        raw: RawReplies,
    ) -> None:
        self._stream = stream
        self._approvals = approvals
        self._workplace = workplace
        self._registry: Registry | None = None
        self._roles = roles
        self._project = project
        self._memory = memory
        workplace.propose = memory.propose
        memory.repair_by(self._rewrite_plan)
        self._absent = absent
        self._desk = SessionDesk(stream, memory, raw, lambda: self.system)
        self._window: Window | None = None
        self._ladder: Ladder | None = None
        self._workflow: Workflow | None = None
        self._calls: Calls | None = None
        self.system = ""
        """The system message of the requests."""
        self._run = ""

    def compact(self, busy: bool) -> None:
        """Compact before the next request of the run that goes on, at once where none does, and say so (U5)."""
        from tui_agent.engine.tokens import Gauge
        from tui_agent.engine.window import settled
        from tui_agent.engine.window_words import NOTHING, SOON

        if busy and self._window is not None:
            self._window.compact_soon()
            self._stream.emit(SOON)
            return
        gauge = Gauge() if self._window is None else self._window.gauge
        self._stream.emit(settled(self._stream.state.history, gauge) or NOTHING)

    def skip_planning(self) -> bool:
        """Take the cached plan or a single step instead of waiting for one (W4); False when none is waited for."""
        return self._workflow is not None and self._workflow.skip_planning()

    async def offer_again(self) -> None:
        """Offer the summaries that nobody decided about (X3), one after the other."""
        for kept in tuple(self._stream.state.summaries.values()):
            await Offering(self._stream, self._approvals, self._memory).again(kept)

    @property
    def tool_calls(self) -> int:
        """How many calls the run that goes on, or the last one, carried out."""
        return 0 if self._calls is None else self._calls.count

    async def work(self, run: str, request: str) -> RunEnded:
        """Work on one message to the end. Only cancellation is raised."""
        self._calls, self._run = None, run
        brain = await self._roles.brain()
        if isinstance(brain, RunEnded):
            return brain
        if self._workplace.mode is Mode.PLAN or not self._workplace.mode.reads_only:
            await self._memory.mend()
        await _load("engine.loop")
        from tui_agent.engine.calls import Calls
        from tui_agent.engine.window import Window

        place, tools = self._workplace, await self._tools()
        self._calls = calls = Calls(place, tools, run)
        registry = tools.for_mode(place.mode)
        self.system = await self._project.system(place.mode, place.approval_mode, self._roles.prompt)
        self._window = window = Window.of(brain, self._stream, self._window)
        loops = _Loops(
            run, self._stream, brain, self._desk, window, self._ladder_for(brain), calls, self._rounds
        )
        if place.mode is not Mode.AGENT:
            return await loops.make(run, registry, place.mode).work()
        await _load("engine.workflow")
        from tui_agent.engine.structured import Structured
        from tui_agent.engine.workflow import Workflow

        structured = Structured(run=run, stream=self._stream, roles=self._roles, brain=brain)
        self._workflow = Workflow(run, request, self._crew(structured, calls, loops, registry))
        try:
            return await self._workflow.work()
        finally:
            self._workflow = None

    async def _rewrite_plan(self, found: Unreadable, good: str) -> str:
        """The plan document as the planning model repairs it (P3); empty where none is there."""
        from tui_agent.engine.plan_repair import rewritten
        from tui_agent.engine.structured import Structured

        brain = await self._roles.brain()
        if isinstance(brain, RunEnded):
            return ""
        structured = Structured(run=self._run, stream=self._stream, roles=self._roles, brain=brain)
        return await rewritten(found, good, structured, node=self._run)

    def _crew(self, structured: Structured, calls: Calls, loops: _Loops, registry: Registry) -> Crew:
        from tui_agent.engine.plan_cache import PlanCache
        from tui_agent.engine.planning import Planner
        from tui_agent.engine.workflow import Crew

        place, settings = self._workplace, self._workplace.settings
        cache = None
        if settings.plan_cache:
            cache = PlanCache(paths.data_dir() / PLANS, days=settings.plan_cache_days)
        return Crew(
            stream=self._stream,
            approvals=self._approvals,
            settings=settings,
            registry=registry,
            calls=calls,
            structured=structured,
            planner=Planner(structured, registry, settings, cache),
            memory=self._memory,
            loop=lambda node, registry: loops.make(node, registry, Mode.AGENT),
            new_call=self._desk.new_call_id,
            rules=self.system,
            folder=str(place.workspace),
            attended=place.attended,
            accept_plan=self._absent.accept_plan,
            accept_summary=self._absent.accept_summary,
        )

    def _ladder_for(self, brain: Brain) -> Ladder:
        """The protocol of the session's model, as it was settled, also by an earlier process."""
        from tui_agent.engine.ladder import Ladder

        if self._ladder is None or self._ladder.model != brain.name:
            self._ladder = Ladder(
                brain.name,
                protocol=self._stream.state.protocol,
                fixed=self._roles.protocol,
                tell=self._stream.emit,
            )
        return self._ladder

    async def _tools(self) -> Registry:
        if self._registry is None:
            await _load("tools.registry")
            from tui_agent.tools.registry import default_tools

            self._registry = default_tools(off=self._workplace.settings.tools_off)
        return self._registry

    def _rounds(self, mode: Mode, step: bool) -> int:
        rounds: dict[str, int] = self._workplace.settings.iterations.model_dump()
        return rounds["step"] if step else rounds.get(mode.replace("-", "_"), rounds["direct"])


async def _load(name: str) -> None:
    """Load a module in a thread, when it is needed first: an idle session stays small."""
    await asyncio.to_thread(importlib.import_module, f"tui_agent.{name}")


class _Loops:
    """Makes the direct loops of one run, each with replies under nodes of their own."""

    def __init__(
        self,
        run: str,
        stream: SessionStream,
        brain: Brain,
        desk: Desk,
        window: Window,
        ladder: Ladder,
        calls: Calls,
        rounds: Callable[[Mode, bool], int],
    ) -> None:
        self._run = run
        self._stream = stream
        self._brain = brain
        self._desk = desk
        self._window = window
        self._ladder = ladder
        self._calls = calls
        self._rounds = rounds
        self._count = 0

    def make(self, node: str, registry: Registry, mode: Mode) -> DirectLoop:
        """A loop whose replies hang below `node`: the run, a stage or a step."""
        from tui_agent.engine.asking import Place
        from tui_agent.engine.loop import DirectLoop

        self._count += 1
        self._calls.use(registry)
        prefix = self._run if node == self._run else f"{self._run}.l{self._count}"
        return DirectLoop(
            place=Place(self._run, node, prefix),
            stream=self._stream,
            brain=self._brain,
            desk=self._desk,
            window=self._window,
            ladder=self._ladder,
            calls=self._calls,
            tools=registry.specs(),
            max_iterations=self._rounds(mode, node.rpartition(".")[2].startswith("s")),
        )

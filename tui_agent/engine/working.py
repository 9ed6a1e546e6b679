"""How a message is worked on, by mode: the direct loop, a read-only one, or the staged workflow (W1, W10, W11)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tui_agent import paths
from tui_agent.domain import ApprovalMode, Mode, ToolResult
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.desk import SessionDesk
from tui_agent.engine.offering import Offering
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.project import Project
from tui_agent.engine.raw_replies import RawReplies
from tui_agent.engine.roles import Roles
from tui_agent.engine.session_branch import SessionBranch
from tui_agent.engine.state import SessionStream
from tui_agent.engine.workplace import Workplace
from tui_agent.events import RunEnded
from tui_agent.plan.store import Unreadable

if TYPE_CHECKING:
    from tui_agent.engine.asking import Desk, Place
    from tui_agent.engine.attaching import Attaching
    from tui_agent.engine.brain import Brain
    from tui_agent.engine.calls import Calls
    from tui_agent.engine.completion import Completion
    from tui_agent.engine.execution import Worker
    from tui_agent.engine.files_loop import FilesLoop
    from tui_agent.engine.ladder import Ladder
    from tui_agent.engine.loop import DirectLoop
    from tui_agent.engine.structured import Structured
    from tui_agent.engine.subagents import Camp
    from tui_agent.engine.window import Window
    from tui_agent.engine.workflow import Crew, Workflow
    from tui_agent.tools.base import Errand
    from tui_agent.tools.registry import Registry

PLANS = "plans.json"
"""The plan cache, in the data folder."""


class Absent(msgspec.Struct, frozen=True):
    """What holds where no user is present (X3)."""

    accept_plan: bool = False
    accept_summary: bool = False


ENDING = 4.0
"""Seconds that a sub-agent has for its end, the processes of its commands among it, until it is told again."""
SUBAGENTS = 4
"""Sub-agents that work at the same time; a server that takes one request after the other lets them wait."""


class Subagents:
    """The sub-agents that go on, by the call that sent each; one can be stopped and the others go on (T5)."""

    def __init__(self) -> None:
        self._going: dict[str, asyncio.Task[ToolResult]] = {}
        self._slots = asyncio.Semaphore(SUBAGENTS)
        self.ladders: dict[str, Ladder] = {}
        """How each model of theirs is asked for calls."""

    def interrupt(self, node: str) -> bool:
        """Stop the one that the call `node` sent; False when there is none any more."""
        task = self._going.get(node)
        return task is not None and not task.done() and task.cancel()

    async def send(self, errand: Errand, camp: Camp, run: str, node: str) -> ToolResult:
        """What comes of an errand. Stopping the caller stops the sub-agent first."""
        from tui_agent.engine.subagents import Subagent

        subagent = Subagent(errand, camp, run=run, node=node)
        task = self._going[node] = asyncio.create_task(self._in_turn(subagent.work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                await put_end_to(task)
                if not task.cancelled():
                    task.exception()  # what it ended with is nobody's any more
                raise
            return subagent.stopped()
        finally:
            self._going.pop(node, None)

    async def _in_turn(self, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        async with self._slots:
            return await work()


async def put_end_to(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended, also where the caller is stopped once more meanwhile: nothing of it
    may come after the end of the run. A cancellation can get lost, so it is repeated."""
    loop = asyncio.get_running_loop()
    again = loop.time()
    while not task.done():
        if loop.time() >= again:
            task.cancel()
            again = loop.time() + ENDING
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=again - loop.time())


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
        self._has_code = False
        self._roles = roles
        self._project = project
        self._memory = memory
        self._raw = raw
        self._brain: Brain | None = None
        self.subagents = Subagents()
        """Those that go on."""
        self._attaching: Attaching | None = None
        project.settle(workplace.roots)
        workplace.code.allowed = lambda: project.trusted
        workplace.propose = memory.propose
        workplace.delegate = self._delegate
        workplace.reads_git = lambda: project.trusted
        if workplace.settings.git_branch:
            workplace.branch = SessionBranch(workplace.roots.folders, lambda: stream.state.title, stream)
        memory.repair_by(self._rewrite_plan)
        memory.window = self._limit
        self._absent = absent
        self._desk = SessionDesk(stream, memory, raw, lambda: self.system)
        self._window: Window | None = None
        self._ladder: Ladder | None = None
        self._workflow: Workflow | None = None
        self._calls: Calls | None = None
        self.system = self._files_system = ""
        """The system message of the requests; the second one is that of the files strategy."""
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

    def _limit(self) -> int | None:
        """Tokens of the window in effect, else of the one that is asked for."""
        found = None if self._window is None else self._window.limit
        return found or self._stream.state.context_window

    def skip_planning(self) -> bool:
        """Take the cached plan or a single step instead of waiting for one (W4); False when none is waited for."""
        return self._workflow is not None and self._workflow.skip_planning()

    async def offer_again(self) -> None:
        """Offer what nobody decided about, one after the other: summaries (X3), texts of the plan document that were
        kept aside (P3)."""
        for kept in tuple(self._stream.state.summaries.values()):
            await Offering(self._stream, self._approvals, self._memory).again(kept)
        await self._memory.asides.again(self._stream.state.asides)

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
        self._brain = brain
        place = self._workplace
        if place.mode is Mode.PLAN or not place.mode.reads_only:
            await self._memory.mend()
        await _load("engine.loop")
        from tui_agent.engine import modes
        from tui_agent.engine.calls import Calls
        from tui_agent.engine.window import Window

        tools = await self._tools(anew=True)
        self._calls = calls = Calls(place, tools, run)
        leads = place.settings.orchestrator
        registry, role = modes.offered(tools, place.mode, orchestrator=leads), modes.who(place.mode, leads)
        looks = place.approval_mode is ApprovalMode.READ_ONLY
        told = modes.versions(place.mode, registry, reads_only=looks, role=role)
        ladder = self._ladder_for(brain)
        await ladder.settle(brain.model)
        await self._set_system(role, brain)
        await self._attach(run, brain)
        self._window = window = Window.of(brain, self._stream, self._window)
        rounds, system = self._rounds, lambda: self._files_system
        loops = _Loops(run, self._stream, brain, self._desk, window, ladder, calls, rounds, place, system)
        if place.mode is not Mode.AGENT:
            ended = await loops.make(run, registry, place.mode).work()
            return msgspec.structs.replace(ended, prompts=told | ladder.versions())
        await _load("engine.workflow")
        from tui_agent.engine.workflow import Workflow

        structured = self._questions(run, brain, window, ladder, registry)
        self._workflow = workflow = Workflow(run, request, self._crew(structured, calls, loops, registry))
        try:
            ended = await workflow.work()
        finally:
            self._workflow = None
        told |= modes.version_of(workflow.intent) | ladder.versions()
        return msgspec.structs.replace(ended, prompts=told)

    async def _set_system(self, role: str, brain: Brain) -> None:
        """Make the system messages of the run's requests."""
        from tui_agent.engine.modes import FILES

        place, system = self._workplace, self._project.system
        own = self._roles.prompt
        self.system = await system(place.mode, place.approval_mode, own, role, brain.num_ctx)
        self._files_system = await system(place.mode, place.approval_mode, own, FILES, brain.num_ctx)

    def _questions(
        self, run: str, brain: Brain, window: Window, ladder: Ladder, registry: Registry
    ) -> Structured:
        """Asks beside the conversation of a run, with the same beginning (E7)."""
        from tui_agent.engine.conversation import Conversation
        from tui_agent.engine.structured import Structured

        conversation = Conversation(self._desk, window, ladder, registry.specs(), run)
        return Structured(
            run=run, stream=self._stream, roles=self._roles, brain=brain, conversation=conversation
        )

    async def _attach(self, run: str, brain: Brain) -> None:
        """What the message mentions goes to the model with it (H7)."""
        place = self._workplace
        if self._attaching is None:
            await _load("engine.attaching")
            from tui_agent.engine.attaching import Attaching

            self._attaching = Attaching(self._stream, place)
            place.attach, place.rules = self._attaching.attach, self._project.nested
        self._attaching.window = brain.num_ctx
        await self._attaching.attach(run)

    async def _delegate(self, errand: Errand, run: str, node: str) -> ToolResult:
        """Send a sub-agent (T5); only a run does, so that there is a model and its protocol."""
        assert self._brain is not None
        await _load("engine.subagents")
        from tui_agent.engine.subagents import Camp

        camp = Camp(
            stream=self._stream,
            workplace=self._workplace,
            tools=await self._tools(),
            brain=self._brain,
            protocol=self._ladder_for(self._brain).protocol,
            roles=self._roles,
            project=self._project,
            memory=self._memory,
            raw=self._raw,
            ladders=self.subagents.ladders,
            new_call_id=self._desk.new_call_id,
        )
        return await self.subagents.send(errand, camp, run, node)

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
            completion=loops.completion(self._run, registry),
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
            attached=self._stream.state.history.attached,
            conversation=self._stream.state.history.talk(),
            files=loops.ladder.protocol == "files",
        )

    def _ladder_for(self, brain: Brain) -> Ladder:
        """The protocol of the session's model, as it was settled, also by an earlier process."""
        from tui_agent.engine.ladder import Ladder

        if self._ladder is None or self._ladder.model != brain.name:
            self._ladder = Ladder(
                brain.name,
                protocol=self._stream.state.protocol,
                fixed=self._roles.protocol,
                calibration=self._roles.calibration,
                tell=self._stream.emit,
            )
        return self._ladder

    async def _tools(self, *, anew: bool = False) -> Registry:
        """All there are. With `anew`, as a run begins: those of code intelligence too, where there is code by now."""
        if self._registry is None or (anew and not self._has_code):
            await _load("tools.registry")
            from tui_agent.tools.registry import default_tools

            place = self._workplace
            self._has_code = await place.code.offered()
            self._registry = default_tools(off=place.settings.tools_off, code=self._has_code)
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
        workplace: Workplace,
        files_system: Callable[[], str],
    ) -> None:
        self._run = run
        self._stream = stream
        self._brain = brain
        self._desk = desk
        self._window = window
        self.ladder = ladder
        self._calls = calls
        self._rounds = rounds
        self._workplace = workplace
        self._files_system = files_system
        self._count = 0

    @property
    def request(self) -> str:
        """What the user said in this run."""
        return self._stream.state.history.request

    def next_strategy(self) -> bool:
        """Take another strategy for a request for a change with which nothing came of this one; False where none is
        left, and where what was tried was refused (E4)."""
        from tui_agent.engine.request_reading import kind_of

        writes = not self._workplace.mode.reads_only and kind_of(self.request) == "change"
        refused = self._calls.declined or any(one.code == "refused" for _, one in self._calls.results)
        return writes and not refused and self.ladder.failed("nothing came of its calls")

    def make(self, node: str, registry: Registry, mode: Mode) -> Worker:
        """A loop whose replies hang below `node`: the run, a stage or a step."""
        from tui_agent.engine.asking import Place

        self._count += 1
        self._calls.use(registry)
        prefix = self._run if node == self._run else f"{self._run}.l{self._count}"

        def loop(place: Place, *, judged: bool) -> DirectLoop | FilesLoop:
            if self.ladder.protocol == "files":
                return self.files(place, registry)
            direct = self._direct(
                place, registry, self._rounds(mode, node.rpartition(".")[2].startswith("s"))
            )
            if judged:
                direct.completion = self.completion(node, registry)
            return direct

        # Steps are judged when all of them are done.
        first = loop(Place(self._run, node, prefix), judged=mode is not Mode.AGENT)
        return _ThenNext(first, self, lambda: loop(Place(self._run, node, f"{prefix}.f"), judged=True))

    def _direct(self, place: Place, registry: Registry, rounds: int) -> DirectLoop:
        from tui_agent.engine.loop import DirectLoop

        return DirectLoop(
            place=place,
            stream=self._stream,
            brain=self._brain,
            desk=self._desk,
            window=self._window,
            ladder=self.ladder,
            calls=self._calls,
            tools=registry.specs(),
            max_iterations=rounds,
        )

    def completion(self, node: str, registry: Registry) -> Completion:
        """What judges the claims of the run, with the program's own checks below `node`."""
        from tui_agent.engine.check_runs import CheckRuns
        from tui_agent.engine.completion import Completion
        from tui_agent.engine.request_reading import read_request

        place = self._workplace
        return Completion(
            self._calls,
            read_request(self.request),
            self.next_strategy,
            CheckRuns(place, self._calls, registry),
            node=node,
            attended=place.attended,
            writes=not place.mode.reads_only and place.approval_mode is not ApprovalMode.READ_ONLY,
        )

    def files(self, place: Place, registry: Registry) -> FilesLoop:
        """A loop of the files strategy."""
        from tui_agent.engine.files_loop import FilesLoop

        return FilesLoop(
            place=place,
            stream=self._stream,
            brain=self._brain,
            desk=self._desk,
            window=self._window,
            ladder=self.ladder,
            calls=self._calls,
            registry=registry,
            workplace=self._workplace,
            system=self._files_system,
        )


class _ThenNext:
    """A loop, and where nothing comes of its strategy the same request once more with the next one (E4)."""

    def __init__(
        self, first: DirectLoop | FilesLoop, loops: _Loops, again: Callable[[], DirectLoop | FilesLoop]
    ) -> None:
        self._loop = first
        self._loops = loops
        self._again = again
        self.claimed = False

    async def work(self) -> RunEnded:
        """See Worker."""
        ended = await self._loop.work()
        self.claimed = self._loop.claimed
        if not self._loop.misfit or ended.outcome != "failed" or not self._loops.next_strategy():
            return ended
        return await self._again().work()

"""How a message is worked on, by mode: the direct loop, a read-only one, or the staged workflow (W1, W10, W11)."""

from __future__ import annotations

import asyncio
import importlib
import secrets
import string
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import ApprovalMode, Message, Mode, ToolCall, ToolResult
from tui_agent.engine.context.system_prompt import assemble
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.engine.deps import SessionDeps
from tui_agent.events import RunEnded, UserMessageAdded
from tui_agent.plan.store import Unreadable

if TYPE_CHECKING:
    from tui_agent.engine.context.window import Window
    from tui_agent.engine.core.model_config import ModelConfig
    from tui_agent.engine.host.attachments import Attachments
    from tui_agent.engine.loop.ask import LoopDeps, LoopNode
    from tui_agent.engine.loop.calls import ToolCalls
    from tui_agent.engine.loop.completion import Completion
    from tui_agent.engine.loop.files_loop import FilesLoop
    from tui_agent.engine.loop.loop import DirectLoop
    from tui_agent.engine.models.protocol_fallback import ProtocolFallback
    from tui_agent.engine.workflow.execution import Worker, WorkflowDeps
    from tui_agent.engine.workflow.subagents import SubagentDeps
    from tui_agent.engine.workflow.workflow import Workflow
    from tui_agent.tools.base import SubagentTask
    from tui_agent.tools.registry import Registry

PLANS = "plans.json"
"""The plan cache, in the data folder."""


ENDING = 4.0
"""Seconds that a sub-agent has for its end, the processes of its commands among it, until it is told again."""
SUBAGENTS = 4
"""Sub-agents that work at the same time; a server that takes one request after the other lets them wait."""


class Subagents:
    """The sub-agents that go on, by the call that sent each; one can be stopped and the others go on (T5)."""

    def __init__(self) -> None:
        self._going: dict[str, asyncio.Task[ToolResult]] = {}
        self._slots = asyncio.Semaphore(SUBAGENTS)
        self.fallbacks: dict[str, ProtocolFallback] = {}
        """How each model of theirs is asked for calls."""

    def interrupt(self, node: str) -> bool:
        """Stop the one that the call `node` sent; False when there is none any more."""
        task = self._going.get(node)
        return task is not None and not task.done() and task.cancel()

    async def send(self, subtask: SubagentTask, deps: SubagentDeps, run: str, node: str) -> ToolResult:
        """What comes of a task. Stopping the caller stops the sub-agent first."""
        from tui_agent.engine.workflow.subagents import Subagent

        subagent = Subagent(subtask, deps, run=run, node=node)
        task = self._going[node] = asyncio.create_task(self._in_turn(subagent.work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                await end_tasks(task, seconds=ENDING)
                raise
            return subagent.stopped()
        finally:
            self._going.pop(node, None)

    async def _in_turn(self, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        async with self._slots:
            return await work()


class RunDispatcher:
    """Works on the messages of one session. What outlasts a run (window, protocol) is kept here."""

    def __init__(self, deps: SessionDeps) -> None:
        self._deps = deps
        self._stream = deps.stream
        self._environment = deps.environment
        self._roles = deps.roles
        self._memory = deps.memory
        self._registry: Registry | None = None
        self._has_code = False
        self._config: ModelConfig | None = None
        self.subagents = Subagents()
        """Those that go on."""
        self._attaching: Attachments | None = None
        deps.memory.connect(self._rewrite_plan, self._limit)
        self._conversation = SessionConversation(deps, lambda: self.system)
        self._window: Window | None = None
        self._fallback: ProtocolFallback | None = None
        self._workflow: Workflow | None = None
        self._calls: ToolCalls | None = None
        self.system = self._files_system = ""
        """The system message of the requests; the second one is that of the files strategy."""
        self._run = ""

    def compact(self, busy: bool) -> None:
        """Compact before the next request of the run that goes on, at once where none does, and say so (U5)."""
        from tui_agent.engine.context.window import settled
        from tui_agent.engine.context.window_notices import NOTHING, SOON
        from tui_agent.engine.core.tokens import Gauge

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
        if summaries := tuple(self._stream.state.summaries.values()):
            await _load("engine.workflow.summary")
            from tui_agent.engine.workflow.summary import SummaryReview

            for saved in summaries:
                await SummaryReview(self._stream, self._deps.approvals, self._memory).again(saved)
        await self._memory.saved_copies.again(self._stream.state.saved_copies)

    @property
    def tool_calls(self) -> int:
        """How many calls the run that goes on, or the last one, carried out."""
        return 0 if self._calls is None else self._calls.count

    async def work(self, run: str, request: str) -> RunEnded:
        """Work on one message to the end. Only cancellation is raised."""
        self._calls, self._run = None, run
        config = await self._roles.brain()
        if isinstance(config, RunEnded):
            return config
        self._config = config
        place = self._environment
        if place.mode is Mode.PLAN or not place.mode.reads_only:
            await self._memory.mend()
        await _load("engine.loop.loop")
        from tui_agent.engine.context import modes
        from tui_agent.engine.context.window import Window
        from tui_agent.engine.loop.ask import LoopDeps
        from tui_agent.engine.loop.calls import ToolCalls

        tools = await self._tools(anew=True)
        self._calls = calls = ToolCalls(place, tools, run, delegate=self._delegate, attach=self._attach)
        leads = place.settings.orchestrator
        registry, role = modes.offered(tools, place.mode, orchestrator=leads), modes.who(place.mode, leads)
        looks = place.approval_mode is ApprovalMode.READ_ONLY
        prompts = modes.versions(place.mode, registry, reads_only=looks, role=role)
        fallback = self._fallback_for(config)
        await fallback.settle(config.model)
        own, system = self._roles.prompt, self._deps.project.system
        self.system = await system(place.mode, place.approval_mode, own, role, config.num_ctx)
        self._files_system = await system(place.mode, place.approval_mode, own, modes.FILES, config.num_ctx)
        await self._attach(run)
        self._window = window = Window.of(config, self._stream, self._window)
        deps = LoopDeps(
            stream=self._stream, config=config, source=self._conversation, window=window, fallback=fallback, calls=calls
        )
        loops = _Loops(run, deps, self._deps, lambda: self._files_system)
        if place.mode is not Mode.AGENT:
            ended = await loops.make(run, registry, place.mode).work()
            return msgspec.structs.replace(ended, prompts=prompts | fallback.versions())
        await _load("engine.workflow.workflow")
        from tui_agent.engine.workflow.workflow import Workflow

        self._workflow = workflow = Workflow(run, request, self._workflow_deps(deps, loops, registry))
        try:
            ended = await workflow.work()
        finally:
            self._workflow = None
        prompts |= modes.version_of(workflow.intent) | fallback.versions()
        return msgspec.structs.replace(ended, prompts=prompts)

    async def _attach(self, run: str) -> None:
        """What the message mentions goes to the model with it (H7)."""
        place = self._environment
        if self._attaching is None:
            await _load("engine.host.attachments")
            from tui_agent.engine.host.attachments import Attachments

            self._attaching = Attachments(self._stream, place)
        self._attaching.window = None if self._config is None else self._config.num_ctx
        await self._attaching.attach(run)

    async def _delegate(self, subtask: SubagentTask, run: str, node: str) -> ToolResult:
        """Send a sub-agent (T5); only a run does, so that there is a model and its protocol."""
        assert self._config is not None
        await _load("engine.workflow.subagents")
        from tui_agent.engine.workflow.subagents import SubagentDeps

        deps = SubagentDeps(
            **msgspec.structs.asdict(self._deps),
            tools=await self._tools(),
            config=self._config,
            protocol=self._fallback_for(self._config).protocol,
            fallbacks=self.subagents.fallbacks,
            new_call_id=self._conversation.new_call_id,
        )
        return await self.subagents.send(subtask, deps, run, node)

    async def _rewrite_plan(self, found: Unreadable, good: str) -> str:
        """The plan document as the planning model repairs it (P3); empty where none is there."""
        from tui_agent.engine.loop.structured import Structured
        from tui_agent.engine.plan_doc.repair import rewrite_document

        config = await self._roles.brain()
        if isinstance(config, RunEnded):
            return ""
        structured = Structured(run=self._run, stream=self._stream, roles=self._roles, brain=config)
        return await rewrite_document(found, good, structured, node=self._run)

    def _workflow_deps(self, deps: LoopDeps, loops: _Loops, registry: Registry) -> WorkflowDeps:
        from tui_agent.engine.loop.structured import SharedConversation, Structured
        from tui_agent.engine.workflow.execution import WorkflowDeps
        from tui_agent.engine.workflow.planning import Background, PlanCache, Planner

        settings, history = self._environment.settings, self._stream.state.history
        # Asks beside the conversation of a run, with the same beginning (E7).
        conversation = SharedConversation(deps, registry.specs(), self._run)
        structured = Structured(
            run=self._run, stream=self._stream, roles=self._roles, brain=deps.config, conversation=conversation
        )
        cache = None
        if settings.plan_cache:
            cache = PlanCache(paths.data_dir() / PLANS, days=settings.plan_cache_days)
        return WorkflowDeps(
            **msgspec.structs.asdict(self._deps),
            registry=registry,
            calls=deps.calls,
            completion=loops.completion(self._run, registry),
            structured=structured,
            planner=Planner(structured, registry, settings, cache),
            loop=lambda node, registry: loops.make(node, registry, Mode.AGENT),
            new_call=self._conversation.new_call_id,
            background=Background(
                rules=self.system,
                folder=str(self._environment.workspace),
                attached=history.attached,
                conversation=history.talk(),
            ),
            files=deps.fallback.protocol == "files",
        )

    def _fallback_for(self, config: ModelConfig) -> ProtocolFallback:
        """The protocol of the session's model, as it was settled, also by an earlier process."""
        from tui_agent.engine.models.protocol_fallback import ProtocolFallback

        if self._fallback is None or self._fallback.model != config.name:
            self._fallback = ProtocolFallback(
                config.name,
                protocol=self._stream.state.protocol,
                fixed=self._roles.protocol,
                calibration=self._roles.calibration,
                tell=self._stream.emit,
            )
        return self._fallback

    async def _tools(self, *, anew: bool = False) -> Registry:
        """All there are. With `anew`, as a run begins: those of code intelligence too, where there is code by now."""
        if self._registry is None or (anew and not self._has_code):
            await _load("tools.registry")
            from tui_agent.tools.registry import default_tools

            place = self._environment
            self._has_code = await place.code.offered()
            self._registry = default_tools(off=place.settings.tools_off, code=self._has_code)
        return self._registry


async def _load(name: str) -> None:
    """Load a module in a thread, when it is needed first: an idle session stays small."""
    await asyncio.to_thread(importlib.import_module, f"tui_agent.{name}")


class _Loops:
    """Makes the direct loops of one run, each with replies under nodes of their own."""

    def __init__(self, run: str, deps: LoopDeps, session: SessionDeps, files_system: Callable[[], str]) -> None:
        self._run = run
        self._deps = deps
        self._calls = deps.calls
        self._state = session.stream.state
        self._environment = session.environment
        self._files_system = files_system
        self._count = 0

    def next_strategy(self) -> bool:
        """Take another strategy for a request for a change with which nothing came of this one; False where none is
        left, and where what was tried was refused (E4)."""
        from tui_agent.engine.checks.request_reading import request_kind

        writes = not self._environment.mode.reads_only and request_kind(self._state.history.request) == "change"
        refused = self._calls.declined or any(one.code == "refused" for _, one in self._calls.results)
        return writes and not refused and self._deps.fallback.failed("its calls had no effect")

    def make(self, node: str, registry: Registry, mode: Mode) -> Worker:
        """A loop whose replies hang below `node`: the run, a stage or a step."""
        from tui_agent.engine.loop.ask import LoopNode

        self._count += 1
        self._calls.use(registry)
        prefix = self._run if node == self._run else f"{self._run}.l{self._count}"

        def loop(prefix: str, *, judged: bool) -> DirectLoop | FilesLoop:
            place = LoopNode(self._run, node, prefix)
            if self._deps.fallback.protocol == "files":
                return self._files(place, registry)
            from tui_agent.engine.loop.loop import DirectLoop

            direct = DirectLoop(self._deps, place, tools=registry.specs(), max_iterations=self._rounds(mode, node))
            if judged:
                direct.completion = self.completion(node, registry)
            return direct

        # Steps are judged when all of them are done.
        first = loop(prefix, judged=mode is not Mode.AGENT)
        return _ThenNext(first, self, lambda: loop(f"{prefix}.f", judged=True))

    def _rounds(self, mode: Mode, node: str) -> int:
        rounds: dict[str, int] = self._environment.settings.iterations.model_dump()
        step = node.rpartition(".")[2].startswith("s")
        return rounds["step"] if step else rounds.get(mode.replace("-", "_"), rounds["direct"])

    def completion(self, node: str, registry: Registry) -> Completion:
        """What judges the claims of the run, with the program's own checks below `node`."""
        from tui_agent.engine.checks.request_reading import read_request
        from tui_agent.engine.loop.completion import CheckRuns, Completion

        place = self._environment
        return Completion(
            self._calls,
            read_request(self._state.history.request),
            self.next_strategy,
            CheckRuns(place, self._calls, registry),
            node=node,
            attended=place.attended,
            writes=not place.mode.reads_only and place.approval_mode is not ApprovalMode.READ_ONLY,
        )

    def _files(self, place: LoopNode, registry: Registry) -> FilesLoop:
        from tui_agent.engine.loop.files_loop import FilesLoop

        return FilesLoop(
            self._deps,
            place,
            state=self._state,
            registry=registry,
            environment=self._environment,
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


ID_LETTERS = string.ascii_lowercase + string.digits


class SessionConversation:
    """The `ConversationSource` of a session; `system` gives the system message of the next request."""

    def __init__(self, deps: SessionDeps, system: Callable[[], str]) -> None:
        self._stream = deps.stream
        self._memory = deps.memory
        self._system = system
        self.keep_raw = deps.raw.keep

    def context(self) -> tuple[Message, ...]:
        """System message, plan document and history as they are now (H1)."""
        state = self._stream.state
        plan = self._memory.text(state.log_entries or None)
        return assemble(self._system(), state.history.window(), plan, self._memory.proposals())

    def notes(self) -> str:
        """What happened before what the model sees, in a few lines; see SessionMemory (H6)."""
        state = self._stream.state
        plan = self._memory.text(state.log_entries or None)
        return state.memory.told(state.context_window, plan, state.history.left_out)

    def steer(self) -> bool:
        """Give the waiting steering messages to the run that is going on; True if there were any."""
        state = self._stream.state
        waiting = [queued for queued in state.queue if queued.steering]
        for queued in waiting:
            said = UserMessageAdded(id=queued.id, text=queued.text, steering=True)
            self._stream.emit(said, run=f"run-{state.runs}")
        return bool(waiting)

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """The call under an id of our own: servers repeat theirs, leave them out, or want nine letters and digits."""
        return msgspec.structs.replace(call, id="".join(secrets.choice(ID_LETTERS) for _ in range(9)))

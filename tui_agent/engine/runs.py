"""Runs: a message is worked on by the direct loop, a read-only one, or the staged workflow (W1, W10, W11)."""

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

PLAN_CACHE = "plans.json"
"""Name of the plan cache in the data folder."""
SUBAGENT_CANCEL_INTERVAL = 4.0
"""Seconds that a sub-agent has to end, with the processes of its commands, before it is cancelled again."""
MAX_SUBAGENTS = 4
"""Sub-agents working at the same time; further ones wait for a slot."""
ID_LETTERS = string.ascii_lowercase + string.digits


class Subagents:
    """The running sub-agents by the node of the call that started them; each can be stopped alone (T5)."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[ToolResult]] = {}
        self._slots = asyncio.Semaphore(MAX_SUBAGENTS)
        self.fallbacks: dict[str, ProtocolFallback] = {}
        """Protocol fallback of each sub-agent model, by name."""

    def interrupt(self, node: str) -> bool:
        """Stop the sub-agent started by the call `node`; False if it has ended."""
        task = self._tasks.get(node)
        return task is not None and not task.done() and task.cancel()

    async def run(self, subtask: SubagentTask, deps: SubagentDeps, run: str, node: str) -> ToolResult:
        """Run a sub-agent and return its report. Cancelling the caller ends the sub-agent first."""
        from tui_agent.engine.workflow.subagents import Subagent

        subagent = Subagent(subtask, deps, run=run, node=node)
        task = self._tasks[node] = asyncio.create_task(self._run_in_slot(subagent.work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                await end_tasks(task, seconds=SUBAGENT_CANCEL_INTERVAL)
                raise
            return subagent.interrupted_result()
        finally:
            self._tasks.pop(node, None)

    async def _run_in_slot(self, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        async with self._slots:
            return await work()


class RunDispatcher:
    """Executes the runs of a session, and holds what outlives a run: window and protocol."""

    def __init__(self, deps: SessionDeps) -> None:
        self._deps = deps
        self._stream = deps.stream
        self._environment = deps.environment
        self._roles = deps.roles
        self._run_roles = deps.roles
        """The models of the active or last run."""
        self._memory = deps.memory
        self._registry: Registry | None = None
        self._has_code = False
        self._disabled: tuple[str, ...] = ()
        self._config: ModelConfig | None = None
        self.subagents = Subagents()
        self._attachments: Attachments | None = None
        self.inputs: dict[str, str] = {}
        """Message id → text from standard input to attach to it."""
        deps.memory.connect(self._rewrite_plan, self._context_window)
        self._conversation = SessionConversation(deps, lambda: self.system)
        self._window: Window | None = None
        self._fallback: ProtocolFallback | None = None
        self._workflow: Workflow | None = None
        self._calls: ToolCalls | None = None
        self.system = ""
        """System message of the requests."""
        self._files_system = ""
        """System message of requests with the files strategy."""
        self._run = ""

    def compact(self, busy: bool) -> None:
        """Compact before the next request of the active run, immediately when not `busy`; emits a notice (U5)."""
        from tui_agent.engine.context.window import compact_idle
        from tui_agent.engine.context.window_notices import COMPACTION_SCHEDULED, NOTHING_TO_COMPACT
        from tui_agent.engine.core.tokens import Gauge

        if busy and self._window is not None:
            self._window.compact_soon()
            self._stream.emit(COMPACTION_SCHEDULED)
            return
        gauge = Gauge() if self._window is None else self._window.gauge
        self._stream.emit(compact_idle(self._stream.state.history, gauge) or NOTHING_TO_COMPACT)

    def _context_window(self) -> int | None:
        """Return the size of the context window in effect, else of the configured one, in tokens."""
        effective = None if self._window is None else self._window.limit
        return effective or self._stream.state.context_window

    def skip_planning(self) -> bool:
        """Use the cached plan or a single step instead of waiting for a plan (W4); False if not planning."""
        return self._workflow is not None and self._workflow.skip_planning()

    async def offer_again(self) -> None:
        """Offer what is still undecided: summaries (X3), then saved copies of the plan document (P3)."""
        if summaries := tuple(self._stream.state.summaries.values()):
            await _load("engine.workflow.summary")
            from tui_agent.engine.workflow.summary import SummaryReview

            for saved in summaries:
                await SummaryReview(self._stream, self._deps.approvals, self._memory).ask_again(saved)
        await self._memory.saved_copies.offer_undecided(self._stream.state.saved_copies)

    @property
    def tool_calls(self) -> int:
        """Number of calls executed by the active or last run."""
        return 0 if self._calls is None else self._calls.count

    async def work(self, run: str, request: str) -> RunEnded:
        """Execute a run and return how it ended. Raises only cancellation."""
        self._calls, self._run = None, run
        config = await self._roles.config()
        if isinstance(config, RunEnded):
            return config
        self._config, self._run_roles = config, self._roles.for_run()
        environment = self._environment
        mode, approval_mode = environment.mode, environment.approval_mode
        if mode is Mode.PLAN or not mode.reads_only:
            await self._memory.repair()
        await _load("engine.loop.loop")
        from tui_agent.engine.context import modes
        from tui_agent.engine.context.window import Window
        from tui_agent.engine.loop.ask import LoopDeps
        from tui_agent.engine.loop.calls import ToolCalls

        tools = await self._tools(refresh=True)
        self._calls = calls = ToolCalls(environment, tools, run, delegate=self._delegate, attach=self._attach)
        orchestrator = environment.settings.orchestrator
        registry, role = modes.offered(tools, mode, orchestrator=orchestrator), modes.prompt_role(mode, orchestrator)
        read_only = approval_mode is ApprovalMode.READ_ONLY
        prompts = modes.versions(mode, registry, reads_only=read_only, role=role)
        fallback = self._fallback_for(config)
        await fallback.settle(config.model)
        model_prompt, system = self._run_roles.prompt, self._deps.project.system
        self.system = await system(mode, approval_mode, model_prompt, role, config.num_ctx)
        self._files_system = await system(mode, approval_mode, model_prompt, modes.FILES, config.num_ctx)
        await self._attach(run)
        self._window = window = Window.reuse_or_create(config, self._stream, self._window)
        deps = LoopDeps(
            stream=self._stream, config=config, source=self._conversation, window=window, fallback=fallback, calls=calls
        )
        loops = _Loops(run, deps, self._deps, lambda: self._files_system)
        if mode is not Mode.AGENT:
            ended = await loops.create(run, registry, mode).work()
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
        """Attach what the message mentions (H7)."""
        if self._attachments is None:
            await _load("engine.host.attachments")
            from tui_agent.engine.host.attachments import Attachments

            self._attachments = Attachments(self._stream, self._environment)
        self._attachments.window = None if self._config is None else self._config.num_ctx
        await self._attachments.attach(run, self.inputs)

    async def _delegate(self, subtask: SubagentTask, run: str, node: str) -> ToolResult:
        """Run a sub-agent for a tool call (T5)."""
        assert self._config is not None  # set as the run began
        await _load("engine.workflow.subagents")
        from tui_agent.engine.workflow.subagents import SubagentDeps

        deps = SubagentDeps(
            **msgspec.structs.asdict(self._deps) | {"roles": self._run_roles},
            tools=await self._tools(),
            config=self._config,
            protocol=self._fallback_for(self._config).protocol,
            fallbacks=self.subagents.fallbacks,
            new_call_id=self._conversation.new_call_id,
        )
        return await self.subagents.run(subtask, deps, run, node)

    async def _rewrite_plan(self, found: Unreadable, good: str) -> str:
        """Let the model repair the plan document (P3); empty without a model."""
        from tui_agent.engine.loop.structured import Structured
        from tui_agent.engine.plan_doc.repair import rewrite_document

        config = await self._roles.config()
        if isinstance(config, RunEnded):
            return ""
        structured = Structured(run=self._run, stream=self._stream, roles=self._roles.for_run(), config=config)
        return await rewrite_document(found, good, structured, node=self._run)

    def _workflow_deps(self, deps: LoopDeps, loops: _Loops, registry: Registry) -> WorkflowDeps:
        from tui_agent.engine.loop.structured import SharedConversation, Structured
        from tui_agent.engine.workflow.execution import WorkflowDeps
        from tui_agent.engine.workflow.planning import PlanCache, Planner, PlanningContext

        settings, history = self._environment.settings, self._stream.state.history
        conversation = SharedConversation(deps, registry.specs(), self._run)  # same prefix as the run's requests (E7)
        structured = Structured(
            run=self._run, stream=self._stream, roles=self._run_roles, config=deps.config, conversation=conversation
        )
        cache = None
        if settings.plan_cache:
            cache = PlanCache(paths.data_dir() / PLAN_CACHE, days=settings.plan_cache_days)
        return WorkflowDeps(
            **msgspec.structs.asdict(self._deps) | {"roles": self._run_roles},
            registry=registry,
            calls=deps.calls,
            completion=loops.completion(self._run, registry),
            structured=structured,
            planner=Planner(structured, registry, settings, cache),
            create_loop=lambda node, registry: loops.create(node, registry, Mode.AGENT),
            new_call_id=self._conversation.new_call_id,
            context=PlanningContext(
                rules=self.system,
                folder=str(self._environment.workspace),
                attached=history.attached,
                conversation=history.recent_dialogue(),
            ),
            files=deps.fallback.protocol == "files",
        )

    def _fallback_for(self, config: ModelConfig) -> ProtocolFallback:
        """Return the protocol fallback for a model; its protocol may come from an earlier process."""
        from tui_agent.engine.models.protocol_fallback import ProtocolFallback

        if self._fallback is None or self._fallback.model != config.name:
            self._fallback = ProtocolFallback(
                config.name,
                protocol=self._stream.state.protocol,
                fixed=self._run_roles.protocol,
                calibration=self._run_roles.calibration,
                emit=self._stream.emit,
            )
        return self._fallback

    async def _tools(self, *, refresh: bool = False) -> Registry:
        """Return all tools. With `refresh`, the code tools are added if the workspace has code by now."""
        disabled = self._environment.settings.tools_off
        if self._registry is None or (refresh and (not self._has_code or disabled != self._disabled)):
            await _load("tools.registry")
            from tui_agent.tools.registry import default_tools

            self._has_code, self._disabled = await self._environment.code.offered(), disabled
            self._registry = default_tools(disabled=disabled, code=self._has_code)
        return self._registry


async def _load(name: str) -> None:
    """Import a module of tui_agent in a thread on first use: an idle session needs little memory."""
    await asyncio.to_thread(importlib.import_module, f"tui_agent.{name}")


class _Loops:
    """Creates the loops of a run, each with its own node for its replies."""

    def __init__(self, run: str, deps: LoopDeps, session: SessionDeps, files_system: Callable[[], str]) -> None:
        self._run = run
        self._deps = deps
        self._calls = deps.calls
        self._state = session.stream.state
        self._environment = session.environment
        self._files_system = files_system
        self._count = 0

    def next_strategy(self) -> bool:
        """Switch to the next strategy if the request is for a change and this strategy had no effect (E4).

        False if no strategy is left, or if the changes were refused.
        """
        from tui_agent.engine.checks.request_reading import request_kind

        writes = not self._environment.mode.reads_only and request_kind(self._state.history.request) == "change"
        refused = self._calls.declined or any(result.code == "refused" for _, result in self._calls.results)
        return writes and not refused and self._deps.fallback.failed("its calls had no effect")

    def create(self, node: str, registry: Registry, mode: Mode) -> Worker:
        """Create a loop whose replies are children of `node`: the run, a stage or a step."""
        from tui_agent.engine.loop.ask import LoopNode

        self._count += 1
        self._calls.use(registry)
        prefix = self._run if node == self._run else f"{self._run}.l{self._count}"

        def loop(prefix: str, *, gated: bool) -> DirectLoop | FilesLoop:
            loop_node = LoopNode(self._run, node, prefix)
            if self._deps.fallback.protocol == "files":
                return self._files_loop(loop_node, registry)
            from tui_agent.engine.loop.loop import DirectLoop

            limit = self._max_iterations(mode, node)
            direct = DirectLoop(self._deps, loop_node, tools=registry.specs(), max_iterations=limit)
            if gated:
                direct.completion = self.completion(node, registry)
            return direct

        # The completion gate applies to a whole plan, not to its steps.
        first = loop(prefix, gated=mode is not Mode.AGENT)
        return _NextStrategyLoop(first, self, lambda: loop(f"{prefix}.f", gated=True))

    def _max_iterations(self, mode: Mode, node: str) -> int:
        limits: dict[str, int] = self._environment.settings.iterations.model_dump()
        is_step = node.rpartition(".")[2].startswith("s")
        return limits["step"] if is_step else limits.get(mode.replace("-", "_"), limits["direct"])

    def completion(self, node: str, registry: Registry) -> Completion:
        """Return the completion gate of the run; its checks are children of `node`."""
        from tui_agent.engine.checks.request_reading import read_request
        from tui_agent.engine.loop.completion import CheckRunner, Completion

        environment = self._environment
        return Completion(
            self._calls,
            read_request(self._state.history.request),
            self.next_strategy,
            CheckRunner(environment, self._calls, registry),
            node=node,
            attended=environment.attended,
            writes=not environment.mode.reads_only and environment.approval_mode is not ApprovalMode.READ_ONLY,
        )

    def _files_loop(self, loop_node: LoopNode, registry: Registry) -> FilesLoop:
        from tui_agent.engine.loop.files_loop import FilesLoop

        return FilesLoop(
            self._deps,
            loop_node,
            state=self._state,
            registry=registry,
            environment=self._environment,
            system=self._files_system,
        )


class _NextStrategyLoop:
    """Runs a loop, and once more with the next strategy if its model could not use the first one (E4)."""

    def __init__(
        self, first: DirectLoop | FilesLoop, loops: _Loops, create_next: Callable[[], DirectLoop | FilesLoop]
    ) -> None:
        self._loop = first
        self._loops = loops
        self._create_next = create_next
        self.claimed = False

    async def work(self) -> RunEnded:
        """See Worker."""
        ended = await self._loop.work()
        self.claimed = self._loop.claimed
        if not self._loop.strategy_failed or ended.outcome != "failed" or not self._loops.next_strategy():
            return ended
        return await self._create_next().work()


class SessionConversation:
    """The `ConversationSource` of a session; `system` returns the system message of the next request."""

    def __init__(self, deps: SessionDeps, system: Callable[[], str]) -> None:
        self._stream = deps.stream
        self._memory = deps.memory
        self._system = system
        self.save_raw = deps.raw.save

    def context(self) -> tuple[Message, ...]:
        """Return system message, plan document and history (H1)."""
        state = self._stream.state
        plan = self._memory.text(state.log_entries or None)
        return assemble(self._system(), state.history.window(), plan, self._memory.proposals())

    def notes(self) -> str:
        """Return the session facts that the model does not see otherwise (H6)."""
        state = self._stream.state
        plan = self._memory.text(state.log_entries or None)
        return state.facts.render(state.context_window, plan, state.history.left_out)

    def steer(self) -> bool:
        """Deliver the queued steering messages to the active run; True if there were any."""
        state = self._stream.state
        steering = [queued for queued in state.queue if queued.steering]
        for queued in steering:
            event = UserMessageAdded(id=queued.id, text=queued.text, steering=True)
            self._stream.emit(event, run=f"run-{state.runs}")
        return bool(steering)

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """Return the call with a new id: servers reuse or omit ids, or require nine letters and digits."""
        return msgspec.structs.replace(call, id="".join(secrets.choice(ID_LETTERS) for _ in range(9)))

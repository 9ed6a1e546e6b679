"""Runs the tool calls of a run: in order or in parallel, cached while nothing changes, and watched for loops (W13)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from itertools import takewhile
from typing import Any

import msgspec

from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.host.environment import ToolEnvironment, WorkspaceHealth
from tui_agent.engine.host.tool_context import CallContext, Delegate
from tui_agent.engine.loop.feedback import call_error_text
from tui_agent.engine.workflow.verification import error_class
from tui_agent.events import CommandChangedFiles, ToolFinished, ToolStarted
from tui_agent.platform.watching import FileStamp, file_stamp
from tui_agent.protocols.parser import Protocol
from tui_agent.safety.roots import PathError
from tui_agent.text import clean, make_visible, mark_invisible, one_line, with_full_stop
from tui_agent.tools.base import Args, Tool, ToolError, ToolRefused
from tui_agent.tools.registry import Registry

CACHED_ITERATIONS = 2
"""Iterations for which a result is cached."""
TRANSIENT_CODES = frozenset(
    ("timeout", "interrupted", "unsaved", "defect", "changed", "other", "failed", "unreachable", "limit")
)
"""Codes of failures that may not recur, including those of sub-agents (T5). Never cached."""
UNAVAILABLE = "unavailable"
"""Code of a successful result without an answer yet: only time can change it, so it is never cached."""
TRANSIENT_CLASSES = frozenset({"timeout", "network", "busy"})
"""Transient failures recognized from a program's output; see `verification.error_class`."""
REPEATED_WARNING, REPEATED_STOP = 3, 5
"""Identical results in a row before the model is warned, and before the user is asked."""
ALTERNATING_WARNING, ALTERNATING_STOP = 4, 6
"""The same for calls that alternate A/B/A/B."""
STALE_WARNING, STALE_STOP = 3, 6
"""The same for batches without a new result."""

CallKey = tuple[str, str]
"""Tool and normalized arguments."""


class WorldState(msgspec.Struct, frozen=True):
    """What the result of a call may depend on; equal states give equal results."""

    actions: int
    """How often anything was written or run, or the user sent a message."""
    writes: int
    """How often a file was written."""
    modes: tuple[str, str]
    """Mode and approval mode."""
    file: Hashable
    """Size and times of the file that the call names."""


class CachedCall(msgspec.Struct, frozen=True):
    """The result of an executed call."""

    iteration: int
    state: WorldState
    result: ToolResult
    text: str


class CallCache:
    """Results of the last iterations."""

    def __init__(self) -> None:
        self._cached: dict[CallKey, CachedCall] = {}
        self._iteration = 0

    def next_iteration(self) -> None:
        """Start an iteration and drop expired results."""
        self._iteration += 1
        oldest = self._iteration - CACHED_ITERATIONS
        self._cached = {key: cached for key, cached in self._cached.items() if cached.iteration >= oldest}

    def store(self, key: CallKey, state: WorldState, result: ToolResult, text: str) -> None:
        """Cache the result of an executed call, unless it may differ next time. `state`: the state after the call."""
        if result.success:
            transient = result.code == UNAVAILABLE
        else:
            transient = result.code in TRANSIENT_CODES or error_class(result) in TRANSIENT_CLASSES
        if not transient:
            self._cached[key] = CachedCall(self._iteration, state, result, text)

    def find(self, key: CallKey, state: WorldState, *, reads: bool, writes: bool) -> CachedCall | None:
        """Return the result that is still valid for this call, if any.

        Within one reply a write is never repeated, and a command only after a file was written.
        """
        cached = self._cached.get(key)
        if cached is None or cached.state.file != state.file or cached.state.modes != state.modes:
            return None
        if cached.iteration == self._iteration and not reads:
            return cached if writes or cached.state.writes == state.writes else None
        return cached if cached.state.actions == state.actions else None


class LoopDetector:
    """Detects a run that repeats its calls, from the calls that were executed."""

    def __init__(self) -> None:
        self._recent: deque[tuple[CallKey, str]] = deque(maxlen=max(REPEATED_STOP, ALTERNATING_STOP))
        self._seen: set[tuple[CallKey, str]] = set()
        self._warned: set[str] = set()
        self._stale = 0
        self._has_new_result = False

    def reset(self) -> None:
        """Forget everything, because the user sent a message."""
        self._recent.clear()
        self._seen.clear()
        self._warned.clear()
        self._stale = 0

    def add(self, key: CallKey, text: str) -> None:
        """Record an executed call and the text of its result."""
        pair = (key, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        self._has_new_result = self._has_new_result or pair not in self._seen
        self._seen.add(pair)
        self._recent.append(pair)

    def end_batch(self) -> tuple[str, str]:
        """Return a warning for the model and a reason to stop and ask the user, either of them possibly empty."""
        self._stale = 0 if self._has_new_result else self._stale + 1
        self._has_new_result = False
        warning, stop = "", ""
        repeated, alternating = self._periodic(1), self._periodic(2)
        for pattern, count, warn_at, stop_at in (
            (f"{self._last_tools(1)} gave the same result", repeated, REPEATED_WARNING, REPEATED_STOP),
            (
                f"{self._last_tools(2)} take turns with the same results",
                0 if repeated > 1 else alternating,
                ALTERNATING_WARNING,
                ALTERNATING_STOP,
            ),
            ("the last rounds brought nothing new", self._stale, STALE_WARNING, STALE_STOP),
        ):
            reason = f"{pattern} ({count} times in a row)"
            if count >= stop_at:
                stop = stop or reason
            elif count >= warn_at and pattern not in self._warned:
                self._warned.add(pattern)
                warning = warning or reason
        return warning, stop

    def _last_tools(self, count: int) -> str:
        names = dict.fromkeys(key[0] for key, _ in list(self._recent)[-count:])
        return " and ".join(names) or "the last call"

    def _periodic(self, period: int) -> int:
        """Return how many of the latest calls repeat with this period."""
        newest_first = list(reversed(self._recent))
        matches = (pair == newest_first[index % period] for index, pair in enumerate(newest_first))
        return sum(takewhile(bool, matches))


log = logging.getLogger(__name__)

MAX_PARALLEL = 8
"""Read-only calls that run in parallel."""
MAX_CALLS, MAX_READ_ONLY_CALLS = 10, 15
"""Calls of one reply that are run; the second applies in read-only modes (W13)."""
MANY_CALLS = 8
"""Above this number of calls in a reply, the model is advised to send fewer."""
REPEATED = (
    "You made this very call before and nothing has changed since, so it was not run again. Its result stands; do not "
    "call it again."
)
INTERRUPTED = ToolResult(success=False, error="Interrupted by the user.", code="interrupted")


class ToolBatch(msgspec.Struct):
    """The calls of one reply, counted by what happened to them."""

    sent: int
    ran: int = 0
    """Executed, with any result."""
    duplicates: int = 0
    skipped: int = 0
    """Not run because there were too many."""
    rejected: list[tuple[ToolCall, ToolResult]] = []
    """Not run because they were invalid."""
    warning: str = ""
    """Why the model seems to be looping."""
    stop: str = ""
    """Why to stop and ask the user."""


class ToolCalls:
    """Runs the tool calls of one run."""

    def __init__(
        self,
        environment: ToolEnvironment,
        registry: Registry,
        run: str,
        *,
        delegate: Delegate | None = None,
        attach: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`delegate` runs sub-agents (T5); `attach` attaches the mentions in the newest messages (H7)."""
        self._delegate = delegate
        self._attach = attach
        self.environment = environment
        self.code = environment.code
        """Code intelligence by language servers (T3)."""
        self._registry = registry
        self._run = run
        self._cache = CallCache()
        self._loops = LoopDetector()
        self._batch = ToolBatch(sent=0)
        self.protocol: Protocol = "native"
        """The protocol that examples in errors are written in."""
        self.count = 0
        """How many calls were executed."""
        self.results: list[tuple[ToolCall, ToolResult]] = []
        """All calls of the run with their results, in order of completion; a duplicate has the cached result without
        its changes."""
        self.by_command: dict[str, CommandChangedFiles] = {}
        """Call id to the workspace changes of its command, for commands that were watched."""
        self._health = WorkspaceHealth(
            environment.roots.folders, lambda notice: environment.stream.emit(notice, run=run)
        )
        self._seen_files: dict[str, None] = {}
        """Files that calls of this batch read."""
        self.changed: list[str] = []
        """Changed files by their display names, the latest last."""
        self.declined = False
        """The user declined an action of this run; refusals by policy or mode don't count."""

    def use(self, registry: Registry) -> None:
        """Offer these tools from now on, as a step or an intent requires (W1, W11)."""
        self._registry = registry

    async def execute(self, calls: tuple[ToolCall, ...], parent: str) -> ToolBatch:
        """Run the calls of one reply below the progress node `parent`.

        Every call gets exactly one `tool.finished`, in call order for those that may change something. Adjacent
        read-only calls run in parallel. On cancellation, open calls end as interrupted.
        """
        self._cache.next_iteration()
        batch = self._batch = ToolBatch(sent=len(calls))
        read_only: list[ToolCall] = []
        limit = MAX_READ_ONLY_CALLS if self.environment.mode.reads_only else MAX_CALLS
        admitted, skipped = _split_at_limit(calls, limit)
        for call in admitted:
            if self.reads_only(call):
                read_only.append(call)
                continue
            await self._run_parallel(read_only, parent)
            read_only = []
            await self._run_call(call, parent)
        await self._run_parallel(read_only, parent)
        for call in skipped:
            self._skip(call, limit, parent)
        batch.skipped = len(skipped)
        if batch.ran or batch.duplicates:
            batch.warning, batch.stop = self._loops.end_batch()
        seen, self._seen_files = self._seen_files, {}
        if seen:
            await self.environment.add_rules(seen, self._run)
        return batch

    async def attach(self) -> None:
        """Attach the mentions in the user's newest messages (H7)."""
        if self._attach is not None:
            await self._attach(self._run)

    def note_user_input(self) -> None:
        """Invalidate cached results and forget repetitions, because the user sent a message."""
        self.environment.action_count += 1
        self._loops.reset()

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """Return the user's answer; empty if no user is present or the question was declined."""
        environment = self.environment
        if not environment.attended:
            return ""
        answer = await environment.approvals.question(question, options, run=self._run, node=self._run)
        return answer.text.strip() if answer.verdict == "reply" else ""

    def reads_only(self, call: ToolCall) -> bool:
        """Return whether the tool of a call changes nothing."""
        tool = self._registry.find(call.name)
        return tool is not None and tool.reads_only

    async def _run_parallel(self, calls: list[ToolCall], parent: str) -> None:
        """Run read-only calls in parallel, exact duplicates after the first of them has a result."""
        first = {_signature(call): call for call in reversed(calls)}
        unique = [call for call in calls if first[_signature(call)] is call]
        if len(unique) > 1:
            slots = asyncio.Semaphore(MAX_PARALLEL)

            async def run_in_slot(call: ToolCall) -> None:
                async with slots:
                    await self._run_call(call, parent)

            try:
                async with asyncio.TaskGroup() as group:
                    for call in unique:
                        group.create_task(run_in_slot(call))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
        for call in calls:
            if len(unique) == 1 or call not in unique:
                await self._run_call(call, parent)

    async def _run_call(self, call: ToolCall, parent: str) -> None:
        """Emit both events of a call and between them run it, answer it from the cache (W13) or reject it."""
        parsed = self._registry.parse(call)
        ctx = CallContext(self.environment, run=self._run, node=call.id, delegate=self._delegate)
        title, reads_only = call.name, True
        if not isinstance(parsed, ToolResult):
            tool, args = parsed
            title = one_line(make_visible(tool.title(args) or call.name, lookalikes=False), 200)
            reads_only = tool.reads_only
        stream = self.environment.stream
        self._start(call, title, reads_only, parent)
        started, result, cached = time.monotonic(), INTERRUPTED, None
        try:
            if not reads_only:
                await stream.durable()
            if isinstance(parsed, ToolResult):
                result = self._reject(call, parsed)
            elif (cached := await self._find_cached(tool, args)) is not None:
                result = msgspec.structs.replace(cached.result, changes=(), code="duplicate")
            else:
                self.count += 1
                self._batch.ran += 1
                try:
                    if why := self._registry.block_reason(tool):
                        raise ToolRefused(why)
                    async with ctx.clock.limit(tool.timeout):
                        result = await tool.run(args, ctx)
                except JournalBroken:
                    raise
                except Exception as error:
                    result = _failure_result(tool, error)
                await self._record(call.id, tool, args, result, ctx)
        except JournalBroken as error:
            text = f"Stopped, since nothing can be saved: {with_full_stop(str(error))}"
            result = ToolResult(success=False, error=text, code="unsaved")
            raise
        finally:
            ctx.close()
            elapsed = round((time.monotonic() - started) * 1000) - ctx.clock.waited_ms
            self._finish(call, result, max(0, elapsed), parent, ctx.seen_files, cached)
            self._seen_files |= dict.fromkeys(ctx.seen_files)
        if ctx.had_effect:
            await stream.durable()
        if ctx.had_effect or not result.success:
            await self._health.check()

    def _reject(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the error of an invalid call, extended by how to write it (W16)."""
        tool = self._registry.find(call.name)
        name = tool.name if tool is not None else next(iter(self._registry.suggest(call.name)), "")
        specs = self._registry.specs()
        spec = next((spec for spec in specs if spec.name == name), None)
        error = call_error_text(result.error or "The call can't be run.", spec, specs, self.protocol)
        result = msgspec.structs.replace(result, error=error)
        self._batch.rejected.append((call, result))
        return result

    async def _find_cached(self, tool: Tool[Any], args: Args) -> CachedCall | None:
        writes = not tool.reads_only and hasattr(args, "path")
        state = await self._world_state(args)
        return self._cache.find(_key(tool, args), state, reads=tool.reads_only, writes=writes)

    async def _record(self, call: str, tool: Tool[Any], args: Args, result: ToolResult, ctx: CallContext) -> None:
        """Update the run's counters, changed files and cache after a call was executed."""
        environment = self.environment
        self.declined = self.declined or ctx.declined
        if ctx.effects is not None:
            self.by_command[call] = ctx.effects
        environment.action_count += ctx.had_effect
        environment.write_count += len(result.changes)
        changed = [change.display for change in result.changes]
        self.changed = [path for path in self.changed if path not in changed] + changed
        key, text = _key(tool, args), result_text(result)
        self._cache.store(key, await self._world_state(args), result, text)
        self._loops.add(key, text)

    async def _world_state(self, args: Args) -> WorldState:
        environment = self.environment
        path = getattr(args, "path", None)
        file = await asyncio.to_thread(_file_stamp, environment, path) if isinstance(path, str) else None
        modes = (str(environment.mode), str(environment.approval_mode))
        return WorldState(environment.action_count, environment.write_count, modes, file)

    def _skip(self, call: ToolCall, limit: int, parent: str) -> None:
        error = f"Not run: at most {limit} calls of one reply are run. Call it again if it is still needed."
        self._start(call, call.name, True, parent)
        self._finish(call, ToolResult(success=False, error=error, code="too_many"), 0, parent)

    def _start(self, call: ToolCall, title: str, reads_only: bool, parent: str) -> None:
        event = ToolStarted(call=call, title=title, reads_only=reads_only)
        self.environment.stream.emit(event, run=self._run, node=call.id, parent=parent)

    def _finish(
        self,
        call: ToolCall,
        result: ToolResult,
        ms: int,
        parent: str,
        seen: dict[str, str] | None = None,
        cached: CachedCall | None = None,
    ) -> None:
        """`cached`: the earlier call that answered this one; the model is informed, the user sees its result."""
        recorded, text = result, result_text(result)
        if cached is not None:
            self._batch.duplicates += 1
            recorded = msgspec.structs.replace(cached.result, changes=())
            notice = f"[{REPEATED}]" if cached.result.success else f"Error: {REPEATED}"
            text = f"{notice}\n{cached.text}"
        self.results.append((call, recorded))
        event = ToolFinished(call_id=call.id, name=call.name, result=result, text=text, ms=ms, seen=seen or {})
        self.environment.stream.emit(event, run=self._run, node=call.id, parent=parent)


def _key(tool: Tool[Any], args: Args) -> CallKey:
    return tool.name, args.model_dump_json(exclude_none=True)


def _signature(call: ToolCall) -> str:
    """Return a text that is equal for exact duplicates."""
    return json.dumps([call.name, call.arguments, call.raw], sort_keys=True, default=str)


def _split_at_limit(calls: tuple[ToolCall, ...], limit: int) -> tuple[list[ToolCall], list[ToolCall]]:
    """Return the calls to run and those beyond the limit of a reply (W13); duplicates count once."""
    seen: set[str] = set()
    admitted: list[ToolCall] = []
    skipped: list[ToolCall] = []
    for call in calls:
        seen.add(_signature(call))
        (admitted if len(seen) <= limit else skipped).append(call)
    return admitted, skipped


def _file_stamp(environment: ToolEnvironment, path: str) -> FileStamp | None:
    """Return size and times of a file, or None if it does not exist."""
    try:
        return file_stamp(environment.roots.resolve(path).path)
    except (ValueError, PathError):
        return None


def _failure_result(tool: Tool[Any], error: Exception) -> ToolResult:
    """Return the result of a call that raised `error`."""
    code, text = "other", ""
    if isinstance(error, ToolError):
        code, text = error.code, str(error)
    elif isinstance(error, TimeoutError) and tool.timeout is not None:
        log.warning("tool %s ran into its time limit of %s s", tool.name, tool.timeout)
        code = "timeout"
        text = f"{tool.name} took longer than {tool.timeout:g} s and was stopped. Ask for less at a time."
    elif isinstance(error, OSError):
        text = f"{tool.name}: {error.strerror or error}."
    else:
        log.error("tool %s failed", tool.name, exc_info=error)
        code, text = "defect", f"{tool.name} failed inside; the details are in the debug log. Try another way."
    return ToolResult(success=False, error=text, code=code)


def result_text(result: ToolResult) -> str:
    """Return a result as text for the model: cleaned, and with invisible characters marked."""
    if result.data is None:
        body = ""
    elif isinstance(result.data, str):
        body = result.data
    else:
        body = msgspec.json.encode(result.data).decode()
    if result.success:
        return mark_invisible(clean(body)) or "Done."
    return mark_invisible(
        clean("\n".join(part for part in (f"Error: {result.error or 'it did not work.'}", body) if part))
    )

"""Calls that say nothing new: the same call in the same world (W13), and runs that go round in circles."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import msgspec

from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.engine.host.environment import ToolEnvironment, WorkspaceHealth
from tui_agent.engine.host.tool_context import CallContext, Delegate
from tui_agent.engine.loop.feedback import call_error_text
from tui_agent.engine.workflow.verification import error_class
from tui_agent.events import CommandChangedFiles, ToolFinished, ToolStarted
from tui_agent.platform.watching import FileStamp, file_stamp
from tui_agent.protocols.parser import Protocol
from tui_agent.safety.roots import PathError
from tui_agent.text import clean, mark_invisible, one_line
from tui_agent.tools.base import Args, Tool, ToolError, ToolRefused
from tui_agent.tools.registry import Registry

ANSWERED_FOR = 2
"""Iterations for which a call is answered with its earlier result."""
PASSING = frozenset(
    ("timeout", "interrupted", "unsaved", "defect", "changed", "other", "failed", "unreachable", "limit")
)
"""Kinds of failure that another try may not meet again, those of sub-agents among them (T5)."""
UNAVAILABLE = "unavailable"
"""Code of a result that says that nothing can be told at the moment: only time may change that."""
PASSING_CLASSES = frozenset({"timeout", "network", "busy"})
"""As above, told by what a program wrote: see `verification.error_class`."""
SAME_NOTE, SAME_STOP = 3, 5
"""Identical results in a row until the model is told, and until the user is asked."""
TURNS_NOTE, TURNS_STOP = 4, 6
"""Calls of an A/B/A/B row until the same."""
STALE_NOTE, STALE_STOP = 3, 6
"""Rounds in a row that brought nothing that was not known already, until the same."""

Key = tuple[str, str]
"""Tool and normalised arguments."""


class WorldState(msgspec.Struct, frozen=True):
    """What a call's outcome may depend on; equal when it can't have changed."""

    acts: int
    """How often anything was written or run, or the user said something."""
    writes: int
    """How often a file was written."""
    leave: tuple[str, str]
    """Mode and approval mode."""
    file: Hashable
    """Size and times of the file that the call names."""


class CachedCall(msgspec.Struct, frozen=True):
    """A call that was carried out."""

    iteration: int
    world: WorldState
    result: ToolResult
    text: str


class CallCache:
    """The calls of the last rounds with what came out; older ones are forgotten."""

    def __init__(self) -> None:
        self._known: dict[Key, CachedCall] = {}
        self._iteration = 0

    def next_round(self) -> None:
        """Another reply is carried out."""
        self._iteration += 1
        oldest = self._iteration - ANSWERED_FOR
        self._known = {key: one for key, one in self._known.items() if one.iteration >= oldest}

    def remember(self, key: Key, world: WorldState, result: ToolResult, text: str) -> None:
        """Note a call that was just carried out, with the world as it left it."""
        if result.success:
            passing = result.code == UNAVAILABLE
        else:
            passing = result.code in PASSING or error_class(result) in PASSING_CLASSES
        if not passing:
            self._known[key] = CachedCall(self._iteration, world, result, text)

    def earlier(self, key: Key, world: WorldState, *, reads: bool, writes: bool) -> CachedCall | None:
        """The result that still holds for this call, if there is one.

        Within one reply a write is never done twice, and a command is run again only after a file was written.
        """
        known = self._known.get(key)
        if known is None or known.world.file != world.file or known.world.leave != world.leave:
            return None
        if known.iteration == self._iteration and not reads:
            return known if writes or known.world.writes == world.writes else None
        return known if known.world.acts == world.acts else None


class LoopDetector:
    """Counts what was really carried out, to notice a run that goes round in circles."""

    def __init__(self) -> None:
        self._row: deque[tuple[Key, str]] = deque(maxlen=max(SAME_STOP, TURNS_STOP))
        self._seen: set[tuple[Key, str]] = set()
        self._told: set[str] = set()
        self._stale = 0
        self._news = False

    def reset(self) -> None:
        """The user said something: what was is no loop any more."""
        self._row.clear()
        self._seen.clear()
        self._told.clear()
        self._stale = 0

    def add(self, key: Key, text: str) -> None:
        """A call was carried out and gave `text`."""
        pair = (key, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        self._news = self._news or pair not in self._seen
        self._seen.add(pair)
        self._row.append(pair)

    def end_round(self) -> tuple[str, str]:
        """What to tell the model, and why to stop and ask the user; each empty when there is no reason."""
        self._stale = 0 if self._news else self._stale + 1
        self._news = False
        note, stop = "", ""
        for words, count, first, last in (
            (f"{self._last()} gave the same result", self._same(), SAME_NOTE, SAME_STOP),
            (f"{self._last(2)} take turns with the same results", self._turns(), TURNS_NOTE, TURNS_STOP),
            ("the last rounds brought nothing new", self._stale, STALE_NOTE, STALE_STOP),
        ):
            what = f"{words} ({count} times in a row)"
            if count >= last:
                stop = stop or what
            elif count >= first and words not in self._told:
                self._told.add(words)
                note = note or what
        return note, stop

    def _last(self, count: int = 1) -> str:
        names = dict.fromkeys(key[0] for key, _ in list(self._row)[-count:])
        return " and ".join(names) or "the last call"

    def _same(self) -> int:
        row = list(self._row)
        count = 0
        while count < len(row) and row[-1 - count] == row[-1]:
            count += 1
        return count

    def _turns(self) -> int:
        row = list(self._row)
        if len(row) < 2 or row[-1] == row[-2]:
            return 0
        count = 0
        while count < len(row) and row[-1 - count] == row[-1 - count % 2]:
            count += 1
        return count


log = logging.getLogger(__name__)

SIDE_BY_SIDE = 8
"""Reading calls that run at the same time at most."""
CALLS, CALLS_READING = 10, 15
"""Calls of one reply that are run at most; more in the modes that only read (W13)."""
MANY = 8
"""Above so many calls in a reply the model is advised to send fewer."""
REPEATED = (
    "You made this very call before and nothing has changed since, so it was not run again. Its result stands; do not "
    "call it again."
)
INTERRUPTED = ToolResult(success=False, error="Interrupted by the user.", code="interrupted")


class ToolBatch(msgspec.Struct):
    """What became of the calls of one reply."""

    sent: int
    ran: int = 0
    """Carried out, with whatever result."""
    duplicates: int = 0
    left: int = 0
    """Not run because there were too many."""
    rejected: list[tuple[ToolCall, ToolResult]] = []
    """Could not be run as they came."""
    note: str = ""
    """A reason to tell the model that it goes round in circles."""
    stop: str = ""
    """A reason to stop and ask the user."""


class ToolCalls:
    """Runs calls for one run of the agent."""

    def __init__(
        self,
        environment: ToolEnvironment,
        registry: Registry,
        run: str,
        *,
        delegate: Delegate | None = None,
        attach: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`delegate` runs sub-agents (T5), `attach` attaches what the newest messages mention (H7)."""
        self._delegate = delegate
        self._attach = attach
        self.environment = self._environment = environment
        self.code = environment.code  # what language servers know (T3)
        self._registry = registry
        self._run = run
        self._specs = registry.specs()
        self._signatures = CallCache()
        self._repeats = LoopDetector()
        self._round = ToolBatch(sent=0)
        self.protocol: Protocol = "native"
        """How an example of a call is written in errors."""
        self.count = 0
        """How many calls were carried out."""
        self.results: list[tuple[ToolCall, ToolResult]] = []
        """Every call of the run with what came out, in the order in which they ended; one that was answered with an
        earlier result has that one, without its changes."""
        self.by_command: dict[str, CommandChangedFiles] = {}
        """Call → what its command changed in the workspace, of those that were watched."""
        self._footing = WorkspaceHealth(
            environment.roots.folders, lambda notice: environment.stream.emit(notice, run=run)
        )
        self._touched: dict[str, None] = {}
        """Files that calls of this round saw."""
        self.changed: list[str] = []
        """Files that were changed, as the user knows them, the latest last."""
        self.declined = False
        """The user said no to one of the calls; what rules and modes refuse does not count."""

    def use(self, registry: Registry) -> None:
        """Offer these tools from now on: what a step or an intent allows (W1, W11)."""
        self._registry = registry
        self._specs = registry.specs()

    async def carry_out(self, calls: tuple[ToolCall, ...], parent: str) -> ToolBatch:
        """Every call gets exactly one `tool.finished`, in call order for those that may change something.

        Runs of neighbouring calls that only read go in parallel. Cancelling finishes the open ones as interrupted.
        """
        self._signatures.next_round()
        done = self._round = ToolBatch(sent=len(calls))
        batch: list[ToolCall] = []
        most = CALLS_READING if self._environment.mode.reads_only else CALLS
        admitted, left = _admitted(calls, most)
        for call in admitted:
            if self.reads_only(call):
                batch.append(call)
                continue
            await self._together(batch, parent)
            batch = []
            await self._run_call(call, parent)
        await self._together(batch, parent)
        for call in left:
            self._leave(call, most, parent)
        done.left = len(left)
        if done.ran or done.duplicates:
            done.note, done.stop = self._repeats.end_round()
        touched, self._touched = self._touched, {}
        if touched:
            await self._environment.bring_rules(touched, self._run)
        return done

    async def attach(self) -> None:
        """Attach what the user's newest messages mention (H7)."""
        if self._attach is not None:
            await self._attach(self._run)

    def heard(self) -> None:
        """The user said something: the world is another one, and what was is no loop any more."""
        self._environment.acts += 1
        self._repeats.reset()

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer; empty when nobody is there or nothing was said."""
        place = self._environment
        if not place.attended:
            return ""
        answer = await place.approvals.question(question, options, run=self._run, node=self._run)
        return answer.text.strip() if answer.verdict == "reply" else ""

    def reads_only(self, call: ToolCall) -> bool:
        """Whether a call is of a tool that changes nothing."""
        tool = self._registry.find(call.name)
        return tool is not None and tool.reads_only

    async def _together(self, batch: list[ToolCall], parent: str) -> None:
        """Calls that only read, side by side; exact duplicates among them after the first one has its result."""
        first = {_written(call): call for call in reversed(batch)}
        if len(first) < len(batch):
            firsts = [call for call in batch if first[_written(call)] is call]
            await self._together(firsts, parent)
            for call in batch:
                if call not in firsts:
                    await self._run_call(call, parent)
        elif len(batch) == 1:
            await self._run_call(batch[0], parent)
        elif batch:
            slots = asyncio.Semaphore(SIDE_BY_SIDE)

            async def one(call: ToolCall) -> None:
                async with slots:
                    await self._run_call(call, parent)

            try:
                async with asyncio.TaskGroup() as group:
                    for call in batch:
                        group.create_task(one(call))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _run_call(self, call: ToolCall, parent: str) -> None:
        """One call between its two events: run, answered with an earlier result (W13), or rejected."""
        parsed = self._registry.parse(call)
        ctx = CallContext(self._environment, run=self._run, node=call.id, delegate=self._delegate)
        title, reads_only = call.name, True
        if not isinstance(parsed, ToolResult):
            tool, args = parsed
            title, reads_only = one_line(clean(tool.title(args) or call.name), 200), tool.reads_only
        stream = self._environment.stream
        self._start(call, title, reads_only, parent)
        began, result, known = time.monotonic(), INTERRUPTED, None
        try:
            if not reads_only:
                await stream.durable()
            if isinstance(parsed, ToolResult):
                result = self._reject(call, parsed)
            elif (known := await self._known(tool, args)) is not None:
                result = msgspec.structs.replace(known.result, changes=(), code="duplicate")
            else:
                self.count += 1
                self._round.ran += 1
                try:
                    if why := self._registry.block_reason(tool):
                        raise ToolRefused(why)
                    async with ctx.clock.limit(tool.timeout):
                        result = await tool.run(args, ctx)
                except JournalBroken:
                    raise
                except Exception as error:
                    result = _failure(tool, error)
                await self._note(call.id, tool, args, result, ctx)
        except JournalBroken as error:
            result = ToolResult(success=False, error=f"Stopped, since nothing can be saved: {error}", code="unsaved")
            raise
        finally:
            ctx.close()
            spent = round((time.monotonic() - began) * 1000) - ctx.clock.waited_ms
            self._finish(call, result, max(0, spent), parent, ctx.seen_now, known)
            self._touched |= dict.fromkeys(ctx.seen_now)
        if ctx.acted:
            await stream.durable()
        if ctx.acted or not result.success:
            await self._footing.check()

    def _reject(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """The error of a call that can't be run, in words that teach how to write it (W16)."""
        tool = self._registry.find(call.name)
        meant = tool.name if tool is not None else next(iter(self._registry.suggest(call.name)), "")
        spec = next((spec for spec in self._specs if spec.name == meant), None)
        error = call_error_text(result.error or "The call can't be run.", spec, self._specs, self.protocol)
        result = msgspec.structs.replace(result, error=error)
        self._round.rejected.append((call, result))
        return result

    async def _known(self, tool: Tool[Any], args: Args) -> CachedCall | None:
        """The earlier call whose result still holds for this one."""
        writes = not tool.reads_only and hasattr(args, "path")
        world = await self._world(args)
        return self._signatures.earlier(_key(tool, args), world, reads=tool.reads_only, writes=writes)

    async def _note(self, call: str, tool: Tool[Any], args: Args, result: ToolResult, ctx: CallContext) -> None:
        """What a call that was run did to the world and to the run."""
        place = self._environment
        self.declined = self.declined or ctx.declined
        if ctx.effects is not None:
            self.by_command[call] = ctx.effects
        place.acts += ctx.acted
        place.writes += len(result.changes)
        self.changed = [path for path in self.changed if all(path != one.display for one in result.changes)]
        self.changed.extend(one.display for one in result.changes)
        key, text = _key(tool, args), result_text(result)
        self._signatures.remember(key, await self._world(args), result, text)
        self._repeats.add(key, text)

    async def _world(self, args: Args) -> WorldState:
        place = self._environment
        path = getattr(args, "path", None)
        file = await asyncio.to_thread(_file_mark, place, path) if isinstance(path, str) else None
        return WorldState(place.acts, place.writes, (str(place.mode), str(place.approval_mode)), file)

    def _leave(self, call: ToolCall, most: int, parent: str) -> None:
        error = f"Not run: at most {most} calls of one reply are run. Call it again if it is still needed."
        self._start(call, call.name, True, parent)
        self._finish(call, ToolResult(success=False, error=error, code="too_many"), 0, parent)

    def _start(self, call: ToolCall, title: str, reads_only: bool, parent: str) -> None:
        event = ToolStarted(call=call, title=title, reads_only=reads_only)
        self._environment.stream.emit(event, run=self._run, node=call.id, parent=parent)

    def _finish(
        self,
        call: ToolCall,
        result: ToolResult,
        ms: int,
        parent: str,
        seen: dict[str, str] | None = None,
        known: CachedCall | None = None,
    ) -> None:
        """`known`: the earlier call that answered this one; the model is told so, the user sees its result."""
        kept, text = result, result_text(result)
        if known is not None:
            self._round.duplicates += 1
            kept = msgspec.structs.replace(known.result, changes=())
            notice = f"[{REPEATED}]" if known.result.success else f"Error: {REPEATED}"
            text = f"{notice}\n{known.text}"
        self.results.append((call, kept))
        event = ToolFinished(call_id=call.id, name=call.name, result=result, text=text, ms=ms, seen=seen or {})
        self._environment.stream.emit(event, run=self._run, node=call.id, parent=parent)


def _key(tool: Tool[Any], args: Args) -> Key:
    return tool.name, args.model_dump_json(exclude_none=True)


def _written(call: ToolCall) -> str:
    """The call as text, to find its exact duplicates."""
    return json.dumps([call.name, call.arguments, call.raw], sort_keys=True, default=str)


def _admitted(calls: tuple[ToolCall, ...], most: int) -> tuple[list[ToolCall], list[ToolCall]]:
    """The calls that are run and those that are left, since a reply has too many (W13); duplicates count once."""
    seen: set[str] = set()
    admitted: list[ToolCall] = []
    left: list[ToolCall] = []
    for call in calls:
        seen.add(_written(call))
        (admitted if len(seen) <= most else left).append(call)
    return admitted, left


def _file_mark(place: ToolEnvironment, path: str) -> FileStamp | None:
    """The mark of a file as it is now; None when there is none."""
    try:
        return file_stamp(place.roots.resolve(path).path)
    except (ValueError, PathError):
        return None


def _failure(tool: Tool[Any], error: Exception) -> ToolResult:
    """What a call that raised `error` gives."""
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
    """What the model gets of a result: clean, and what no user would see in it marked."""
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

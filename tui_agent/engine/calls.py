"""Carrying out the tool calls of one reply: reading ones side by side, the others in order, each with its events."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from typing import Any

import msgspec

from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.bench import CallBench
from tui_agent.engine.duplicates import Repeats, Signatures, World
from tui_agent.engine.feedback import taught
from tui_agent.engine.footing import Footing
from tui_agent.engine.nested_rules import bring
from tui_agent.engine.stream import JournalBroken
from tui_agent.engine.workplace import Workplace
from tui_agent.events import CommandChanged, ToolFinished, ToolStarted
from tui_agent.protocols.parser import Protocol
from tui_agent.safety.roots import PathError
from tui_agent.text import clean, marked_hidden, one_line
from tui_agent.tools.base import Tool, ToolError
from tui_agent.tools.registry import Registry

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


class Round(msgspec.Struct):
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


class Calls:
    """Runs calls for one run of the agent."""

    def __init__(self, workplace: Workplace, registry: Registry, run: str) -> None:
        self.workplace = self._workplace = workplace
        self.code = workplace.code  # what language servers know (T3)
        self._registry = registry
        self._run = run
        self._specs = registry.specs()
        self._signatures = Signatures()
        self._repeats = Repeats()
        self._round = Round(sent=0)
        self.protocol: Protocol = "native"
        """How an example of a call is written in errors."""
        self.count = 0
        """How many calls were carried out."""
        self.results: list[tuple[ToolCall, ToolResult]] = []
        """Every call of the run with what came out, in the order in which they ended; one that was answered with an
        earlier result has that one, without its changes."""
        self.by_command: dict[str, CommandChanged] = {}
        """Call → what its command changed in the workspace, of those that were watched."""
        self._earlier: dict[str, ToolResult] = {}
        self._repeated: dict[str, str] = {}
        """What the model is told of a call that was answered with an earlier result; the user sees the result."""
        self._footing = Footing(
            workplace.roots.folders, lambda notice: workplace.stream.emit(notice, run=run)
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

    async def carry_out(self, calls: tuple[ToolCall, ...], parent: str) -> Round:
        """Every call gets exactly one `tool.finished`, in call order for those that may change something.

        Runs of neighbouring calls that only read go in parallel. Cancelling finishes the open ones as interrupted.
        """
        self._signatures.next_round()
        done = self._round = Round(sent=len(calls))
        batch: list[ToolCall] = []
        most = CALLS_READING if self._workplace.mode.reads_only else CALLS
        admitted, left = _admitted(calls, most)
        for call in admitted:
            if self.reads_only(call):
                batch.append(call)
                continue
            await self._together(batch, parent)
            batch = []
            await self._one(call, parent)
        await self._together(batch, parent)
        for call in left:
            self._leave(call, most, parent)
        done.left = len(left)
        if done.ran or done.duplicates:
            done.note, done.stop = self._repeats.end_round()
        touched, self._touched = self._touched, {}
        if touched:
            await bring(self._workplace, touched, self._run)
        return done

    async def attach(self) -> None:
        """Attach what the user's newest messages mention (H7)."""
        if self._workplace.attach is not None:
            await self._workplace.attach(self._run)

    def heard(self) -> None:
        """The user said something: the world is another one, and what was is no loop any more (R10.1)."""
        self._workplace.acts += 1
        self._repeats.reset()

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """The user's answer; empty when nobody is there or nothing was said."""
        place = self._workplace
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
                    await self._one(call, parent)
        elif len(batch) == 1:
            await self._one(batch[0], parent)
        elif batch:
            slots = asyncio.Semaphore(SIDE_BY_SIDE)

            async def one(call: ToolCall) -> None:
                async with slots:
                    await self._one(call, parent)

            try:
                async with asyncio.TaskGroup() as group:
                    for call in batch:
                        group.create_task(one(call))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _one(self, call: ToolCall, parent: str) -> None:
        parsed = self._registry.parse(call)
        clock = _CallClock()
        bench = CallBench(self._workplace, run=self._run, node=call.id, pause=clock.pause)
        title, reads_only = call.name, True
        if not isinstance(parsed, ToolResult):
            tool, args = parsed
            title, reads_only = one_line(clean(tool.title(args) or call.name), 200), tool.reads_only
        stream = self._workplace.stream
        self._start(call, title, reads_only, parent)
        began = time.monotonic()
        result = INTERRUPTED
        try:
            if not reads_only:
                await stream.durable()
            if isinstance(parsed, ToolResult):
                result = self._reject(call, parsed)
            else:
                result = await self._settle(call.id, *parsed, bench, clock)
        except JournalBroken as error:
            result = ToolResult(
                success=False, error=f"Stopped, since nothing can be saved: {error}", code="unsaved"
            )
            raise
        finally:
            bench.close()
            spent = round((time.monotonic() - began) * 1000) - bench.waited_ms
            self._finish(call, result, max(0, spent), parent, bench.seen_now)
            self._touched |= dict.fromkeys(bench.seen_now)
        if bench.acted:
            await stream.durable()
        if bench.acted or not result.success:
            await self._footing.look()

    def _reject(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """The error of a call that can't be run, in words that teach how to write it (W16)."""
        tool = self._registry.find(call.name)
        meant = tool.name if tool is not None else next(iter(self._registry.nearest(call.name)), "")
        spec = next((spec for spec in self._specs if spec.name == meant), None)
        error = taught(result.error or "The call can't be run.", spec, self._specs, self.protocol)
        result = msgspec.structs.replace(result, error=error)
        self._round.rejected.append((call, result))
        return result

    async def _settle(
        self, call: str, tool: Tool[Any], args: Any, bench: CallBench, clock: _CallClock
    ) -> ToolResult:
        """Run the call, or answer it with the result that it had in the same world (W13)."""
        key = (tool.name, args.model_dump_json(exclude_none=True))
        writes = not tool.reads_only and hasattr(args, "path")
        known = self._signatures.earlier(key, await self._world(args), reads=tool.reads_only, writes=writes)
        if known is not None:
            self._round.duplicates += 1
            self._earlier[call] = msgspec.structs.replace(known.result, changes=())
            notice = f"[{REPEATED}]" if known.result.success else f"Error: {REPEATED}"
            self._repeated[call] = f"{notice}\n{known.text}"
            return msgspec.structs.replace(known.result, changes=(), code="duplicate")
        self.count += 1
        self._round.ran += 1
        why = self._registry.why_shut(tool)
        if why:
            result = ToolResult(success=False, error=why, code="refused")
        else:
            result = await _run(tool, args, bench, clock)
            self.declined = self.declined or bench.declined
            self._take_effect(call)
        self._workplace.acts += bench.acted
        self._workplace.writes += len(result.changes)
        self.changed = [path for path in self.changed if all(path != one.display for one in result.changes)]
        self.changed.extend(one.display for one in result.changes)
        text = result_text(result)
        self._signatures.remember(key, await self._world(args), result, text)
        self._repeats.add(key, text)
        return result

    def _take_effect(self, call: str) -> None:
        keeping = self._workplace.keeping
        if keeping is not None and (seen := keeping.by_command.pop(call, None)) is not None:
            self.by_command[call] = seen

    async def _world(self, args: Any) -> World:
        place = self._workplace
        path = getattr(args, "path", None)
        file = await asyncio.to_thread(_stamp, place, path) if isinstance(path, str) else None
        return World(place.acts, place.writes, (str(place.mode), str(place.approval_mode)), file)

    def _leave(self, call: ToolCall, most: int, parent: str) -> None:
        error = f"Not run: at most {most} calls of one reply are run. Call it again if it is still needed."
        self._start(call, call.name, True, parent)
        self._finish(call, ToolResult(success=False, error=error, code="too_many"), 0, parent)

    def _start(self, call: ToolCall, title: str, reads_only: bool, parent: str) -> None:
        event = ToolStarted(call=call, title=title, reads_only=reads_only)
        self._workplace.stream.emit(event, run=self._run, node=call.id, parent=parent)

    def _finish(
        self, call: ToolCall, result: ToolResult, ms: int, parent: str, seen: dict[str, str] | None = None
    ) -> None:
        self.results.append((call, self._earlier.pop(call.id, result)))
        event = ToolFinished(
            call_id=call.id,
            name=call.name,
            result=result,
            text=self._repeated.pop(call.id, "") or result_text(result),
            ms=ms,
            seen=seen or {},
        )
        self._workplace.stream.emit(event, run=self._run, node=call.id, parent=parent)


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


def _stamp(place: Workplace, path: str) -> tuple[int, int, int] | None:
    """Size, time and inode of a file as they are now; None when there is none."""
    try:
        stat = os.stat(place.roots.resolve(path).path)
    except (OSError, ValueError, PathError):
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


class _CallClock:
    """A time limit that stands still while somebody decides (T7)."""

    def __init__(self) -> None:
        self._deadline: asyncio.Timeout | None = None
        self._left = 0.0
        self._paused = 0

    def start(self, deadline: asyncio.Timeout) -> None:
        self._deadline = deadline

    def pause(self, stop: bool) -> None:
        deadline = self._deadline
        if deadline is None:
            return
        now = asyncio.get_running_loop().time()
        if stop:
            self._paused += 1
            when = deadline.when()
            if self._paused == 1 and when is not None:
                self._left = when - now
                deadline.reschedule(None)
        else:
            self._paused -= 1
            if self._paused == 0 and not deadline.expired():
                deadline.reschedule(now + self._left)


async def _run(tool: Tool[Any], args: Any, bench: CallBench, clock: _CallClock) -> ToolResult:
    try:
        if tool.timeout is None:
            return await tool.run(args, bench)
        async with asyncio.timeout(tool.timeout) as deadline:
            clock.start(deadline)
            return await tool.run(args, bench)
    except TimeoutError:
        log.warning("tool %s ran into its time limit of %s s", tool.name, tool.timeout)
        return ToolResult(
            success=False,
            error=f"{tool.name} took longer than {tool.timeout:g} s and was stopped. Ask for less at a time.",
            code="timeout",
        )
    except ToolError as error:
        return ToolResult(success=False, error=str(error), code=error.code)
    except JournalBroken:
        raise
    except OSError as error:
        return ToolResult(success=False, error=f"{tool.name}: {error.strerror or error}.", code="other")
    except Exception:
        log.exception("tool %s failed", tool.name)
        return ToolResult(
            success=False,
            error=f"{tool.name} failed inside; the details are in the debug log. Try another way.",
            code="defect",
        )


def result_text(result: ToolResult) -> str:
    """What the model gets of a result: clean, and what no user would see in it marked (R-31)."""
    if result.data is None:
        body = ""
    elif isinstance(result.data, str):
        body = result.data
    else:
        body = msgspec.json.encode(result.data).decode()
    if result.success:
        return marked_hidden(clean(body)) or "Done."
    return marked_hidden(
        clean("\n".join(part for part in (f"Error: {result.error or 'it did not work.'}", body) if part))
    )

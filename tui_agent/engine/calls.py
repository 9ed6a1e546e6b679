"""Carrying out the tool calls of one reply: reading ones side by side, the others in order, each with its events."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import msgspec

from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.bench import CallBench
from tui_agent.engine.stream import JournalBroken
from tui_agent.engine.workplace import Workplace
from tui_agent.events import ToolFinished, ToolStarted
from tui_agent.text import clean, one_line
from tui_agent.tools.base import Tool, ToolError
from tui_agent.tools.registry import Registry

log = logging.getLogger(__name__)

SIDE_BY_SIDE = 8
"""Reading calls that run at the same time at most."""
INTERRUPTED = ToolResult(success=False, error="Interrupted by the user.", code="interrupted")


class Calls:
    """Runs calls for one run of the agent."""

    def __init__(self, workplace: Workplace, registry: Registry, run: str) -> None:
        self._workplace = workplace
        self._registry = registry
        self._run = run
        self.count = 0
        """How many calls were carried out."""

    async def carry_out(self, calls: tuple[ToolCall, ...], parent: str) -> None:
        """Every call gets exactly one `tool.finished`, in call order for those that may change something.

        Runs of neighbouring calls that only read go in parallel. Cancelling finishes the open ones as interrupted.
        """
        batch: list[ToolCall] = []
        for call in calls:
            if self._reads_only(call):
                batch.append(call)
                continue
            await self._together(batch, parent)
            batch = []
            await self._one(call, parent)
        await self._together(batch, parent)

    def _reads_only(self, call: ToolCall) -> bool:
        tool = self._registry.find(call.name)
        return tool is not None and tool.reads_only

    async def _together(self, batch: list[ToolCall], parent: str) -> None:
        if len(batch) == 1:
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
        stream.emit(
            ToolStarted(call=call, title=title, reads_only=reads_only),
            run=self._run,
            node=call.id,
            parent=parent,
        )
        self.count += 1
        began = time.monotonic()
        result = INTERRUPTED
        try:
            if not reads_only:
                await stream.durable()
            result = parsed if isinstance(parsed, ToolResult) else await _run(*parsed, bench, clock)
        except JournalBroken as error:
            result = ToolResult(
                success=False, error=f"Stopped, since nothing can be saved: {error}", code="unsaved"
            )
            raise
        finally:
            bench.close()
            spent = round((time.monotonic() - began) * 1000) - bench.waited_ms
            self._finish(call, result, max(0, spent), parent)
        if bench.acted:
            await stream.durable()

    def _finish(self, call: ToolCall, result: ToolResult, ms: int, parent: str) -> None:
        event = ToolFinished(
            call_id=call.id,
            name=call.name,
            result=result,
            text=result_text(result),
            ms=ms,
        )
        self._workplace.stream.emit(event, run=self._run, node=call.id, parent=parent)


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
    """What the model gets of a result."""
    if result.data is None:
        body = ""
    elif isinstance(result.data, str):
        body = result.data
    else:
        body = msgspec.json.encode(result.data).decode()
    if result.success:
        return clean(body) or "Done."
    return clean("\n".join(part for part in (f"Error: {result.error or 'it did not work.'}", body) if part))

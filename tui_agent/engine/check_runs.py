"""Commands that the program runs to see whether work is right: tool calls with the usual approvals (E5)."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any

from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.calls import Calls
from tui_agent.engine.project_checks import COMMANDS, NOT_STARTED, ran, test_command
from tui_agent.engine.workplace import Workplace
from tui_agent.tools.registry import Registry

SECONDS = 60
"""Time limit of one such command."""
TAIL = 900
"""Characters of a failed command's output that the model is told."""
_RULER = re.compile(r"[-=_*#~.FE]{3,}|\.*F\.*|Ran \d+ tests? in .*|FAILED \(.*\)")
"""Lines that say nothing: rulers, dots of a test run, its totals."""


class CheckRuns:
    """Runs commands on behalf of the program for one run."""

    def __init__(self, workplace: Workplace, calls: Calls, registry: Registry) -> None:
        self._workplace = workplace
        self._calls = calls
        self._registry = registry
        self._tests: str | None = None
        self._ended: set[str] = set()
        """Commands that ended by themselves."""

    async def test_command(self) -> str:
        """The command that runs the project's tests, as it was found first in this run; empty where there are none."""
        if not self._tests:
            self._tests = await asyncio.to_thread(test_command, self._workplace.workspace)
        return self._tests

    async def may_run(self, command: str, *, unasked: bool = False) -> bool:
        """Whether a command can be run here: allowed as it is, or, unless `unasked`, with somebody there to ask."""
        if self._registry.find(COMMANDS) is None:
            return False
        place = self._workplace
        action = await place.judge(command, place.workspace)
        verdict = place.verdict(action)
        return verdict.decision == "run" or (verdict.decision == "ask" and place.attended and not unasked)

    async def run(
        self, command: str, node: str, *, seconds: int = SECONDS, must_end: bool = False
    ) -> ToolResult | None:
        """How a command ended in the workspace's folder; None where that shows nothing of the work: it was not allowed,
        could not be started, or ran into its time limit. `must_end`: that one counts, as it does for a command that
        ended in time before."""
        place = self._workplace
        arguments: dict[str, Any] = {"command": command, "timeout_seconds": seconds}
        if place.shell_cwd() != place.workspace:
            arguments["cwd"] = str(place.workspace)
        call = ToolCall(id=f"check{secrets.token_hex(4)}", name=COMMANDS, arguments=arguments)
        await self._calls.carry_out((call,), node)
        result = self._calls.results[-1][1]
        if result.code in NOT_STARTED or not ran(result):
            return None
        if result.code == "timeout" and not (must_end or command in self._ended):
            return None
        self._ended.add(command)
        return result


def output_of(result: ToolResult) -> str:
    """The end of what a command printed, without rulers and empty lines."""
    text = result.data if isinstance(result.data, str) else ""
    lines = [line for line in text.splitlines() if line.strip() and not _RULER.fullmatch(line.strip())]
    return "\n".join(lines)[-TAIL:]

"""get_call_hierarchy: who calls a function, and whom it calls."""

from __future__ import annotations

from typing import ClassVar, Literal

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Bench, Tool
from tui_agent.tools.code_output import family_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs, first_answer, located, not_available


class GetCallHierarchyArgs(PositionArgs):
    """See get_call_hierarchy.md."""

    direction: Literal["incoming", "outgoing", "both"] = "both"


class GetCallHierarchy(AtSymbol, Tool[GetCallHierarchyArgs]):
    """Traces calls."""

    name: ClassVar[str] = "get_call_hierarchy"
    args = GetCallHierarchyArgs
    aliases: ClassVar[tuple[str, ...]] = ("call_hierarchy", "find_callers", "get_callers")

    async def run(self, args: GetCallHierarchyArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        incoming, outgoing = args.direction != "outgoing", args.direction != "incoming"
        found = await first_answer(
            at,
            lambda spot: bench.code.calls(at.target.path, spot, incoming=incoming, outgoing=outgoing),
        )
        if isinstance(found, Unavailable):
            return not_available(found)
        if found is None:
            return ToolResult(success=True, data=f"{at.name} is no function there.")
        return ToolResult(success=True, data=await family_text(bench, found, "Called by", "Calls"))

"""get_call_hierarchy: who calls a function, and whom it calls."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from tui_agent.symbols import Family, Spot, Unavailable
from tui_agent.tools.base import Bench, Code
from tui_agent.tools.code_output import family_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs


class GetCallHierarchyArgs(PositionArgs):
    """See get_call_hierarchy.md."""

    direction: Literal["incoming", "outgoing", "both"] = "both"


class GetCallHierarchy(AtSymbol[GetCallHierarchyArgs, Family]):
    """Traces calls."""

    name: ClassVar[str] = "get_call_hierarchy"
    args = GetCallHierarchyArgs
    aliases: ClassVar[tuple[str, ...]] = ("call_hierarchy", "find_callers", "get_callers")

    async def ask(
        self, args: GetCallHierarchyArgs, code: Code, path: Path, spot: Spot
    ) -> Family | Unavailable | None:
        """See AtSymbol."""
        incoming, outgoing = args.direction != "outgoing", args.direction != "incoming"
        return await code.calls(path, spot, incoming=incoming, outgoing=outgoing)

    async def told(self, found: Family | None, name: str, bench: Bench) -> str:
        """See AtSymbol."""
        if found is None:
            return f"{name} is no function there."
        return await family_text(bench, found, "Called by", "Calls")

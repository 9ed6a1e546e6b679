"""find_references: every use of a name, by file (at most 30)."""

from __future__ import annotations

from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Bench, Tool
from tui_agent.tools.code_output import counted, places_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs, first_answer, located, not_available


class FindReferences(AtSymbol, Tool[PositionArgs]):
    """Finds who uses a name."""

    name: ClassVar[str] = "find_references"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = ("get_references", "references", "find_usages", "find_uses")

    async def run(self, args: PositionArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        found = await first_answer(at, lambda spot: bench.code.references(at.target.path, spot))
        if isinstance(found, Unavailable):
            return not_available(found)
        if not found:
            return ToolResult(success=True, data=f"No references to {at.name} were found.")
        files = counted(len({place.path for place in found}), "file")
        head = f"{counted(len(found), 'reference')} to {at.name} in {files}"
        return ToolResult(success=True, data=f"{head}\n{await places_text(bench, found)}")

"""get_type_hierarchy: what a class or interface derives from, and what derives from it."""

from __future__ import annotations

from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Bench, Tool
from tui_agent.tools.code_output import family_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs, first_answer, located, not_available


class GetTypeHierarchy(AtSymbol, Tool[PositionArgs]):
    """Traces inheritance."""

    name: ClassVar[str] = "get_type_hierarchy"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = (
        "type_hierarchy",
        "get_supertypes",
        "get_subtypes",
        "class_hierarchy",
    )

    async def run(self, args: PositionArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        found = await first_answer(at, lambda spot: bench.code.types(at.target.path, spot))
        if isinstance(found, Unavailable):
            return not_available(found)
        if found is None:
            return ToolResult(success=True, data=f"{at.name} is no class or interface there.")
        return ToolResult(success=True, data=await family_text(bench, found, "Supertypes", "Subtypes"))

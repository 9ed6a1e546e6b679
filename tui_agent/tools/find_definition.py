"""find_definition: where a name is defined."""

from __future__ import annotations

from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Bench, Tool
from tui_agent.tools.code_output import places_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs, first_answer, located, not_available


class FindDefinition(AtSymbol, Tool[PositionArgs]):
    """Follows a name to its source."""

    name: ClassVar[str] = "find_definition"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = (
        "go_to_definition",
        "goto_definition",
        "get_definition",
        "definition",
    )

    async def run(self, args: PositionArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        found = await first_answer(at, lambda spot: bench.code.definitions(at.target.path, spot))
        if isinstance(found, Unavailable):
            return not_available(found)
        text = await places_text(bench, found) if found else f"No definition of {at.name} was found."
        return ToolResult(success=True, data=text)

"""find_implementations: what implements an interface, overrides a method, or derives from a class."""

from __future__ import annotations

from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Bench, Tool
from tui_agent.tools.code_output import places_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs, first_answer, located, not_available


class FindImplementations(AtSymbol, Tool[PositionArgs]):
    """Finds implementations and overrides."""

    name: ClassVar[str] = "find_implementations"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = ("go_to_implementation", "get_implementations", "implementations")

    async def run(self, args: PositionArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        found = await first_answer(at, lambda spot: bench.code.implementations(at.target.path, spot))
        if isinstance(found, Unavailable):
            return not_available(found)
        text = await places_text(bench, found) if found else f"No implementations of {at.name} were found."
        return ToolResult(success=True, data=text)

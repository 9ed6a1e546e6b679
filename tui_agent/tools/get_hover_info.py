"""get_hover_info: signature, type and documentation of a name."""

from __future__ import annotations

from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Bench, Tool
from tui_agent.tools.code_position import AtSymbol, PositionArgs, first_answer, located, not_available


class GetHoverInfo(AtSymbol, Tool[PositionArgs]):
    """Tells what a name is."""

    name: ClassVar[str] = "get_hover_info"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = ("hover", "get_hover", "get_type", "hover_info")

    async def run(self, args: PositionArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        found = await first_answer(at, lambda spot: bench.code.hover(at.target.path, spot))
        if isinstance(found, Unavailable):
            return not_available(found)
        return ToolResult(success=True, data=found or f"Nothing is known of {at.name} there.")

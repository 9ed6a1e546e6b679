"""get_hover_info: signature, type and documentation of a name."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Spot, Unavailable
from tui_agent.tools.base import Bench, Code
from tui_agent.tools.code_position import AtSymbol, PositionArgs


class GetHoverInfo(AtSymbol[PositionArgs, str]):
    """Tells what a name is."""

    name: ClassVar[str] = "get_hover_info"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = ("hover", "get_hover", "get_type", "hover_info")

    async def ask(self, args: PositionArgs, code: Code, path: Path, spot: Spot) -> str | Unavailable:
        """See AtSymbol."""
        return await code.hover(path, spot)

    async def told(self, found: str | None, name: str, bench: Bench) -> str:
        """See AtSymbol."""
        return found or f"Nothing is known of {name} there."

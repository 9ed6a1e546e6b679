"""find_implementations: what implements an interface, overrides a method, or derives from a class."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Place, Spot, Unavailable
from tui_agent.tools.base import Bench, Code
from tui_agent.tools.code_output import places_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs


class FindImplementations(AtSymbol[PositionArgs, tuple[Place, ...]]):
    """Finds implementations and overrides."""

    name: ClassVar[str] = "find_implementations"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = ("go_to_implementation", "get_implementations", "implementations")

    async def ask(
        self, args: PositionArgs, code: Code, path: Path, spot: Spot
    ) -> tuple[Place, ...] | Unavailable:
        """See AtSymbol."""
        return await code.implementations(path, spot)

    async def told(self, found: tuple[Place, ...] | None, name: str, bench: Bench) -> str:
        """See AtSymbol."""
        return await places_text(bench, found) if found else f"No implementations of {name} were found."

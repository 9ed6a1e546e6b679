"""find_definition: where a name is defined."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Place, Spot, Unavailable
from tui_agent.tools.base import Bench, Code
from tui_agent.tools.code_output import places_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs


class FindDefinition(AtSymbol[PositionArgs, tuple[Place, ...]]):
    """Follows a name to its source."""

    name: ClassVar[str] = "find_definition"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = (
        "go_to_definition",
        "goto_definition",
        "get_definition",
        "definition",
    )

    async def ask(
        self, args: PositionArgs, code: Code, path: Path, spot: Spot
    ) -> tuple[Place, ...] | Unavailable:
        """See AtSymbol."""
        return await code.definitions(path, spot)

    async def told(self, found: tuple[Place, ...] | None, name: str, bench: Bench) -> str:
        """See AtSymbol."""
        return await places_text(bench, found) if found else f"No definition of {name} was found."

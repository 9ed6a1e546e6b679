"""get_type_hierarchy: what a class or interface derives from, and what derives from it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Family, Spot, Unavailable
from tui_agent.tools.base import Bench, Code
from tui_agent.tools.code_output import family_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs


class GetTypeHierarchy(AtSymbol[PositionArgs, Family]):
    """Traces inheritance."""

    name: ClassVar[str] = "get_type_hierarchy"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = (
        "type_hierarchy",
        "get_supertypes",
        "get_subtypes",
        "class_hierarchy",
    )

    async def ask(
        self, args: PositionArgs, code: Code, path: Path, spot: Spot
    ) -> Family | Unavailable | None:
        """See AtSymbol."""
        return await code.types(path, spot)

    async def told(self, found: Family | None, name: str, bench: Bench) -> str:
        """See AtSymbol."""
        if found is None:
            return f"{name} is no class or interface there."
        return await family_text(bench, found, "Supertypes", "Subtypes")

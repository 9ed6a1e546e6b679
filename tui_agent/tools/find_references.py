"""find_references: every use of a name, by file (at most 30)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Place, Spot, Unavailable
from tui_agent.tools.base import Bench, Code
from tui_agent.tools.code_output import counted, places_text
from tui_agent.tools.code_position import AtSymbol, PositionArgs


class FindReferences(AtSymbol[PositionArgs, tuple[Place, ...]]):
    """Finds who uses a name."""

    name: ClassVar[str] = "find_references"
    args = PositionArgs
    aliases: ClassVar[tuple[str, ...]] = ("get_references", "references", "find_usages", "find_uses")

    async def ask(
        self, args: PositionArgs, code: Code, path: Path, spot: Spot
    ) -> tuple[Place, ...] | Unavailable:
        """See AtSymbol."""
        return await code.references(path, spot)

    async def told(self, found: tuple[Place, ...] | None, name: str, bench: Bench) -> str:
        """See AtSymbol."""
        if not found:
            return f"No references to {name} were found."
        files = counted(len({place.path for place in found}), "file")
        head = f"{counted(len(found), 'reference')} to {name} in {files}"
        return f"{head}\n{await places_text(bench, found)}"

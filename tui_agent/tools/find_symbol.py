"""find_symbol: functions, classes and so on of the whole workspace by name."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Args, Bench, Tool
from tui_agent.tools.code_output import symbols_text
from tui_agent.tools.code_position import not_available


class FindSymbolArgs(Args):
    """See find_symbol.md."""

    name: str = Field(min_length=1, max_length=500)


class FindSymbol(Tool[FindSymbolArgs]):
    """Finds a symbol without knowing its file."""

    name: ClassVar[str] = "find_symbol"
    args = FindSymbolArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    aliases: ClassVar[tuple[str, ...]] = (
        "workspace_symbol",
        "search_symbol",
        "search_symbols",
        "find_symbols",
    )
    argument_aliases: ClassVar[dict[str, str]] = {
        "query": "name",
        "symbol": "name",
        "symbol_name": "name",
    }

    def title(self, args: FindSymbolArgs) -> str:
        """See Tool."""
        return args.name

    async def run(self, args: FindSymbolArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        name = args.name.strip()
        found = await bench.code.symbols(name)
        if isinstance(found, Unavailable):
            return not_available(found, "search_workspace")
        text = (
            await symbols_text(bench, found)
            if found
            else f"No symbol is called {name}. Try search_workspace."
        )
        return ToolResult(success=True, data=text)

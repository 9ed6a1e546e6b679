"""get_document_symbols: the outline of a file."""

from __future__ import annotations

from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import Unavailable
from tui_agent.tools.base import Args, Bench, Tool
from tui_agent.tools.code_output import outline_text
from tui_agent.tools.code_position import ALIASES, not_available
from tui_agent.tools.lines import shown_name
from tui_agent.tools.reading import bytes_of, leave_to_read


class GetDocumentSymbolsArgs(Args):
    """See get_document_symbols.md."""

    path: str


class GetDocumentSymbols(Tool[GetDocumentSymbolsArgs]):
    """Lists classes, functions and so on of a file."""

    name: ClassVar[str] = "get_document_symbols"
    args = GetDocumentSymbolsArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    aliases: ClassVar[tuple[str, ...]] = ("document_symbols", "file_outline", "get_outline", "list_symbols")
    argument_aliases: ClassVar[dict[str, str]] = ALIASES

    def title(self, args: GetDocumentSymbolsArgs) -> str:
        """See Tool."""
        return args.path

    async def run(self, args: GetDocumentSymbolsArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        target = bench.resolve(args.path)
        await leave_to_read(bench, target)
        await bytes_of(target)
        found = await bench.code.outline(target.path)
        if isinstance(found, Unavailable):
            return not_available(found)
        name = shown_name(target.display)
        text = f"── {name} ──\n{outline_text(found)}" if found else f"{name} holds no symbols."
        return ToolResult(success=True, data=text)

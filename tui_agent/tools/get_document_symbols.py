"""get_document_symbols: the outline of a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Symbol, Unavailable
from tui_agent.tools.base import Code
from tui_agent.tools.code_output import outline_text
from tui_agent.tools.code_position import AboutFile


class GetDocumentSymbols(AboutFile[tuple[Symbol, ...]]):
    """Lists classes, functions and so on of a file."""

    name: ClassVar[str] = "get_document_symbols"
    aliases: ClassVar[tuple[str, ...]] = ("document_symbols", "file_outline", "get_outline", "list_symbols")

    async def ask(self, code: Code, path: Path) -> tuple[Symbol, ...] | Unavailable:
        """See AboutFile."""
        return await code.outline(path)

    def told(self, found: tuple[Symbol, ...], name: str) -> str:
        """See AboutFile."""
        return f"── {name} ──\n{outline_text(found)}" if found else f"{name} holds no symbols."

"""get_diagnostics: errors and warnings of a file, as its language server sees them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

from tui_agent.symbols import Diagnostic, DiagnosticKind, Unavailable
from tui_agent.tools.base import Code
from tui_agent.tools.code_output import counted, diagnostics_text
from tui_agent.tools.code_position import AboutFile


class GetDiagnostics(AboutFile[tuple[Diagnostic, ...]]):
    """Tells what is wrong in a file."""

    name: ClassVar[str] = "get_diagnostics"
    aliases: ClassVar[tuple[str, ...]] = ("diagnostics", "get_errors", "check_file", "lint")
    instead: ClassVar[str] = "run_terminal_command with the project's own checks"

    async def ask(self, code: Code, path: Path) -> tuple[Diagnostic, ...] | Unavailable:
        """See AboutFile."""
        return await code.diagnostics(path)

    def told(self, found: tuple[Diagnostic, ...], name: str) -> str:
        """See AboutFile."""
        if not found:
            return f"{name}: no errors or warnings."
        kinds = Counter(one.kind for one in found)
        counts = [counted(kinds[kind], word) for kind, word in _WORDS if kinds[kind]]
        return f"{name}: {', '.join(counts)}\n{diagnostics_text(found)}"


_WORDS: tuple[tuple[DiagnosticKind, str], ...] = (
    ("error", "error"),
    ("warning", "warning"),
    ("info", "remark"),
    ("hint", "hint"),
)

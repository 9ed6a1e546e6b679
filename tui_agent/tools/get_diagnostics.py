"""get_diagnostics: errors and warnings of a file, as its language server sees them."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.symbols import DiagnosticKind, Unavailable
from tui_agent.tools.base import Args, Bench, Tool
from tui_agent.tools.code_output import counted, diagnostics_text
from tui_agent.tools.code_position import ALIASES, not_available
from tui_agent.tools.lines import shown_name
from tui_agent.tools.reading import bytes_of, leave_to_read


class GetDiagnosticsArgs(Args):
    """See get_diagnostics.md."""

    path: str


class GetDiagnostics(Tool[GetDiagnosticsArgs]):
    """Tells what is wrong in a file."""

    name: ClassVar[str] = "get_diagnostics"
    args = GetDiagnosticsArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    aliases: ClassVar[tuple[str, ...]] = ("diagnostics", "get_errors", "check_file", "lint")
    argument_aliases: ClassVar[dict[str, str]] = ALIASES

    def title(self, args: GetDiagnosticsArgs) -> str:
        """See Tool."""
        return args.path

    async def run(self, args: GetDiagnosticsArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        target = bench.resolve(args.path)
        await leave_to_read(bench, target)
        await bytes_of(target)
        found = await bench.code.diagnostics(target.path)
        if isinstance(found, Unavailable):
            return not_available(found, "run_terminal_command with the project's own checks")
        name = shown_name(target.display)
        if not found:
            return ToolResult(success=True, data=f"{name}: no errors or warnings.")
        kinds = Counter(one.kind for one in found)
        counts = [counted(kinds[kind], word) for kind, word in _WORDS if kinds[kind]]
        return ToolResult(success=True, data=f"{name}: {', '.join(counts)}\n{diagnostics_text(found)}")


_WORDS: tuple[tuple[DiagnosticKind, str], ...] = (
    ("error", "error"),
    ("warning", "warning"),
    ("info", "remark"),
    ("hint", "hint"),
)

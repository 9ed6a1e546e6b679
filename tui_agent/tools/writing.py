"""What the tools that write share: show the change, get leave, write exactly that."""

from __future__ import annotations

from tui_agent.domain import FileChange, Target, ToolResult
from tui_agent.tools.base import Bench
from tui_agent.tools.lines import shown_name


async def write_with_leave(bench: Bench, target: Target, before: bytes | None, after: bytes) -> FileChange:
    """Ask with the diff and write. Raises Refused, and ToolError `changed` when the file became another meanwhile."""
    editing = await bench.diff(target, before, after)
    permit = await bench.permit(editing)
    change = await bench.write(permit, after)
    if change.after is not None:
        bench.saw(target.path, change.after)
    return change


def told(change: FileChange, text: str) -> ToolResult:
    """The result of a write: what was done and +N −N."""
    counts = f"+{change.added} -{change.removed}"
    return ToolResult(success=True, data=f"{text} ({counts})", changes=(change,))


def name_of(target: Target) -> str:
    """The file as the model knows it."""
    return shown_name(target.display)

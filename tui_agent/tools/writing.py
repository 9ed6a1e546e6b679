"""What the tools that write share: show the change, get leave, write exactly that."""

from __future__ import annotations

from typing import NamedTuple

from tui_agent.domain import FileChange, Target, ToolResult
from tui_agent.tools.base import Bench, ToolError
from tui_agent.tools.lines import shown_name


class Written(NamedTuple):
    """A write that happened."""

    change: FileChange
    note: str
    """How it differs from what was asked for; empty when it does not."""


async def write_with_leave(bench: Bench, target: Target, before: bytes | None, after: bytes) -> Written:
    """Ask with the diff and write what was agreed on.

    Raises Refused, and ToolError `changed` when the file became another one meanwhile. A folder of the workspace that
    is gone is not made anew (E14).
    """
    for root in bench.roots:
        if target.path.is_relative_to(root) and not root.is_dir():
            raise ToolError(
                f"The workspace {root} can't be reached any more; nothing was written.", "not_found"
            )
    editing = await bench.diff(target, before, after)
    agreed = await bench.permit_edit(editing, before, after)
    change = await bench.write(agreed.permit, agreed.content)
    if change.after is not None:
        bench.saw(target.path, change.after)
    return Written(change, agreed.note)


async def told(bench: Bench, written: Written, text: str) -> ToolResult:
    """The result of a write: what was done and +N −N, what the user made of it, and errors in the file (T4)."""
    change, note = written
    parts = (f"{text} (+{change.added} -{change.removed})", note, await bench.checked(change))
    return ToolResult(success=True, data="\n".join(filter(None, parts)), changes=(change,))


def name_of(target: Target) -> str:
    """The file as the model knows it."""
    return shown_name(target.display)

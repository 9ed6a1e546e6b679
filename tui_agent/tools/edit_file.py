"""edit_file: one piece of a file replaced, everything else left byte for byte (R5.1, R5.2)."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from tui_agent.domain import FileChange, Mode, ToolResult
from tui_agent.tools.base import Args, Bench, Tool, ToolError
from tui_agent.tools.editing import Edited, edit_bytes
from tui_agent.tools.reading import bytes_of, leave_to_read
from tui_agent.tools.writing import name_of, told, write_with_leave

ATTEMPTS = 3
"""How often an edit is worked out anew when the file changes while somebody decides."""


class EditFileArgs(Args):
    """See edit_file.md."""

    path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class EditFile(Tool[EditFileArgs]):
    """Replaces text in a file."""

    name: ClassVar[str] = "edit_file"
    args = EditFileArgs
    reads_only: ClassVar[bool] = False
    modes: ClassVar[tuple[Mode, ...]] = (Mode.AGENT, Mode.DIRECT)
    timeout: ClassVar[float | None] = 30.0
    aliases: ClassVar[tuple[str, ...]] = (
        "file_edit",
        "edit",
        "replace",
        "str_replace",
        "search_replace",
        "replace_in_file",
        "apply_edit",
        "modify_file",
        "update_file",
    )
    argument_aliases: ClassVar[dict[str, str]] = {
        "file": "path",
        "file_path": "path",
        "filename": "path",
        "file_name": "path",
        "filepath": "path",
        "target_file": "path",
        "old": "old_string",
        "old_str": "old_string",
        "old_text": "old_string",
        "search": "old_string",
        "find": "old_string",
        "new": "new_string",
        "new_str": "new_string",
        "new_text": "new_string",
        "replace": "new_string",
        "replacement": "new_string",
        "all": "replace_all",
    }

    def title(self, args: EditFileArgs) -> str:
        """See Tool."""
        return args.path

    async def run(self, args: EditFileArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        target = bench.resolve(args.path)
        await leave_to_read(bench, target)
        for attempt in range(1, ATTEMPTS + 1):
            file = await bytes_of(target)
            seen = bench.seen(target.path)
            if attempt == 1 and seen is not None and seen != file.sha256:
                raise ToolError(
                    f"{name_of(target)} changed on disk since you last saw it. Read it again, then edit.",
                    "changed",
                )
            edited = await asyncio.to_thread(
                edit_bytes, file.data, args.old_string, args.new_string, args.replace_all
            )
            try:
                written = await write_with_leave(bench, target, file.data, edited.content)
            except ToolError as fault:
                if fault.code != "changed" or attempt == ATTEMPTS:
                    raise
                bench.output("The file changed meanwhile; working the edit out again.\n")
                continue
            return await told(bench, written, _summary(written.change, edited))
        raise AssertionError("unreachable")


def _summary(change: FileChange, edited: Edited) -> str:
    lines = ", ".join(map(str, dict.fromkeys(edited.lines[:5]))) + (" …" if len(edited.lines) > 5 else "")
    places = f"{edited.count:,} places, from line {edited.lines[0]}" if edited.count > 5 else f"line {lines}"
    how = "matched exactly" if edited.rung == "exactly" else f"matched by overlooking {edited.rung}"
    return f"Edited {change.display} at {places}; {how}"

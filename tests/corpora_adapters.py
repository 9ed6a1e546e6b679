"""What the corpora call: one plain function for each part of the agent that they test."""

from __future__ import annotations

from pathlib import Path

from tui_agent.platform.files import FileFault, read_file, replace_file
from tui_agent.tools.base import ToolError
from tui_agent.tools.editing import edit_bytes

_CODES = {"not_found": "file_not_found", "too_large": "other"}


def apply_edit(path: str, old: str, new: str, replace_all: bool) -> dict[str, object] | None:
    """The edit tool's way of changing a file, without the leave that a session asks for."""
    try:
        before = read_file(Path(path))
        where = before.path
        edited = edit_bytes(before.data, old, new, replace_all)
        replace_file(where, edited.content, before.sha256)
    except FileFault as fault:
        return {"ok": False, "error": _CODES.get(fault.code, "other"), "message": str(fault)}
    except ToolError as fault:
        return {"ok": False, "error": fault.code, "message": str(fault)}
    return None

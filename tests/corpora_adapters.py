"""What the corpora call: one plain function for each part of the agent that they test."""

from __future__ import annotations

from pathlib import Path

from tui_agent.platform.files import FileFault, read_file, replace_file
from tui_agent.safety import globs
from tui_agent.safety.roots import PathError, Roots
from tui_agent.shell import severity
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


def classify(command: str) -> str:
    """How much harm a command can do."""
    return severity.classify(command).severity


def check_path(workspace: str, path: str, op: str) -> dict[str, bool | None]:
    """Whether a path may be used without asking for access outside, and whether its change asks."""
    try:
        target = Roots([Path(workspace)]).resolve(path)
    except PathError:
        return {"allowed": False, "sensitive": None}
    return {
        "allowed": not target.outside,
        "sensitive": target.sensitive or target.protected or target.credentials,
    }


def match_patterns(patterns: list[list[object]], path: str) -> bool:
    """Whether the last pattern that matches asks."""
    return globs.asks([(str(glob), bool(safe)) for glob, safe in patterns], path)

"""The files that the steps before read and wrote, in their present state, for the step that begins (E6)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.workplace import Workplace
from tui_agent.platform.files import FileFault, read_file
from tui_agent.safety.roots import PathError
from tui_agent.text import clean, marked_hidden

SHARE = 0.12
"""Of the window: what the working set may take."""
MOST = 16_000
"""Characters of it at most."""
PER_TOKEN = 3
"""Characters that a token of code has at the least."""
_TOUCHING = ("read_file", "write_file", "edit_file")


def working_set(place: Workplace, done: Sequence[tuple[ToolCall, ToolResult]], window: int | None) -> str:
    """The files that calls of a run read or wrote, the newest first, as far as there is room; empty where there are
    none. What is shown counts as seen. Does file IO."""
    room = MOST if window is None else min(MOST, round(SHARE * PER_TOKEN * window))
    shown: list[str] = []
    names: set[str] = set()
    for call, result in reversed(done):
        path = call.arguments.get("path")
        if call.name not in _TOUCHING or not result.success or not isinstance(path, str):
            continue
        try:
            target = place.roots.resolve(path)
            if target.display in names or target.credentials or target.outside:
                continue
            names.add(target.display)
            file = read_file(target.path, MOST * 4)
            text = file.data.decode("utf-8")
        except (PathError, FileFault, OSError, UnicodeDecodeError):
            continue
        if len(text) > room or "\0" in text:
            continue
        room -= len(text)
        place.saw(target.path, file.sha256)
        shown.append(f"{target.display}\n```\n{marked_hidden(clean(text))}\n```")
    return "\n\n".join(reversed(shown))

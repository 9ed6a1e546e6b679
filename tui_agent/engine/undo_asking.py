"""Who decides what becomes of a file that somebody changed since the agent's edit (K1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tui_agent.checkpoints import disk
from tui_agent.checkpoints.store import StoreError
from tui_agent.checkpoints.undo import Choice, Task, Undo
from tui_agent.domain import Diff
from tui_agent.engine.approvals import Approvals
from tui_agent.platform.files import FileFault
from tui_agent.text import clean
from tui_agent.tools.diffs import diff_bytes

LABELS: dict[Choice, str] = {
    "leave": "Leave it as it is",
    "merge": "Take out the agent's change, keep the rest",
    "overwrite": "Put it back all the same; redo brings back what is there now",
    "aside": "Write the earlier content beside it",
}
SHOWN = 20
"""Lines of a difference that a question shows."""


class Asking:
    """Decides what becomes of files that somebody changed since; this one leaves them."""

    async def choose(self, task: Task, undo: Undo) -> Choice:
        """One of `task.choices`."""
        return "leave"


class Always(Asking):
    """The same choice for every file; where it is none of the file's, the file is left."""

    def __init__(self, choice: Choice) -> None:
        self._choice: Choice = choice

    async def choose(self, task: Task, undo: Undo) -> Choice:
        """See Asking."""
        return self._choice if self._choice in task.choices else "leave"


class AskUser(Asking):
    """Puts a conflict before the user, with what was done since and what undo would do."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def choose(self, task: Task, undo: Undo) -> Choice:
        """See Asking."""
        shown = await asyncio.to_thread(three_way, task, undo)
        text = clean(f"{task.display}: {task.conflict}. What shall become of it?\n{shown}".rstrip())
        options = {LABELS[choice]: choice for choice in task.choices}
        answer = await self._approvals.question(text, tuple(options), run="", node="")
        return options.get(answer.text.strip(), "leave") if answer.verdict == "reply" else "leave"


def three_way(task: Task, undo: Undo) -> str:
    """What others changed since the agent's edit, and what undo would change; blocks."""
    if task.now.kind != "file":
        return ""
    now = _bytes(lambda: disk.content(Path(task.path), task.now))
    base = _bytes(lambda: undo.store.get(task.base))
    target = _bytes(lambda: undo.store.get(task.target.sha256)) if task.target.kind == "file" else None
    parts: list[str] = []
    if now is not None and base is not None:
        parts += ["Changed since:", *_lines(diff_bytes(task.display, base, now))]
    if now is not None and (target is not None or task.target.kind == "absent"):
        parts += ["Putting it back would change:", *_lines(diff_bytes(task.display, now, target))]
    return "\n".join(parts)


def _bytes(read: Callable[[], bytes]) -> bytes | None:
    try:
        return read()
    except (StoreError, FileFault):
        return None


def _lines(diff: Diff) -> list[str]:
    lines = [line.rstrip("\n") for hunk in diff.hunks for line in hunk.lines if line[:1] in "+-"]
    more = [f"… {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return [*lines[:SHOWN], *more, *([f"({diff.note})"] if diff.note else [])]

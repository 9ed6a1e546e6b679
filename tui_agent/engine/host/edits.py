"""Edits while other programs may change the file: actions bound to bytes, choices of hunks, and merging (A3, A9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tui_agent.common.domain import EditAction, Target
from tui_agent.common.hunks import HunkChoice, edit_hunk, format_hunk
from tui_agent.common.line_merge import merge_bytes
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, sha256_of
from tui_agent.platform.watching import FileStamp, file_stamp
from tui_agent.tools.base import ToolError
from tui_agent.tools.diffs import diff_bytes
from tui_agent.tools.partial_edits import can_choose, chosen_bytes

WATCH_INTERVAL = 0.4
"""Seconds between checks of a file while the user decides about its edit."""
HUNKS_CAP = 4_000
"""Maximum characters of hunks in feedback."""
DIFF_CAP = 2 << 20
"""Maximum characters of a change: it must be shown in full (A9) and fit into one record."""


def changed_error(action: EditAction) -> ToolError:
    """Return the error for an edit whose file has changed."""
    return ToolError(f"{action.display} changed on disk meanwhile; nothing was written.", "changed")


def edit_action(target: Target, before: bytes | None, after: bytes, roots: Sequence[Path]) -> EditAction:
    """Return the edit as an action. Raises ToolError, also if the workspace folder no longer exists."""
    for root in roots:
        if target.path.is_relative_to(root) and not root.is_dir():
            raise ToolError(f"The workspace {root} can't be reached any more; nothing was written.", "not_found")
    diff = diff_bytes(target.display, before, after)
    if sum(len(line) for hunk in diff.hunks for line in hunk.lines) > DIFF_CAP:
        raise ToolError("The change is too large to be shown. Make it in smaller parts.", "too_large")
    return EditAction(
        path=str(target.path),
        display=target.display,
        diff=diff,
        before=None if before is None else sha256_of(before),
        after=sha256_of(after),
        outside=target.outside,
        protected=target.protected,
        sensitive=target.sensitive,
        splittable=can_choose(before, after),
    )


class BoundEdit(NamedTuple):
    """An edit with the bytes that its action is bound to."""

    target: Target
    before: bytes | None
    after: bytes
    action: EditAction


def rebase(
    target: Target, before: bytes | None, after: bytes, action: EditAction, roots: Sequence[Path]
) -> BoundEdit | None:
    """Return the edit on top of what the file contains now; None if that is no longer the change of `action`.

    It removes and adds the same lines as before, and the lines around them are unchanged. Does file IO.
    """
    if before is None:
        return None
    try:
        current = read_file(target.path, follow=False).data
        merged = merge_bytes(before, after, current)
        if merged is None or merged == current:
            return None
        rebased = edit_action(target, current, merged, roots)
    except (FileFault, ToolError):
        return None
    is_same = _changed_lines(rebased) == _changed_lines(action)
    return BoundEdit(target, current, merged, rebased) if is_same else None


def _changed_lines(action: EditAction) -> list[str]:
    return [line for hunk in action.diff.hunks for line in hunk.lines if line[:1] in ("+", "-")]


async def watch_file(action: EditAction, void: Callable[[], None], rebase: Callable[[], BoundEdit | None]) -> None:
    """Check the file until cancelled; call `void` once if the edit is no longer based on it and can't be rebased."""
    path = Path(action.path)
    checked: FileStamp | None = None
    while True:
        current = await asyncio.to_thread(file_stamp, path)
        if current is None or current != checked:
            if await asyncio.to_thread(_hash, path) != action.before and await asyncio.to_thread(rebase) is None:
                void()
                return
            checked = current
        await asyncio.sleep(WATCH_INTERVAL)


def _hash(path: Path) -> str | None:
    try:
        return read_file(path, follow=False).sha256
    except FileFault as fault:
        return None if fault.code == "not_found" else "unreadable"


def apply_choice(
    action: EditAction, before: bytes | None, after: bytes, choice: HunkChoice
) -> tuple[bytes, EditAction]:
    """Return the content with the chosen hunks, and its edit."""
    content = chosen_bytes(before, after, action.diff, choice)
    diff = diff_bytes(action.diff.path, before, content)
    return content, replace(action, diff=diff, after=sha256_of(content))


def choice_note(action: EditAction, choice: HunkChoice) -> str:
    """Return the feedback about hunks that the user rejected or changed."""
    hunks = action.diff.hunks
    rejected = [format_hunk(hunk) for index, hunk in enumerate(hunks) if index not in choice.selected]
    edited = [
        format_hunk(edit_hunk(hunks[index], text))
        for index, text in sorted(choice.edits.items())
        if index in choice.selected
    ]
    parts: list[str] = []
    if rejected:
        parts.append(
            f"The user rejected {len(rejected)} of the {len(hunks)} hunks; they are NOT in the file, do not make them "
            f"again:\n{_cut(rejected)}"
        )
    if edited:
        subject = "hunk" if len(edited) == 1 else f"{len(edited)} hunks"
        parts.append(
            f"The user changed the text of the {subject} before it was written; the file has this now:\n{_cut(edited)}"
        )
    return "\n".join(parts)


def _cut(hunks: list[str]) -> str:
    text = "\n".join(hunks)
    return text if len(text) <= HUNKS_CAP else text[:HUNKS_CAP] + "\n… more; read the file to see what it holds."

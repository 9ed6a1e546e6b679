"""Undoing edits of files that may have been changed since, with a merge by lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tui_agent.checkpoints import disk
from tui_agent.checkpoints.ledger import Step, group_by_path
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.common.line_merge import merge_bytes
from tui_agent.events import FileState, RestoredFile
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

Choice: TypeAlias = Literal["leave", "overwrite", "merge", "aside"]
"""What to do with a file changed since: leave it; overwrite it (its content is saved for redo); merge, removing only
the agent's change; or write the earlier content to a file next to it."""

MAX_COPY_NAMES = 100
"""File names to try for content written next to a file."""


class UndoTask(msgspec.Struct, frozen=True, kw_only=True):
    """The planned undo of one file."""

    path: str
    display: str
    steps: tuple[int, ...]
    now: FileState
    """The state on disk."""
    target: FileState
    base: str = ""
    """sha256 after the last edit."""
    folders: tuple[str, ...] = ()
    set_mode: bool = False
    """The permissions are restored, too."""
    conflict: str = ""
    """Why the user must decide, as a sentence; empty if they need not."""
    unavailable: str = ""
    """Why the target content is unavailable; the file is then left unchanged."""
    merged: bytes | None = None
    """The file without the edits but with the other changes; None if that is impossible."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices in a conflict."""
        choices: list[Choice] = ["leave"]
        if self.merged is not None:
            choices.append("merge")
        replaceable = ("file", "absent", "link") if self.target.kind == "link" else ("file", "absent")
        if self.now.kind in replaceable and not self.unavailable:
            choices.append("overwrite")
        if self.target.kind == "file" and not self.unavailable:
            choices.append("aside")
        return tuple(choices)


class Undo:
    """Plans and executes undos with the content store of a session."""

    def __init__(self, store: BlobStore, *, calls: OsCalls = OS) -> None:
        self.store = store
        self._calls = calls
        self.stopped_by = ""
        """Code of the last failure (see FileFault)."""

    # --- planning ---

    def plan(self, steps: Sequence[Step]) -> list[UndoTask]:
        """Plan undoing these edits, one task per file, latest file first."""
        return [self._undo_task(edits) for edits in reversed(list(group_by_path(steps)))]

    def plan_redo(self, items: Sequence[RestoredFile]) -> list[UndoTask]:
        """Plan redoing an undo."""
        return [self._restore_task(item, item.after, item.before) for item in items]

    def plan_finish(self, items: Sequence[RestoredFile]) -> tuple[list[RestoredFile], list[UndoTask]]:
        """Split the items of an interrupted undo into completed or decided ones, and tasks for the others."""
        completed: list[RestoredFile] = []
        remaining: list[UndoTask] = []
        for item in items:
            if item.outcome or item.aside:
                completed.append(item)
            elif _is_reached(self._read_state(item.path), item.after, set_mode=item.set_mode):
                completed.append(msgspec.structs.replace(item, outcome="restored"))
            else:
                remaining.append(self._restore_task(item, item.before, item.after))
        return completed, remaining

    def _restore_task(self, item: RestoredFile, expected: FileState, target: FileState) -> UndoTask:
        task = UndoTask(
            path=item.path,
            display=item.display,
            steps=item.steps,
            now=self._read_state(item.path),
            target=target,
            base=expected.sha256,
            folders=item.folders,
            set_mode=item.set_mode,
        )
        return self._with_conflict(task, expected, "it has changed since")

    def _undo_task(self, steps: list[Step]) -> UndoTask:
        path, display = steps[0].path, steps[0].display
        now = self._read_state(path)
        numbers = tuple(step.number for step in steps)
        steps = _executed(steps, now)
        if not steps:
            return UndoTask(path=path, display=display, steps=numbers, now=now, target=now)
        first, last = steps[0], steps[-1]
        task = UndoTask(
            path=path,
            display=display,
            steps=numbers,
            now=now,
            target=first.before,
            base=last.after,
            folders=first.folders,
            set_mode=bool(last.mode),
            unavailable=first.cannot_undo,
        )
        reason = ""
        if any(not disk.same_content(step.result, following.before) for step, following in pairwise(steps)):
            reason = "it was changed between the agent's edits"
        task = self._with_conflict(task, last.result, "it has changed since", reason)
        if task.conflict and now.kind == "file" and not task.unavailable:
            task = msgspec.structs.replace(task, merged=self._without_edits(steps, now))
        return task

    def _with_conflict(self, task: UndoTask, expected: FileState, reason: str, intermediate: str = "") -> UndoTask:
        """Add conflict and missing content to the task."""
        if _is_reached(task.now, task.target, set_mode=task.set_mode):
            return msgspec.structs.replace(task, unavailable="")
        if task.target.kind in ("file", "link") and task.target.sha256 and not task.unavailable:
            try:
                self.store.get(task.target.sha256)
            except StoreError as error:
                task = msgspec.structs.replace(task, unavailable=str(error))
        if _is_reached(task.now, expected, set_mode=task.set_mode):
            return msgspec.structs.replace(task, conflict=intermediate)
        reasons = {
            "absent": "it has been deleted or renamed",
            "folder": "a folder now has its name",
            "link": "a symbolic link now has its name",
            "other": "it is no longer a file, or its folder was replaced",
        }
        return msgspec.structs.replace(task, conflict=reasons.get(task.now.kind, reason))

    def _read_state(self, path: str) -> FileState:
        try:
            return disk.read_state(Path(path), calls=self._calls)
        except FileFault:
            return FileState(kind="other")

    def _without_edits(self, steps: Sequence[Step], now: FileState) -> bytes | None:
        """Return the file without the edits, removed last to first, or None if they can't be separated."""
        if steps[0].before.kind != "file" or any(step.kind != "file" for step in steps):
            return None
        try:
            text = disk.read_content(Path(steps[0].path), now, calls=self._calls)
            for step in reversed(steps):
                merged = merge_bytes(self.store.get(step.after), self.store.get(step.before.sha256), text)
                if merged is None:
                    return None
                text = merged
        except (StoreError, FileFault):
            return None
        return text if sha256_of(text) != now.sha256 else None

    # --- executing ---

    def prepare(self, task: UndoTask, choice: Choice = "leave") -> RestoredFile:
        """Return the task as a journal item; `choice` only matters in a conflict.

        Saves the content that will be replaced. An item that already has an outcome is not executed.
        """
        item = RestoredFile(
            path=task.path,
            display=task.display,
            before=task.now,
            after=task.target,
            folders=task.folders,
            steps=task.steps,
            set_mode=task.set_mode,
        )
        if _is_reached(task.now, task.target, set_mode=task.set_mode):
            return msgspec.structs.replace(item, outcome="already")
        if task.conflict and choice not in task.choices:
            choice = "leave"
        if task.conflict and choice == "leave":
            others = tuple(other for other in task.choices if other != "leave")
            return msgspec.structs.replace(item, outcome="left", why=task.conflict, choices=others)
        try:
            if task.conflict and choice == "merge" and task.merged is not None:
                after = FileState(
                    kind="file",
                    sha256=self.store.put(task.merged, capped=False),
                    size=len(task.merged),
                    mode=task.now.mode,
                )
                item = msgspec.structs.replace(item, after=after)
            elif task.unavailable:
                return msgspec.structs.replace(item, outcome="failed", why=task.unavailable)
            elif task.conflict and choice == "aside":
                return msgspec.structs.replace(item, aside=True)
            if task.now.kind == "file":
                self.store.put(disk.read_content(Path(task.path), task.now, calls=self._calls), capped=False)
            elif task.now.kind == "link":
                self.store.put(os.fsencode(os.readlink(task.path)), capped=False)
        except FileChangedError:
            return msgspec.structs.replace(item, outcome="left", why="it changed during the undo")
        except (StoreError, FileFault, OSError) as error:
            return msgspec.structs.replace(item, outcome="failed", why=str(error))
        return item

    def execute(self, item: RestoredFile) -> RestoredFile:
        """Execute an item and return it with its outcome. Never raises for disk errors."""
        self.stopped_by = ""
        if item.outcome:
            return item
        try:
            data = self.store.get(item.after.sha256) if item.after.kind in ("file", "link") else b""
            if item.aside:
                return self._write_copy(item, data)
            path, mode = Path(item.path), item.set_mode
            disk.apply_state(path, item.before, item.after, data, item.folders, set_mode=mode, calls=self._calls)
        except FileChangedError:
            return msgspec.structs.replace(item, outcome="left", why="it changed during the undo")
        except (StoreError, FileFault) as error:
            self.stopped_by = error.code
            return msgspec.structs.replace(item, outcome="failed", why=str(error))
        return msgspec.structs.replace(item, outcome="restored")

    def _write_copy(self, item: RestoredFile, data: bytes) -> RestoredFile:
        """Write the earlier content next to the file, or else to the session's folder."""
        path, session = Path(item.path), Path(os.path.realpath(self.store.folder.parent))
        for folder in (path.parent, session / "restored"):
            for number in range(1, MAX_COPY_NAMES):
                target = folder / (f"{path.name}.undone" + (f"-{number}" if number > 1 else ""))
                try:
                    replace_file(target, data, None, mode=item.after.mode or None, calls=self._calls)
                except FileChangedError:
                    continue
                except FileFault:
                    break
                return msgspec.structs.replace(item, outcome="aside", why=str(target))
        return msgspec.structs.replace(item, outcome="failed", why="no copy could be written next to it")


def _executed(steps: Sequence[Step], now: FileState) -> list[Step]:
    """Drop edits that a crash prevented, judging by the next known state."""
    next_states = [step.before for step in steps[1:]] + [now]
    return [
        step
        for step, state in zip(steps, next_states, strict=True)
        if step.confirmed or state.sha256 == step.after or not disk.same_content(state, step.before)
    ]


def _is_reached(now: FileState, target: FileState, *, set_mode: bool) -> bool:
    """Return whether content and, if they matter, permissions are those of `target`."""
    modes = (now.mode, target.mode) if set_mode and now.kind == "file" else (0, 0)
    return disk.same_content(now, target) and (modes[0] == modes[1] or not target.mode)

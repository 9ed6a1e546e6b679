"""Taking one change out of a text that somebody else changed too: a merge of whole lines, or none at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tui_agent.checkpoints import disk
from tui_agent.checkpoints.ledger import Step, by_path
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.events import FileState, RestoredFile
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

LINES = 5_000
"""Longer texts are not merged."""


class _Piece(NamedTuple):
    """Lines `start:end` of the base become `lines`."""

    start: int
    end: int
    lines: list[bytes]


def merge_bytes(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`theirs` with the change from `base` to `ours` made in it. None where the two changes meet in a line or beside
    one, where a content is binary, or too long."""
    if theirs == base:
        return ours
    if any(b"\0" in one for one in (base, ours, theirs)):
        return None
    lines = base.splitlines(keepends=True)
    if max(len(lines), ours.count(b"\n"), theirs.count(b"\n")) > LINES:
        return None
    pieces = sorted([*_changes(lines, ours), *_changes(lines, theirs)])
    merged: list[bytes] = []
    at = 0
    last: _Piece | None = None
    for piece in pieces:
        if last is not None and piece == last:
            continue
        if last is not None and piece.start <= last.end:
            return None
        merged += lines[at : piece.start]
        merged += piece.lines
        at, last = piece.end, piece
    merged += lines[at:]
    return b"".join(merged)


def _changes(base: list[bytes], other: bytes) -> Iterator[_Piece]:
    lines = other.splitlines(keepends=True)
    for tag, start, end, first, last in SequenceMatcher(None, base, lines, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Piece(start, end, lines[first:last])


Choice: TypeAlias = Literal["leave", "overwrite", "merge", "aside"]
"""What becomes of a file that somebody changed since: it stays; it goes back all the same (what lies there is kept for
redo); the agent's change is taken out of it and theirs stays; the earlier content is written beside it."""

ASIDE = 100
"""Names that are tried for a content that is written beside a file."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as `plan` found it."""

    path: str
    display: str
    steps: tuple[int, ...]
    now: FileState
    """On disk."""
    target: FileState
    base: str = ""
    """sha256 of what the last edit left."""
    folders: tuple[str, ...] = ()
    conflict: str = ""
    """Why somebody has to decide, as a sentence; empty when nobody has."""
    lost: str = ""
    """Why the target can't be had; then the file stays as it is."""
    merged: bytes | None = None
    """The file without the edits and with what others did; None when that can't be made."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What can be chosen in a conflict."""
        found: list[Choice] = ["leave"]
        if self.merged is not None:
            found.append("merge")
        if self.now.kind in ("file", "absent"):
            found.append("overwrite")
        if self.target.kind == "file":
            found.append("aside")
        return tuple(found)


class Undo:
    """Works on one session's store."""

    def __init__(self, store: BlobStore, *, calls: OsCalls = OS) -> None:
        self.store = store
        self._calls = calls
        self.stopped_by = ""
        """Code of the last failure (see FileFault)."""

    # --- planning ---

    def plan(self, steps: Sequence[Step]) -> list[Task]:
        """What taking back these edits means for each file they touched, the newest file first."""
        return [self._task(mine) for mine in reversed(list(by_path(steps)))]

    def plan_redo(self, items: Sequence[RestoredFile]) -> list[Task]:
        """What making an undo undone means."""
        return [self._back(item, item.after, item.before) for item in items]

    def plan_finish(self, items: Sequence[RestoredFile]) -> tuple[list[RestoredFile], list[Task]]:
        """Of an undo that was cut off: what was done or decided, and what is left."""
        done: list[RestoredFile] = []
        left: list[Task] = []
        for item in items:
            if item.outcome or item.aside:
                done.append(item)
            elif disk.same(self._look(item.path), item.after):
                done.append(msgspec.structs.replace(item, outcome="restored"))
            else:
                left.append(self._back(item, item.before, item.after))
        return done, left

    def _back(self, item: RestoredFile, expected: FileState, target: FileState) -> Task:
        task = Task(
            path=item.path,
            display=item.display,
            steps=item.steps,
            now=self._look(item.path),
            target=target,
            base=expected.sha256,
            folders=item.folders,
        )
        return self._judged(task, expected, "it has changed since")

    def _task(self, steps: list[Step]) -> Task:
        path, display = steps[0].path, steps[0].display
        now = self._look(path)
        numbers = tuple(step.number for step in steps)
        steps = _happened(steps, now)
        if not steps:
            return Task(path=path, display=display, steps=numbers, now=now, target=now)
        first, last = steps[0], steps[-1]
        task = Task(
            path=path,
            display=display,
            steps=numbers,
            now=now,
            target=first.before,
            base=last.after,
            folders=first.folders,
            lost=next((step.unkept for step in steps[:1] if step.unkept), ""),
        )
        why = ""
        if any(one.after != other.before.sha256 for one, other in pairwise(steps)):
            why = "it was changed between the agent's edits"
        task = self._judged(task, FileState(kind="file", sha256=last.after), "it has changed since", why)
        if task.conflict and now.kind == "file" and not task.lost:
            task = msgspec.structs.replace(task, merged=self._without(steps, now))
        return task

    def _judged(self, task: Task, expected: FileState, why: str, between: str = "") -> Task:
        """The task with what stands against it."""
        if disk.same(task.now, task.target):
            return msgspec.structs.replace(task, lost="")
        if task.target.kind == "file" and not task.lost:
            try:
                self.store.get(task.target.sha256)
            except StoreError as error:
                task = msgspec.structs.replace(task, lost=str(error))
        if disk.same(task.now, expected):
            return msgspec.structs.replace(task, conflict=between)
        gone = {
            "absent": "it has been deleted or renamed",
            "folder": "a folder now has its name",
            "link": "a symbolic link now has its name",
            "other": "it is no longer a file, or its folder was replaced",
        }
        return msgspec.structs.replace(task, conflict=gone.get(task.now.kind, why))

    def _look(self, path: str) -> FileState:
        try:
            return disk.look(Path(path), calls=self._calls)
        except FileFault:
            return FileState(kind="other")

    def _without(self, steps: Sequence[Step], now: FileState) -> bytes | None:
        """What lies there with the edits taken out, the last one first; None when they can't be told apart."""
        if steps[0].before.kind != "file":
            return None
        try:
            text = disk.content(Path(steps[0].path), now, calls=self._calls)
            for step in reversed(steps):
                taken = merge_bytes(self.store.get(step.after), self.store.get(step.before.sha256), text)
                if taken is None:
                    return None
                text = taken
        except (StoreError, FileFault):
            return None
        return text if sha256_of(text) != now.sha256 else None

    # --- doing ---

    def prepare(self, task: Task, choice: Choice = "leave") -> RestoredFile:
        """The task as it will be journaled; `choice` counts in a conflict only.

        What will be replaced is in the store afterwards, so that it can come back. An item that has its outcome
        already is not carried out.
        """
        item = RestoredFile(
            path=task.path,
            display=task.display,
            before=task.now,
            after=task.target,
            folders=task.folders,
            steps=task.steps,
        )
        if disk.same(task.now, task.target):
            return msgspec.structs.replace(item, outcome="already")
        if task.conflict and choice not in task.choices:
            choice = "leave"
        if task.conflict and choice == "leave":
            return msgspec.structs.replace(item, outcome="left", why=task.conflict)
        try:
            if task.conflict and choice == "merge" and task.merged is not None:
                after = FileState(
                    kind="file",
                    sha256=self.store.put(task.merged, capped=False),
                    size=len(task.merged),
                    mode=task.now.mode,
                )
                item = msgspec.structs.replace(item, after=after)
            elif task.lost:
                return msgspec.structs.replace(item, outcome="failed", why=task.lost)
            elif task.conflict and choice == "aside":
                return msgspec.structs.replace(item, aside=True)
            if task.now.kind == "file":
                self.store.put(disk.content(Path(task.path), task.now, calls=self._calls), capped=False)
        except StoreError as error:
            return msgspec.structs.replace(item, outcome="failed", why=str(error))
        except FileChangedError:
            return msgspec.structs.replace(item, outcome="left", why="it changed during the undo")
        except FileFault as error:
            return msgspec.structs.replace(item, outcome="failed", why=str(error))
        return item

    def carry_out(self, item: RestoredFile) -> RestoredFile:
        """Bring one file into its new state; the item with its outcome. Never raises for what the disk does."""
        self.stopped_by = ""
        if item.outcome:
            return item
        try:
            data = self.store.get(item.after.sha256) if item.after.kind == "file" else b""
            if item.aside:
                return self._aside(item, data)
            disk.put(Path(item.path), item.before, item.after, data, item.folders, calls=self._calls)
        except FileChangedError:
            return msgspec.structs.replace(item, outcome="left", why="it changed during the undo")
        except (StoreError, FileFault) as error:
            self.stopped_by = error.code
            return msgspec.structs.replace(item, outcome="failed", why=str(error))
        return msgspec.structs.replace(item, outcome="restored")

    def _aside(self, item: RestoredFile, data: bytes) -> RestoredFile:
        """Write the earlier content beside the file, or in the session's folder when there is no such place."""
        path, session = Path(item.path), Path(os.path.realpath(self.store.folder.parent))
        for folder in (path.parent, session / "restored"):
            for number in range(1, ASIDE):
                place = folder / (f"{path.name}.undone" + (f"-{number}" if number > 1 else ""))
                try:
                    replace_file(place, data, None, mode=item.after.mode or None, calls=self._calls)
                except FileChangedError:
                    continue
                except FileFault:
                    break
                return msgspec.structs.replace(item, outcome="aside", why=str(place))
        return msgspec.structs.replace(item, outcome="failed", why="no copy could be written next to it")


def _happened(steps: Sequence[Step], now: FileState) -> list[Step]:
    """The edits without those before which a crash came: what follows them is what was there before."""
    follows = [step.before for step in steps[1:]] + [now]
    return [
        step
        for step, state in zip(steps, follows, strict=True)
        if step.sure or state.sha256 == step.after or not disk.same(state, step.before)
    ]

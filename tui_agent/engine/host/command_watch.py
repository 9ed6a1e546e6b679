"""What a command did to the files of the workspace: saved before it, compared after it, journaled for undo (K1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.engine.core.state import SessionStream
from tui_agent.events import CommandChangedFiles, CommandFile, FileState
from tui_agent.text import make_visible

if TYPE_CHECKING:
    from tui_agent.checkpoints.snapshot import Snapshot
    from tui_agent.checkpoints.store import BlobStore
    from tui_agent.checkpoints.survey import Differences
    from tui_agent.safety.roots import Roots

INTERRUPTED = 0.3
"""Seconds for the survey after an interrupted command."""
MAX_COVERED = 4_000
"""Files of one command that undo covers."""
FILES_PER_EVENT = 400
MAX_PROTECTED = 40
"""Protected files that are named if undo does not cover them."""
MAX_DEPTH = 200
"""Levels of folders for which `.gitignore` is read."""
COUNT_TIME = 0.5
"""Seconds for counting added and removed lines."""
COUNTED_SIZE = 1 << 20
"""Bytes of a file whose lines are counted."""


class CommandWatch:
    """Saves the workspace before commands and journals what they changed."""

    def __init__(
        self, stream: SessionStream, store: BlobStore, roots: Roots, is_protected: Callable[[str], bool], *, saves: bool
    ) -> None:
        """`saves` False: only protected files are saved, other changes are just listed (`snapshot_commands`)."""
        self._is_protected = is_protected
        self._stream = stream
        self._store = store
        self._roots = roots
        self._saves = saves
        self._snapshots: Callable[..., Snapshot] | None = None
        self._lock = asyncio.Lock()
        self._reported_unwatched = False
        self._pruned_size = 0

    async def snapshot(self, *, seconds: float | None = None, after: bool = False) -> Snapshot:
        """Return the workspace as it is now, its contents saved. `after`: a command has just ended."""
        async with self._lock:
            return await asyncio.to_thread(self._take, seconds, after)

    def _take(self, seconds: float | None, after: bool) -> Snapshot:
        if self._snapshots is None:
            from tui_agent.checkpoints.snapshot import WorkspaceSnapshots

            snapshots = WorkspaceSnapshots(self._store, ignored_folders, self._is_protected, saves=self._saves)
            self._snapshots = snapshots.take
        limits = {} if seconds is None else {"seconds": seconds, "saving": seconds}
        self._make_room()
        return self._snapshots(self._roots.folders, save_all=after, **limits)

    def _make_room(self) -> None:
        """Delete contents that undo no longer needs once half of the space is used up."""
        if self._saves and self._store.size > max(self._store.total_cap // 2, self._pruned_size * 2):
            self._store.prune(self._stream.state.ledger.needed_contents())
            self._pruned_size = self._store.size

    async def journal(
        self,
        command: str,
        before: Snapshot,
        after: Snapshot,
        found: Differences,
        *,
        without: Collection[str] = (),
        run: str,
        call: str,
    ) -> CommandChangedFiles:
        """Journal what a command changed, except the paths `without`, and return it without the files."""
        event, files = await asyncio.to_thread(self._describe, command, before, after, found, without)
        is_incomplete = not before.survey.complete and not self._reported_unwatched
        self._reported_unwatched = self._reported_unwatched or is_incomplete
        first, *others = [
            files[start : start + FILES_PER_EVENT] for start in range(0, len(files), FILES_PER_EVENT)
        ] or [()]
        self._stream.emit(_with_files(event, first), run=run, node=call)
        for more in others:
            self._stream.emit(CommandChangedFiles(command=command, covered=True, files=more), run=run, node=call)
        return event

    def _describe(
        self, command: str, before: Snapshot, after: Snapshot, found: Differences, without: Collection[str]
    ) -> tuple[CommandChangedFiles, tuple[CommandFile, ...]]:
        from tui_agent.checkpoints.survey import report

        changes = report(found)

        def names(paths: Sequence[str]) -> tuple[str, ...]:
            return tuple(self._roots.display(Path(path)) for path in paths if not is_excluded(path))

        def is_excluded(path: str) -> bool:
            return path in without or any(path.startswith(f"{top}/") for top in without)

        changed = (*found.created, *found.changed, *found.deleted)

        def is_rebase(path: str) -> bool:
            return path.endswith("/git-rebase-todo")

        paths = [path for path in changed if not is_excluded(path) and self._is_undoable(path, before)]
        protected = [path for path in changed if not is_excluded(path) and "/.git/" in path and not is_rebase(path)]
        covered = paths[:MAX_COVERED] if self._saves else []
        deadline = time.monotonic() + COUNT_TIME
        files = tuple(self._file(path, before, after, deadline) for path in covered)
        event = CommandChangedFiles(
            command=command,
            created=names(changes.created),
            changed=names(changes.changed),
            deleted=names(changes.deleted),
            more=changes.more,
            unwatched=tuple(make_visible(text) for text in changes.unwatched if not is_excluded(text.split(" (")[0])),
            covered=self._saves,
            beyond=len(paths) - len(covered) if self._saves else 0,
            protected=self.describe_protected(found, [path for path in protected if path not in covered]),
        )
        return event, files

    @staticmethod
    def _is_undoable(path: str, before: Snapshot) -> bool:
        """Return whether undo restores a file; of git folders only hooks, and attributes, which nothing else uses."""
        head, _, inner = path.partition("/.git/")
        return not inner or (inner.startswith(("hooks/", "info/")) and f"{head}/.git" in before.survey.folders)

    def describe_protected(self, found: Differences, paths: Collection[str]) -> tuple[str, ...]:
        """Return the changes of protected `paths` in words, such as `changed .git/config`."""
        groups = (("created", found.created), ("changed", found.changed), ("deleted", found.deleted))
        texts = [
            f"{verb} {self._roots.display(Path(path))}" for verb, listed in groups for path in listed if path in paths
        ]
        more = len(texts) - MAX_PROTECTED
        return (*texts[:MAX_PROTECTED], *([f"{more} more"] if more > 0 else []))

    def _file(self, path: str, before: Snapshot, after: Snapshot, deadline: float) -> CommandFile:
        old, new = before.state(path), after.state(path)
        known = before.files.get(path)
        added, removed = self._count(path, old, new) if time.monotonic() < deadline else (0, 0)
        return CommandFile(
            path=path,
            display=self._roots.display(Path(path)),
            before=old,
            after=new,
            folders=_new_folders(path, before.survey.folders, after.survey.folders),
            unkept=(known.problem if known is not None else "") or _special(old, new),
            added=added,
            removed=removed,
        )

    def _count(self, display: str, old: FileState, new: FileState) -> tuple[int, int]:
        """Return the number of added and removed lines; 0 and 0 if a content is unknown or too large."""
        from tui_agent.checkpoints.store import StoreError
        from tui_agent.tools.diffs import diff_bytes

        contents: list[bytes | None] = []
        for state in (old, new):
            if state.size > COUNTED_SIZE or (state.kind == "file" and not state.sha256):
                return 0, 0
            try:
                contents.append(self._store.get(state.sha256) if state.kind == "file" else None)
            except StoreError:
                return 0, 0
        if contents[1] is None:  # deleted
            return 0, (contents[0] or b"").count(b"\n")
        diff = diff_bytes(display, contents[0], contents[1])
        return diff.added, diff.removed


def _with_files(event: CommandChangedFiles, files: Sequence[CommandFile]) -> CommandChangedFiles:
    from msgspec.structs import replace

    return replace(event, files=tuple(files))


def _special(*states: FileState) -> str:
    return "it is not a regular file" if any(state.kind in ("folder", "other") for state in states) else ""


def _new_folders(path: str, before: Collection[str], after: Collection[str]) -> tuple[str, ...]:
    """Return the folders of a path that are new, outermost first."""
    folders: list[str] = []
    folder = os.path.dirname(path)
    while folder in after and folder not in before:
        folders.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(folders))


def ignored_folders(roots: Sequence[Path]) -> Callable[[str], bool]:
    """Return a test whether a folder below `roots` is ignored by a `.gitignore`. It reads files."""
    from tui_agent.tools.gitignore import GitIgnore

    rules: dict[str, GitIgnore | None] = {str(root): GitIgnore.at(root) for root in roots}
    tops = {str(root): len(root.parts) for root in roots}

    def rules_of(folder: str) -> GitIgnore | None:
        """Return the rules in a folder, None if it is ignored."""
        if folder not in rules and folder.count(os.sep) > MAX_DEPTH:
            return None
        if folder not in rules:
            parent = os.path.dirname(folder)
            above = rules_of(parent) if parent != folder else None
            path = Path(folder)
            top = max((depth for root, depth in tops.items() if path.is_relative_to(root)), default=None)
            if above is None or top is None or above.ignores(path.parts[top:], True):
                rules[folder] = None
            else:
                rules[folder] = above.below(path)
        return rules[folder]

    return lambda folder: rules_of(folder) is None

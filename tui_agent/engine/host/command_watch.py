"""What a command did to the files of the workspace: saved before it, compared after it, journaled for undo (K1).

If the program is killed while it runs, the comparison takes place at the next start.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.checkpoints.snapshot import Snapshot, WorkspaceSnapshots, changes_between
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.engine.core.state import SessionStream
from tui_agent.events import CommandChangedFiles, CommandFile, FileState, ToolFinished
from tui_agent.safety.roots import Roots
from tui_agent.text import make_visible, one_line

if TYPE_CHECKING:
    from tui_agent.checkpoints.survey import Differences

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
MAX_NOTED_FILES = 4_000
"""Files of a workspace that are noted for the next start."""
COMPARE_TIME = 5.0
"""Seconds for the survey of the workspace at the next start, and again for saving contents."""
NOT_COMPARED = "what it did before the program ended"


class CommandWatch:
    """Saves the workspace before commands and journals what they changed."""

    def __init__(
        self, stream: SessionStream, store: BlobStore, roots: Roots, is_protected: Callable[[str], bool], *, saves: bool
    ) -> None:
        """`saves` False: only protected files are saved, other changes are just listed (`snapshot_commands`)."""
        self.changes = CommandChanges(store, roots, saves=saves)
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
        event, *others = await asyncio.to_thread(self.changes.events, command, before, after, found, without)
        is_incomplete = not before.survey.complete and not self._reported_unwatched
        self._reported_unwatched = self._reported_unwatched or is_incomplete
        for each in (event, *others):
            self._stream.emit(each, run=run, node=call)
        return _with_files(event, ())

    def unfinished(self, command: str, before: Snapshot, *, run: str, call: str) -> UnfinishedCommand:
        """Return what the next start must know of a command that begins."""
        noted = None
        if len(before.files) <= MAX_NOTED_FILES:
            noted = Snapshot(msgspec.structs.replace(before.survey, stamps={}, git={}), before.files)
        roots = [str(root) for root in self._roots.folders]
        return UnfinishedCommand(command, run, call, roots, self._saves, noted)


class CommandChanges:
    """Describes what commands changed."""

    def __init__(self, store: BlobStore, roots: Roots, *, saves: bool) -> None:
        """`saves`: as of CommandWatch."""
        self._store = store
        self._roots = roots
        self._saves = saves

    def events(
        self, command: str, before: Snapshot, after: Snapshot, found: Differences, without: Collection[str] = ()
    ) -> list[CommandChangedFiles]:
        """Return what a command changed, except the paths `without`; many files are spread over several events."""
        event, files = self._describe(command, before, after, found, without)
        first, *others = [
            files[start : start + FILES_PER_EVENT] for start in range(0, len(files), FILES_PER_EVENT)
        ] or [()]
        more = [CommandChangedFiles(command=command, covered=True, files=each) for each in others]
        return [_with_files(event, first), *more]

    def _describe(
        self, command: str, before: Snapshot, after: Snapshot, found: Differences, without: Collection[str]
    ) -> tuple[CommandChangedFiles, tuple[CommandFile, ...]]:
        from tui_agent.checkpoints.survey import report

        changes = report(found)

        def names(paths: Sequence[str]) -> tuple[str, ...]:
            return tuple(self._roots.display(Path(path)) for path in paths if not is_excluded(path))

        def display(text: str) -> str:
            path, bracket, why = text.partition(" (")
            return f"{self._roots.display(Path(path))}{bracket}{why}" if path.startswith("/") else text

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
            unwatched=tuple(
                make_visible(display(text)) for text in changes.unwatched if not is_excluded(text.split(" (")[0])
            ),
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
    return msgspec.structs.replace(event, files=tuple(files))


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


# --- after a kill --------------------------------------------------------------------------------


class UnfinishedCommand(msgspec.Struct):
    """A command that runs, or ran when the program was killed."""

    command: str
    run: str
    call: str
    roots: list[str]
    saves: bool
    """As of CommandWatch."""
    before: Snapshot | None = None
    """The workspace before it, its stamps only in `files`; None if it has too many files, or `events` are known."""
    events: list[CommandChangedFiles] = []
    """What it changed, once the next start has found it; then never empty."""

    def compare(self, store: BlobStore, is_protected: Callable[[str], bool], without: Collection[str]) -> None:
        """Compare the workspace with that before the command, except the paths `without`.

        Does file IO; never raises for disk errors.
        """
        before, self.before = self.before, None
        if before is None:
            self.events = [self._not_covered(f"the workspace has more than {MAX_NOTED_FILES:,} files")]
            return
        before.survey.stamps = {path: known.stamp for path, known in before.files.items()}
        try:
            roots = Roots([Path(root) for root in self.roots])
            take = WorkspaceSnapshots(store, ignored_folders, is_protected, saves=self.saves, known=before.files).take
            after = take(roots.folders, seconds=COMPARE_TIME, saving=COMPARE_TIME, save_all=True)
            changes = CommandChanges(store, roots, saves=self.saves)
            self.events = changes.events(self.command, before, after, changes_between(before, after), without)
        except (OSError, StoreError, ValueError) as error:
            self.events = [self._not_covered(str(error))]

    def _not_covered(self, reason: str) -> CommandChangedFiles:
        return CommandChangedFiles(command=self.command, unwatched=(one_line(f"{NOT_COMPARED} ({reason})", 300),))

    def describe(self, session: str) -> str:
        """Return which session has the changes, for the user."""
        return (
            f"The command `{one_line(self.command, 80)}` of session {session} ran when the program ended. "
            f"`tui-agent undo --list --session {session}` shows what it did to files."
        )

    def missing_events(self, stream: SessionStream) -> list[CommandChangedFiles]:
        """Return the events that are not in the journal of the session. Does file IO."""
        journaled: list[CommandChangedFiles] = []
        has_ended = False
        for record in stream.records():
            if isinstance(record.event, CommandChangedFiles) and record.node == self.call:
                journaled.append(record.event)
            has_ended = has_ended or (isinstance(record.event, ToolFinished) and record.event.call_id == self.call)
        if not journaled:
            return self.events or [self._not_covered("the workspace could not be compared")]
        if has_ended:
            return []
        known = {file.path for event in journaled for file in event.files}  # a kill may have cost the last events
        left = [tuple(file for file in event.files if file.path not in known) for event in self.events]
        return [CommandChangedFiles(command=self.command, covered=True, files=files) for files in left if files]

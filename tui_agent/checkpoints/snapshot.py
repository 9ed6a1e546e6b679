"""The content of a workspace before and after a command, saved incrementally: what undo of commands needs (K1)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec

from tui_agent.checkpoints.disk import ABSENT
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.checkpoints.survey import TIME_LIMIT, Differences, Stamp, Survey, differences, stamp_of, take_survey
from tui_agent.events import FileState
from tui_agent.platform.files import CHUNK, sha256_of

MAX_SAVED_SIZE = 8 << 20
"""Bytes of a file that is saved before a command."""
MAX_IGNORED_SIZE = 16 << 20
"""Bytes saved at a time of folders that `.gitignore` names."""
SAVE_TIME = 1.5
"""Seconds for saving; what is left is saved before the next command."""
BATCH = 16 << 20
"""Bytes written at a time."""
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC

TOO_LATE = "there was no time to save it before the command"
IGNORED = "it is in a folder that .gitignore names"
UNREADABLE = "it could not be read before the command"
OFF = "saving files before commands is off (snapshot_commands)"


class KnownFile(NamedTuple):
    """A file at one moment."""

    stamp: Stamp
    state: FileState
    """Without a hash if the content is unknown."""
    problem: str = ""
    """Why its content was not saved, as a clause."""


class Snapshot(msgspec.Struct, frozen=True):
    """The workspace at one moment."""

    survey: Survey
    files: dict[str, KnownFile]

    def state(self, path: str) -> FileState:
        """Return the state of a path."""
        known = self.files.get(path)
        return ABSENT if known is None else known.state


def changes_between(before: Snapshot, after: Snapshot) -> Differences:
    """Return what differs, in content or mode where both are known."""

    def is_same(path: str) -> bool:
        old, new = before.state(path), after.state(path)
        return bool(old.sha256) and (old.kind, old.sha256, old.mode) == (new.kind, new.sha256, new.mode)

    return differences(before.survey, after.survey, is_same)


class WorkspaceSnapshots:
    """Takes snapshots of a session's workspace. Blocks: call it in a thread, one call at a time."""

    def __init__(
        self,
        store: BlobStore,
        is_ignored: Callable[[Sequence[Path]], Callable[[str], bool]],
        is_first: Callable[[str], bool] = lambda path: False,
        *,
        saves: bool = True,
        known: dict[str, KnownFile] | None = None,
    ) -> None:
        """`is_ignored(roots)` returns a test whether a folder is ignored by `.gitignore`.

        Files for which `is_first` is true are saved first, and with `saves` False no others. `known`: those of an
        earlier snapshot, whose contents are in the store.
        """
        self._store = store
        self._is_first = is_first
        self._is_ignored = is_ignored
        self._saves = saves
        self._known = known or {}
        self._prunings = store.prunings

    def take(
        self, roots: Iterable[Path], *, seconds: float = TIME_LIMIT, saving: float = SAVE_TIME, save_all: bool = False
    ) -> Snapshot:
        """Survey the roots and save what changed since the last snapshot, within `seconds` and `saving` seconds.

        `save_all`: hash files that are too large to be saved.
        """
        folders = tuple(roots)
        survey = take_survey(folders, seconds=seconds)
        files: dict[str, KnownFile] = {}
        if self._prunings != self._store.prunings:
            self._prunings, self._known = self._store.prunings, {}
        unsaved: list[tuple[str, Stamp]] = []
        for path, stamp in (*survey.stamps.items(), *survey.git.items()):
            known = self._known.get(path)
            if known is not None and known.stamp == stamp and known.problem != TOO_LATE:
                files[path] = known
            else:
                unsaved.append((path, stamp))
        if unsaved:
            self._save(unsaved, files, folders, monotonic() + saving, save_all)
        self._known = files
        return Snapshot(survey, files)

    def _save(
        self,
        unsaved: list[tuple[str, Stamp]],
        files: dict[str, KnownFile],
        roots: Sequence[Path],
        deadline: float,
        save_all: bool,
    ) -> None:
        is_ignored = self._is_ignored(roots)
        ignored_size = 0
        batch: list[tuple[str, str, bytes]] = []
        batch_size = 0
        ordered = sorted(
            (not self._is_first(path), is_ignored(os.path.dirname(path)), stamp[0], path, stamp)
            for path, stamp in unsaved
        )
        for later, ignored, size, path, stamp in ordered:
            problem = OFF if later and not self._saves else ""
            if later and monotonic() > deadline:
                files[path] = _unknown(stamp, TOO_LATE)
                continue
            if not problem and stat.S_ISREG(stamp[3]):
                problem = self._refusal(size)
                if later and ignored and not problem and (ignored_size := ignored_size + size) > MAX_IGNORED_SIZE:
                    problem = IGNORED
            if problem and not save_all:
                files[path] = _unknown(stamp, problem)
                continue
            known, data = _read(path, stamp, problem)
            files[path] = known
            if data is None or known.problem:
                continue
            batch.append((path, known.state.sha256, data))
            batch_size += len(data)
            if batch_size > BATCH:
                self._store_batch(batch, files)
                batch, batch_size = [], 0
        self._store_batch(batch, files)

    def _refusal(self, size: int) -> str:
        if size > MAX_SAVED_SIZE:
            return f"it has {size:,} bytes, and only files up to {MAX_SAVED_SIZE:,} are saved before a command"
        return self._store.refusal(size)

    def _store_batch(self, batch: Sequence[tuple[str, str, bytes]], files: dict[str, KnownFile]) -> None:
        if not batch:
            return
        try:
            self._store.put_all((sha256, data) for _, sha256, data in batch)
        except StoreError as error:
            for path, _, _ in batch:
                files[path] = files[path]._replace(problem=str(error))


def _unknown(stamp: Stamp, problem: str) -> KnownFile:
    if not stat.S_ISREG(stamp[3]):
        return KnownFile(stamp, FileState(kind="link" if stat.S_ISLNK(stamp[3]) else "other"), problem)
    return KnownFile(stamp, FileState(kind="file", size=stamp[0], mode=stat.S_IMODE(stamp[3])), problem)


def _read(path: str, stamp: Stamp, problem: str) -> tuple[KnownFile, bytes | None]:
    """Return the state of a file or link, and its content unless there is a `problem` with saving it."""
    try:
        if stat.S_ISLNK(stamp[3]):
            target = os.fsencode(os.readlink(path))
            return KnownFile(stamp, FileState(kind="link", sha256=sha256_of(target)), problem), target
        if not stat.S_ISREG(stamp[3]):
            return KnownFile(stamp, FileState(kind="other"), "it is not a regular file"), None
        fd = os.open(path, _READ_FLAGS)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                return _unknown(stamp_of(status), UNREADABLE), None
            content, digest = _read_all(fd, keep=not problem)
        finally:
            os.close(fd)
    except OSError:
        return _unknown(stamp, UNREADABLE), None
    state = FileState(kind="file", sha256=digest, size=status.st_size, mode=stat.S_IMODE(status.st_mode))
    return KnownFile(stamp_of(status), state, problem), content


def _read_all(fd: int, *, keep: bool) -> tuple[bytes | None, str]:
    """Return content and hash; without `keep` only the hash."""
    if keep:
        data = b"".join(iter(lambda: os.read(fd, CHUNK), b""))
        return data, sha256_of(data)
    import hashlib

    digest = hashlib.sha256()
    while chunk := os.read(fd, CHUNK):
        digest.update(chunk)
    return None, digest.hexdigest()

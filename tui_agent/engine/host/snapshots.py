"""Snapshots of files before they are edited (K1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.common.domain import EditAction
from tui_agent.engine.core.state import SessionStream
from tui_agent.events import FileSnapshotted, FileState

if TYPE_CHECKING:
    from tui_agent.checkpoints.store import BlobStore


class SnapshotError(Exception):
    """A snapshot can't be saved; `str()` is the reason, as a clause."""


class Snapshots:
    """Saves file contents in the session's store and journals them."""

    def __init__(self, stream: SessionStream, store: BlobStore) -> None:
        self._stream = stream
        self._store = store

    async def obstacle(self, action: EditAction) -> str:
        """Return why the file's content can't be saved, as a clause; empty if it can."""
        return await asyncio.to_thread(self._obstacle, action)

    async def save_before(self, action: EditAction, *, run: str, call: str, unkept: str = "") -> None:
        """Save the content that the edit replaces, durably, and journal it.

        With `unkept`, the reason why it can't be saved, it is only journaled. Raises SnapshotError, and
        FileChangedError if the file is not the one the edit is based on.
        """
        state, folders = await asyncio.to_thread(self._save, action, unkept)
        event = FileSnapshotted(
            path=action.path,
            display=action.display,
            before=state,
            after=action.after,
            folders=folders,
            unkept=unkept,
            call=call,
        )
        self._stream.emit(event, run=run, node=call)

    def save_after(self, content: bytes) -> None:
        """Save what an edit wrote, if there is room, for diffs and merges. Does file IO."""
        from tui_agent.checkpoints.store import StoreError

        with contextlib.suppress(StoreError):
            self._store.put(content)

    def _obstacle(self, action: EditAction) -> str:
        if action.before is None or self._store.has(action.before):
            return ""
        with contextlib.suppress(OSError):
            size = os.stat(action.path).st_size
            if (reason := self._store.refusal(size)) and size <= self._store.file_cap:
                self._store.prune(self._stream.state.ledger.needed_contents())
                reason = self._store.refusal(size)
            return reason
        return ""

    def _save(self, action: EditAction, unkept: str) -> tuple[FileState, tuple[str, ...]]:
        from tui_agent.checkpoints import disk
        from tui_agent.checkpoints.store import StoreError
        from tui_agent.platform.file_faults import FileChangedError, FileFault
        from tui_agent.platform.files import read_file

        path = Path(action.path)
        if action.before is None:
            return disk.ABSENT, disk.missing_folders(path)
        if unkept:
            return FileState(kind="file", sha256=action.before), ()
        try:
            current = read_file(path, self._store.file_cap, follow=False)
        except FileFault as fault:
            if fault.code in ("not_found", "not_regular"):  # the edit is based on a regular file
                raise FileChangedError(path) from fault
            raise SnapshotError(str(fault)) from fault
        if current.sha256 != action.before:
            raise FileChangedError(path)
        try:
            try:
                self._store.put(current.data)
            except StoreError as error:
                if error.code != "full" or not self._store.prune(self._stream.state.ledger.needed_contents()):
                    raise
                self._store.put(current.data)
        except StoreError as error:
            raise SnapshotError(str(error)) from error
        return FileState(kind="file", sha256=current.sha256, size=len(current.data), mode=current.mode), ()

"""Snapshots of files before they are edited (K1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.common.domain import EditAction
from tui_agent.engine.core.state import SessionStream
from tui_agent.events import CommandChangedFiles, FileSnapshotted, FileState
from tui_agent.text import make_visible

if TYPE_CHECKING:
    from tui_agent.checkpoints.store import BlobStore
    from tui_agent.safety.roots import Roots

INTERRUPTED_SURVEY = 0.2
"""Seconds for the survey after an interrupted command."""


class SnapshotError(Exception):
    """A snapshot can't be saved; `str()` is the reason, as a clause."""


class Snapshots:
    """Saves file contents in the session's store and journals them."""

    def __init__(self, stream: SessionStream, store: BlobStore) -> None:
        self._stream = stream
        self._store = store
        self._reported_unwatched = False

    @contextlib.asynccontextmanager
    async def watching(
        self, command: str, roots: Roots, on_changes: Callable[[CommandChangedFiles], None], *, run: str, call: str
    ) -> AsyncIterator[None]:
        """Pass to `on_changes`, and journal, which files under the roots the block changed; these can't be undone."""
        from tui_agent.checkpoints import survey

        def survey_before() -> tuple[survey.Survey, dict[str, bytes]]:
            result = survey.take_survey(roots.folders)
            return result, survey.read_contents(result, command)

        def survey_after(seconds: float) -> survey.Changes:
            return survey.compare(before, survey.take_survey(roots.folders, seconds=seconds), contents)

        before, contents = await asyncio.to_thread(survey_before)
        seconds = survey.TIME_LIMIT
        try:
            yield
        except asyncio.CancelledError:
            seconds = INTERRUPTED_SURVEY
            raise
        finally:
            changes = await asyncio.shield(asyncio.create_task(asyncio.to_thread(survey_after, seconds)))
            is_incomplete = not before.complete and not self._reported_unwatched

            def display_names(paths: tuple[str, ...]) -> tuple[str, ...]:
                return tuple(roots.display(Path(path)) for path in paths)

            event = CommandChangedFiles(
                command=command,
                created=display_names(changes.created),
                changed=display_names(changes.changed),
                deleted=display_names(changes.deleted),
                more=changes.more,
                unwatched=tuple(make_visible(text) for text in changes.unwatched),
            )
            on_changes(event)
            if changes.any or is_incomplete:
                self._reported_unwatched = self._reported_unwatched or is_incomplete
                self._stream.emit(event, run=run, node=call)

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

"""Snapshots what an edit is about to replace, before it happens and durably (K1)."""

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

STOPPED = 0.2
"""Seconds for a look after a command that was stopped."""


class SnapshotError(Exception):
    """What an edit would replace can't be kept; `str()` is why, as a part of a sentence."""


class Snapshots:
    """Keeps pre-images in a session's store and journals them."""

    def __init__(self, stream: SessionStream, store: BlobStore) -> None:
        self._stream = stream
        self._store = store
        self._told_unwatched = False

    @contextlib.asynccontextmanager
    async def watching(
        self, command: str, roots: Roots, note: Callable[[CommandChangedFiles], None], *, run: str, call: str
    ) -> AsyncIterator[None]:
        """Note and journal which files below the roots are others after the block, which can't be undone."""
        from tui_agent.checkpoints import survey

        def look_before() -> tuple[survey.Survey, dict[str, bytes]]:
            found = survey.take_survey(roots.folders)
            return found, survey.read_contents(found, command)

        def look_after(seconds: float) -> survey.Changes:
            return survey.compare(before, survey.take_survey(roots.folders, seconds=seconds), known)

        before, known = await asyncio.to_thread(look_before)
        seconds = survey.TIME_LIMIT
        try:
            yield
        except asyncio.CancelledError:
            seconds = STOPPED
            raise
        finally:
            look = asyncio.to_thread(look_after, seconds)
            changes = await asyncio.shield(asyncio.ensure_future(look))
            blind = not before.complete and not self._told_unwatched

            def named(paths: tuple[str, ...]) -> tuple[str, ...]:
                return tuple(roots.display(Path(path)) for path in paths)

            event = CommandChangedFiles(
                command=command,
                created=named(changes.created),
                changed=named(changes.changed),
                deleted=named(changes.deleted),
                more=changes.more,
                unwatched=tuple(make_visible(text) for text in changes.unwatched),
            )
            note(event)
            if changes.any or blind:
                self._told_unwatched = self._told_unwatched or blind
                self._stream.emit(event, run=run, node=call)

    async def trouble(self, action: EditAction) -> str:
        """Why what lies there could not be kept, as a part of a sentence; empty when it can."""
        return await asyncio.to_thread(self._trouble, action)

    async def save_before(self, action: EditAction, *, run: str, call: str, unkept: str = "") -> None:
        """Keep what the edit replaces, durably, and journal it. Raises SnapshotError; with `unkept`, which says why it
        is not kept, only the latter. Raises FileChangedError when the bytes are no longer those of the edit."""
        state, folders = await asyncio.to_thread(self._keep, action, unkept)
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
        """Keep what an edit wrote, if there is room: for comparing and merging. Blocks."""
        from tui_agent.checkpoints.store import StoreError

        with contextlib.suppress(StoreError):
            self._store.put(content)

    def _trouble(self, action: EditAction) -> str:
        if action.before is None or self._store.has(action.before):
            return ""
        with contextlib.suppress(OSError):
            size = os.stat(action.path).st_size
            if (why := self._store.refusal(size)) and size <= self._store.file_cap:
                self._store.prune(self._stream.state.ledger.needed_contents())
                why = self._store.refusal(size)
            return why
        return ""

    def _keep(self, action: EditAction, unkept: str) -> tuple[FileState, tuple[str, ...]]:
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
            found = read_file(path, self._store.file_cap, follow=False)
        except FileFault as fault:
            if fault.code in ("not_found", "not_regular"):  # the edit began from an ordinary file
                raise FileChangedError(path) from fault
            raise SnapshotError(str(fault)) from fault
        if found.sha256 != action.before:
            raise FileChangedError(path)
        try:
            try:
                self._store.put(found.data)
            except StoreError as error:
                if error.code != "full" or not self._store.prune(self._stream.state.ledger.needed_contents()):
                    raise
                self._store.put(found.data)
        except StoreError as error:
            raise SnapshotError(str(error)) from error
        return FileState(kind="file", sha256=found.sha256, size=len(found.data), mode=found.mode), ()

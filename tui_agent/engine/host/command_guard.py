"""What happens around a command that may write: the workspace is saved before it and compared after it (K1).

Protected files that it made without the user's word are moved out of the workspace at once, and the user is asked (A2).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.host.command_watch import CommandWatch
from tui_agent.events import CommandChangedFiles, FilesQuarantined, Notice, QuarantinedFile
from tui_agent.platform.file_faults import FileFault
from tui_agent.text import one_line

if TYPE_CHECKING:
    from tui_agent.checkpoints.snapshot import Snapshot
    from tui_agent.checkpoints.store import BlobStore
    from tui_agent.checkpoints.survey import Differences
    from tui_agent.engine.host.protected_changes import ProtectedChange, ProtectedNames
    from tui_agent.engine.host.quarantine import QuarantinedEdit
    from tui_agent.safety.roots import Roots

log = logging.getLogger(__name__)

MAX_QUESTIONS = 4
"""Files that the user is asked about one by one; more are one question."""


class GuardedCommand(msgspec.Struct):
    """A command that runs."""

    command: str
    before: Snapshot
    link_targets: tuple[str, ...]
    run: str
    call: str
    approved: bool
    """The user has seen the command: only what this program obeys is moved out."""
    count: int
    """Number of file changes in the journal when it began."""
    is_job: bool = False
    """It goes on in the background: what it changed until then is in the journal."""


class EndedCommand(NamedTuple):
    """What a command did."""

    changes: CommandChangedFiles
    after: Snapshot
    edits: list[QuarantinedEdit]
    """Protected files that were moved out, as the user is to be asked about them."""


class CommandGuard:
    """Watches the commands of a session. `session` is its folder."""

    def __init__(self, stream: SessionStream, store: BlobStore, roots: Roots, session: Path, *, saves: bool) -> None:
        self._stream = stream
        self._store = store
        self._roots = roots
        self._session = session
        self._names: ProtectedNames | None = None
        self._watch = CommandWatch(stream, store, roots, self._is_protected, saves=saves)
        self._pending: dict[str, QuarantinedFile] = {}
        """Path → quarantined file that the user has not decided about."""
        self._running: list[GuardedCommand] = []

    def _is_protected(self, path: str) -> bool:
        return path in self._protected_names()

    def _protected_names(self) -> ProtectedNames:
        if self._names is None:
            from tui_agent.engine.host.protected_changes import ProtectedNames

            self._names = ProtectedNames(self._roots)
        return self._names

    async def begin(self, command: str, *, approved: bool, run: str, call: str) -> GuardedCommand:
        """Save the workspace before a command; `approved` if the user has seen it."""
        before = await self._watch.snapshot()
        names = self._protected_names()
        link_targets = await asyncio.to_thread(names.link_targets, before)
        count = self._stream.state.ledger.count
        guarded = GuardedCommand(command, before, link_targets, run, call, approved, count)
        self._running.append(guarded)
        await asyncio.to_thread(self._save_note)
        return guarded

    def _save_note(self) -> None:
        from tui_agent.engine.host.quarantine import CommandNote, save_note

        note = CommandNote(session=str(self._session), files=list(self._pending.values()))
        if self._running:
            guarded = self._running[0]
            note.command, note.approved, link_targets = guarded.command, guarded.approved, guarded.link_targets
            note.protected = {
                path: known.state
                for path, known in guarded.before.files.items()
                if self._is_protected(path) or path.startswith(link_targets)
            }
        if ran := next((each for each in self._running if not each.is_job), None):
            note.unfinished = self._watch.unfinished(ran.command, ran.before, run=ran.run, call=ran.call)
        try:
            save_note(self._roots.folders[0], self._session, note)
        except (OSError, FileFault, ValueError) as error:
            log.warning("the note about commands can't be written: %s", error)

    async def end(self, guarded: GuardedCommand, *, seconds: float | None = None) -> EndedCommand:
        """Journal what the command changed, and move out what it made of protected files, as soon as it has ended."""
        after = await self._watch.snapshot(seconds=seconds, after=True)
        found, changes = await asyncio.to_thread(self._find, guarded, after)
        items = await self._settle(guarded, changes)
        without = {item.path for item in items}
        event = await self._watch.journal(
            guarded.command, guarded.before, after, found, without=without, run=guarded.run, call=guarded.call
        )
        await self._forget(guarded)
        return EndedCommand(event, after, await asyncio.to_thread(self._as_edits, items))

    def follow_job(self, guarded: GuardedCommand, after: Snapshot) -> GuardedCommand:
        """Return the command as one that goes on in the background, since the snapshot taken at its end."""
        job = msgspec.structs.replace(guarded, before=after, count=self._stream.state.ledger.count, is_job=True)
        self._running.append(job)
        return job

    async def end_job(self, job: GuardedCommand) -> list[QuarantinedEdit]:
        """Move out what a background job made of protected files, and return what to ask about."""
        after = await self._watch.snapshot(after=True)
        found, changes = await asyncio.to_thread(self._find, job, after)
        ledger = self._stream.state.ledger
        edited = {step.path for step in ledger.steps if step.number > job.count}
        items = await self._settle(job, [change for change in changes if change.path not in edited])
        out = {item.path for item in items}
        kept = {change.path for change in changes if change.path not in edited and change.path not in out}
        if protected := self._watch.changes.describe_protected(found, kept):
            event = CommandChangedFiles(command=job.command, covered=True, protected=protected)
            self._stream.emit(event, run=job.run, node=job.call)
        await self._forget(job)
        return await asyncio.to_thread(self._as_edits, items)

    async def _settle(self, guarded: GuardedCommand, changes: Sequence[ProtectedChange]) -> list[QuarantinedFile]:
        """Move out the changes that need the user's word, report the others, and return what was moved out."""
        from tui_agent.engine.host.quarantine import split_by_approval

        suspect, seen = split_by_approval(changes, guarded.command) if guarded.approved else (list(changes), [])
        self._report_kept([*seen, *(change for change in suspect if change.unknown)], guarded)
        moved = await self._move_out([change for change in suspect if not change.unknown], guarded)
        items = [item for item in moved if item.restored]
        self._pending.update((item.path, item) for item in items)
        return items

    async def _forget(self, guarded: GuardedCommand) -> None:
        self._running = [other for other in self._running if other is not guarded]
        with contextlib.suppress(JournalBroken):  # the note stays if the journal does not have the changes
            await self._stream.durable()
            await asyncio.to_thread(self._save_note)

    def _find(self, guarded: GuardedCommand, after: Snapshot) -> tuple[Differences, tuple[ProtectedChange, ...]]:
        from tui_agent.checkpoints.snapshot import changes_between
        from tui_agent.engine.host.protected_changes import find_changes

        found = changes_between(guarded.before, after)
        return found, find_changes(guarded.before, after, found, self._protected_names(), guarded.link_targets)

    def _report_kept(self, changes: Sequence[ProtectedChange], guarded: GuardedCommand) -> None:
        if not changes:
            return
        from tui_agent.engine.host.quarantine import DONE

        names = ", ".join(f"{DONE[change.kind]} {self._roots.display(Path(change.path))}" for change in changes[:20])
        more = f" and {len(changes) - 20} more" if len(changes) > 20 else ""
        text = f"The command `{one_line(guarded.command, 80)}` changed protected files: {names}{more}."
        self._stream.emit(
            Notice(level="warning", text=text, code="command.protected"), run=guarded.run, node=guarded.call
        )

    async def _move_out(
        self, changes: Sequence[ProtectedChange], guarded: GuardedCommand
    ) -> tuple[QuarantinedFile, ...]:
        if not changes:
            return ()
        from tui_agent.engine.host.quarantine import DONE, FOLDER, move_out, plan_items

        folder = self._session / FOLDER / re.sub(r"\W", "-", guarded.call or "command") / os.urandom(4).hex()
        display = {change.path: self._roots.display(Path(change.path)) for change in changes}
        items = plan_items(changes, folder, display)
        self._stream.emit(FilesQuarantined(command=guarded.command, files=items), run=guarded.run, node=guarded.call)
        await self._stream.durable()

        def move_all() -> tuple[QuarantinedFile, ...]:
            return tuple(move_out(item, self._store) for item in items)

        moved = await asyncio.to_thread(move_all)
        for item in moved:
            if not item.restored:
                text = f"{item.display}, which a command {DONE[item.kind]}, could not be moved aside: {item.why}"
                self._stream.emit(Notice(level="error", text=text, code="command.protected"), run=guarded.run)
        return moved

    def _as_edits(self, items: Sequence[QuarantinedFile]) -> list[QuarantinedEdit]:
        from tui_agent.engine.host.quarantine import as_edit

        groups = [[item] for item in items] if len(items) <= MAX_QUESTIONS else [list(items)]
        return [as_edit(group, self._store) for group in groups]

    # --- the user's decision ---

    async def release(self, shown: QuarantinedEdit, guarded: GuardedCommand) -> str:
        """Write what the user approved to the workspace; return what could not be written, as text."""
        from tui_agent.engine.host.quarantine import release

        files, problems = await asyncio.to_thread(release, shown)
        if len(files) == 1:
            diff = shown.action.diff
            files = (msgspec.structs.replace(files[0], added=diff.added, removed=diff.removed),)
        if files:
            created = tuple(file.display for file in files if file.before.kind == "absent")
            deleted = tuple(file.display for file in files if file.after.kind == "absent")
            changed = tuple(file.display for file in files if file.display not in (*created, *deleted))
            event = CommandChangedFiles(
                command=guarded.command, created=created, changed=changed, deleted=deleted, covered=True, files=files
            )
            self._stream.emit(event, run=guarded.run, node=guarded.call)
        for problem in problems:
            self._stream.emit(Notice(level="error", text=f"Not written: {problem}.", code="command.protected"))
        await self._decided(shown)
        return "; ".join(problems)

    async def report_quarantined(self, shown: QuarantinedEdit, guarded: GuardedCommand) -> None:
        """Say where the files are that the user did not want."""
        from tui_agent.engine.host.quarantine import quarantine_text

        text = quarantine_text(shown.items)
        self._stream.emit(Notice(level="warning", text=text, code="command.quarantined"), run=guarded.run)
        await self._decided(shown)

    async def close(self, end_processes: Callable[[], Awaitable[None]]) -> None:
        """End what runs in the background, and move out what it made of protected files; nobody is asked anymore."""
        jobs = self._running
        await end_processes()
        for job in jobs:
            for shown in await self.end_job(job):
                await self.report_quarantined(shown, job)

    async def _decided(self, shown: QuarantinedEdit) -> None:
        for item in shown.items:
            self._pending.pop(item.path, None)
        await asyncio.to_thread(self._save_note)

    def undecided(self) -> str:
        """Return which files are in quarantine without a decision of the user, as a sentence; empty if none are."""
        if not self._pending:
            return ""
        from tui_agent.engine.host.quarantine import quarantine_text

        return quarantine_text(tuple(self._pending.values()))

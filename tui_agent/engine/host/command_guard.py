"""What happens around a command that may write: the workspace is saved before it and compared after it (K1).

Protected files that it made without the user's word are moved out of the workspace at once, and the user is asked (A2).
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.host.command_watch import CommandWatch
from tui_agent.events import CommandChangedFiles, FilesLeftOut, LeftOutFile, Notice
from tui_agent.platform.file_faults import FileFault
from tui_agent.text import one_line, pluralize

if TYPE_CHECKING:
    from tui_agent.checkpoints.snapshot import Snapshot
    from tui_agent.checkpoints.store import BlobStore
    from tui_agent.checkpoints.survey import Differences
    from tui_agent.engine.host.left_out import Exhibit
    from tui_agent.engine.host.protected_changes import ProtectedChange, ProtectedNames
    from tui_agent.safety.roots import Roots

log = logging.getLogger(__name__)

MAX_QUESTIONS = 4
"""Files that the user is asked about one by one; more are one question."""


class GuardedCommand(msgspec.Struct):
    """A command that runs."""

    command: str
    before: Snapshot
    led_to: tuple[str, ...]
    run: str
    call: str


class CommandGuard:
    """Watches the commands of a session. `session` is its folder."""

    def __init__(self, stream: SessionStream, store: BlobStore, roots: Roots, session: Path, *, saves: bool) -> None:
        self._stream = stream
        self._store = store
        self._roots = roots
        self._session = session
        self._names: ProtectedNames | None = None
        self._watch = CommandWatch(stream, store, roots, self._is_protected, saves=saves)
        self._pending: dict[str, LeftOutFile] = {}
        """Path → left-out file that the user has not decided about."""
        self._running: list[GuardedCommand] = []

    def _is_protected(self, path: str) -> bool:
        if self._names is None:
            from tui_agent.engine.host.protected_changes import ProtectedNames

            self._names = ProtectedNames(self._roots)
        return path in self._names

    async def begin(self, command: str, *, run: str, call: str) -> GuardedCommand:
        """Save the workspace before a command."""
        before = await self._watch.snapshot()
        guarded = await asyncio.to_thread(self._describe, command, before, run, call)
        self._running.append(guarded)
        await asyncio.to_thread(self._save_note)
        return guarded

    def _describe(self, command: str, before: Snapshot, run: str, call: str) -> GuardedCommand:
        self._is_protected("/")
        assert self._names is not None
        return GuardedCommand(command, before, self._names.led_to(before), run, call)

    def _save_note(self) -> None:
        from tui_agent.engine.host.left_out import CommandNote, save_note

        note = CommandNote(session=str(self._session), files=list(self._pending.values()))
        if self._running:
            guarded = self._running[0]
            note.command, led_to = guarded.command, guarded.led_to
            note.protected = {
                path: known.state
                for path, known in guarded.before.files.items()
                if self._is_protected(path) or path.startswith(led_to or "\0")
            }
        try:
            save_note(self._roots.folders[0], self._session, note)
        except (OSError, FileFault, ValueError) as error:
            log.warning("the note about commands can't be written: %s", error)

    async def end(
        self, guarded: GuardedCommand, *, approved: bool, seconds: float | None = None
    ) -> tuple[CommandChangedFiles, list[Exhibit]]:
        """Journal what the command changed; move out what it made of protected files, and return what to ask about.

        `approved`: the user has seen the command, so only what this program obeys is moved out.
        """
        after = await self._watch.snapshot(seconds=seconds, after=True)
        found, changes = await asyncio.to_thread(self._find, guarded, after)
        command, run, call = guarded.command, guarded.run, guarded.call
        suspect, seen = _divide(changes, command) if approved else (list(changes), [])
        suspect = [change for change in suspect if not change.unknown]
        self._report_kept([*seen, *(change for change in changes if change.unknown)], guarded)
        items = await self._move_out(suspect, guarded)
        without = {item.path for item in items if item.restored}
        event = await self._watch.journal(command, guarded.before, after, found, without=without, run=run, call=call)
        self._running.remove(guarded)
        self._pending.update((item.path, item) for item in items if item.restored)
        await asyncio.to_thread(self._save_note)
        return event, await asyncio.to_thread(self._exhibits, [item for item in items if item.restored])

    def _find(self, guarded: GuardedCommand, after: Snapshot) -> tuple[Differences, tuple[ProtectedChange, ...]]:
        from tui_agent.checkpoints.snapshot import changes_between
        from tui_agent.engine.host.protected_changes import find_changes

        assert self._names is not None
        found = changes_between(guarded.before, after)
        return found, find_changes(guarded.before, after, found, self._names, guarded.led_to)

    def _report_kept(self, changes: Sequence[ProtectedChange], guarded: GuardedCommand) -> None:
        if not changes:
            return
        names = ", ".join(f"{change.kind} {self._roots.display(Path(change.path))}" for change in changes[:20])
        more = f" and {len(changes) - 20} more" if len(changes) > 20 else ""
        text = f"The command `{one_line(guarded.command, 80)}` changed protected files: {names}{more}."
        self._stream.emit(
            Notice(level="warning", text=text, code="command.protected"), run=guarded.run, node=guarded.call
        )

    async def _move_out(self, changes: Sequence[ProtectedChange], guarded: GuardedCommand) -> tuple[LeftOutFile, ...]:
        if not changes:
            return ()
        from tui_agent.engine.host.left_out import FOLDER, move_out, plan_items

        folder = self._session / FOLDER / re.sub(r"\W", "-", guarded.call or "command") / os.urandom(4).hex()
        display = {change.path: self._roots.display(Path(change.path)) for change in changes}
        items = plan_items(changes, folder, display)
        self._stream.emit(FilesLeftOut(command=guarded.command, files=items), run=guarded.run, node=guarded.call)
        await self._stream.durable()

        def move_all() -> tuple[LeftOutFile, ...]:
            return tuple(move_out(item, self._store) for item in items)

        moved = await asyncio.to_thread(move_all)
        for item in moved:
            if not item.restored:
                text = f"{item.display}, which a command {_DONE[item.kind]}, could not be moved aside: {item.why}"
                self._stream.emit(Notice(level="error", text=text, code="command.protected"), run=guarded.run)
        return moved

    def _exhibits(self, items: Sequence[LeftOutFile]) -> list[Exhibit]:
        from tui_agent.engine.host.left_out import exhibit

        groups = [[item] for item in items] if len(items) <= MAX_QUESTIONS else [list(items)]
        return [exhibit(group, self._store) for group in groups]

    # --- the user's decision ---

    async def keep(self, shown: Exhibit, guarded: GuardedCommand) -> str:
        """Write what the user approved to the workspace; return what could not be written, as text."""
        from tui_agent.engine.host.left_out import put_back

        files, problems = await asyncio.to_thread(put_back, shown)
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

    async def leave_out(self, shown: Exhibit, guarded: GuardedCommand) -> None:
        """Say where the files are that the user did not want."""
        text = left_out_text(shown.items)
        self._stream.emit(Notice(level="warning", text=text, code="command.left_out"), run=guarded.run)
        await self._decided(shown)

    async def _decided(self, shown: Exhibit) -> None:
        for item in shown.items:
            self._pending.pop(item.path, None)
        await asyncio.to_thread(self._save_note)

    def undecided(self) -> str:
        """Return which files are left out without a decision of the user, as a sentence; empty if none are."""
        return left_out_text(tuple(self._pending.values())) if self._pending else ""


_DONE = {"create": "created", "modify": "changed", "delete": "deleted"}


def left_out_text(items: Sequence[LeftOutFile]) -> str:
    """Return where left-out files are, for the user."""
    places = [
        f"{item.display} ({_DONE[item.kind]})" + (f" is in {item.moved_to}" if item.moved_to else "") for item in items
    ]
    return f"Left out, as a command made {pluralize(len(items), 'protected file')}: {'; '.join(places)}."


def _divide(changes: Sequence[ProtectedChange], command: str) -> tuple[list[ProtectedChange], list[ProtectedChange]]:
    """Divide changes by a command that the user saw: those that need their word all the same, and the others.

    What this program obeys needs it unless the command names the file.
    """
    from tui_agent.engine.host.protected_changes import is_obeyed

    suspect = [change for change in changes if is_obeyed(change.path) and os.path.basename(change.path) not in command]
    return suspect, [change for change in changes if change not in suspect]

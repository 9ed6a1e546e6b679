"""Checkpoints of a session: list, diff, keep, undo, redo, rewind (K1)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from tui_agent import events
from tui_agent.checkpoints import disk
from tui_agent.checkpoints.ledger import Checkpoint, Ledger
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.common.domain import Diff
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.history import History
from tui_agent.engine.core.state import SessionStream
from tui_agent.events.narration import commands_text
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.text import clean

if TYPE_CHECKING:
    from tui_agent.checkpoints.undo import Choice, Undo, UndoTask

Kind: TypeAlias = Literal["undo", "redo", "rewind"]
UndoOutcome: TypeAlias = Literal["done", "stopped", "rolled_back"]
RewindScope: TypeAlias = Literal["code", "conversation", "both"]

FULL_DISK = ("no_space", "read_only")
"""Failures after which the remaining files are not tried."""


class CannotUndo(Exception):
    """Nothing was changed; `str()` is a sentence for the user."""


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an undo, redo or rewind."""

    kind: Kind
    items: tuple[events.RestoredFile, ...] = ()
    commands: tuple[str, ...] = ()
    """Commands that ran: only their changes of files were reverted."""
    uncovered: tuple[str, ...] = ()
    """Commands whose changes of files undo does not cover, or not all."""
    protected: tuple[str, ...] = ()
    """Protected files that commands made and that stay, such as `changed .git/config`."""
    stopped: bool = False
    """A file failed; `items` says which ones were restored."""
    text: str = ""
    """After a rewind of the conversation: the removed message, to be edited and sent again."""
    id: str = ""
    """Id of the undo that restored the files; empty if there was none."""

    @property
    def left(self) -> tuple[events.RestoredFile, ...]:
        """Files that were not restored: left because of external changes, or failed."""
        return tuple(item for item in self.items if item.outcome in ("left", "failed", ""))


class Checkpoints:
    """Restores snapshots. Runs one undo at a time, and none during a run."""

    def __init__(self, stream: SessionStream, store: BlobStore, *, approvals: Approvals | None = None) -> None:
        self._stream = stream
        self._store = store
        self._approvals = approvals  # None when unattended
        self.busy: Callable[[], bool] = lambda: False
        """Returns True while a run is active."""
        self._working = False
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @cached_property
    def _undo(self) -> Undo:
        from tui_agent.checkpoints.undo import Undo  # with what it imports, 300 KB that most sessions don't need

        return Undo(self._store)

    async def close(self) -> None:
        """Wait for an active undo and refuse new ones. Open questions must have been withdrawn."""
        self._closed = True
        await self._idle.wait()

    @property
    def ledger(self) -> Ledger:
        """The file changes of the session."""
        return self._stream.state.ledger

    # --- inspection ---

    def listed(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of all runs that changed files, oldest first."""
        return self.ledger.checkpoints()

    def conversation(self) -> tuple[Checkpoint, ...]:
        """Return the runs of the conversation with their file changes, if any, oldest first: `rewind` accepts them."""
        return self.ledger.conversation()

    async def diff(self, run: str, path: str) -> Diff:
        """Return the change that `run` made to a file.

        Without a snapshot of the content after it, the diff includes later external changes. Raises CannotUndo.
        """
        return await asyncio.to_thread(self._diff, run, path)

    def _diff(self, run: str, path: str) -> Diff:
        from tui_agent.tools.diffs import diff_bytes

        steps = [step for step in self.ledger.steps if step.run == run and path in (step.path, step.display)]
        if not steps:
            raise CannotUndo(f"{run} did nothing to {path}.")
        first, last = steps[0], steps[-1]
        try:
            before = self._store.get(first.before.sha256) if first.before.kind in ("file", "link") else None
            after: bytes | None = None
            if last.kind != "absent":
                try:
                    after = self._store.get(last.after)
                except StoreError:
                    after = read_file(Path(last.path), follow=False).data
        except (StoreError, FileFault) as error:
            raise CannotUndo(f"{first.display} can't be compared: {error}") from error
        return diff_bytes(first.display, before, after)

    # --- undo, redo, rewind ---

    async def undo(self, *, run: str = "", files: Sequence[str] = (), choice: Choice | None = None) -> UndoReport:
        """Revert the file changes of `run` (default: the latest one), or only those of `files` (paths or names).

        Files with external changes are decided by `choice`, or by asking. Raises CannotUndo and JournalBroken.
        """
        with self._exclusive():
            requested, run = run, run or self.ledger.latest()
            if not run:
                raise CannotUndo(f"Nothing to undo.{self._only_commands()}")
            steps = [step for step in self.ledger.active() if step.run == run]
            if files:
                steps = [step for step in steps if step.path in files or step.display in files]
            if not steps:
                where = f" in {', '.join(files)}" if files else ""
                raise CannotUndo(f"Nothing to undo in {run}{where}.{self._only_commands(run)}")
            tasks = await asyncio.to_thread(self._undo.plan, steps)
            since = () if requested else self.ledger.runs_from(run)
            return await self._execute("undo", tasks, choice, (run,), commands_of=(run, *since))

    def _only_commands(self, run: str = "") -> str:
        """Return which commands ran that undo can't revert, as a sentence."""
        runs = (run,) if run else [item.id for item in self.ledger.runs[-1:]]
        text = commands_text(**self._left_by_commands(runs))
        return f" {text}" if text else ""

    async def redo(self, *, choice: Choice | None = None) -> UndoReport:
        """Redo the last undo or rewind if there was no edit since. Raises CannotUndo and JournalBroken."""
        with self._exclusive():
            state, last = self._stream.state, self.ledger.redos[-1] if self.ledger.redos else None
            rewound = state.rewound
            if last is None and rewound is None:
                raise CannotUndo("Nothing to redo: nothing was undone since the last edit.")
            report = UndoReport(kind="redo")
            if last is not None and rewound is not None and last.id != state.rewound_with:
                if last.id == state.rewound_after:  # only the conversation was rewound since
                    last = None
                else:
                    rewound = None
            if last is not None:
                tasks = await asyncio.to_thread(self._undo.plan_redo, last.items)
                report = await self._execute("redo", tasks, choice, last.runs)
            if rewound is not None:
                self._stream.emit(events.ConversationRewound(run="", text="", history=tuple(rewound)))
            return report

    async def rewind(self, run: str, what: RewindScope = "both", *, choice: Choice | None = None) -> UndoReport:
        """Go back to before `run`: files, conversation or both. Raises CannotUndo and JournalBroken."""
        with self._exclusive():
            runs = self.ledger.runs_from(run)
            if not runs:
                raise CannotUndo(f"There is no run {run}.")
            report = UndoReport(kind="rewind")
            if what != "conversation":
                steps = [step for step in self.ledger.active() if step.run in runs]
                tasks = await asyncio.to_thread(self._undo.plan, steps)
                if tasks or what == "code" or any(self._left_by_commands(runs).values()):
                    report = await self._execute("rewind", tasks, choice, tuple(runs))
            if what != "code":
                report = msgspec.structs.replace(report, text=await self._rewind_conversation(run, report.id))
            return report

    def clear(self) -> None:
        """Clear the conversation (`/clear`, U5); plan, files and session stay, and `redo` restores it.

        Raises CannotUndo during a run or an undo.
        """
        with self._exclusive(allow_interrupted=True):
            self._stream.emit(events.ConversationRewound(run="", text="", history=(), cleared=True))

    def keep(self, run: str = "") -> tuple[str, ...]:
        """Keep the changes of `run`, or of all runs: `undo` skips them, and their snapshots may be deleted.

        Returns the affected runs. Raises CannotUndo for an unknown run.
        """
        checkpoints = self.listed()
        if run and run not in [checkpoint.run for checkpoint in checkpoints]:
            raise CannotUndo(f"There is no checkpoint {run}.")
        runs = tuple(each.run for each in checkpoints if not each.kept and run in ("", each.run))
        if runs:
            self._stream.emit(events.CheckpointsKept(runs=runs))
        return runs

    # --- after a crash ---

    @property
    def interrupted(self) -> events.UndoStarted | None:
        """The undo that a crash interrupted."""
        return None if self._working else self.ledger.open

    async def finish(self, *, choice: Choice | None = None) -> UndoReport:
        """Complete an interrupted undo. Raises CannotUndo and JournalBroken."""
        with self._exclusive(allow_interrupted=True):
            started = self._interrupted_undo()
            decided, tasks = await asyncio.to_thread(self._undo.plan_finish, started.items)
            return await self._execute(started.kind, tasks, choice, started.runs, decided, started.id)

    async def roll_back(self, *, choice: Choice | None = None) -> UndoReport:
        """Roll back an interrupted undo. Raises CannotUndo and JournalBroken."""
        with self._exclusive(allow_interrupted=True):
            started = self._interrupted_undo()
            items = [item for item in started.items if not item.outcome and not item.aside]
            tasks = await asyncio.to_thread(self._undo.plan_redo, items)
            return await self._execute(started.kind, tasks, choice, started.runs, (), started.id, rolled_back=True)

    def _interrupted_undo(self) -> events.UndoStarted:
        if self.ledger.open is None:
            raise CannotUndo("No undo was interrupted.")
        return self.ledger.open

    # --- parts ---

    @contextlib.contextmanager
    def _exclusive(self, *, allow_interrupted: bool = False) -> Iterator[None]:
        if self._closed:
            raise CannotUndo("The session is being closed.")
        if self.busy():
            raise CannotUndo("The agent is working. Stop it first, then undo.")
        if self._working:
            raise CannotUndo("Another undo is in progress; answer its question first.")
        if self.ledger.open is not None and not allow_interrupted:
            raise CannotUndo("A crash interrupted an undo. Finish it or roll it back first.")
        self._working = True
        self._idle.clear()
        try:
            yield
        finally:
            self._working = False
            self._idle.set()

    async def _execute(
        self,
        kind: Kind,
        tasks: Sequence[UndoTask],
        choice: Choice | None,
        runs: tuple[str, ...],
        decided: Sequence[events.RestoredFile] = (),
        undo_id: str = "",
        *,
        rolled_back: bool = False,
        commands_of: Sequence[str] = (),
    ) -> UndoReport:
        """Restore the files of `tasks` and of `decided`; `undo_id` continues an interrupted undo.

        `commands_of`: the runs whose commands are named as not reverted (default: `runs`).
        """
        reverts = kind != "redo" and not rolled_back
        left = self._left_by_commands((commands_of or runs) if reverts else ())
        items = list(decided)
        for task in tasks:
            chosen = await self._choose(task, choice) if task.conflict else "leave"
            items.append(await asyncio.to_thread(self._undo.prepare, task, chosen))
        if self.busy() or self._closed:
            raise CannotUndo("The agent has started working, or the session is closed; nothing was undone.")
        if not undo_id:
            undo_id = f"u-{secrets.token_hex(6)}"
            self._stream.emit(events.UndoStarted(id=undo_id, kind=kind, items=tuple(items), runs=runs))
        await self._stream.durable()
        work = asyncio.create_task(asyncio.to_thread(_restore_files, self._undo, items))
        try:
            await asyncio.shield(work)
        finally:
            # A thread can't be cancelled: wait for it and record what it did, even if this task is cancelled.
            if not work.done():
                await asyncio.wait([work])
            done = tuple(work.result())
            stopped = any(item.outcome in ("failed", "") for item in done)
            outcome: UndoOutcome = "rolled_back" if rolled_back else "stopped" if stopped else "done"
            finished = events.UndoFinished(id=undo_id, kind=kind, outcome=outcome, items=done, runs=runs, **left)
            self._stream.emit(finished)
        self._inform_model(kind, done)
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()
        return UndoReport(kind=kind, items=done, stopped=stopped, text="", id=undo_id, **left)

    def _left_by_commands(self, runs: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return what is not reverted of the commands of these runs, as fields of event and report."""
        ledger = self.ledger
        return {
            "commands": ledger.commands_of(runs),
            "uncovered": ledger.uncovered_commands(runs),
            "protected": ledger.protected_files(runs),
        }

    async def _choose(self, task: UndoTask, choice: Choice | None) -> Choice:
        """Decide about a file with external changes: `choice` if it applies, else ask; leave it when unattended."""
        if choice is not None or self._approvals is None:
            return choice if choice is not None and choice in task.choices else "leave"
        changes = await asyncio.to_thread(three_way, task, self._store)
        text = clean(f"{task.display}: {task.conflict}. What should be done with it?\n{changes}".rstrip())
        options = {LABELS[option]: option for option in task.choices}
        answer = await self._approvals.question(
            text, tuple(options), run="", node="", otherwise="leaves the file unchanged"
        )
        return options.get(answer.text.strip(), "leave") if answer.verdict == "reply" else "leave"

    def _inform_model(self, kind: Kind, items: Sequence[events.RestoredFile]) -> None:
        names = [item.display for item in items if item.outcome == "restored"]
        if names and self._stream.state.history.turns:
            what = "made again" if kind == "redo" else "taken back"
            listed = ", ".join(names[:20])
            text = f"The user has {what} your changes to: {listed}. Read a file again before you edit it."
            self._stream.emit(events.ProgramMessageAdded(kind="undo", text=text))

    async def _rewind_conversation(self, run: str, undo: str) -> str:
        await self._stream.written()
        history, text = await asyncio.to_thread(self._history_before, run)
        rewound = events.ConversationRewound(run=run, text=text, history=tuple(history.export()), undo=undo)
        self._stream.emit(rewound)
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()
        return text

    def _history_before(self, run: str) -> tuple[History, str]:
        history = History()
        for record in self._stream.records(0):
            if isinstance(record.event, events.UserMessageAdded) and record.run == run and not record.event.steering:
                return history, record.event.text
            history.fold(record.event)
        raise CannotUndo(f"The start of {run} is not in the journal.")

    def report_interrupted(self) -> None:
        """Emit a notice if a crash interrupted an undo."""
        if (started := self.interrupted) is not None:
            text = (
                f"A crash interrupted an {started.kind} of {len(started.items)} file(s). "
                "/undo finish completes it, /undo back rolls it back."
            )
            self._stream.emit(events.Notice(level="warning", text=text, code="undo.cut_off"))


def _restore_files(undo: Undo, items: Sequence[events.RestoredFile]) -> list[events.RestoredFile]:
    """Restore one file after another; a full disk leaves the remaining ones unchanged."""
    done: list[events.RestoredFile] = []
    for item in items:
        done.append(undo.execute(item))
        if undo.stopped_by in FULL_DISK:
            break
    return done + list(items[len(done) :])


LABELS: dict[Choice, str] = {
    "leave": "Leave it unchanged",
    "merge": "Revert the agent's change, keep the rest",
    "overwrite": "Restore it anyway; redo brings back the current content",
    "aside": "Save the earlier content next to it",
}
MAX_DIFF_LINES = 20
"""Lines of a diff shown in a question."""


def three_way(task: UndoTask, store: BlobStore) -> str:
    """Return the external changes since the agent's edit, and the changes undo would make. Does file IO."""
    if task.now.kind != "file":
        return ""
    from tui_agent.tools.diffs import diff_bytes

    now = _read_or_none(lambda: disk.read_content(Path(task.path), task.now))
    base = _read_or_none(lambda: store.get(task.base))
    target = _read_or_none(lambda: store.get(task.target.sha256)) if task.target.kind == "file" else None
    parts: list[str] = []
    if now is not None and base is not None:
        parts += ["Changed since:", *_changed_lines(diff_bytes(task.display, base, now))]
    if now is not None and (target is not None or task.target.kind == "absent"):
        parts += ["Restoring it would change:", *_changed_lines(diff_bytes(task.display, now, target))]
    return "\n".join(parts)


def _read_or_none(read: Callable[[], bytes]) -> bytes | None:
    try:
        return read()
    except (StoreError, FileFault):
        return None


def _changed_lines(diff: Diff) -> list[str]:
    lines = [line.rstrip("\n") for hunk in diff.hunks for line in hunk.lines if line[:1] in "+-"]
    more = [f"… {len(lines) - MAX_DIFF_LINES} more lines"] if len(lines) > MAX_DIFF_LINES else []
    return [*lines[:MAX_DIFF_LINES], *more, *([f"({diff.note})"] if diff.note else [])]

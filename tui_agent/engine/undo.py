"""A session's checkpoints as front ends ask for them: listed, compared, kept, undone, done again, rewound (K1)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tui_agent import events
from tui_agent.checkpoints import disk
from tui_agent.checkpoints.ledger import Checkpoint, Ledger
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.checkpoints.undo import Choice, Task, Undo
from tui_agent.common.domain import Diff
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.history import History
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.text import clean
from tui_agent.tools.diffs import diff_bytes

Kind: TypeAlias = Literal["undo", "redo", "rewind"]
Ended: TypeAlias = Literal["done", "stopped", "rolled_back"]
What: TypeAlias = Literal["code", "conversation", "both"]

FULL = ("no_space", "read_only")
"""After such a failure no further file is tried."""


class CannotUndo(Exception):
    """Nothing was done; `str()` is a sentence for the user."""


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo, redo or rewind came to."""

    kind: Kind
    items: tuple[events.RestoredFile, ...] = ()
    stopped: bool = False
    """Something failed; what was done is in `items`."""
    text: str = ""
    """After a rewind of the conversation: the message before which it goes on, to be said in other words."""

    @property
    def left(self) -> tuple[events.RestoredFile, ...]:
        """Files that were not touched, since somebody changed them or they failed."""
        return tuple(item for item in self.items if item.outcome in ("left", "failed", ""))


class Checkpoints:
    """Gives back what was kept. One undo at a time, and none while a run goes on."""

    def __init__(self, stream: SessionStream, store: BlobStore, *, approvals: Approvals | None = None) -> None:
        self._stream = stream
        self._store = store
        self._undo = Undo(store)
        self._approvals = approvals  # who is asked; None where nobody is
        self.busy: Callable[[], bool] = lambda: False
        """Tells whether a run goes on."""
        self._working = False
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def close(self) -> None:
        """Begin nothing more, and wait for what goes on; questions must have been withdrawn."""
        self._closed = True
        await self._idle.wait()

    @property
    def ledger(self) -> Ledger:
        """What the session's events tell of its files."""
        return self._stream.state.ledger

    # --- looking ---

    def listed(self) -> tuple[Checkpoint, ...]:
        """Every run that touched files, the oldest first."""
        return self.ledger.checkpoints()

    async def diff(self, run: str, path: str) -> Diff:
        """What `run` did to a file, from what was kept; what others did since is in it where the later content was
        not kept. Raises CannotUndo."""
        return await asyncio.to_thread(self._diff, run, path)

    def _diff(self, run: str, path: str) -> Diff:
        steps = [step for step in self.ledger.steps if step.run == run and path in (step.path, step.display)]
        if not steps:
            raise CannotUndo(f"{run} did nothing to {path}.")
        first, last = steps[0], steps[-1]
        try:
            before = self._store.get(first.before.sha256) if first.before.kind == "file" else None
            try:
                after = self._store.get(last.after)
            except StoreError:
                after = read_file(Path(last.path), follow=False).data
        except (StoreError, FileFault) as error:
            raise CannotUndo(f"{first.display} can't be compared: {error}") from error
        return diff_bytes(first.display, before, after)

    # --- going back and forth ---

    async def undo(self, *, run: str = "", files: Sequence[str] = (), choice: Choice | None = None) -> UndoReport:
        """Take back what a run did to files: the last one that stands, or `run`; all of its files, or `files` by path
        or shown name.

        What somebody changed since is asked about, or treated by `choice`. Raises CannotUndo and JournalBroken.
        """
        with self._alone():
            run = run or self.ledger.latest()
            if not run:
                raise CannotUndo("Nothing to undo: no edit of the agent is left.")
            steps = [step for step in self.ledger.active() if step.run == run]
            if files:
                steps = [step for step in steps if step.path in files or step.display in files]
            if not steps:
                raise CannotUndo(f"Nothing to undo: no edit of {run}{_named(files)} is left.")
            tasks = await asyncio.to_thread(self._undo.plan, steps)
            return await self._go("undo", tasks, choice, (run,))

    async def redo(self, *, choice: Choice | None = None) -> UndoReport:
        """Make the last undo or rewind undone, as long as no edit came after it. Raises CannotUndo, JournalBroken."""
        with self._alone():
            back = self._stream.state.rewound
            if not self.ledger.redos and back is None:
                raise CannotUndo("Nothing to redo: nothing was undone since the last edit.")
            report = UndoReport(kind="redo")
            if self.ledger.redos:
                last = self.ledger.redos[-1]
                tasks = await asyncio.to_thread(self._undo.plan_redo, last.items)
                report = await self._go("redo", tasks, choice, last.runs)
            if back is not None:
                self._stream.emit(events.ConversationRewound(run="", text="", history=tuple(back)))
            return report

    async def rewind(self, run: str, what: What = "both", *, choice: Choice | None = None) -> UndoReport:
        """Back to how it was before `run`: files, conversation or both, over all runs since then.

        Raises CannotUndo and JournalBroken.
        """
        with self._alone():
            runs = self.ledger.after(run)
            if not runs:
                raise CannotUndo(f"There is no run {run}.")
            report = UndoReport(kind="rewind")
            if what != "conversation":
                steps = [step for step in self.ledger.active() if step.run in runs]
                tasks = await asyncio.to_thread(self._undo.plan, steps)
                report = await self._go("rewind", tasks, choice, tuple(runs))
            if what != "code":
                report = msgspec.structs.replace(report, text=await self._rewind_conversation(run))
            return report

    def clear(self) -> None:
        """Forget the conversation (`/clear`, U5): the model begins anew, plan, files and session stay; `redo` brings it
        back. Raises CannotUndo while a run or an undo goes on."""
        with self._alone(open_too=True):
            self._stream.emit(events.ConversationRewound(run="", text="", history=(), cleared=True))

    def keep(self, run: str = "") -> tuple[str, ...]:
        """Be content with a run, or with all: `undo` passes them over, and their contents may go when room is needed.

        Returns the runs. Raises CannotUndo for a run that is not known.
        """
        runs = tuple(one.run for one in self.listed() if not one.kept and run in ("", one.run))
        if run and run not in [one.run for one in self.listed()]:
            raise CannotUndo(f"There is no checkpoint {run}.")
        if runs:
            self._stream.emit(events.CheckpointsKept(runs=runs))
        return runs

    # --- after a crash ---

    @property
    def cut_off(self) -> events.UndoStarted | None:
        """An undo that a crash cut off."""
        return None if self._working else self.ledger.open

    async def finish(self, *, choice: Choice | None = None) -> UndoReport:
        """Carry out the rest of an undo that was cut off. Raises CannotUndo, JournalBroken."""
        with self._alone(open_too=True):
            begun = self._cut_off()
            decided, tasks = await asyncio.to_thread(self._undo.plan_finish, begun.items)
            return await self._go(begun.kind, tasks, choice, begun.runs, decided, begun.id)

    async def roll_back(self, *, choice: Choice | None = None) -> UndoReport:
        """Put back what an undo that was cut off had done already. Raises CannotUndo, JournalBroken."""
        with self._alone(open_too=True):
            begun = self._cut_off()
            items = [item for item in begun.items if not item.outcome and not item.aside]
            tasks = await asyncio.to_thread(self._undo.plan_redo, items)
            return await self._go(begun.kind, tasks, choice, begun.runs, (), begun.id, rolled_back=True)

    def _cut_off(self) -> events.UndoStarted:
        if self.ledger.open is None:
            raise CannotUndo("No undo was interrupted.")
        return self.ledger.open

    # --- parts ---

    @contextlib.contextmanager
    def _alone(self, *, open_too: bool = False) -> Iterator[None]:
        if self._closed:
            raise CannotUndo("The session is being closed.")
        if self.busy():
            raise CannotUndo("The agent is working. Stop it first, then undo.")
        if self._working:
            raise CannotUndo("Another undo is in progress; answer its question first.")
        if self.ledger.open is not None and not open_too:
            raise CannotUndo("A crash interrupted an undo. Finish it or roll it back first.")
        self._working = True
        self._idle.clear()
        try:
            yield
        finally:
            self._working = False
            self._idle.set()

    async def _go(
        self,
        kind: Kind,
        tasks: Sequence[Task],
        choice: Choice | None,
        runs: tuple[str, ...],
        decided: Sequence[events.RestoredFile] = (),
        known: str = "",
        *,
        rolled_back: bool = False,
    ) -> UndoReport:
        items = list(decided)
        for task in tasks:
            chosen = await self._choose(task, choice) if task.conflict else "leave"
            items.append(await asyncio.to_thread(self._undo.prepare, task, chosen))
        if self.busy() or self._closed:
            raise CannotUndo("The agent has started working, or the session is closed; nothing was undone.")
        key = known or f"u-{secrets.token_hex(6)}"
        if not known:
            self._stream.emit(events.UndoStarted(id=key, kind=kind, items=tuple(items), runs=runs))
        await self._stream.durable()
        work = asyncio.create_task(asyncio.to_thread(_carry_out, self._undo, items))
        try:
            await asyncio.shield(work)
        finally:
            # A thread can't be stopped half-way: what it does is waited for and told, whatever else happens.
            if not work.done():
                await asyncio.wait([work])
            done = tuple(work.result())
            stopped = any(item.outcome in ("failed", "") for item in done)
            outcome: Ended = "rolled_back" if rolled_back else "stopped" if stopped else "done"
            self._stream.emit(events.UndoFinished(id=key, kind=kind, outcome=outcome, items=done, runs=runs))
        self._tell_model(kind, done)
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()
        return UndoReport(kind=kind, items=done, stopped=stopped)

    async def _choose(self, task: Task, choice: Choice | None) -> Choice:
        """What becomes of a file that somebody changed since: `choice` where it is one of the file's, else the user is
        asked, with what was done since and what undo would do; left where nobody is there."""
        if choice is not None or self._approvals is None:
            return choice if choice is not None and choice in task.choices else "leave"
        shown = await asyncio.to_thread(three_way, task, self._store)
        text = clean(f"{task.display}: {task.conflict}. What should be done with it?\n{shown}".rstrip())
        options = {LABELS[one]: one for one in task.choices}
        answer = await self._approvals.question(text, tuple(options), run="", node="")
        return options.get(answer.text.strip(), "leave") if answer.verdict == "reply" else "leave"

    def _tell_model(self, kind: Kind, items: Sequence[events.RestoredFile]) -> None:
        names = [item.display for item in items if item.outcome == "restored"]
        if names and self._stream.state.history.turns:
            what = "made again" if kind == "redo" else "taken back"
            listed = ", ".join(names[:20])
            text = f"The user has {what} your changes to: {listed}. Read a file again before you edit it."
            self._stream.emit(events.ProgramMessageAdded(kind="undo", text=text))

    async def _rewind_conversation(self, run: str) -> str:
        await self._stream.written()
        history, text = await asyncio.to_thread(self._before, run)
        self._stream.emit(events.ConversationRewound(run=run, text=text, history=tuple(history.export())))
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()
        return text

    def _before(self, run: str) -> tuple[History, str]:
        history = History()
        for record in self._stream.records(0):
            if isinstance(record.event, events.UserMessageAdded) and record.run == run and not record.event.steering:
                return history, record.event.text
            history.fold(record.event)
        raise CannotUndo(f"The start of {run} is not in the journal.")

    def tell_cut_off(self) -> None:
        """Say that a crash cut an undo off, if one did."""
        if (begun := self.cut_off) is not None:
            text = (
                f"A crash interrupted an {begun.kind} of {len(begun.items)} file(s). "
                "/undo finish completes it, /undo back rolls it back."
            )
            self._stream.emit(events.Notice(level="warning", text=text, code="undo.cut_off"))


def _carry_out(undo: Undo, items: Sequence[events.RestoredFile]) -> list[events.RestoredFile]:
    """One file after the other; after a full disk the rest stays as it is."""
    done: list[events.RestoredFile] = []
    for item in items:
        done.append(undo.carry_out(item))
        if undo.stopped_by in FULL:
            break
    return done + list(items[len(done) :])


def _named(files: Sequence[str]) -> str:
    return f" in {', '.join(files)}" if files else ""


LABELS: dict[Choice, str] = {
    "leave": "Leave it unchanged",
    "merge": "Revert the agent's change, keep the rest",
    "overwrite": "Restore it anyway; redo brings back the current content",
    "aside": "Save the earlier content next to it",
}
SHOWN = 20
"""Lines of a difference that a question shows."""


def three_way(task: Task, store: BlobStore) -> str:
    """What others changed since the agent's edit, and what undo would change; blocks."""
    if task.now.kind != "file":
        return ""
    now = _bytes(lambda: disk.content(Path(task.path), task.now))
    base = _bytes(lambda: store.get(task.base))
    target = _bytes(lambda: store.get(task.target.sha256)) if task.target.kind == "file" else None
    parts: list[str] = []
    if now is not None and base is not None:
        parts += ["Changed since:", *_lines(diff_bytes(task.display, base, now))]
    if now is not None and (target is not None or task.target.kind == "absent"):
        parts += ["Restoring it would change:", *_lines(diff_bytes(task.display, now, target))]
    return "\n".join(parts)


def _bytes(read: Callable[[], bytes]) -> bytes | None:
    try:
        return read()
    except (StoreError, FileFault):
        return None


def _lines(diff: Diff) -> list[str]:
    lines = [line.rstrip("\n") for hunk in diff.hunks for line in hunk.lines if line[:1] in "+-"]
    more = [f"… {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return [*lines[:SHOWN], *more, *([f"({diff.note})"] if diff.note else [])]

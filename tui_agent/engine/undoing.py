"""A session's checkpoints as front ends ask for them: listed, compared, kept, undone, done again, rewound (K1)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from tui_agent.checkpoints.ledger import Checkpoint, Ledger
from tui_agent.domain import Diff
from tui_agent.engine.history import History
from tui_agent.engine.state import SessionStream
from tui_agent.engine.stream import JournalBroken
from tui_agent.events import (
    CheckpointsKept,
    ConversationRewound,
    Notice,
    ProgramSaid,
    Restoring,
    UndoBegun,
    UndoDone,
    UserSaid,
)

if TYPE_CHECKING:
    from tui_agent.checkpoints.store import BlobStore
    from tui_agent.checkpoints.undo import Choice, Task, Undo
    from tui_agent.engine.approvals import Approvals

Kind: TypeAlias = Literal["undo", "redo", "rewind"]
Ended: TypeAlias = Literal["done", "stopped", "rolled_back"]
What: TypeAlias = Literal["code", "conversation", "both"]

FULL = ("no_space", "read_only")
"""After such a failure no further file is tried."""


class CannotUndo(Exception):
    """Nothing was done; `str()` is a sentence for the user."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo, redo or rewind came to."""

    kind: Kind
    items: tuple[Restoring, ...] = ()
    stopped: bool = False
    """Something failed; what was done is in `items`."""
    text: str = ""
    """After a rewind of the conversation: the message before which it goes on, to be said in other words."""

    @property
    def left(self) -> tuple[Restoring, ...]:
        """Files that were not touched, since somebody changed them or they failed."""
        return tuple(item for item in self.items if item.outcome in ("left", "failed", ""))


class Checkpoints:
    """Gives back what was kept. One undo at a time, and none while a run goes on."""

    def __init__(
        self,
        stream: SessionStream,
        store: BlobStore,
        *,
        approvals: Approvals | None = None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stream = stream
        self._store = store
        self._approvals = approvals  # who is asked; None where nobody is
        self.busy = busy
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
        from tui_agent.checkpoints.store import StoreError
        from tui_agent.platform.files import FileFault, read_file
        from tui_agent.tools.diffs import diff_bytes

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

    async def undo(self, *, run: str = "", files: Sequence[str] = (), choice: Choice | None = None) -> Report:
        """Take back what a run did to files: the last one that stands, or `run`; all of its files, or `files` by path
        or shown name.

        What somebody changed since is asked about, or treated by `choice`. Raises CannotUndo and JournalBroken.
        """
        with self._alone():
            run = run or self.ledger.latest()
            if not run:
                raise CannotUndo("There is nothing to undo: no edit of the agent stands.")
            steps = [step for step in self.ledger.active() if step.run == run]
            if files:
                steps = [step for step in steps if step.path in files or step.display in files]
            if not steps:
                raise CannotUndo(f"There is nothing to undo: no edit of {run}{_named(files)} stands.")
            undo = self._undo()
            tasks = await asyncio.to_thread(undo.plan, steps)
            return await self._go(undo, "undo", tasks, choice, (run,))

    async def redo(self, *, choice: Choice | None = None) -> Report:
        """Make the last undo or rewind undone, as long as no edit came after it. Raises CannotUndo, JournalBroken."""
        with self._alone():
            back = self._stream.state.rewound
            if not self.ledger.redos and back is None:
                raise CannotUndo("There is nothing to redo: nothing was undone since the last edit.")
            report = Report(kind="redo")
            if self.ledger.redos:
                undo, last = self._undo(), self.ledger.redos[-1]
                tasks = await asyncio.to_thread(undo.plan_redo, last.items)
                report = await self._go(undo, "redo", tasks, choice, last.runs)
            if back is not None:
                self._stream.emit(ConversationRewound(run="", text="", history=tuple(back)))
            return report

    async def rewind(self, run: str, what: What = "both", *, choice: Choice | None = None) -> Report:
        """Back to how it was before `run`: files, conversation or both, over all runs since then.

        Raises CannotUndo and JournalBroken.
        """
        with self._alone():
            runs = self.ledger.after(run)
            if not runs:
                raise CannotUndo(f"There is no run {run}.")
            report = Report(kind="rewind")
            if what != "conversation":
                steps = [step for step in self.ledger.active() if step.run in runs]
                undo = self._undo()
                tasks = await asyncio.to_thread(undo.plan, steps)
                report = await self._go(undo, "rewind", tasks, choice, tuple(runs))
            if what != "code":
                report = msgspec.structs.replace(report, text=await self._rewind_conversation(run))
            return report

    def clear(self) -> None:
        """Forget the conversation (`/clear`, U5): the model begins anew, plan, files and session stay; `redo` brings it
        back. Raises CannotUndo while a run or an undo goes on."""
        with self._alone(open_too=True):
            self._stream.emit(ConversationRewound(run="", text="", history=(), cleared=True))

    def keep(self, run: str = "") -> tuple[str, ...]:
        """Be content with a run, or with all: `undo` passes them over, and their contents may go when room is needed.

        Returns the runs. Raises CannotUndo for a run that is not known.
        """
        runs = tuple(one.run for one in self.listed() if not one.kept and run in ("", one.run))
        if run and run not in [one.run for one in self.listed()]:
            raise CannotUndo(f"There is no checkpoint {run}.")
        if runs:
            self._stream.emit(CheckpointsKept(runs=runs))
        return runs

    # --- after a crash ---

    @property
    def cut_off(self) -> UndoBegun | None:
        """An undo that a crash cut off."""
        return None if self._working else self.ledger.open

    async def finish(self, *, choice: Choice | None = None) -> Report:
        """Carry out the rest of an undo that was cut off. Raises CannotUndo, JournalBroken."""
        with self._alone(open_too=True):
            begun = self._cut_off()
            undo = self._undo()
            decided, tasks = await asyncio.to_thread(undo.plan_finish, begun.items)
            return await self._go(undo, begun.kind, tasks, choice, begun.runs, decided, begun.id)

    async def roll_back(self, *, choice: Choice | None = None) -> Report:
        """Put back what an undo that was cut off had done already. Raises CannotUndo, JournalBroken."""
        with self._alone(open_too=True):
            begun = self._cut_off()
            undo = self._undo()
            tasks = await asyncio.to_thread(
                undo.plan_redo, [item for item in begun.items if not item.outcome and not item.aside]
            )
            return await self._go(undo, begun.kind, tasks, choice, begun.runs, (), begun.id, rolled_back=True)

    def _cut_off(self) -> UndoBegun:
        if self.ledger.open is None:
            raise CannotUndo("No undo was cut off.")
        return self.ledger.open

    # --- parts ---

    def _undo(self) -> Undo:
        from tui_agent.checkpoints.undo import Undo

        return Undo(self._store)

    @contextlib.contextmanager
    def _alone(self, *, open_too: bool = False) -> Iterator[None]:
        if self._closed:
            raise CannotUndo("The session is being closed.")
        if self.busy():
            raise CannotUndo("The agent is at work. Stop it first, then undo.")
        if self._working:
            raise CannotUndo("Another undo goes on; answer what it asks first.")
        if self.ledger.open is not None and not open_too:
            raise CannotUndo("An undo was cut off by a crash. Finish it or roll it back first.")
        self._working = True
        self._idle.clear()
        try:
            yield
        finally:
            self._working = False
            self._idle.set()

    async def _go(
        self,
        undo: Undo,
        kind: Kind,
        tasks: Sequence[Task],
        choice: Choice | None,
        runs: tuple[str, ...],
        decided: Sequence[Restoring] = (),
        known: str = "",
        *,
        rolled_back: bool = False,
    ) -> Report:
        from tui_agent.engine.undo_asking import Always, Asking, AskUser

        asking = Asking() if self._approvals is None else AskUser(self._approvals)
        if choice is not None:
            asking = Always(choice)
        items = list(decided)
        for task in tasks:
            chosen = await asking.choose(task, undo) if task.conflict else "leave"
            items.append(await asyncio.to_thread(undo.prepare, task, chosen))
        if self.busy() or self._closed:
            raise CannotUndo(
                "The agent began to work meanwhile, or the session is closed; nothing was undone."
            )
        key = known or f"u-{secrets.token_hex(6)}"
        if not known:
            self._stream.emit(UndoBegun(id=key, kind=kind, items=tuple(items), runs=runs))
        await self._stream.durable()
        work = asyncio.create_task(asyncio.to_thread(_carry_out, undo, items))
        try:
            await asyncio.shield(work)
        finally:
            # A thread can't be stopped half-way: what it does is waited for and told, whatever else happens.
            if not work.done():
                await asyncio.wait([work])
            done = tuple(work.result())
            stopped = any(item.outcome in ("failed", "") for item in done)
            outcome: Ended = "rolled_back" if rolled_back else "stopped" if stopped else "done"
            self._stream.emit(UndoDone(id=key, kind=kind, outcome=outcome, items=done, runs=runs))
        self._tell_model(kind, done)
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()
        return Report(kind=kind, items=done, stopped=stopped)

    def _tell_model(self, kind: Kind, items: Sequence[Restoring]) -> None:
        names = [item.display for item in items if item.outcome == "restored"]
        if names and self._stream.state.history.turns:
            what = "made again" if kind == "redo" else "taken back"
            listed = ", ".join(names[:20])
            text = f"The user has {what} your changes to: {listed}. Read a file again before you edit it."
            self._stream.emit(ProgramSaid(kind="undo", text=text))

    async def _rewind_conversation(self, run: str) -> str:
        await self._stream.written()
        history, text = await asyncio.to_thread(self._before, run)
        self._stream.emit(ConversationRewound(run=run, text=text, history=tuple(history.export())))
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()
        return text

    def _before(self, run: str) -> tuple[History, str]:
        history = History()
        for record in self._stream.records(0):
            if isinstance(record.event, UserSaid) and record.run == run and not record.event.steering:
                return history, record.event.text
            history.fold(record.event)
        raise CannotUndo(f"The beginning of {run} is not in the journal.")

    def tell_cut_off(self) -> None:
        """Say that a crash cut an undo off, if one did."""
        if (begun := self.cut_off) is not None:
            text = (
                f"A crash cut off an {begun.kind} of {len(begun.items)} file(s). "
                "/undo finish does the rest, /undo back reverses what was done."
            )
            self._stream.emit(Notice(level="warning", text=text, code="undo.cut_off"))


def _carry_out(undo: Undo, items: Sequence[Restoring]) -> list[Restoring]:
    """One file after the other; after a full disk the rest stays as it is."""
    done: list[Restoring] = []
    for item in items:
        done.append(undo.carry_out(item))
        if undo.stopped_by in FULL:
            break
    return done + list(items[len(done) :])


def _named(files: Sequence[str]) -> str:
    return f" in {', '.join(files)}" if files else ""

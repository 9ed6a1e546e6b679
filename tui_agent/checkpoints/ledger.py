"""What the session's events tell of its files: every edit by run, what was undone, what can be done again (K1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tui_agent import events
from tui_agent.text import one_line

STEPS = 5_000
"""Edits that are remembered; older ones can't be undone any more."""
RUNS = 1_000
REDOS = 50
COMMANDS = 50
"""Commands of a run that are remembered with what they changed."""
TITLE = 120
"""Characters of a message that its checkpoint is called by."""


class Step(msgspec.Struct):
    """One edit of one file."""

    number: int
    run: str
    path: str
    display: str
    before: events.FileState
    after: str
    """sha256 of the bytes that it wrote."""
    folders: tuple[str, ...] = ()
    unkept: str = ""
    call: str = ""
    sure: bool = False
    """It is told that it happened; after a crash the bytes on disk tell."""
    added: int = 0
    removed: int = 0
    undone: bool = False


class Run(msgspec.Struct):
    """One piece of work, named by the user's message."""

    id: str
    title: str = ""
    kept: bool = False
    commands: list[events.CommandChangedFiles] = []
    """Commands that changed files, which can't be undone."""


class CheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a checkpoint."""

    path: str
    display: str
    kind: str
    """`create` or `modify`."""
    added: int
    removed: int
    edits: int
    undone: bool
    unkept: str = ""
    """Why it can't be undone; empty when it can."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What one run did to files."""

    run: str
    title: str
    files: tuple[CheckpointFile, ...]
    commands: tuple[events.CommandChangedFiles, ...] = ()
    kept: bool = False

    @property
    def undone(self) -> bool:
        """Every file of it is back where it was."""
        return bool(self.files) and all(file.undone for file in self.files)


class Ledger(msgspec.Struct):
    """Folds every event in order; nothing here looks at the disk."""

    steps: list[Step] = []
    runs: list[Run] = []
    redos: list[events.UndoFinished] = []
    """What can be done again, the last undone last; an edit ends that."""
    open: events.UndoStarted | None = None
    """An undo that has no end: it goes on at this moment, or a crash cut it off."""
    count: int = 0
    """Steps that there ever were."""
    going: bool = False
    """A run has begun and has no end."""

    # --- reading ---

    def active(self, path: str | None = None) -> list[Step]:
        """The edits that stand, in order; of one file, or of all."""
        return [step for step in self.steps if not step.undone and path in (None, step.path)]

    def after(self, run: str) -> list[str]:
        """The runs from `run` on; empty for one that is not known."""
        ids = [one.id for one in self.runs]
        return ids[ids.index(run) :] if run in ids else []

    def latest(self) -> str:
        """The last run with edits that stand and were not kept; empty when there is none."""
        kept = {run.id for run in self.runs if run.kept}
        return next((step.run for step in reversed(self.active()) if step.run not in kept), "")

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Every run that touched files, the oldest first."""
        made = (self._checkpoint(run) for run in self.runs)
        return tuple(one for one in made if one.files or one.commands)

    def _checkpoint(self, run: Run) -> Checkpoint:
        files = tuple(map(_file, by_path(step for step in self.steps if step.run == run.id)))
        return Checkpoint(run=run.id, title=run.title, files=files, commands=tuple(run.commands), kept=run.kept)

    def needed(self) -> set[str]:
        """Contents that undo or redo may want: those of runs that were not kept."""
        kept = {run.id for run in self.runs if run.kept}
        mine = [step for step in self.steps if step.run not in kept]
        states = [step.before.sha256 for step in mine] + [step.after for step in mine]
        items = [item for one in self.redos for item in one.items]
        items += self.open.items if self.open is not None else ()
        states += [state.sha256 for item in items for state in (item.before, item.after)]
        return set(filter(None, states))

    # --- folding ---

    def fold(self, event: events.Event, run: str = "") -> None:
        """Take in one event with the run of its record."""
        match event:
            case events.UserMessageAdded(text=text, steering=False) if run:
                self._run(run).title = one_line(text, TITLE)
            case events.RunStarted() if run:
                self._run(run)
                self.going = True
            case events.RunEnded() | events.SessionOpened():
                self.going = False
            case events.FileSnapshotted():
                self._snapshotted(event, run)
            case events.FileChanged(change=change) if change.after is not None:
                self._changed(change.path, change.after, change.added, change.removed)
            case events.ToolFinished(call_id=call):
                self._ended(call)
            case events.CommandChangedFiles():
                commands = self._run(run).commands
                commands.append(event)
                del commands[:-COMMANDS]
            case events.CheckpointsKept(runs=runs):
                for one in self.runs:
                    one.kept = one.kept or one.id in runs
            case events.UndoStarted():
                self.open = event
            case events.UndoFinished():
                self._done(event)

    def _run(self, run: str) -> Run:
        for one in reversed(self.runs):
            if one.id == run:
                return one
        made = Run(run, commands=[])
        self.runs.append(made)
        del self.runs[:-RUNS]
        return made

    def _snapshotted(self, event: events.FileSnapshotted, run: str) -> None:
        self._run(run)
        self.count += 1
        self.redos.clear()
        e = event
        step = Step(self.count, run, e.path, e.display, e.before, e.after, e.folders, e.unkept, e.call)
        self.steps.append(step)
        del self.steps[:-STEPS]

    def _changed(self, path: str, after: str, added: int, removed: int) -> None:
        for step in reversed(self.steps):
            if step.path == path:
                if step.after == after:
                    step.sure, step.added, step.removed = True, added, removed
                return

    def _ended(self, call: str) -> None:
        """What the call announced and did not do was not done."""
        if any(step.call == call and not step.sure for step in self.steps[-50:]):
            self.steps = [step for step in self.steps if step.call != call or step.sure]

    def _done(self, event: events.UndoFinished) -> None:
        self.open = None
        if event.outcome == "rolled_back":
            return
        done = [item for item in event.items if item.outcome in ("restored", "already")]
        numbers = {number for item in done for number in item.steps}
        for step in self.steps:
            if step.number in numbers:
                step.undone = event.kind != "redo"
        if event.kind == "redo":
            self._redone(done)
        elif any(item.outcome == "restored" for item in done):
            self.redos.append(msgspec.structs.replace(event, items=tuple(done)))
            del self.redos[:-REDOS]

    def _redone(self, done: list[events.RestoredFile]) -> None:
        if not self.redos:
            return
        paths = {item.path for item in done}
        last = self.redos.pop()
        left = tuple(item for item in last.items if item.path not in paths)
        if left:
            self.redos.append(msgspec.structs.replace(last, items=left))


def by_path(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps of each file, in order; files in the order in which they were touched first."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.path, []).append(step)
    yield from found.values()


def _file(steps: list[Step]) -> CheckpointFile:
    return CheckpointFile(
        path=steps[0].path,
        display=steps[0].display,
        kind="create" if steps[0].before.kind == "absent" else "modify",
        added=sum(step.added for step in steps),
        removed=sum(step.removed for step in steps),
        edits=len(steps),
        undone=all(step.undone for step in steps),
        unkept=steps[0].unkept,
    )

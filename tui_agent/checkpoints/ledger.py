"""The session's file changes, folded from its events: edits by run, undone edits, and possible redos (K1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from tui_agent import events
from tui_agent.text import one_line

MAX_STEPS = 5_000
"""Edits that are retained; older ones can't be undone."""
MAX_RUNS = 1_000
MAX_REDOS = 50
MAX_COMMANDS = 50
"""Commands per run that are retained."""
FileKind: TypeAlias = Literal["absent", "file", "folder", "link", "other"]
MAX_TITLE_LENGTH = 120
"""Characters of the message used as a checkpoint's title."""


class Step(msgspec.Struct):
    """A change of a file, by an edit or a command. The fields are saved in the session's state."""

    number: int
    run: str
    path: str
    display: str
    before: events.FileState
    after: str
    """sha256 of the content afterwards; empty if there is none."""
    folders: tuple[str, ...] = ()
    cannot_undo: str = msgspec.field(default="", name="unkept")
    """Why it can't be undone; empty if it can."""
    call: str = ""
    confirmed: bool = msgspec.field(default=False, name="sure")
    """The edit was reported as done; after a crash the content on disk decides."""
    added: int = 0
    removed: int = 0
    undone: bool = False
    command: str = ""
    """The command that changed it; empty for an edit."""
    kind: FileKind = "file"
    """Kind of what is there afterwards."""
    mode: int = 0
    """Permission bits afterwards; 0: they do not matter, since edits never change them."""

    @property
    def result(self) -> events.FileState:
        """The state afterwards."""
        return events.FileState(kind=self.kind, sha256=self.after, mode=self.mode)


class Run(msgspec.Struct):
    """A run, titled by the user's message."""

    id: str
    title: str = ""
    kept: bool = False
    commands: list[events.CommandChangedFiles] = []
    """Commands that ran, except those that can only read; without `files`, which are steps."""
    rewound: bool = False
    """The conversation was rewound to before it, or cleared after it."""


class CheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a checkpoint."""

    path: str
    display: str
    kind: str
    """`create`, `modify` or `delete`."""
    added: int
    removed: int
    edits: int
    undone: bool
    cannot_undo: str = ""
    """Why it can't be undone; empty if it can."""
    command: str = ""
    """The command that changed it, if one did."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The file changes of one run."""

    run: str
    title: str
    files: tuple[CheckpointFile, ...]
    commands: tuple[events.CommandChangedFiles, ...] = ()
    """The commands that ran, except those that can only read."""
    kept: bool = False

    @property
    def undone(self) -> bool:
        """True if all its files have been reverted."""
        return bool(self.files) and all(file.undone for file in self.files)


class Ledger(msgspec.Struct):
    """Folds events in order, without accessing the disk."""

    steps: list[Step] = []
    runs: list[Run] = []
    redos: list[events.UndoFinished] = []
    """Undos that can be redone, last one last; an edit clears them."""
    open: events.UndoStarted | None = None
    """An undo without an end: in progress, or interrupted by a crash."""
    count: int = 0
    """Number of all edits so far."""
    rewound: list[str] = []
    """The runs that the last rewind of the conversation removed."""
    run_in_progress: bool = msgspec.field(default=False, name="going")

    # --- reading ---

    def active(self, path: str | None = None) -> list[Step]:
        """Return the edits that are not undone, in order, optionally of one file."""
        return [step for step in self.steps if not step.undone and path in (None, step.path)]

    def runs_from(self, run: str) -> list[str]:
        """Return the ids of `run` and the later runs; empty if it is unknown."""
        ids = [item.id for item in self.runs]
        return ids[ids.index(run) :] if run in ids else []

    def latest(self) -> str:
        """Return the last run with edits that are neither undone nor kept, or an empty string."""
        kept_runs = {run.id for run in self.runs if run.kept}
        return next((step.run for step in reversed(self.active()) if step.run not in kept_runs), "")

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of all runs that changed files, oldest first."""
        checkpoints = (self._checkpoint(run) for run in self.runs)
        return tuple(item for item in checkpoints if item.files or any(map(was_noticed, item.commands)))

    def conversation(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of all runs that are part of the conversation, oldest first."""
        return tuple(self._checkpoint(run) for run in self.runs if not run.rewound and run.title)

    def commands_of(self, runs: Iterable[str]) -> tuple[str, ...]:
        """Return the commands that ran in these runs, except those that can only read."""
        wanted = set(runs)
        ran = (item.command for run in self.runs if run.id in wanted for item in run.commands)
        return tuple(dict.fromkeys(ran))

    def uncovered_commands(self, runs: Iterable[str]) -> tuple[str, ...]:
        """Return the commands in these runs that changed files beyond undo."""
        wanted = set(runs)
        items = (item for run in self.runs if run.id in wanted for item in run.commands)
        return tuple(dict.fromkeys(item.command for item in items if is_beyond_undo(item)))

    def protected_files(self, runs: Iterable[str]) -> tuple[str, ...]:
        """Return the protected files that commands in these runs made and that undo leaves, with what was done."""
        wanted = set(runs)
        items = (item for run in self.runs if run.id in wanted for item in run.commands)
        return tuple(dict.fromkeys(text for item in items for text in item.protected))

    def _checkpoint(self, run: Run) -> Checkpoint:
        files = tuple(map(_checkpoint_file, group_by_path(step for step in self.steps if step.run == run.id)))
        return Checkpoint(run=run.id, title=run.title, files=files, commands=tuple(run.commands), kept=run.kept)

    def needed_contents(self) -> set[str]:
        """Return the hashes of contents that undo or redo may need: those of runs that were not kept."""
        kept_runs = {run.id for run in self.runs if run.kept}
        needed_steps = [step for step in self.steps if step.run not in kept_runs]
        states = [step.before.sha256 for step in needed_steps] + [step.after for step in needed_steps]
        items = [item for undo in self.redos for item in undo.items]
        items += self.open.items if self.open is not None else ()
        states += [state.sha256 for item in items for state in (item.before, item.after)]
        return set(filter(None, states))

    # --- folding ---

    def fold(self, event: events.Event, run: str = "") -> None:
        """Fold an event of `run`."""
        match event:
            case events.UserMessageAdded(text=text, steering=False) if run:
                self._run(run).title = one_line(text, MAX_TITLE_LENGTH)
            case events.ConversationRewound():
                self._fold_rewind(event)
            case events.RunStarted() if run:
                self._run(run)
                self.run_in_progress = True
            case events.RunEnded() | events.SessionOpened():
                self.run_in_progress = False
            case events.FileSnapshotted():
                self._fold_snapshot(event, run)
            case events.FileChanged(change=change) if change.after is not None:
                self._fold_change(change.path, change.after, change.added, change.removed)
            case events.ToolFinished(call_id=call):
                self._fold_tool_end(call)
            case events.CommandChangedFiles():
                self._fold_command(event, run)
            case events.CheckpointsKept(runs=runs):
                for item in self.runs:
                    item.kept = item.kept or item.id in runs
            case events.UndoStarted():
                self.open = event
            case events.UndoFinished():
                self._fold_undo(event)

    def _run(self, run: str) -> Run:
        for item in reversed(self.runs):
            if item.id == run:
                return item
        new = Run(run, commands=[])
        self.runs.append(new)
        del self.runs[:-MAX_RUNS]
        return new

    def _fold_rewind(self, event: events.ConversationRewound) -> None:
        """Note which runs left the conversation; without a run and uncleared, the last rewind was undone."""
        if not (event.run or event.cleared):
            for item in self.runs:
                item.rewound = item.rewound and item.id not in self.rewound
            self.rewound = []
            return
        gone = self.runs_from(event.run) if event.run else [item.id for item in self.runs]
        self.rewound = [item.id for item in self.runs if item.id in gone and not item.rewound]
        for item in self.runs:
            item.rewound = item.rewound or item.id in gone

    def _fold_snapshot(self, event: events.FileSnapshotted, run: str) -> None:
        self._run(run)
        self.count += 1
        self.redos.clear()
        step = Step(
            number=self.count,
            run=run,
            path=event.path,
            display=event.display,
            before=event.before,
            after=event.after,
            folders=event.folders,
            cannot_undo=event.unkept,
            call=event.call,
        )
        self.steps.append(step)
        del self.steps[:-MAX_STEPS]

    def _fold_command(self, event: events.CommandChangedFiles, run: str) -> None:
        commands = self._run(run).commands
        commands.append(msgspec.structs.replace(event, files=()))
        del commands[:-MAX_COMMANDS]
        if event.files:
            self.redos.clear()
        for file in event.files:
            self.count += 1
            step = Step(
                number=self.count,
                run=run,
                path=file.path,
                display=file.display,
                before=file.before,
                after=file.after.sha256,
                folders=file.folders,
                cannot_undo=file.unkept,
                confirmed=True,
                added=file.added,
                removed=file.removed,
                command=event.command,
                kind=file.after.kind,
                mode=file.after.mode,
            )
            self.steps.append(step)
        del self.steps[:-MAX_STEPS]

    def _fold_change(self, path: str, after: str, added: int, removed: int) -> None:
        for step in reversed(self.steps):
            if step.path == path:
                if step.after == after:
                    step.confirmed, step.added, step.removed = True, added, removed
                return

    def _fold_tool_end(self, call: str) -> None:
        """Drop edits that the call announced but did not make."""
        if any(step.call == call and not step.confirmed for step in self.steps[-50:]):
            self.steps = [step for step in self.steps if step.call != call or step.confirmed]

    def _fold_undo(self, event: events.UndoFinished) -> None:
        self.open = None
        if event.outcome == "rolled_back":
            return
        done = [item for item in event.items if item.outcome in ("restored", "already")]
        numbers = {number for item in done for number in item.steps}
        for step in self.steps:
            if step.number in numbers:
                step.undone = event.kind != "redo"
        if event.kind == "redo":
            self._fold_redo(done)
        elif any(item.outcome == "restored" for item in done):
            self.redos.append(msgspec.structs.replace(event, items=tuple(done)))
            del self.redos[:-MAX_REDOS]

    def _fold_redo(self, done: list[events.RestoredFile]) -> None:
        if not self.redos:
            return
        paths = {item.path for item in done}
        last = self.redos.pop()
        remaining = tuple(item for item in last.items if item.path not in paths)
        if remaining:
            self.redos.append(msgspec.structs.replace(last, items=remaining))


def was_noticed(command: events.CommandChangedFiles) -> bool:
    """Return whether a command changed files, or may have done so where it could not be watched."""
    return bool(
        command.created or command.changed or command.deleted or command.more or command.unwatched or command.protected
    )


def is_beyond_undo(command: events.CommandChangedFiles) -> bool:
    """Return whether a command changed files that undo can't revert."""
    return bool(command.beyond) or (not command.covered and was_noticed(command))


def group_by_path(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Group the edits by file, in order of the first edit."""
    groups: dict[str, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.path, []).append(step)
    yield from groups.values()


def _checkpoint_file(steps: list[Step]) -> CheckpointFile:
    return CheckpointFile(
        path=steps[0].path,
        display=steps[0].display,
        kind="delete" if steps[-1].kind == "absent" else "create" if steps[0].before.kind == "absent" else "modify",
        added=sum(step.added for step in steps),
        removed=sum(step.removed for step in steps),
        edits=len(steps),
        undone=all(step.undone for step in steps),
        cannot_undo=steps[0].cannot_undo,
        command=next((step.command for step in reversed(steps) if step.command), ""),
    )

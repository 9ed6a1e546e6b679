"""A ledger and a store over real files, with the events that an engine would emit."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

from tui_agent.checkpoints import disk
from tui_agent.checkpoints.ledger import Ledger
from tui_agent.checkpoints.store import BlobStore
from tui_agent.checkpoints.undo import Choice, Undo
from tui_agent.common.domain import Diff, FileChange
from tui_agent.events import FileChanged, FileSnapshotted, RestoredFile, RunStarted, UndoFinished, UndoStarted
from tui_agent.platform.files import replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls


class EditingAgent:
    """Makes edits as the agent does."""

    def __init__(self, folder: Path, *, calls: OsCalls = OS) -> None:
        self.files = folder / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        self.session = folder / "session"
        self.session.mkdir(exist_ok=True)
        self.calls = calls
        self.store = BlobStore(self.session)
        self.ledger = Ledger()
        self.number = 0
        self.run = ""
        self.next_run()

    def next_run(self) -> str:
        self.number += 1
        self.run = f"run-{self.number}"
        self.ledger.fold(RunStarted(message_id="m", mode="direct", model="x"), self.run)
        return self.run

    def path(self, name: str) -> Path:
        return self.files / name

    def edit(self, name: str, content: bytes, *, crash: str = "") -> None:
        """Edit a file as the engine does; `crash` stops after `snapshot`, or after `edit` before it is reported."""
        path = self.path(name)
        before = disk.read_state(path)
        if before.kind == "file":
            self.store.put(path.read_bytes())
        folders = disk.missing_folders(path) if before.kind == "absent" else ()
        after = sha256_of(content)
        taken = FileSnapshotted(
            path=str(path), display=name, before=before, after=after, folders=folders, call=f"c{self.ledger.count}"
        )
        self.ledger.fold(taken, self.run)
        if crash == "snapshot":
            return
        replace_file(path, content, before.sha256 or None)
        self.store.put(content)
        if crash:
            return
        change = FileChange(
            path=str(path),
            display=name,
            kind="modify" if before.sha256 else "create",
            added=1,
            removed=1,
            before=before.sha256 or None,
            after=after,
        )
        self.ledger.fold(FileChanged(change=change, diff=Diff(path=name, kind=change.kind)), self.run)

    def make_undo(self) -> Undo:
        return Undo(self.store, calls=self.calls)

    def undo(self, run: str = "", choice: Choice = "leave", *, names: tuple[str, ...] = ()) -> list[RestoredFile]:
        run = run or self.ledger.latest()
        steps = [s for s in self.ledger.active() if s.run == run and (not names or s.display in names)]
        return self._execute("undo", self.make_undo().plan(steps), choice)

    def rewind(self, run: str, choice: Choice = "leave") -> list[RestoredFile]:
        runs = self.ledger.runs_from(run)
        return self._execute(
            "rewind", self.make_undo().plan([s for s in self.ledger.active() if s.run in runs]), choice
        )

    def redo(self, choice: Choice = "leave") -> list[RestoredFile]:
        return self._execute("redo", self.make_undo().plan_redo(self.ledger.redos[-1].items), choice)

    def begin(self, kind: Any, tasks: Any, choice: Choice) -> list[RestoredFile]:
        undo = self.make_undo()
        items = [undo.prepare(task, choice) for task in tasks]
        self.ledger.fold(UndoStarted(id="u", kind=kind, items=tuple(items)))
        return items

    def _execute(self, kind: Any, tasks: Any, choice: Choice) -> list[RestoredFile]:
        items = self.begin(kind, tasks, choice)
        undo = self.make_undo()
        done: list[RestoredFile] = []
        for item in items:
            done.append(undo.execute(item))
            if undo.stopped_by == "no_space":
                break
        done += items[len(done) :]
        stopped = any(item.outcome in ("failed", "") for item in done)
        self.ledger.fold(UndoFinished(id="u", kind=kind, outcome="stopped" if stopped else "done", items=tuple(done)))
        return done


def snapshot_tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return every path below with permissions and bytes, or the target of a link."""
    result = {}
    for place, folders, files in os.walk(os.fsencode(folder)):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            data = b""
            if stat.S_ISLNK(status.st_mode):
                data = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    data = file.read()
            result[os.fsdecode(os.path.relpath(path, os.fsencode(folder)))] = (stat.S_IMODE(status.st_mode), data)
    return result


def outcomes(items: list[RestoredFile]) -> dict[str, str]:
    return {item.display: item.outcome for item in items}


def remove_tree(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)

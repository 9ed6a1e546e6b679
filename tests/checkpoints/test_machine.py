from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.checkpoints.kit import EditingAgent, remove_tree, snapshot_tree
from tui_agent.checkpoints.ledger import Ledger
from tui_agent.events import UndoFinished

NAMES = ("a.txt", "b.sh", "d/e.bin")
CONTENTS = st.sampled_from([b"", b"one\n", b"two\r\n", b"\x00\xff", b"one\ntwo\nthree"])
Lies = tuple[bytes, int] | None
"""Bytes and permissions; None for no file."""


@dataclass
class Edit:
    name: str
    run: int
    before: Lies
    after: bytes
    made: bool
    sure: bool = True
    undone: bool = False


@dataclass
class Moved:
    """A file that an undo changed from one state to another."""

    name: str
    frm: Lies
    to: Lies
    edits: list[Edit]


@dataclass
class Model:
    """The expected files, computed without ledger, store or hashes."""

    disk: dict[str, Lies] = field(default_factory=lambda: dict.fromkeys(NAMES))
    folder: bool = False
    edits: list[Edit] = field(default_factory=list)
    redos: list[list[Moved]] = field(default_factory=list)
    run: int = 1
    saved: set[int] = field(default_factory=set)

    def put(self, name: str, lies: Lies, *, made: bool = False) -> None:
        now = self.disk[name]
        if lies is not None and now is not None:
            lies = (lies[0], now[1])
        self.disk[name] = lies
        if name.startswith("d/"):
            self.folder = lies is not None or (self.folder and not made)

    def back(self, edits: list[Edit], overwrite: bool) -> list[Moved]:
        done: list[Moved] = []
        for name in NAMES:
            mine = [edit for edit in edits if edit.name == name and not edit.undone]
            if not mine:
                continue
            every = list(mine)
            now = self.disk[name]
            follows = [edit.before for edit in mine[1:]] + [now]
            mine = [
                edit
                for edit, lies in zip(mine, follows, strict=True)
                if edit.sure or bytes_of(lies) == edit.after or bytes_of(lies) != bytes_of(edit.before)
            ]
            target = mine[0].before if mine else now
            complete = all(one.after == bytes_of(two.before) for one, two in pairwise(mine))
            if bytes_of(now) == bytes_of(target):
                self.done(every)
                done.append(Moved(name, now, target, every))
            elif (complete and bytes_of(now) == mine[-1].after) or overwrite:
                self.put(name, target, made=mine[0].made)
                self.done(every)
                done.append(Moved(name, now, target, every))
        return done

    @staticmethod
    def done(edits: list[Edit], undone: bool = True) -> None:
        for edit in edits:
            edit.undone = undone

    def redo(self, overwrite: bool) -> None:
        left = []
        for moved in self.redos[-1]:
            now = bytes_of(self.disk[moved.name])
            if now == bytes_of(moved.frm) or now == bytes_of(moved.to) or overwrite:
                if now != bytes_of(moved.frm):
                    self.put(moved.name, moved.frm, made=any(edit.made for edit in moved.edits[:1]))
                self.done(moved.edits, undone=False)
            else:
                left.append(moved)
        self.redos.pop()
        if left:
            self.redos.append(left)


def bytes_of(lies: Lies) -> bytes | None:
    return None if lies is None else lies[0]


class Undoing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.work = EditingAgent(self.folder)
        self.model = Model()

    def teardown(self) -> None:
        remove_tree(self.folder)

    # --- the agent and others ---

    @rule(name=st.sampled_from(NAMES), content=CONTENTS, crash=st.sampled_from(["", "", "", "snapshot", "edit"]))
    def edit(self, name: str, content: bytes, crash: str) -> None:
        before = self.model.disk[name]
        made = name.startswith("d/") and not self.model.folder
        self.work.edit(name, content, crash=crash)
        step = Edit(name, self.model.run, before, content, made, sure=not crash)
        self.model.edits.append(step)
        self.model.redos.clear()
        if crash != "snapshot":
            mode = 0o644 if before is None else before[1]
            self.model.put(name, (content, mode))
        if crash:
            self.restart()

    @rule()
    def next_run(self) -> None:
        self.work.next_run()
        self.model.run += 1

    @rule(name=st.sampled_from(NAMES), content=st.none() | CONTENTS)
    def somebody_else(self, name: str, content: bytes | None) -> None:
        path = self.work.path(name)
        if content is None:
            path.unlink(missing_ok=True)
            self.model.disk[name] = None
            return
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        mode = self.model.disk[name][1] if self.model.disk[name] else 0o644  # type: ignore[index]  # there is one
        self.model.disk[name] = (content, mode)
        self.model.folder = self.model.folder or name.startswith("d/")

    @rule(name=st.sampled_from(NAMES), contents=st.tuples(CONTENTS, CONTENTS, CONTENTS))
    def somebody_else_between_two_edits(self, name: str, contents: tuple[bytes, bytes, bytes]) -> None:
        self.edit(name, contents[0], "")
        self.somebody_else(name, contents[1])
        self.edit(name, contents[2], "")

    @rule(name=st.sampled_from(NAMES), mode=st.sampled_from([0o600, 0o755, 0o664]))
    def somebody_changes_permissions(self, name: str, mode: int) -> None:
        lies = self.model.disk[name]
        if lies is not None:
            self.work.path(name).chmod(mode)
            self.model.disk[name] = (lies[0], mode)

    @rule()
    def restart(self) -> None:
        self.work.ledger = msgspec.convert(msgspec.to_builtins(self.work.ledger), Ledger)

    # --- undo and redo ---

    def _mine(self) -> list[Edit]:
        standing = [edit for edit in self.model.edits if not edit.undone]
        return [edit for edit in standing if edit.run == standing[-1].run] if standing else []

    def _remember(self, moved: list[Moved]) -> None:
        if any(bytes_of(one.frm) != bytes_of(one.to) for one in moved):
            self.model.redos.append(moved)

    @precondition(lambda self: self._mine())
    @rule(overwrite=st.booleans())
    def undo(self, overwrite: bool) -> None:
        mine = self._mine()
        assert self.work.ledger.latest() == f"run-{mine[-1].run}"
        self.work.undo(choice="overwrite" if overwrite else "leave")
        self._remember(self.model.back(mine, overwrite))

    @rule(run=st.integers(1, 5), overwrite=st.booleans())
    def rewind(self, run: int, overwrite: bool) -> None:
        if run > self.model.run:
            return
        self.work.rewind(f"run-{run}", "overwrite" if overwrite else "leave")
        self._remember(self.model.back([edit for edit in self.model.edits if edit.run >= run], overwrite))

    @precondition(lambda self: self.model.redos)
    @rule(overwrite=st.booleans())
    def redo(self, overwrite: bool) -> None:
        self.work.redo("overwrite" if overwrite else "leave")
        self.model.redo(overwrite)

    @precondition(lambda self: self._mine())
    @rule(count=st.integers(0, 3), finish=st.booleans())
    def undo_that_is_cut_off(self, count: int, finish: bool) -> None:
        mine, work = self._mine(), self.work
        run = f"run-{mine[-1].run}"
        tasks = work.make_undo().plan([step for step in work.ledger.active() if step.run == run])
        items = work.begin("undo", tasks, "leave")
        for item in items[:count]:
            work.make_undo().execute(item)
        self.restart()
        assert work.ledger.open is not None
        undo = work.make_undo()
        if finish:
            decided, plan = undo.plan_finish(work.ledger.open.items)
        else:
            decided, plan = [], undo.plan_redo([item for item in work.ledger.open.items if not item.outcome])
        done = [undo.execute(undo.prepare(task)) for task in plan]
        outcome: Any = "done" if finish else "rolled_back"
        work.ledger.fold(UndoFinished(id="u", kind="undo", outcome=outcome, items=(*decided, *done)))
        if finish:
            self._remember(self.model.back(mine, overwrite=False))

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        result = snapshot_tree(self.work.files)
        expected: dict[str, tuple[int, bytes]] = {
            name: (lies[1], lies[0]) for name, lies in self.model.disk.items() if lies is not None
        }
        assert {name: state for name, state in result.items() if name != "d"} == expected
        assert ("d" in result) == self.model.folder


TestUndoing = Undoing.TestCase
TestUndoing.settings = settings(
    max_examples=80,
    stateful_step_count=25,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking would take minutes of disk writes
    suppress_health_check=list(HealthCheck),
)

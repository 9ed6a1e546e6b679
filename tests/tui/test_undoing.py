from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_follow import long_talk
from tui_agent.checkpoints.ledger import Checkpoint, CheckpointFile
from tui_agent.common.domain import Diff, Hunk
from tui_agent.engine.undo import CannotUndo, UndoReport
from tui_agent.events import CommandChangedFiles, MessageQueued
from tui_agent.tui import commands
from tui_agent.tui.app import TuiAgentApp
from widgets.checkpoints import CheckpointDiffs, CheckpointsPanel


def file(name: str, **more: Any) -> CheckpointFile:
    fields = {"kind": "modify", "added": 3, "removed": 1, "edits": 1, "undone": False, **more}
    return CheckpointFile(path=f"/w/{name}", display=name, **fields)


LISTED = (
    Checkpoint(run="run-1", title="make a start", files=(file("README.md", kind="create"),), kept=True),
    Checkpoint(
        run="run-2",
        title="export the table as CSV and add a test for the empty one",
        files=(
            file("src/exporter/table.py", added=24, removed=7),
            file("tests/test_table.py", kind="create", undone=True),
            file("data/large.bin", cannot_undo="it has 200,000,000 bytes"),
            file("docs/old.md", kind="delete", added=0, removed=12, command="git rm docs/old.md"),
        ),
        commands=(
            CommandChangedFiles(command="make clean all", changed=("build/out.o",)),
            CommandChangedFiles(command="git rm docs/old.md", deleted=("docs/old.md",), covered=True),
        ),
    ),
    Checkpoint(run="run-3", title="tidy up", files=tuple(file(f"src/module_{at}.py") for at in range(9))),
)


class FakeCheckpoints:
    """Lists, and remembers what was asked of it."""

    def __init__(self, listed: tuple[Checkpoint, ...] = LISTED, fault: str = "") -> None:
        self._listed = listed
        self._fault = fault
        self.calls: list[tuple[Any, ...]] = []

    def listed(self) -> tuple[Checkpoint, ...]:
        return self._listed

    def conversation(self) -> tuple[Checkpoint, ...]:
        return self._listed

    async def _done(self, *call: Any) -> UndoReport:
        self.calls.append(call)
        if self._fault:
            raise CannotUndo(self._fault)
        return UndoReport(kind="undo", text="tidy up" if call[0] == "rewind" else "")

    async def undo(self, *, run: str = "", files: tuple[str, ...] = ()) -> UndoReport:
        return await self._done("undo", run, tuple(files))

    async def redo(self) -> UndoReport:
        return await self._done("redo")

    async def rewind(self, run: str, what: str = "both") -> UndoReport:
        return await self._done("rewind", run, what)

    async def finish(self) -> UndoReport:
        return await self._done("finish")

    async def roll_back(self) -> UndoReport:
        return await self._done("back")

    async def diff(self, run: str, path: str) -> Diff:
        if path.endswith(".bin"):
            raise CannotUndo("data/large.bin can't be compared: its content was not kept.")
        name = path.removeprefix("/w/")
        lines = (" import csv", "-def table():", "+def table(rows: list[Row]) -> str:", "     pass")
        hunk = Hunk(old_start=1, old_count=3, new_start=1, new_count=3, lines=lines)
        return Diff(path=name, kind="modify", hunks=(hunk,), added=1, removed=1)

    def keep(self, run: str = "") -> tuple[str, ...]:
        self.calls.append(("keep", run))
        return (run,)


def prepared(fault: str = "", **more: Any) -> tuple[TuiAgentApp, FakeCheckpoints, FakeSession]:
    app, session = app_for("answered", **more)
    checkpoints = FakeCheckpoints(fault=fault)
    session.checkpoints = checkpoints  # type: ignore[assignment]  # another double
    return app, checkpoints, session


@pytest.mark.parametrize(
    ("typed", "call"),
    [
        ("undo", ("undo", "", ())),
        ("undo 2", ("undo", "run-2", ())),
        ("undo src/a b.py", ("undo", "", ("src/a b.py",))),
        ("undo finish", ("finish",)),
        ("undo back", ("back",)),
        ("redo", ("redo",)),
        ("rewind 2", ("rewind", "run-2", "both")),
        ("rewind run-2 code", ("rewind", "run-2", "code")),
        ("rewind conversation 2", ("rewind", "run-2", "conversation")),
    ],
)
async def test_a_command_does_what_it_says(typed: str, call: tuple[Any, ...]) -> None:
    app, checkpoints, _ = prepared()
    async with run_app(app) as pilot:
        name, _, rest = typed.partition(" ")
        commands.execute_command(app, name, rest)
        await wait_for(pilot, lambda: checkpoints.calls == [call])
        await wait_until_rendered(pilot)
        if call[0] == "rewind":
            await wait_for(pilot, lambda: app.prompt.text == "tidy up")


async def test_clear_stops_the_run_and_what_waits_as_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    app, session = app_for("answered")

    async def interrupt(*, at_once: bool = False) -> None:
        session.busy = False

    monkeypatch.setattr(session, "interrupt", interrupt)
    session.busy = True
    async with run_app(app) as pilot:
        session.push(MessageQueued(id="q1", text="and then"))
        await pilot.press("alt+n")
        await wait_for(pilot, lambda: "again stops the run and clears the conversation" in screen_text(app))
        await pilot.press("alt+n")
        await wait_for(pilot, lambda: session.checkpoints.clears == 1)
        assert not session.busy and session.queue.order() == []


@pytest.mark.parametrize("typed", ["undo", "redo"])
async def test_what_was_undone_is_shown_where_one_had_scrolled_up(typed: str) -> None:
    app, session = app_for(long_talk(12).records)
    session.checkpoints = FakeCheckpoints()  # type: ignore[assignment]  # another double
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("pageup")
        await wait_for(pilot, lambda: not app.transcript.following)
        await pilot.press(*f"/{typed}", "enter")
        await wait_for(pilot, lambda: app.transcript.following)


async def test_what_cannot_be_undone_is_a_hint() -> None:
    app, checkpoints, _ = prepared("Nothing to undo.")
    async with run_app(app) as pilot:
        commands.execute_command(app, "undo", "")
        await wait_for(pilot, lambda: "Nothing to undo" in screen_text(app))
        assert checkpoints.calls


@pytest.mark.parametrize("command", ["rewind", "checkpoints"])
async def test_only_what_can_be_undone_is_offered_for_it(command: str) -> None:
    commands_run = (CommandChangedFiles(command="make", changed=("a.py",), covered=True),)
    undone = Checkpoint(run="run-1", title="tidy up", files=(file("a.py", undone=True),), commands=commands_run)
    app, checkpoints, _ = prepared()
    checkpoints._listed = (undone,)
    async with run_app(app) as pilot:
        commands.execute_command(app, command, "")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel))
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert "+3 −1  undone" in text and "ran `make`" in text
        assert "undo this run" not in text and "undo reverts" not in text


async def test_a_run_is_chosen_from_the_list_and_taken_back() -> None:
    app, checkpoints, _ = prepared()
    async with run_app(app) as pilot:
        commands.execute_command(app, "rewind", "")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel))
        await pilot.press("down", "u")
        await wait_for(pilot, lambda: checkpoints.calls == [("undo", "run-2", ())])
        commands.execute_command(app, "checkpoints", "")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel))
        await pilot.press("down", "down", "down", "up", "c")
        await wait_for(pilot, lambda: checkpoints.calls[-1] == ("rewind", "run-2", "code"))
        commands.execute_command(app, "checkpoints", "")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel))
        await pilot.press("escape")
        await wait_for(pilot, lambda: not isinstance(app.screen, CheckpointsPanel))
        assert len(checkpoints.calls) == 2


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_list(size: tuple[int, int], theme: str, snap_compare: Any) -> None:
    app, _, _ = prepared(theme=theme)

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        commands.execute_command(app, "checkpoints", "")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel))
        await pilot.press("down")
        await wait_until_rendered(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
def test_diffs(size: tuple[int, int], snap_compare: Any) -> None:
    app, _, _ = prepared()

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        commands.execute_command(app, "checkpoints", "")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointsPanel))
        await pilot.press("down", "d")
        await wait_for(pilot, lambda: isinstance(app.screen, CheckpointDiffs))
        await wait_until_rendered(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)

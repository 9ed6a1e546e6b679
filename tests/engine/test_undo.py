from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer
from tui_agent.engine.undo import CannotUndo
from tui_agent.events import (
    ApprovalRequested,
    CommandChangedFiles,
    ConversationRewound,
    FileSnapshotted,
    QuestionAsked,
    Record,
    SessionRecovered,
    ToolFinished,
    UndoFinished,
    UndoStarted,
)
from tui_agent.events.narration import narrate
from tui_agent.frontends.session_commands import CommandReply, run_session_command
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

EDIT = {"flags": {"approval_mode": "auto-edit", "mode": "direct"}}
WORK = scenario(
    "work",
    step("", call("read_file", path="a.txt")),
    step("", call("edit_file", path="a.txt", old_string="two", new_string="TWO")),
    step("", call("edit_file", path="b.sh", old_string="echo", new_string="printf")),
    step("", call("write_file", path="new/deep/c.txt", content="made\n")),
    "done",
)
AGAIN = scenario("again", step("", call("edit_file", path="a.txt", old_string="one", new_string="1")), "done")
TALK = scenario("talk", "we talked")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = make_workspace(tmp_path / "work", tests=False)
    (folder / "a.txt").write_bytes(b"one\r\ntwo\r\nthree")
    (folder / "b.sh").write_bytes(b"#!/bin/sh\necho hi\n")
    os.chmod(folder / "b.sh", 0o751)
    return folder


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file and folder with its mode and hash."""
    found = {}
    for path in sorted(folder.rglob("*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (stat.S_IMODE(path.lstat().st_mode), digest)
    return found


async def test_a_run_is_undone_and_done_again_byte_for_byte(workspace: Path) -> None:
    before = tree(workspace)
    async with serve(WORK, TALK, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session)
            await session.send("work")
            await watch.ended()
            after = tree(workspace)
            assert after != before
            listed = session.checkpoints.listed()
            assert [(file.display, file.kind) for file in listed[0].files] == [
                ("a.txt", "modify"),
                ("b.sh", "modify"),
                ("new/deep/c.txt", "create"),
            ]
            report = await session.checkpoints.undo()
            assert [item.outcome for item in report.items] == ["restored"] * 3
            assert tree(workspace) == before
            assert session.checkpoints.listed()[0].undone
            await session.checkpoints.redo()
            assert tree(workspace) == after
        async with run_session(server, workspace, resume=session.id, **EDIT) as resumed:
            assert not (await resumed.checkpoints.undo(files=["a.txt"])).stopped
            assert (workspace / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree"
            await resumed.checkpoints.undo()
            assert tree(workspace) == before
            with pytest.raises(CannotUndo, match="Nothing to undo"):
                await resumed.checkpoints.undo()
            watch = SessionDriver(resumed)
            await resumed.send("talk")
            assert (await watch.ended()).outcome == "done"
            sent = str(server.requests[-1].body)
            assert "taken back your changes to" in sent


async def test_the_pre_image_is_kept_before_the_edit(workspace: Path) -> None:
    async with serve(WORK, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session)
            await session.send("work")
            await watch.ended()
            kinds = [type(one.event).type for one in watch.records]
            assert kinds.index("file.snapshotted") < kinds.index("file.changed")
            for event in watch.of(FileSnapshotted):
                if event.before.kind == "file":
                    place = session.folder / "blobs" / event.before.sha256[:2] / event.before.sha256
                    assert hashlib.sha256(place.read_bytes()).hexdigest() == event.before.sha256
                    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@pytest.mark.parametrize("choice", ["leave", "merge", "overwrite", "aside"])
async def test_newer_work_of_the_user_is_asked_about_and_never_lost(workspace: Path, choice: str) -> None:
    theirs = b"mine\r\none\r\nTWO\r\nthree"
    words = {"leave": "Leave", "merge": "Revert", "overwrite": "Restore it", "aside": "Save the earlier"}
    async with serve(WORK, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:

            def answer(event: object) -> Answer | None:
                if not isinstance(event, QuestionAsked):
                    return Answer(verdict="approve")
                assert "a.txt: it has changed since" in event.question
                assert "+mine" in event.question
                assert event.otherwise == "leaves the file unchanged"
                return Answer(verdict="reply", text=next(o for o in event.options if o.startswith(words[choice])))

            watch = SessionDriver(session, answer)
            await session.send("work")
            await watch.ended()
            (workspace / "a.txt").write_bytes(theirs)
            undo = asyncio.create_task(session.checkpoints.undo(files=["a.txt"]))
            await watch.until_event(UndoFinished)
            report = await undo
            now = (workspace / "a.txt").read_bytes()
            expected = {
                "leave": theirs,
                "merge": b"mine\r\none\r\ntwo\r\nthree",
                "overwrite": b"one\r\ntwo\r\nthree",
                "aside": theirs,
            }
            assert now == expected[choice]
            if choice == "aside":
                assert Path(report.items[0].why).read_bytes() == b"one\r\ntwo\r\nthree"
            if choice in ("merge", "overwrite"):
                await session.checkpoints.redo()
                assert (workspace / "a.txt").read_bytes() == theirs


async def test_a_rewind_takes_back_files_and_conversation(workspace: Path) -> None:
    before = tree(workspace)
    async with serve(WORK, AGAIN, TALK, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session)
            for text in ("talk", "work", "again"):
                await session.send(text)
                await watch.ended()
            assert (workspace / "a.txt").read_bytes() == b"1\r\nTWO\r\nthree"
            report = await session.checkpoints.rewind("run-2")
            assert report.text == "work"
            assert tree(workspace) == before
            await session.send("talk")
            await watch.ended()
            said = str(server.requests[-1].body["messages"])
            assert "we talked" in said
            assert "work" not in [one.get("content") for one in server.requests[-1].body["messages"]]
            assert watch.of(ConversationRewound)


async def test_a_conversation_without_file_changes_is_rewound_and_files_are_not_mentioned(workspace: Path) -> None:
    async with serve(TALK, scenario("more", "and more"), strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session)
            for text in ("talk", "more"):
                await session.send(text)
                await watch.ended()
            assert [one.title for one in session.checkpoints.conversation()] == ["talk", "more"]
            assert session.checkpoints.listed() == ()
            report = await session.checkpoints.rewind("run-2")
            assert (report.text, report.items) == ("more", ())
            assert not watch.of(UndoFinished)
            assert [one.title for one in session.checkpoints.conversation()] == ["talk"]
            await session.checkpoints.redo()
            assert [one.title for one in session.checkpoints.conversation()] == ["talk", "more"]


@pytest.mark.parametrize("files_first", [True, False])
async def test_redo_takes_the_latest_of_an_undo_and_a_rewind_of_the_conversation(
    workspace: Path, files_first: bool
) -> None:
    async with serve(WORK, TALK, strict=True) as server, run_session(server, workspace, **EDIT) as session:
        watch = SessionDriver(session)
        for text in ("work", "talk"):
            await session.send(text)
            await watch.ended()
        checkpoints, edited = session.checkpoints, (workspace / "a.txt").read_bytes()
        steps = [lambda: checkpoints.undo(run="run-1"), lambda: checkpoints.rewind("run-2", "conversation")]
        for step in steps if files_first else steps[::-1]:
            await step()
        original = (workspace / "a.txt").read_bytes()
        assert original != edited

        def messages() -> list[str]:
            return [one.title for one in checkpoints.conversation()]

        await checkpoints.redo()
        assert (messages() == ["work", "talk"]) is files_first
        assert ((workspace / "a.txt").read_bytes() == edited) is not files_first
        await checkpoints.redo()
        assert messages() == ["work", "talk"]
        assert (workspace / "a.txt").read_bytes() == edited


async def test_redo_of_a_rewind_of_both_brings_back_both(workspace: Path) -> None:
    async with serve(WORK, strict=True) as server, run_session(server, workspace, **EDIT) as session:
        watch = SessionDriver(session)
        await session.send("work")
        await watch.ended()
        edited = (workspace / "a.txt").read_bytes()
        await session.checkpoints.rewind("run-1")
        assert (workspace / "a.txt").read_bytes() != edited
        await session.checkpoints.redo()
        assert (workspace / "a.txt").read_bytes() == edited
        assert [one.title for one in session.checkpoints.conversation()] == ["work"]


async def test_a_run_that_goes_on_is_not_undone(workspace: Path) -> None:
    ask = {"flags": {"approval_mode": "ask", "mode": "direct"}}
    async with serve(WORK, strict=True) as server, run_session(server, workspace, **ask) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.send("work")
        await watch.until_event(ApprovalRequested)
        with pytest.raises(CannotUndo, match="is working"):
            await session.checkpoints.undo()
        await session.interrupt()


async def test_a_file_too_large_to_keep_is_asked_about_first(workspace: Path) -> None:
    flags = {"approval_mode": "auto", "mode": "direct", "caps.undo_file_bytes": 12}
    async with serve(WORK, strict=True) as server:
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session, lambda event: Answer(verdict="reject"))
            await session.send("work")
            await watch.ended()
            asked = watch.of(ApprovalRequested)
            assert "can't be undone" in asked[0].why
            assert (workspace / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree"
            assert watch.of(ToolFinished)[1].result.code == "refused"


async def test_a_full_store_refuses_the_edit_unless_the_user_wants_it(workspace: Path) -> None:
    flags = {"approval_mode": "auto", "mode": "direct", "caps.undo_bytes": 10}
    async with serve(WORK, strict=True) as server:
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send("work")
            await watch.ended()
            assert "used up" in watch.of(ApprovalRequested)[0].why
            assert (workspace / "a.txt").read_bytes() == b"one\r\nTWO\r\nthree"
            report = await session.checkpoints.undo()
            outcomes = {item.display: item.outcome for item in report.items}
            assert outcomes == {"new/deep/c.txt": "restored", "b.sh": "failed", "a.txt": "failed"}
            assert (workspace / "a.txt").read_bytes() == b"one\r\nTWO\r\nthree"


async def test_what_is_told_live_is_told_on_replay(workspace: Path) -> None:
    async with serve(WORK, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session)
            await session.send("work")
            await watch.ended()
            await session.checkpoints.undo()
            await watch.until_event(UndoFinished)
            assert watch.of(UndoStarted)
        async with run_session(server, workspace, resume=session.id, **EDIT) as resumed:
            again: list[Record] = []
            async for record in resumed.follow(0):
                again.append(record)
                if record.seq == watch.records[-1].seq:
                    break
    live, replayed = SessionView(), SessionView()
    for record in watch.records:
        fold_record(live, record)
    for record in again:
        fold_record(replayed, record)
    assert [str(item) for item in live.items] == [str(item) for item in replayed.items]
    assert "Undone: 3 files" in str(live.items)


SHELL = scenario(
    "shell",
    step("", call("run_terminal_command", command="rm a.txt; echo x >> b.sh; mkdir -p d; echo y > d/e.txt; true")),
    "done",
)


async def test_what_a_command_changed_is_undone_and_the_rest_is_named(workspace: Path) -> None:
    original = tree(workspace)
    flags = {"approval_mode": "auto", "mode": "direct"}
    async with serve(SHELL, strict=True) as server:
        async with run_session(server, workspace, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send("shell")
            await watch.ended()
            assert not (workspace / "a.txt").exists()
            (told,) = watch.of(CommandChangedFiles)
            assert (told.created, told.changed, told.deleted) == (("d/e.txt",), ("b.sh",), ("a.txt",))
            files = {
                file.display: (file.kind, file.added, file.removed) for file in session.checkpoints.listed()[0].files
            }
            assert files == {"d/e.txt": ("create", 1, 0), "b.sh": ("modify", 1, 0), "a.txt": ("delete", 0, 2)}
            after = tree(workspace)
            report = await session.checkpoints.undo()
            assert report.commands == (told.command,) and not report.left
            assert tree(workspace) == original
            await session.checkpoints.redo()
            assert tree(workspace) == after
            log = (session.folder / "chat_history.log").read_text("utf-8")
            assert "deleted a.txt" in log
            assert "Undo can't revert what commands did outside the files of the workspace" in log


CACHE = scenario("cache", step("", call("run_terminal_command", command="touch __pycache__/x.pyc; true")), "done")


async def test_a_folder_that_undo_does_not_cover_is_named_as_the_user_knows_it(workspace: Path) -> None:
    (workspace / "__pycache__").mkdir()
    flags = {"approval_mode": "auto", "mode": "direct"}
    async with serve(CACHE, strict=True) as server, run_session(server, workspace, flags=flags) as session:
        watch = SessionDriver(session)
        await session.send("cache")
        await watch.ended()
        (told,) = watch.of(CommandChangedFiles)
        assert told.unwatched == ("__pycache__ (something in it changed)",)
        narration = narrate(told)
        assert narration is not None
        assert narration.text == "Undo does not cover: __pycache__ (something in it changed)."


async def test_an_undo_that_a_crash_cut_off_is_finished_or_reversed(workspace: Path) -> None:
    """The journal of an undo that got half-way, as kill -9 leaves it."""
    from tui_agent.checkpoints.undo import Undo
    from tui_agent.events import Notice

    for end in ("finish", "back"):
        before = tree(workspace)
        async with serve(WORK, strict=True) as server:
            async with run_session(server, workspace, **EDIT) as session:
                watch = SessionDriver(session)
                await session.send("work")
                await watch.ended()
                after = tree(workspace)
                checkpoints = session.checkpoints
                undo = Undo(checkpoints._store)
                items = [undo.prepare(task) for task in undo.plan(checkpoints.ledger.active())]
                session._emit(UndoStarted(id="u-1", kind="undo", items=tuple(items)))
                assert undo.execute(items[0]).outcome == "restored"
            assert tree(workspace) not in (before, after)
            async with run_session(server, workspace, resume=session.id, **EDIT) as resumed:
                assert (await SessionDriver(resumed).until_event(Notice, code="undo.cut_off")).level == "warning"
                with pytest.raises(CannotUndo, match="crash interrupted"):
                    await resumed.checkpoints.undo()
                assert await run_session_command(resumed, "undo", end) == CommandReply(), "as the notice says"
                if end == "finish":
                    assert tree(workspace) == before
                else:
                    assert tree(workspace) == after
                    await resumed.checkpoints.undo()
                    assert tree(workspace) == before


ONE = scenario(
    "one edit",
    step("", call("read_file", path="a.txt")),
    step("", call("edit_file", path="a.txt", old_string="two", new_string="TWO")),
    "done",
)


@pytest.mark.parametrize("edited", [False, True], ids=["before the edit", "after the edit"])
async def test_a_kill_around_an_edit_leaves_a_session_that_can_undo(workspace: Path, edited: bool) -> None:
    """Journal and file as kill -9 leaves them behind the pre-image: without the edit, and with it."""
    before = tree(workspace)
    async with serve(ONE, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session)
            await session.send("one edit")
            await watch.ended()
        journal = session.folder / "events.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        last = next(at for at, line in enumerate(lines) if b'"file.snapshotted"' in line)
        journal.write_bytes(b"".join(lines[: last + 1]))
        if not edited:
            (workspace / "a.txt").write_bytes(b"one\r\ntwo\r\nthree")
        async with run_session(server, workspace, resume=session.id, **EDIT) as resumed:
            recovered = await SessionDriver(resumed).until_event(SessionRecovered)
            assert len(recovered.interrupted) == 1  # the kill came inside the call
            (item,) = (await resumed.checkpoints.undo()).items
            assert item.outcome == ("restored" if edited else "already")
            assert tree(workspace) == before


async def test_closing_a_session_that_asks_about_an_undo_undoes_nothing(workspace: Path) -> None:
    async with serve(ONE, strict=True) as server:
        async with run_session(server, workspace, **EDIT) as session:
            watch = SessionDriver(session, lambda event: None)
            await session.send("one edit")
            await watch.ended()
            (workspace / "a.txt").write_bytes(b"mine")
            undo = asyncio.create_task(session.checkpoints.undo())
            await watch.until_event(QuestionAsked)
            await session.close()
            with pytest.raises(CannotUndo, match="closed"):
                await undo
            assert (workspace / "a.txt").read_bytes() == b"mine"
            with pytest.raises(CannotUndo, match="closed"):
                await session.checkpoints.undo()

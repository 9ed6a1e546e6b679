"""Protected files that commands make, and undo of what commands change (A2, K1)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.protected_commands import COMMANDS, ORDINARY
from tui_agent.__main__ import main
from tui_agent.checkpoints.ledger import Ledger
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.common import paths
from tui_agent.common.domain import Answer, EditAction, RunAction
from tui_agent.engine.host.command_guard import CommandGuard
from tui_agent.engine.host.quarantine import read_notes
from tui_agent.engine.session import Session
from tui_agent.engine.undo import CannotUndo
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalRequested,
    CommandChangedFiles,
    Event,
    FilesQuarantined,
    Notice,
    ToolFinished,
)
from tui_agent.safety.roots import Roots

AUTO = {"approval_mode": "auto", "sandbox": "off"}
PREPARE = (
    "mkdir -p old/d sub; echo 1 > old/d/e; echo a > a.txt; echo k > keep; chmod 755 keep; ln -s keep link; "
    "printf 'x\\0x' > bin; echo c > sub/c"
)
MANY_KINDS = (
    "rm -r old; mv a.txt b.txt; chmod 600 keep; ln -sf b.txt link; mkdir -p new/deep; echo x > new/deep/f; "
    "printf 'x\\0y' > bin; ln -s nowhere fresh; echo changed >> sub/c"
)
"""Changes of all kinds, after PREPARE."""


class FakeStream:
    """Collects events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.state = self
        self.ledger = Ledger()

    def emit(self, event: Event, **_: str) -> None:
        self.events.append(event)
        self.ledger.fold(event, "run-1")

    async def durable(self) -> None:
        pass


def shell(script: str, folder: Path) -> None:
    subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, timeout=30, check=False)


def state_of(path: Path) -> tuple[object, ...]:
    """What a reader of the path would find."""
    if path.is_file():
        return "file", path.read_bytes(), path.stat().st_mode & 0o111
    return (os.path.lexists(path), path.is_dir())


def guard_of(folder: Path) -> tuple[FakeStream, CommandGuard, Path]:
    workspace, session = folder / "work", folder / "session"
    workspace.mkdir(parents=True)
    session.mkdir()
    stream = FakeStream()
    roots = Roots([workspace])
    return stream, CommandGuard(stream, BlobStore(session), roots, session, saves=True), workspace  # type: ignore[arg-type]  # what it uses


async def test_what_a_command_makes_of_protected_files_is_quarantined(tmp_path: Path) -> None:
    for number, (name, (prepare, script, result)) in enumerate(COMMANDS.items()):
        _, guard, workspace = guard_of(tmp_path / str(number))
        shell(prepare, workspace)
        path = workspace / os.fsdecode(os.fsencode(result))
        before = state_of(path)
        guarded = await guard.begin(script, approved=False, run="run-1", call="c")
        shell(script, workspace)
        attacked = state_of(path)
        assert attacked != before, f"{name}: the command does nothing"
        ended = await guard.end(guarded)
        assert state_of(path) == before, name
        assert ended.edits and guard.undecided(), name
        # What the user approves is there as the command made it, except that pipes and links to nothing stay away.
        if name not in ("a pipe", "bare repository", "repository rebuilt"):
            for shown in ended.edits:
                await guard.release(shown, guarded)
            assert state_of(path) == attacked, name
            assert not guard.undecided(), name


async def test_ordinary_work_is_not_asked_about(tmp_path: Path) -> None:
    _, guard, workspace = guard_of(tmp_path)
    shell("git init -q . ; echo old > README.md", workspace)
    for script in ORDINARY:
        guarded = await guard.begin(script, approved=False, run="run-1", call="c")
        shell(script, workspace)
        assert not (await guard.end(guarded)).edits, script


async def test_of_an_approved_command_only_what_is_obeyed_is_quarantined(tmp_path: Path) -> None:
    stream, guard, workspace = guard_of(tmp_path)
    guarded = await guard.begin("make setup", approved=True, run="run-1", call="c")
    shell("git init -q .; echo x > .envrc; echo x > AGENTS.md", workspace)
    ended = await guard.end(guarded)
    assert not (workspace / "AGENTS.md").exists() and (workspace / ".envrc").exists()
    assert [item.display for shown in ended.edits for item in shown.items] == ["AGENTS.md"]
    (notice,) = [event for event in stream.events if isinstance(event, Notice)]
    assert ".envrc" in notice.text and ".git" in notice.text
    await guard.report_quarantined(ended.edits[0], guarded)
    guarded = await guard.begin("echo rules > AGENTS.md", approved=True, run="run-1", call="c")
    shell("echo rules > AGENTS.md", workspace)
    assert not (await guard.end(guarded)).edits
    assert (workspace / "AGENTS.md").exists()


async def test_what_changed_after_the_question_is_not_written(tmp_path: Path) -> None:
    _, guard, workspace = guard_of(tmp_path)
    guarded = await guard.begin("x", approved=False, run="run-1", call="c")
    shell("echo shown > AGENTS.md", workspace)
    handle = os.open(workspace / "AGENTS.md", os.O_WRONLY | os.O_APPEND)  # as a process that goes on
    (shown,) = (await guard.end(guarded)).edits
    os.write(handle, b"not shown\n")
    os.close(handle)
    assert "changed after" in await guard.release(shown, guarded)
    assert not (workspace / "AGENTS.md").exists()


# --- in a session --------------------------------------------------------------------------------

MAKES_RULES = scenario("rules", step("", call("run_terminal_command", command="make -s rules")), "done")
MAKEFILE = """
rules:
\t@echo 'obey me' > AGENTS.md
more:
\t@echo x > a; echo y > CLAUDE.md
later:
\t@(while ! [ -e go ]; do sleep 0.02; done; echo x > .envrc) > /dev/null 2>&1 &
"""


async def test_the_user_decides_about_a_protected_file(workspace: Path) -> None:
    for verdict in ("approve", "reject"):
        (workspace / "AGENTS.md").unlink(missing_ok=True)
        asked: list[EditAction] = []

        def answer(event: Event, verdict: str = verdict, asked: list[EditAction] = asked) -> Answer:
            assert isinstance(event, ApprovalRequested) and isinstance(event.action, EditAction)
            assert not (workspace / "AGENTS.md").exists()
            asked.append(event.action)
            return Answer(verdict=verdict)  # type: ignore[arg-type]  # one of the verdicts

        async with serve(MAKES_RULES) as server, run_session(server, workspace, flags=AUTO) as session:
            driver = SessionDriver(session, answer)
            await session.send("rules")
            await driver.ended()
            (action,) = asked
            assert action.protected and action.diff.hunks[0].lines == ("+obey me",)
            assert (workspace / "AGENTS.md").exists() is (verdict == "approve")
            (quarantined,) = driver.of(FilesQuarantined)
            assert Path(quarantined.files[0].moved_to).exists() is (verdict == "reject")
            (result,) = driver.of(ToolFinished)
            assert ("approved these" in result.text) is (verdict == "approve")
            assert ("did not approve: AGENTS.md" in result.text) is (verdict == "reject")
            if verdict == "approve":  # undo takes it back as any change by a command
                await session.checkpoints.undo()
                assert not (workspace / "AGENTS.md").exists()


async def test_without_an_answer_it_stays_out_and_the_end_says_so(workspace: Path) -> None:
    async with serve(MAKES_RULES) as server, run_session(server, workspace, flags=AUTO) as session:
        driver = SessionDriver(session, lambda event: None)
        await session.send("rules")
        await driver.until_event(ApprovalRequested)
        await session.interrupt()
        await driver.ended()
        (notice,) = [notice for notice in driver.of(Notice) if notice.code == "command.quarantined"]
        assert "AGENTS.md" in notice.text and "quarantine" in notice.text
        assert driver.of(ApprovalAnswered)[-1].answer.verdict == "withdrawn"
        assert not (workspace / "AGENTS.md").exists()


BACKGROUND = scenario("later", step("", call("run_terminal_command", command="make -s later")), "done")


async def test_a_background_job_makes_no_protected_file_either(workspace: Path) -> None:
    async with serve(BACKGROUND) as server, run_session(server, workspace, flags=AUTO) as session:
        driver = SessionDriver(session, lambda event: Answer(verdict="reject"))
        await session.send("later")
        await driver.ended()
        (workspace / "go").touch()
        quarantined = await driver.until_event(FilesQuarantined)
        assert [file.display for file in quarantined.files] == [".envrc"]
        await driver.until_event(Notice, code="command.quarantined")
        assert not (workspace / ".envrc").exists()
    assert not paths.command_notes_dir(workspace).exists()


KILLED = """
import asyncio, os, signal, subprocess, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.engine.test_command_guard import guard_of
async def main():
    stream, guard, workspace = guard_of(Path({folder!r}))
    subprocess.run(["bash", "-c", "echo good > CLAUDE.md"], cwd=workspace)
    guarded = await guard.begin("x", approved=False, run="run-1", call="c")
    script = "echo evil > CLAUDE.md; echo x > AGENTS.md; printf : > .tui-agent.yaml; mkdir .husky; echo x > .husky/pre-push"
    subprocess.run(["bash", "-c", script], cwd=workspace)
    if {ended}:
        await guard.end(guarded)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.parametrize("ended", [True, False], ids=["before the question", "while it ran"])
async def test_a_kill_leaves_no_protected_file_of_a_command(tmp_path: Path, ended: bool) -> None:
    program = KILLED.format(root=os.getcwd(), folder=str(tmp_path / "place"), ended=ended)
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    workspace = tmp_path / "place" / "work"
    async with serve(MAKES_RULES) as server:
        for start in ("first", "second"):
            async with run_session(server, workspace, flags=AUTO) as session:
                notices = [record.event async for record in _records(session) if isinstance(record.event, Notice)]
                told = [notice.text for notice in notices if notice.code == "command.quarantined"]
                assert len(told) == (1 if start == "first" else 0)
                for name in ("AGENTS.md", ".tui-agent.yaml", ".husky", "CLAUDE.md") if told else ():
                    assert name in told[0]
            assert [path.name for path in workspace.iterdir()] == ["CLAUDE.md"]
            assert (workspace / "CLAUDE.md").read_text("utf-8") == "good\n"


async def _records(session):
    async for record in session.follow():
        yield record
        if record.seq >= session.last:
            return


# --- undo of a command that ran when the program was killed --------------------------------------

KILLED_AT_WORK = """
import asyncio, os, signal, subprocess, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.engine.host import command_guard, command_watch
command_watch.MAX_NOTED_FILES = {limit}
CommandGuard = command_guard.CommandGuard
{patch}
async def main():
    command = {command!r} + "; kill -9 " + str(os.getpid()) + "; sleep 60"
    server = serve(scenario("work", step("", call("run_terminal_command", command=command)), "done"))
    flags = dict(approval_mode="auto", sandbox="off", snapshot_commands={saves})
    async with server, run_session(server, Path({folder!r}), flags=flags) as session:
        print(session.id, flush=True)
        driver = SessionDriver(session)
        await session.send("work")
        await driver.ended()
asyncio.run(main())
"""
AFTER_EVENT = """
async def forget(self, guarded):
    await self._stream.durable()
    os.kill(os.getpid(), signal.SIGKILL)
CommandGuard._forget = forget
"""


async def kill_at_work(
    folder: Path, command: str = MANY_KINDS, *, limit: int = 4_000, saves: bool = True, patch: str = ""
) -> str:
    """Run a session in a process that its command kills; return the session's id."""
    program = KILLED_AT_WORK.format(
        root=os.getcwd(), folder=str(folder), command=command, limit=limit, saves=saves, patch=patch
    )
    if patch:
        program = program.replace("kill -9 ", "echo ").replace("; sleep 60", "")
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    return killed.stdout.decode().split()[0]


async def changes_in(session: Session) -> list[CommandChangedFiles]:
    return [r.event async for r in _records(session) if isinstance(r.event, CommandChangedFiles)]


@pytest.mark.parametrize("other_first", [False, True], ids=["same session", "another session first"])
async def test_what_a_command_changed_before_a_kill_is_undone(workspace: Path, other_first: bool) -> None:
    shell(PREPARE, workspace)
    before = listing(workspace)
    name = await kill_at_work(workspace)
    after = listing(workspace)
    assert after != before
    async with serve(MAKES_RULES) as server:
        if other_first:
            async with run_session(server, workspace, flags=AUTO) as other:
                assert not await changes_in(other)
                told = [r.event.text async for r in _records(other) if isinstance(r.event, Notice)]
                assert [name in text for text in told if "ran when the program ended" in text] == [True]
            (workspace / "mine").write_text("not by the command")
            after = listing(workspace)
        for _ in range(2):  # a second start journals nothing again
            async with run_session(server, workspace, flags=AUTO, resume=name) as session:
                (event,) = await changes_in(session)
        assert event.covered and "b.txt" in event.created and "keep" in event.changed and "a.txt" in event.deleted
        assert not paths.command_notes_dir(workspace).exists()
        async with run_session(server, workspace, flags=AUTO, resume=name) as session:
            assert [file.display for file in session.checkpoints.listed()[-1].files]
            report = await session.checkpoints.undo()
            assert not report.left and MANY_KINDS in report.commands[0]
            if other_first:
                before["mine"] = after["mine"]
            assert listing(workspace) == before and not (workspace / "new").exists()
            assert not (await session.checkpoints.redo()).left
            assert listing(workspace) == after


@pytest.mark.parametrize("why", ["too many files", "saving is off", "unreadable note"])
async def test_a_command_that_can_not_be_undone_after_a_kill_is_named(
    workspace: Path, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tui_agent.engine.host import command_watch, quarantine

    (workspace / "keep.txt").write_text("keep")
    command = "echo zap > keep.txt"
    name = await kill_at_work(workspace, command, limit=1 if why == "too many files" else 9, saves=why[0] != "s")
    if why == "unreadable note":

        def fail(*_: object) -> None:
            raise StoreError("no", "failed")

        monkeypatch.setattr(quarantine, "_changes_since", fail)
    assert await asyncio.to_thread(main, ["undo", "--list", "--session", name]) == 0
    detail = "changed keep.txt" if why == "saving is off" else f"not watched: {command_watch.NOT_COMPARED}"
    output = capsys.readouterr().out
    assert "! not covered by undo: `echo zap" in output and detail in output
    async with serve(MAKES_RULES) as server, run_session(server, workspace, flags=AUTO, resume=name) as session:
        (event,) = await changes_in(session)
        assert not event.covered and not event.files
        if why == "saving is off":
            assert event.changed == ("keep.txt",)
        else:
            assert command_watch.NOT_COMPARED in event.unwatched[0]
        assert session.checkpoints.ledger.uncovered_commands(["run-1"])
        with pytest.raises(CannotUndo, match="Files that undo does not cover were changed by: `echo zap"):
            await session.checkpoints.undo()


async def test_a_file_whose_name_is_not_utf8_is_undone_after_a_kill(workspace: Path) -> None:
    path = os.fsencode(workspace) + b"/odd\xff"
    Path(os.fsdecode(path)).write_text("before")
    name = await kill_at_work(workspace, "for f in odd*; do echo after > $f; done")
    async with serve(MAKES_RULES) as server, run_session(server, workspace, flags=AUTO, resume=name) as session:
        assert not (await session.checkpoints.undo()).left
        assert Path(os.fsdecode(path)).read_text() == "before"


async def test_a_file_whose_content_was_not_saved_is_named_after_a_kill(workspace: Path) -> None:
    from tui_agent.checkpoints import snapshot

    (workspace / "large").touch()
    os.truncate(workspace / "large", snapshot.MAX_SAVED_SIZE + 1)
    name = await kill_at_work(workspace, "echo x >> large; rm Makefile")
    async with serve(MAKES_RULES) as server, run_session(server, workspace, flags=AUTO, resume=name) as session:
        report = await session.checkpoints.undo()
        assert {item.display: item.outcome for item in report.items} == {"large": "failed", "Makefile": "restored"}
        assert "saved before a command" in report.left[0].why


@pytest.mark.parametrize("lost", [False, True], ids=["all events", "the last event lost"])
async def test_changes_that_were_journaled_before_the_kill_are_not_journaled_again(workspace: Path, lost: bool) -> None:
    command = "for i in 1 2 3 4 5; do echo $i > made$i; done"
    spread = "from tui_agent.engine.host import command_watch; command_watch.FILES_PER_EVENT = 2\n"
    name = await kill_at_work(workspace, command, patch=spread + AFTER_EVENT)
    journal = paths.sessions_dir() / name / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b"command.changed" in lines[-1]
    if lost:
        journal.write_bytes(b"".join(lines[:-1]))
    async with serve(MAKES_RULES) as server:
        for _ in range(2):
            async with run_session(server, workspace, flags=AUTO, resume=name) as session:
                events = await changes_in(session)
        files = [file.display for event in events for file in event.files]
        assert files == [f"made{number}" for number in range(1, 6)]


async def test_the_note_stays_until_the_changes_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, guard, workspace = guard_of(tmp_path)
    noted: list[bool] = []

    async def durable() -> None:
        if any(isinstance(event, CommandChangedFiles) for event in stream.events):
            noted.append(bool(read_notes(workspace)))

    monkeypatch.setattr(stream, "durable", durable)
    await guard.end(await guard.begin("true", approved=True, run="run-1", call="c"))
    assert noted == [True] and not read_notes(workspace)


async def test_changes_of_a_background_job_are_not_taken_for_those_of_its_call(tmp_path: Path) -> None:
    """What its call changed is in the journal; the note of a job that goes on tells of protected files only."""
    _, guard, workspace = guard_of(tmp_path)
    started = await guard.begin("make later", approved=True, run="run-1", call="first")
    job = guard.follow_job(started, (await guard.end(started)).after)
    other = await guard.begin("true", approved=True, run="run-1", call="second")
    ((_, note),) = read_notes(workspace)
    assert note.command == "make later" and note.unfinished is not None and note.unfinished.call == "second"
    await guard.end(other)
    ((_, note),) = read_notes(workspace)
    assert note.command == "make later" and note.unfinished is None
    await guard.end_job(job)
    assert not read_notes(workspace)


@pytest.mark.parametrize("content", [b":", b"\0", b"a: [", b"b: &b [x]\nc: *b\n", b"[1, 2]", b"mode: nonsense"])
async def test_unusable_settings_of_a_workspace_do_not_prevent_a_start(workspace: Path, content: bytes) -> None:
    (workspace / ".tui-agent.yaml").write_bytes(content)
    async with serve(MAKES_RULES) as server, run_session(server, workspace) as session:
        notices = [record.event async for record in _records(session) if isinstance(record.event, Notice)]
        assert any(".tui-agent.yaml" in notice.text and "ignored" in notice.text for notice in notices)


# --- undo of what commands changed ---------------------------------------------------------------


async def test_undo_reverts_all_kinds_of_changes_by_a_command(workspace: Path) -> None:
    shell(PREPARE, workspace)
    server_scenario = scenario("work", step("", call("run_terminal_command", command=MANY_KINDS)), "done")
    async with serve(server_scenario) as server, run_session(server, workspace, flags=AUTO) as session:
        before = listing(workspace)
        driver = SessionDriver(session)
        await session.send("work")
        await driver.ended()
        after = listing(workspace)
        assert after != before
        report = await session.checkpoints.undo()
        assert not report.left and report.commands == (MANY_KINDS,)
        assert listing(workspace) == before
        assert not (await session.checkpoints.redo()).left
        assert listing(workspace) == after


async def test_undo_of_a_command_asks_about_later_changes(workspace: Path) -> None:
    server_scenario = scenario(
        "work", step("", call("run_terminal_command", command="echo one > a; echo 1 > b")), "done"
    )
    async with serve(server_scenario) as server, run_session(server, workspace, flags=AUTO) as session:
        driver = SessionDriver(session)
        await session.send("work")
        await driver.ended()
        (workspace / "a").write_text("mine\n")
        report = await session.checkpoints.undo(choice="leave")
        assert {item.display: item.outcome for item in report.items} == {"a": "left", "b": "restored"}
        assert (workspace / "a").read_text() == "mine\n"
        assert report.left[0].choices == ("overwrite",)


async def test_what_is_not_covered_is_said(workspace: Path) -> None:
    from tui_agent.checkpoints import snapshot

    (workspace / "large").touch()
    os.truncate(workspace / "large", snapshot.MAX_SAVED_SIZE + 1)
    server_scenario = scenario("work", step("", call("run_terminal_command", command="echo x >> large; rm a")), "done")
    (workspace / "a").write_text("a\n")
    async with serve(server_scenario) as server, run_session(server, workspace, flags=AUTO) as session:
        driver = SessionDriver(session)
        await session.send("work")
        await driver.ended()
        (event,) = driver.of(CommandChangedFiles)
        assert [bool(file.unkept) for file in event.files if file.display == "large"] == [True]
        report = await session.checkpoints.undo()
        outcomes = {item.display: item.outcome for item in report.items}
        assert outcomes == {"large": "failed", "a": "restored"}
        assert "saved before a command" in report.left[0].why


async def test_with_the_setting_off_changes_are_listed_and_not_reverted(workspace: Path) -> None:
    flags = {**AUTO, "snapshot_commands": False}
    async with serve(
        scenario("work", step("", call("run_terminal_command", command="make -s more")), "done")
    ) as server:
        async with run_session(server, workspace, flags=flags) as session:
            driver = SessionDriver(session, lambda event: Answer(verdict="reject"))
            await session.send("work")
            await driver.ended()
            (event,) = driver.of(CommandChangedFiles)
            assert event.created == ("a",) and not event.covered and not event.files
            assert session.checkpoints.ledger.uncovered_commands(["run-1"])
            assert not (workspace / "CLAUDE.md").exists()


async def test_approval_of_the_command_is_not_of_the_rules_it_makes(workspace: Path) -> None:
    """Ask mode: the command is approved, the AGENTS.md that it makes behind the user's back is asked for."""
    asked: list[object] = []

    def answer(event: Event) -> Answer:
        assert isinstance(event, ApprovalRequested)
        asked.append(type(event.action))
        return Answer(verdict="approve" if isinstance(event.action, RunAction) else "reject")

    one = scenario("setup", step("", call("run_terminal_command", command="make -s rules")), "done")
    async with serve(one) as server, run_session(server, workspace, flags={"sandbox": "off"}) as session:
        driver = SessionDriver(session, answer)
        await session.send("setup")
        await driver.ended()
    assert asked == [RunAction, EditAction]
    assert not (workspace / "AGENTS.md").exists()


def listing(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file and link with mode and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = ("link", os.readlink(path))
        elif path.is_file():
            found[str(path.relative_to(folder))] = (path.stat().st_mode, path.read_bytes())
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    return folder

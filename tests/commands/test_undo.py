from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.__main__ import main
from tui_agent.engine.undo import CannotUndo
from tui_agent.events import UndoFinished
from tui_agent.events.narration import narrate

EDIT = {"flags": {"approval_mode": "auto-edit", "mode": "direct"}}
WORK = scenario(
    "work",
    step("", call("read_file", path="a.txt")),
    step("", call("edit_file", path="a.txt", old_string="two", new_string="TWO")),
    step("", call("write_file", path="new/c.txt", content="made\n")),
    "done",
)
MORE = scenario("more", step("", call("edit_file", path="a.txt", old_string="one", new_string="1")), "done")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = make_workspace(tmp_path / "work")
    (folder / "a.txt").write_text("one\ntwo\n")

    async def job() -> None:
        async with serve(WORK, MORE, strict=True) as server, run_session(server, folder, **EDIT) as session:
            watch = SessionDriver(session)
            for text in ("work", "more"):
                await session.send(text)
                await watch.ended()

    asyncio.run(job())
    return folder


def test_runs_are_listed_and_compared(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["undo", "--list", "-C", str(workspace)]) == 0
    output = capsys.readouterr().out
    assert "run-1  work" in output
    assert "A new/c.txt  +1 -0" in output
    assert main(["undo", "--diff", "--run", "1", "-C", str(workspace), "a.txt"]) == 0
    output = capsys.readouterr().out
    assert "-two" in output
    assert "+TWO" in output
    assert "-one" not in output


def test_the_last_run_goes_first_and_comes_back(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-C", str(workspace)]
    assert main(["undo", *options]) == 0
    assert (workspace / "a.txt").read_text() == "one\nTWO\n"
    assert main(["undo", "--redo", *options]) == 0
    assert (workspace / "a.txt").read_text() == "1\nTWO\n"
    assert main(["undo", "--rewind", "--run", "1", *options]) == 0
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    assert not (workspace / "new").exists()
    assert main(["undo", *options]) == 1
    assert "Nothing to undo" in capsys.readouterr().err


def test_newer_work_is_left_unless_asked_otherwise(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "a.txt").write_text("1\nTWO\nmine\n")
    assert main(["undo", "-C", str(workspace)]) == 1
    assert "left unchanged: it has changed since" in capsys.readouterr().out
    assert (workspace / "a.txt").read_text() == "1\nTWO\nmine\n"


def test_advice_names_only_what_works(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (workspace / "a.txt").write_text("mine\n")
    for choice in ("merge", "overwrite"):
        assert main(["undo", "-C", str(workspace), "--conflicts", choice]) == (1 if choice == "merge" else 0)
        output = capsys.readouterr().out
        assert ("--conflicts overwrite or aside" in output) is (choice == "merge")
        assert "--conflicts merge" not in output
    assert (workspace / "a.txt").read_text() == "one\nTWO\n"


SHELL = scenario("shell", step("", call("run_terminal_command", command="rm a.txt; mkdir -p d; echo x > d/e")), "done")


def test_commands_are_reverted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    flags = {"approval_mode": "auto", "sandbox": "off"}

    async def job() -> None:
        async with serve(SHELL, strict=True) as server, run_session(server, tmp_path, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send("shell")
            await watch.ended()

    asyncio.run(job())
    assert main(["undo", "--list", "-C", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "D a.txt  +0 -1  by `rm a.txt" in output and "A d/e  +1 -0  by `rm a.txt" in output
    assert main(["undo", "--diff", "-C", str(tmp_path)]) == 0
    assert "-one" in capsys.readouterr().out
    assert main(["undo", "-C", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "a.txt  restored" in output and "d/e  deleted" in output and "d/e  restored" not in output
    assert "Undo can't revert what commands did outside the files of the workspace" in output and "`rm a.txt" in output
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


EVIL = """
mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo y > .git/hooks/old
rm .git/info/attributes; echo '[alias]' >> .git/config; mkdir .git/worktrees; echo .. > .git/commondir; echo 1 > made
"""
LEFT = ("created .git/commondir", "changed .git/config")


@pytest.mark.parametrize("script", [EVIL, "echo '[alias]' >> .git/config; echo .. > .git/commondir"])
def test_each_protected_file_that_a_command_made_is_undone_or_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    git = tmp_path / ".git"
    for folder in ("hooks", "info", "objects", "refs"):
        (git / folder).mkdir(parents=True)
    for name in ("HEAD", "config", "hooks/old", "info/attributes"):
        (git / name).write_text("[core]\n")
    (tmp_path / "evil.sh").write_text(script)
    flags = {"approval_mode": "ask", "sandbox": "off"}
    talk = scenario("shell", step("", call("run_terminal_command", command="bash evil.sh")), "done")

    async def job() -> list[str]:
        async with serve(talk, strict=True) as server, run_session(server, tmp_path, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send("shell")
            await watch.ended()
            if script == EVIL:
                report = await session.checkpoints.undo()
                assert report.protected == LEFT
                finished = await watch.until_event(UndoFinished)
                await session.checkpoints.redo()
                narration = narrate(finished)
                assert narration is not None
                return [narration.text, *narration.details.splitlines()]
            with pytest.raises(CannotUndo, match=", ".join(LEFT).replace(".", r"\.")):
                await session.checkpoints.undo()
            return list(LEFT)

    told = asyncio.run(job())
    assert all(any(text in line for line in told) for text in LEFT)
    assert main(["undo", "--list", "-C", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert all(f"! protected, undo leaves it: {text}  by `bash evil.sh`" in listed for text in LEFT)
    assert main(["undo", "-C", str(tmp_path)]) == (0 if script == EVIL else 1)
    printed = capsys.readouterr()
    assert f"Undo leaves protected files as commands made them: {', '.join(LEFT)}." in printed.out + printed.err
    if script == EVIL:
        assert ".git/hooks/pre-commit  deleted" in printed.out and ".git/info/attributes  restored" in printed.out
    assert not (git / "hooks" / "pre-commit").exists() and not (tmp_path / "made").exists()
    assert (git / "hooks" / "old").read_text() == (git / "info" / "attributes").read_text() == "[core]\n"


def test_what_was_kept_is_passed_over(workspace: Path) -> None:
    options = ["-C", str(workspace)]
    assert main(["undo", "--keep", "--run", "2", *options]) == 0
    assert main(["undo", *options, "new/c.txt"]) == 0
    assert not (workspace / "new").exists()
    assert (workspace / "a.txt").read_text() == "1\nTWO\n"


def test_without_a_session_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["undo", "-C", str(tmp_path)]) == 1
    assert "no session" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit_:
        main(["undo", "--rewind"])
    assert exit_.value.code == 2


async def test_a_session_in_use_can_be_listed_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_workspace(tmp_path / "work")
    async with serve(WORK, strict=True) as server, run_session(server, folder, **EDIT):
        assert await asyncio.to_thread(main, ["undo", "--list", "-C", str(folder)]) == 0
        assert await asyncio.to_thread(main, ["undo", "-C", str(folder)]) == 1
    assert "in use" in capsys.readouterr().err

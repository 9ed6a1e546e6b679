from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.events import FileChanged, Notice

pytestmark = pytest.mark.needs("git")

WRITE = scenario("write", step("", call("write_file", path="new.md", content="All is well.\n")), "Written.")
ON: dict[str, Any] = {"git_branch": True}


def git(folder: Path, *arguments: str) -> str:
    named = ["-c", "user.name=N", "-c", "user.email=n@example.org"]
    done = subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with a commit, a staged change, one that is not, and a hook that would tell of itself."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    for name in ("a.txt", "b.txt"):
        (work / name).write_text("one\n")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "First")
    (work / "a.txt").write_text("staged\n")
    git(work, "add", "a.txt")
    (work / "b.txt").write_text("not staged\n")
    for name in ("post-checkout", "reference-transaction"):
        hook = work / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/hook-ran'\n")
        hook.chmod(0o755)
    return work


async def said(work: Path, *texts: str, flags: dict[str, Any] = ON, **more: Any) -> SessionDriver:
    async with serve(WRITE, scenario("look", "Nothing there."), strict=True) as server:
        async with run_session(server, work, flags=flags, **more) as session:
            watch = SessionDriver(session)
            for text in texts:
                await session.send(text)
                await watch.ended()
    return watch


def told(watch: SessionDriver) -> list[Notice]:
    return [one for one in watch.of(Notice) if one.code == "git.branch"]


async def test_a_branch_is_made_before_the_first_change_and_nothing_else_moves(work: Path) -> None:
    commit, before = git(work, "rev-parse", "HEAD"), git(work, "status", "--porcelain")
    index = (work / ".git" / "index").read_bytes()
    watch = await said(work, "look around", "write the note, über alles", "write it again")
    assert git(work, "symbolic-ref", "HEAD") == "refs/heads/tui-agent/look-around"
    assert git(work, "rev-parse", "HEAD") == git(work, "rev-parse", "main") == commit
    assert (work / ".git" / "index").read_bytes() == index
    assert git(work, "status", "--porcelain").splitlines() == [*before.splitlines(), "?? new.md"]
    assert not (work.parent / "hook-ran").exists()
    (notice,) = told(watch)
    assert notice.level == "info" and "tui-agent/look-around" in notice.text and "git switch main" in notice.text
    order = [type(one.event) for one in watch.records if one.event is notice or isinstance(one.event, FileChanged)]
    assert order == [Notice, FileChanged]


async def test_reading_alone_makes_no_branch_and_neither_does_the_setting_that_is_off(work: Path) -> None:
    assert not told(await said(work, "look around"))
    assert not told(await said(work, "write it", flags={}))
    assert git(work, "branch", "--format=%(refname:short)") == "main"


async def test_a_second_session_counts_on_and_a_resumed_one_stays_on_its_branch(work: Path) -> None:
    git(work, "branch", "tui-agent/write-it")
    first = await said(work, "write it")
    assert git(work, "symbolic-ref", "--short", "HEAD") == "tui-agent/write-it-2"
    assert not told(await said(work, "write it again", resume=first.session.id))
    assert git(work, "symbolic-ref", "--short", "HEAD") == "tui-agent/write-it-2"


async def test_without_a_commit_the_first_one_will_be_on_the_branch(tmp_path: Path) -> None:
    work = tmp_path / "new"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    assert len(told(await said(work, "write it"))) == 1
    assert git(work, "symbolic-ref", "--short", "HEAD") == "tui-agent/write-it"


async def test_during_a_merge_no_branch_is_made_and_that_is_told(work: Path) -> None:
    (work / ".git" / "MERGE_HEAD").write_text(git(work, "rev-parse", "HEAD") + "\n")
    (notice,) = told(await said(work, "write it"))
    assert notice.level == "warning"
    assert "a merge is in progress. Its changes are on main." in notice.text
    assert git(work, "symbolic-ref", "--short", "HEAD") == "main"
    assert (work / "new.md").exists()


async def test_without_a_repository_nothing_is_said(tmp_path: Path) -> None:
    work = tmp_path / "plain"
    work.mkdir()
    assert not told(await said(work, "write it"))
    assert (work / "new.md").exists()


async def test_a_command_that_may_write_counts_as_a_change(work: Path) -> None:
    runs = scenario("run", step("", call("run_terminal_command", command="cp a.txt c.txt")), "Copied.")
    async with serve(runs, strict=True) as server, run_session(server, work, flags=ON) as session:
        watch = SessionDriver(session)
        await session.send("run it")
        await watch.ended()
    assert len(told(watch)) == 1 and (work / "c.txt").exists()
    assert git(work, "symbolic-ref", "--short", "HEAD") == "tui-agent/run-it"

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.faults.hostile_repos import TRAPS, build, git, program, put, repository
from tui_agent.platform.git import Git, branch_of

pytestmark = pytest.mark.needs("git")
STATUS = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all")
SETTINGS = [name for name, trap in TRAPS.items() if trap.git]


def stamp(path: Path) -> tuple[int, int, int] | None:
    found = path.stat() if path.exists() else None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


@pytest.mark.parametrize("name", SETTINGS)
async def test_no_program_of_a_trusted_repository_is_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, canaries = tmp_path / "repo", tmp_path / "canaries"
    build(repo, [name], canaries)
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", f".:{repo}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    index = stamp(repo / ".git/index")
    for folder in (repo, *(below for below in (repo / "docs", repo / "below") if below.is_dir())):
        for words in (STATUS, ("diff", "--name-only"), ("log", "-1", "--format=%h")):
            output = await Git(folder, [repo]).run(*words, seconds=30)
            if index is not None and folder == repo and words == STATUS:
                assert output is not None and b" M code.py\0" in output
    assert os.listdir(canaries) == []
    assert stamp(repo / ".git/index") == index and not (repo / ".git/index.lock").exists()


async def test_filters_that_the_users_own_settings_name_are_not_run_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, canary = tmp_path / "repo", tmp_path / "canary"
    repo.mkdir()
    repository(repo)
    script = program(tmp_path, "filter", f"echo x >> {canary}", then="cat")
    put(tmp_path, "home/.gitconfig", f'[filter "a.b"]\n\tclean = {script}\n\trequired = true\n')
    put(repo, ".gitattributes", "*.py filter=a.b\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    await asyncio.to_thread(subprocess.run, ["git", "diff"], cwd=repo, check=False, capture_output=True)
    assert canary.exists()  # the trap is set
    canary.unlink()
    assert await Git(repo, [repo]).run("diff", "--name-only", seconds=30) == b"code.py\n"
    assert not canary.exists()


async def test_a_hanging_flooding_or_missing_git_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("while :; do sleep 1; done", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", "exit 3"):
        fake = put(
            tmp_path,
            "bin/git",
            f'#!/bin/sh\ncase "$*" in *get-regexp*) exit 1;; esac\necho $$ > {tmp_path}/pid\n{text}\n',
        )
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        assert await Git(tmp_path, []).run("status", seconds=2) is None
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
    assert await Git(tmp_path, [tmp_path, Path("/usr"), Path("/bin")]).run("status", seconds=2) is None
    assert await Git(tmp_path / "missing", []).run("status", seconds=2) is None


def test_the_branch_is_read_by_file(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    assert branch_of(repo) is None
    repository(repo)
    git(repo, "checkout", "-qb", "topic/one")
    (repo / "below").mkdir()
    assert branch_of(repo) == branch_of(repo / "below") == "topic/one"
    git(repo, "worktree", "add", "-q", "../other", "-b", "second")
    assert branch_of(tmp_path / "other") == "second"
    git(repo, "checkout", "-q", "--detach")
    assert len(branch_of(repo) or "") == 10
    (repo / ".git/HEAD").unlink()
    os.mkfifo(repo / ".git/HEAD")
    assert branch_of(repo) is None

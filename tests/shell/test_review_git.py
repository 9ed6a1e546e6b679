from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tui_agent.platform.output import Capture
from tui_agent.shell import review_git

READS = [
    "git log",
    "git log --oneline -5 main..HEAD",
    "git --no-pager diff HEAD~1 -- src/app.py",
    "git show HEAD^ --stat",
    "git show HEAD:src/app.py",
    "git status --short",
    "git blame -L 3,9 src/app.py",
    "git grep -n 'def main' -- src",
    "git log -SOutput --format='%h %an %s'",
    "git ls-files src",
]
DOES_NOT = [
    "git commit -am x",
    "git branch -D main",
    "git log > file",
    "git log; rm -r src",
    "git log | sh",
    "git log `id`",
    "git log $(id)",
    "git -c core.pager=evil log",
    "git --exec-path=/tmp log",
    "git -C /elsewhere log",
    "git log --output=src/app.py",
    "git log --outp=src/app.py",
    "git diff --ext-diff",
    "git diff --textconv",
    "git diff --no-index /etc/passwd src/app.py",
    "git diff /etc/passwd src/app.py",
    "git diff ../other src/app.py",
    "git diff --no-i a b",
    "git log --format=%G?",
    "git log --show-sig",
    "git grep -Oless def",
    "git grep -nf /etc/passwd",
    "git grep --open-files-in-pager=evil def",
    "git blame --contents=/etc/passwd src/app.py",
    "git blame -S/etc/passwd src/app.py",
    "git log --submodule=diff",
    "git show HEAD:.env",
    "git cat-file --filters HEAD:a",
    "git config --list",
    "git",
    "git 'log",
    "hub log",
]


def secret(path: str) -> bool:
    return path.endswith(".env")


@pytest.mark.parametrize("command", READS)
def test_read_only_commands_are_accepted(command: str) -> None:
    assert review_git.git_arguments(command, secret) is not None


@pytest.mark.parametrize("command", DOES_NOT)
def test_other_commands_are_rejected(command: str) -> None:
    assert review_git.git_arguments(command, secret) is None


@pytest.mark.needs("git")
async def test_a_hostile_repository_runs_nothing(tmp_path: Path) -> None:
    repository, mark = tmp_path / "work", tmp_path / "ran"
    repository.mkdir()

    def git(*words: str) -> None:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *who, *words], cwd=repository, check=True, capture_output=True)

    git("init", "-q")
    (repository / "a.txt").write_text("one\n")
    (repository / ".gitattributes").write_text("*.txt diff=evil filter=evil\n")
    git("add", ".")
    git("commit", "-qm", "first")
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    for name in (
        "diff.evil.command",
        "diff.evil.textconv",
        "diff.external",
        "filter.evil.clean",
        "core.fsmonitor",
        "core.pager",
        "gpg.ssh.program",
        "gpg.program",
    ):
        git("config", name, str(evil))
    git("config", "log.showSignature", "true")
    (repository / "a.txt").write_text("two\n")
    mark.unlink(missing_ok=True)
    outputs: dict[str, str] = {}
    for command in ("git log -p", "git diff", "git status --short", "git blame a.txt", "git show HEAD"):
        arguments = review_git.git_arguments(command, secret)
        assert arguments is not None
        outcome = await review_git.run_git_read(
            arguments, cwd=repository, folders=(repository,), timeout=60, capture=Capture()
        )
        assert outcome.exit_code == 0, (command, outcome.note)
        outputs[command] = outcome.output
        assert not mark.exists(), command
    assert "+two" in outputs["git diff"] and "first" in outputs["git log -p"]

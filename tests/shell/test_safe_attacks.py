"""Commands that look like reading, met by files, names and repositories that were prepared to abuse them (A1, A8)."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tui_agent.common.domain import CommandOutcome
from tui_agent.platform.git import Git
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Stage
from tui_agent.safety.roots import Roots
from tui_agent.shell.execution import MAX_MEMORY, ScriptExecution, Sink
from tui_agent.shell.filters import awk_only_prints, sed_only_prints
from tui_agent.shell.interpreter import run_script
from tui_agent.shell.safe_commands import assess_command, safe_script

AWK_ATTACKS = (
    # A slash after these tokens begins a regular expression, whose quote must not open a string.
    'BEGIN{ if (1) /"/; print "x" > "written"; if (1) /"/ }',
    'BEGIN{ s="sh"; if (1) /"/; print "touch written" | s; if (1) /"/ }',
    'BEGIN{ x = 1 + /"/; print "x" > "written"; y = 1 + /"/ }',
    'BEGIN{ x = 1 < /"/; print "x" > "written"; y = 1 < /"/ }',
    'BEGIN{ x = -/"/; print "x" > "written"; y = -/"/ }',
    'BEGIN{ x += /"/; print "x" > "written"; y += /"/ }',
    'BEGIN{ for (k in a) /"/; print "x" > "written"; if (1) /"/ }',
    'BEGIN{ printf /"/; print "x" > "written"; printf /"/ }',
    'BEGIN{ print $/"/; print "x" > "written"; print $/"/ }',
    'BEGIN{ if ((1)) /"/; print "x" > "written"; if ((1)) /"/ }',
    # A line end continues `print` after a comma.
    '{print 1,\n2 > "written"}',
    'BEGIN{ x++ /"/; print "x" > "written"; y++ /"/ }',
)


@pytest.mark.parametrize("program", AWK_ATTACKS)
def test_an_awk_program_can_not_hide_a_redirection(program: str) -> None:
    assert not awk_only_prints(program)


@pytest.mark.parametrize(
    "program",
    [
        "{ print ($1 + $2) / 2 }",
        "{ print $1 / 2, $2/3 }",
        "{ if ($1 ~ /a/) print }",
        "$1 > 3 { print }",
        "{ if ($3 > 100) print $1 }",
        '/"version"/ { print $4 }',
        "NR > 1 && /x/ || !/y/",
        "{ s += $1 } END { print s / NR }",
        "{ if (/x/) n++; else m++ } END { print n, m }",
        "{ a[$1]++ } END { for (k in a) print a[k] / NR, k }",
        '{ gsub(/a/, "b"); print }',
    ],
)
def test_an_awk_program_that_only_prints(program: str) -> None:
    assert awk_only_prints(program)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for name in ("src", "creds", "other", "sorts"):
        (project / name).mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private.txt").write_text("outside\n")
    (project / "src" / "a.py").write_text("import os\n")
    (project / "other" / "a.py").write_text("import os\n")
    (project / "creds" / ".env").write_text("SECRET=1\n")
    (project / "words.txt").write_text("/etc/passwd\n")
    (project / "@words.txt").write_text("x\n")
    (project / "parent").symlink_to(outside)
    (project / "other" / "link").symlink_to("../creds")
    (project / "log.gz").symlink_to(outside / "private.txt")
    (project / "src" / '{print 1,\n2 > "written"}').write_text("")
    return project


def runs(command: str, folder: Path) -> bool:
    return assess_command(command, folder, [folder], Roots([folder]).holds_credentials, git=True).safe


@pytest.mark.parametrize(
    "command",
    [
        # `--exclude` leaves out files, `--exclude-dir` folders; of contradictory patterns the last one counts.
        "grep -r SECRET --exclude-dir=.env .",
        "grep -r SECRET --exclude=creds .",
        "grep -r SECRET --exclude=.env --include=.env creds",
        "grep -r SECRET --include='.[e]nv' creds",
        "grep -r SECRET --include='.[^x]nv' creds",
        r"grep -r SECRET --include='\.env' creds",
        "grep -r SECRET --include='.[[:alpha:]]nv' creds",
        # Options and file names in a file.
        "nm @words.txt",
        "strings @words.txt",
        "objdump -x @words.txt",
        "readelf -a @words.txt",
        "size @words.txt",
        # `zcat log` opens `log.gz`.
        "zcat -f log",
        "zgrep x log",
        # Names outside of the workspace.
        "echo parent/*",
        "echo ../*",
        "printf '%s\\n' ../*",
        "for f in ../*; do echo $f; done",
        # A comparison of folders reads what a link leads to.
        "diff -r src other",
        "diff -rN other src",
        # File names as programs.
        'cd src && for p in *; do awk "$p" a.py; done',
        # Tools that start others, or write next to what they list.
        "tree -R -L 1",
        "cloc archive.tar.gz",
        # Variables with a meaning.
        "for PATH in bin; do ls; done",
        "for IFS in x; do echo axb; done",
        "for GIT_DIR in x; do git log; done",
        "for HOME in /etc; do ls ~; done",
        "cat words.txt | while IFS= read -r PATH; do ls; done",
        "cat words.txt | while IFS= read -r LD_PRELOAD; do ls; done",
        # The folder after a link is not the same to `cd` as to the system.
        "cd other/link && cat ../a.py",
        "git diff creds src",
        "git diff --no-index creds src",
    ],
)
def test_asks(folder: Path, command: str) -> None:
    assert not runs(command, folder)


def test_a_hard_link_to_credentials_of_the_home_folder_is_found_by_a_search(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "work_key").write_text("KEY\n")
    monkeypatch.setenv("HOME", str(home))
    assert runs("grep -r KEY src", folder)
    os.link(home / ".ssh" / "work_key", folder / "src" / "plain.txt")
    assert not runs("grep -r KEY src", folder)
    assert not runs("cat src/plain.txt", folder)


# --- git ---


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=n", "-c", "user.email=a@b", *arguments], cwd=folder, check=True, capture_output=True
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Commits, a merge and a stash, all of which touch a file with credentials."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / "creds").mkdir()
    (folder / "creds" / ".env").write_text("SECRET=1 \n")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "start")
    git(folder, "checkout", "-qb", "side")
    git(folder, "add", "creds")
    git(folder, "commit", "-qm", "env: add")
    git(folder, "checkout", "-q", "main")
    (folder / "a.txt").write_text("two\n")
    git(folder, "commit", "-qam", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge", "side")
    (folder / "creds" / ".env").write_text("SECRET=2 \n")
    git(folder, "stash")
    (folder / "a.txt").write_text("three\n")
    git(folder, "commit", "-qam", "last")
    (folder / "creds" / ".env").write_text("SECRET=3 \n")
    git(folder, "add", "creds")
    return folder


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "command",
    [
        "git status -v",
        "git status --verbose",
        "git diff --cached --check",
        "git show --check side",
        "git log --check --all",
        "git log --diff-merges=on",
        "git log --diff-merges=first-parent --oneline",
        "git log -c --combined-all-paths",
        "git log --cc --combined-all-paths",
        "git log -m -p HEAD~1",
        "git show 'HEAD^{/env: add}'",
        "git diff-tree -p main~2 main",
        "git diff-tree -p side~1 side",
        "git stash show -p",
        "git stash list -p",
        "git range-diff main~2..main~1 side~1..side side~1..main",
        "git log --remerge-diff",
        "git show --remerge-diff HEAD~1",
        "git log --diff-merges=remerge -p",
        "git for-each-ref --format='%(raw)'",
        "git log -p --diff-filter=R --all",
        "git log --full-diff -p -- a.txt creds",
    ],
)
def test_git_shows_no_credentials(repository: Path, command: str) -> None:
    assert not runs(command, repository)


@pytest.mark.needs("git")
def test_a_renamed_file_with_credentials_asks(repository: Path) -> None:
    git(repository, "commit", "-qm", "three")
    git(repository, "mv", "creds/.env", "settings.txt")
    assert not runs("git diff --cached", repository)
    assert not runs("git diff --cached -M", repository)
    assert not runs("git diff HEAD --find-renames=10", repository)


@pytest.mark.needs("git")
def test_stash_settings_show_no_patch(repository: Path) -> None:
    git(repository, "config", "stash.showPatch", "true")
    outcome = executed("git stash show", repository)
    assert "SECRET" not in outcome.output


@pytest.mark.needs("git")
def test_data_of_another_repository_asks(repository: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    (hostile / ".git").mkdir(parents=True)
    (hostile / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (hostile / ".git" / "commondir").write_text(f"{repository}/.git\n")
    assert not runs("git log", hostile)
    linked = tmp_path / "linked"
    git(tmp_path, "init", "-q", "linked")
    (linked / ".git" / "refs").rename(tmp_path / "gone")
    (linked / ".git" / "refs").symlink_to(repository / ".git" / "refs")
    assert not runs("git log", linked)


def executed(command: str, folder: Path) -> CommandOutcome:
    found = safe_script(command, folder, [folder], Roots([folder]).holds_credentials, git=True)
    assert found is not None
    return asyncio.run(run_script(found, timeout=20))


@pytest.mark.needs("git")
def test_drivers_of_a_repository_do_not_run(tmp_path: Path) -> None:
    folder = tmp_path / "drivers"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    driver = tmp_path / "driver.sh"
    driver.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    driver.chmod(0o755)
    (folder / ".gitattributes").write_text("* diff=own merge=own\n")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "start")
    git(folder, "checkout", "-qb", "side")
    (folder / "a.txt").write_text("two\n")
    git(folder, "commit", "-qam", "side")
    git(folder, "checkout", "-q", "main")
    (folder / "a.txt").write_text("three\n")
    git(folder, "commit", "-qam", "main")
    git(folder, "merge", "-q", "-s", "ours", "-m", "merge", "side")
    (folder / "a.txt").write_text("four\n")
    git(folder, "stash")
    for setting in ("merge.own.driver", "diff.own.textconv", "diff.own.command"):
        git(folder, "config", setting, str(driver))
    git(folder, "config", "log.diffMerges", "remerge")
    ran = tmp_path / "ran"
    for command in (
        "git stash list -p",
        "git stash show -p",
        "git log -p -m",
        "git log --remerge-diff",
        "git log --diff-merges=on",
        "git show HEAD",
        "git range-diff HEAD~1..HEAD side~1..side",
        "git show --remerge-diff",
        "git log -S four",
    ):
        if runs(command, folder):
            executed(command, folder)
        assert not ran.exists(), command


def test_libraries_are_not_loaded_from_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An empty or relative entry is the current folder.
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/opt/lib:lib:{tmp_path}/lib:")
    assert Git(tmp_path, [tmp_path]).environment()["LD_LIBRARY_PATH"] == "/opt/lib"
    monkeypatch.setenv("LD_LIBRARY_PATH", ":")
    assert "LD_LIBRARY_PATH" not in Git(tmp_path, [tmp_path]).environment()


# --- resources ---


async def test_memory_is_limited(tmp_path: Path) -> None:
    capture = Capture()
    execution = ScriptExecution(capture, 1e9, None)
    stage = Stage(program="/bin/sh", argv=("sh", "-c", "ulimit -d"))
    assert await execution.execute([stage], tmp_path, {}, None, Sink()) == 0
    assert int(bytes(capture.rings.head)) * 1024 <= MAX_MEMORY


def test_sed_scripts_end() -> None:
    assert not sed_only_prints("H;G;D")
    assert not sed_only_prints("G;D")

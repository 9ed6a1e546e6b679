"""Git reads run nothing of the repository, in whatever mode."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tui_agent.shell.git_reads import changes_repository_only, git_read
from tui_agent.shell.interpreter import run_script
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import NotSafe
from tui_agent.shell.safe_commands import safe_script
from tui_agent.shell.terminal import ShellSession


def secret(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".env") and name != ".env.example"


def accepts(command: str, cwd: Path) -> bool:
    try:
        git_read(command.split()[1:], cwd, Readable([cwd], secret), None)
    except NotSafe:
        return False
    return True


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline -5 main..HEAD",
        "git --no-pager diff HEAD~1 -- src/app.py",
        "git show HEAD:src/app.py",
        "git blame -L 3,9 src/app.py",
        "git grep -n main -- src",
        "git branch --list feature/*",
        "git config --get user.name",
        "git stash show -p stash@{0}",
        "git ls-files .env",
        "git log --oneline -- .env",
    ],
)
def test_reads(tmp_path: Path, command: str) -> None:
    assert accepts(command, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "git commit -am x",
        "git branch -D main",
        "git branch new",
        "git tag v1",
        "git stash",
        "git -c core.pager=evil log",
        "git --exec-path=/tmp log",
        "git -C /elsewhere log",
        "git log --output=src/app.py",
        "git log --outp=src/app.py",
        "git diff --ext-diff",
        "git diff --textconv",
        "git diff /etc/passwd src/app.py",
        "git diff ../other src/app.py",
        "git diff --no-index /etc/passwd src/app.py",
        "git diff -O/etc/passwd",
        "git log --format=%G?",
        "git log --show-sig",
        "git grep -Oless def",
        "git grep -nf /etc/passwd",
        "git blame --contents=/etc/passwd src/app.py",
        "git blame -S/etc/passwd src/app.py",
        "git log --submodule=diff",
        "git show HEAD:.env",
        "git show HEAD .env",
        "git log -p -- .env",
        "git cat-file --filters HEAD:a",
        "git cat-file --batch",
        "git config --get http.extraheader",
        "git config user.name Ada",
        "git config --list",
        "git remote show origin",
        "git reflog expire --all",
        "git symbolic-ref HEAD refs/heads/x",
        "git rev-parse --parseopt",
        "git ls-files --exclude-from=/etc/passwd",
        "git st",
    ],
)
def test_does_not_only_read(tmp_path: Path, command: str) -> None:
    assert not accepts(command, tmp_path)


Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitattributes").write_text("*.txt diff=evil filter=evil merge=evil\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "a.txt").write_text("two\n")
    return folder


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


async def output(command: str, folder: Path) -> str:
    found = await asyncio.to_thread(safe_script, command, folder, [folder], secret, git=True)
    assert found is not None, command
    outcome = await run_script(found, timeout=60)
    assert outcome.exit_code == 0, (command, outcome.output, outcome.note)
    return outcome.output


COMMANDS = (
    *("git status", "git diff", "git log -p --stat", "git show HEAD", "git blame a.txt", "git grep -n one HEAD"),
    *("git diff | head -5", "cd . && git status --short; git branch -vv", "git stash list", "git describe --always"),
    *("for r in HEAD; do git show --stat $r; done", "git ls-files -m", 'echo "$(git diff --stat)"', "git remote -v"),
)


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "settings",
    [
        ("core.fsmonitor",),
        ("diff.external",),
        ("diff.evil.command",),
        ("diff.evil.textconv",),
        ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
        ("core.pager", "pager.log", "pager.diff", "pager.status", "core.editor"),
        ("gpg.program", "gpg.ssh.program", "gpg.openpgp.program", "log.showSignature=true", "format.pretty=%G? %s"),
        ("core.sshCommand", "core.gitProxy", "core.askPass", "credential.helper", "core.alternateRefsCommand"),
        ("alias.status=!{evil}", "alias.log=!{evil}", "alias.diff=!{evil}"),
        ("core.hooksPath={folder}",),
        ("include.path={included}",),
    ],
)
async def test_a_hostile_repository_runs_nothing(repository: Path, tmp_path: Path, settings: tuple[str, ...]) -> None:
    mark, hooks = tmp_path / "ran", tmp_path / "hooks"
    hooks.mkdir()
    evil, included = hooks / "post-index-change", tmp_path / "included"
    evil.write_text(f"#!/bin/sh\necho ran >> {mark}\ncat\n")
    evil.chmod(0o755)
    included.write_text(
        f'[core]\n\tfsmonitor = {evil}\n[filter "evil"]\n\tclean = {evil}\n[diff]\n\texternal = {evil}\n'
    )
    for setting in settings:
        name, equals, value = setting.partition("=")
        git(
            repository,
            "config",
            name,
            value.format(evil=evil, folder=hooks, included=included) if equals else str(evil),
        )
    mark.unlink(missing_ok=True)
    for command in COMMANDS:
        await output(command, repository)
        assert not mark.exists(), command


@pytest.mark.needs("git")
async def test_an_ordinary_git_would_have_run_it(repository: Path, tmp_path: Path) -> None:
    mark, evil = tmp_path / "ran", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\n")
    evil.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(evil))
    assert "+two" in await output("git diff", repository) and not mark.exists()
    git(repository, "status")
    assert mark.exists()


@pytest.mark.needs("git")
def test_content_of_credentials_asks(repository: Path) -> None:
    def asks(command: str) -> bool:
        return safe_script(command, repository, [repository], secret, git=True) is None

    assert not asks("git diff") and not asks("git log -p") and not asks("git grep KEY")
    (repository / ".env").write_text("KEY=1\n")
    git(repository, "add", ".env")
    git(repository, "commit", "-qm", "secrets")
    blob = git(repository, "rev-parse", "HEAD:.env").strip()
    commit = git(repository, "rev-parse", "HEAD").strip()
    assert asks("git show") and asks("git log -p") and asks("git grep KEY") and asks("git show :/secrets")
    assert asks(f"git show {commit}") and asks(f"git show {blob}") and asks(f"git cat-file -p {blob}")
    assert asks("git diff HEAD~1 HEAD") and asks("git diff HEAD~1 -U1") and asks("git log -1 -U2 --stat")
    assert not asks("git show --stat") and not asks("git log --oneline") and not asks("git diff HEAD~1 --name-only")
    assert not asks("git show HEAD~1") and not asks("git diff HEAD~1 HEAD -- a.txt") and not asks("git grep two")
    assert not asks(f"git show --stat {commit}")


@pytest.mark.needs("git")
async def test_the_work_tree_is_the_one_around_the_folder(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "private.txt").write_text("private\n")
    git(repository, "config", "core.worktree", str(other))
    assert "private" not in await output("git status --short; git ls-files --others", repository)


@pytest.mark.needs("git")
def test_another_projects_data_asks(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert safe_script("git log", folder, [folder], secret, git=True) is None
    git(repository, "worktree", "add", "-q", str(tmp_path / "second"))
    assert safe_script("git log", tmp_path / "second", [tmp_path / "second"], secret, git=True) is not None


@pytest.mark.needs("git")
def test_a_token_in_an_address_asks(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "https://example.org/a.git")
    assert safe_script("git remote -v", repository, [repository], secret, git=True) is not None
    git(repository, "remote", "set-url", "origin", "https://token@example.org/a.git")
    for command in ("git remote -v", "git remote get-url origin", "git config --get remote.origin.url"):
        assert safe_script(command, repository, [repository], secret, git=True) is None


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "setting", ["core.fsmonitor", "diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean"]
)
async def test_reads_in_the_sessions_shell_run_nothing(repository: Path, tmp_path: Path, setting: str) -> None:
    mark, evil = tmp_path / "ran", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    evil.chmod(0o755)
    git(repository, "config", setting, str(evil))
    terminal = ShellSession(folder=repository)
    try:
        for command in ("git status > out", "git diff > out 2>&1; true", "x() { git log -p; }; x", "git show | cat"):
            outcome = await terminal.run(command)
            assert outcome.exit_code == 0 and not mark.exists(), (command, outcome.output)
        assert (await terminal.run("git diff a.txt")).output.endswith("+two")
        outcome = await terminal.run(
            "git -c user.name=A -c user.email=a@b commit -qam second; git log --oneline | wc -l"
        )
        assert outcome.output.splitlines()[-1].strip() == "2"
    finally:
        await terminal.close()


CHANGES_REPOSITORY = [
    "git commit -m x",
    'git add -A && git commit -am "a b"',
    "git stash",
    "git stash pop; git status",
    "git tag v1",
    "git checkout -b x",
    "cd sub && git commit -m x",
    "git commit -m \"$(cat <<'EOF'\nhello\n\nbody\nEOF\n)\"",
    "git -c user.name=x -c user.email=a@b commit -m x",
    "GIT_EDITOR=true git rebase --continue",
    "git -C sub add . 2>&1 | tail -3",
    "git switch -c f >/dev/null",
    "git rebase main",
    "git log -1 && git reset --soft HEAD~1",
    'GIT_AUTHOR_DATE="2020" git commit -m x',
    "git commit -F - <<EOF\nhi\nEOF",
    "if git diff --quiet; then echo no; else git commit -am x; fi",
    "git add . || true",
    'echo x > f && git add f && git commit -m "f"',
    "git commit -m 'it is 50% {a,b} $x'",
]

DOES_MORE = [
    "ls",
    "git status",
    "npm test && git commit -am x",
    'git rebase -x "make" main',
    "git rebase -i main",
    "git bisect run ./x",
    "git -c core.hooksPath=x commit",
    "git -c core.editor=./evil commit",
    "PATH=. git commit -m x",
    "git() { evil; }; git commit -m x",
    'git commit -m "$(python3 x.py)"',
    "echo x > .git/config && git add .",
    "git --git-dir=x commit",
    "git --exec-path=x commit",
    "git add . && ./run",
    "git fetch --upload-pack=x",
    'eval "git commit"',
    "git commit -m x & ./evil",
    "env git commit -m x; sh x",
    "git config a b",
    "git worktree add ../x",
    "$GIT commit",
    "git $X commit",
    "git commit $X",
    "export GIT_DIR=x; git commit -m x",
    "X=1; git commit -m x",
    "alias git=evil; git commit -m x",
    "git submodule update && git commit -m x",
    "git rebase --exec=evil main",
    'sh -c "git commit"',
    "git merge -s evil x",
    "GIT_SSH_COMMAND=x git fetch",
]


def test_only_git_commands_change_the_repository() -> None:
    assert [command for command in CHANGES_REPOSITORY if not changes_repository_only(command)] == []
    assert [command for command in DOES_MORE if changes_repository_only(command)] == []

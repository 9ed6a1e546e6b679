"""Attacks out of the sandbox: each works outside of it, and none inside, as root and as an ordinary user (A10)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.safety.escapes import attack, outside
from tests.safety.escapes.attacks import ATTACKS, NETWORK, SOCKETS
from tests.safety.test_sandbox import sandbox
from tui_agent.platform import supervisor
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Child, Stage, finished_process
from tui_agent.safety.roots import Roots
from tui_agent.safety.sandbox import ConfinedCommand

ORDINARY = 65534
PYTHON = "/usr/bin/python3"
KINDS = ("bwrap", "namespaces")
USERS = ["self", pytest.param("ordinary", marks=pytest.mark.needs("setpriv", "python3"))]


class AttackSetup:
    """A workspace, and around it what must not be reached."""

    def __init__(self, folder: Path, user: str) -> None:
        self.user = os.getuid() if user == "self" else ORDINARY
        self.folder, self.root, self.scratch = folder, folder / "work", folder / "scratch"
        self.home = folder / "home"
        for path in (self.root, self.scratch / "tmp", self.home, folder / "beside"):
            path.mkdir(parents=True)
        self.prefix: list[str] = []
        if self.user != os.getuid():
            self.prefix = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
            for path in (folder, *folder.rglob("*")):
                os.chown(path, ORDINARY, ORDINARY)
        self.attacks = [item for item in ATTACKS if item.as_root is None or item.as_root is (self.user == 0)]
        self.missing: set[str] = set()
        """Attacks whose target this machine does not have."""
        self.environment = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "SHELL": "/bin/sh"}

    def python(self) -> str:
        """Return a program that starts Python as the user; inside of the sandbox it is the user already."""
        script = self.folder / "python"
        become = f"""[ "$(id -u)" = {self.user} ] || exec {" ".join(self.prefix)} {PYTHON} "$@"\n"""
        script.write_text(f'#!/bin/sh\n{become if self.prefix else ""}exec {PYTHON} "$@"\n')
        script.chmod(0o755)
        return str(script)

    def run_attacks(self, sandbox_kind: str = "", *, network: bool = False) -> set[str]:
        """Make all attacks, and return the names of those that succeeded."""
        name = f"{os.getpid() % 10_000:04x}"
        requests = [
            [item.kind, item.target.replace("ID", name).replace("BASE", str(self.folder))] for item in self.attacks
        ]
        with subprocess.Popen(
            [*self.prefix, PYTHON, "-I", str(self._copy(outside.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.home,
        ) as world:
            assert world.stdin and world.stdout
            world.stdin.write(json.dumps(requests) + "\n")
            world.stdin.flush()
            targets = json.loads(world.stdout.readline())
            self.missing = {
                item.name for item, target in zip(self.attacks, targets, strict=True) if item.target and not target
            }
            made = [
                [item.language, item.code.replace("{target}", target) if target or not item.target else "true"]
                for item, target in zip(self.attacks, targets, strict=True)
            ]
            (self.root / "attacks").write_text(json.dumps(made))
            self._copy(attack.__file__)
            command = [PYTHON, "-I", "attack.py", "attacks"]
            printed = (
                asyncio.run(self.confined(sandbox_kind, command, network=network))
                if sandbox_kind
                else self._plain(command)
            )
            noticed = json.loads(world.communicate("end\n", timeout=60)[0])
        succeeded = {self.attacks[int(number)] for number in json.loads(printed.splitlines()[-1])}
        if sandbox_kind:
            succeeded = {item for item in succeeded if not item.is_own}
        return {item.name for item in succeeded} | {self.attacks[number].name for number in noticed}

    def _copy(self, script: str) -> Path:
        return Path(shutil.copy(script, self.root))

    def _plain(self, command: list[str]) -> str:
        process = subprocess.run(
            [*self.prefix, *command], cwd=self.root, env=self.environment, capture_output=True, text=True, check=True
        )
        return process.stdout

    async def confined(self, kind: str, command: list[str], **options: Any) -> str:
        """Return the output of a command in the sandbox."""
        confined = ConfinedCommand(sandbox(kind), Roots((self.root,), scratch=self.scratch), **options)
        capture = Capture()
        child = await Child.start(
            [Stage(program=command[0], argv=tuple(command))],
            cwd=self.root,
            environment=self.environment,
            capture=capture,
            confinement=confined,
        )
        status = await child.wait(120)
        await child.gone()
        return (await finished_process(capture, status)).output


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter, and that is not the sandbox's own as /tmp is."""
    place = next(path for path in ("/srv", "/opt", Path(__file__).parent) if os.access(path, os.W_OK))
    path = Path(tempfile.mkdtemp(dir=place, prefix="tui-agent-escapes-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def attack_setup(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AttackSetup:
    user = request.param
    if user == "ordinary":
        if os.getuid():
            pytest.skip("tests do not run as root: the ordinary user is `self`")
        if not all(os.stat(path).st_mode & 0o005 for path in Path(supervisor.__file__).parents):
            pytest.skip("an ordinary user can't read the program")
    field = AttackSetup(folder, user)
    monkeypatch.setattr(sys, "executable", field.python())
    monkeypatch.setenv("HOME", str(field.home))
    return field


# Each round of attacks starts some hundred processes, so they are all in one test for each user.
@pytest.mark.slow
@pytest.mark.parametrize("attack_setup", USERS, indirect=True)
def test_each_attack_works_without_a_sandbox_and_none_inside(attack_setup: AttackSetup) -> None:
    names = {item.name for item in attack_setup.attacks}
    worked = attack_setup.run_attacks()
    assert names - worked == attack_setup.missing, "they must work without a sandbox"
    assert len(worked) > 80
    for kind in KINDS:
        assert attack_setup.run_attacks(kind) == set(), kind


@pytest.mark.parametrize("attack_setup", ["self"], indirect=True)
def test_landlock_alone_denies_sockets_and_network(attack_setup: AttackSetup) -> None:
    attack_setup.attacks = [item for item in attack_setup.attacks if item in (*SOCKETS, *NETWORK)]
    assert attack_setup.run_attacks("landlock") == set()


@pytest.mark.slow
@pytest.mark.parametrize("attack_setup", [pytest.param("self", marks=pytest.mark.nightly), USERS[1]], indirect=True)
def test_the_network_setting_allows_the_network_alone(attack_setup: AttackSetup) -> None:
    allowed = {item.name for item in NETWORK}
    for kind in KINDS:
        succeeded = attack_setup.run_attacks(kind, network=True)
        assert "TCP" in succeeded and succeeded <= allowed, kind


REPOSITORY = """
set -e; git init -q -b main .; git config user.name me; git config user.email me@example.org; echo 1 > f
git add f; git commit -qm one; git init -q lib; printf '#!/bin/sh\\necho hook ran; (echo x > .git/hooks/evil) || true\\n' > .git/hooks/pre-commit
chmod +x .git/hooks/pre-commit; git -c protocol.file.allow=always submodule --quiet add ./ sub; git commit -qnm sub
git worktree add -q tree; mkdir -p packed/.git/info; rmdir packed/.git/info packed/.git packed
"""
GIT_WORK = """
echo 2 >> f; git add f; git commit -m two; git tag v1; git tag -a v2 -m v2; git branch b; git checkout -q b; echo 3 >> f
git stash; git stash pop; git commit -qam three; git switch -q main; git merge -q --no-ff -m merged b; git checkout -q -b c
echo new > g; git add g; git mv g h; git commit -qm h; git rm -q h; git commit -qm gone; git rebase -q main
git cherry-pick --allow-empty b~0 || git cherry-pick --skip; git reset -q HEAD~1; git restore .; git revert --no-edit HEAD
git notes add -m note; git -C sub -c user.name=me -c user.email=me@example.org commit -q --allow-empty -m inner; git gc -q; git branch -D b; git reset --hard -q v1
"""
GIT_ATTACKS = """
for f in hooks/pre-commit hooks/post-commit config info/attributes info/exclude description branches/x modules/sub/config \\
    modules/sub/hooks/post-commit worktrees/tree/commondir worktrees/tree/gitdir; do
    echo evil >> .git/$f && echo LEAK $f; rm -f .git/$f && ! [ -e .git/$f ] && [ -e kept/$f ] && echo LEAK rm $f
done
echo evil > lib/.git/config && echo LEAK lib; echo evil > lib/.git/hooks/post-commit && echo LEAK lib/hooks
mv .git g2 && echo LEAK mv; mv .git/hooks .git/h2 && echo LEAK hooks; mv .git/config .git/c2 && echo LEAK config
mv .git/modules/sub .git/m2 && echo LEAK sub; mv .git/info .git/i2 && echo LEAK info; git config a.b c && echo LEAK set
ln -sf /tmp .git/hooks && echo LEAK link; rm -rf .git/hooks; [ -e .git/hooks/pre-commit ] || echo LEAK removed
git config core.hooksPath evil && echo LEAK hooksPath; echo x > .vscode/tasks.json && echo LEAK vscode; true
"""


@pytest.mark.parametrize("attack_setup", USERS, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_git_alone_writes_its_data_but_neither_hooks_nor_settings(attack_setup: AttackSetup, kind: str) -> None:
    bash = ["/bin/bash", "-c"]
    attack_setup._plain([*bash, REPOSITORY + "cp -r .git kept"])
    before = attack_setup._plain([*bash, "cat .git/config .git/hooks/* .git/modules/sub/config; ls .git/hooks"])
    assert "Read-only file system" in asyncio.run(
        attack_setup.confined(kind, [*bash, "git commit --allow-empty -m x 2>&1"])
    )
    work = "set -ex; " + GIT_WORK.replace("\n", "; ").strip("; ") + "; echo all done"
    text = asyncio.run(attack_setup.confined(kind, [*bash, work], repositories=True))
    assert text.endswith("all done") and "hook ran" in text, text
    assert attack_setup._plain([*bash, "git log -1 --format=%s v1; git fsck 2>&1"]).startswith("two")
    text = asyncio.run(attack_setup.confined(kind, [*bash, GIT_ATTACKS], repositories=True))
    assert "LEAK" not in text and "Read-only file system" in text, text
    after = attack_setup._plain([*bash, "cat .git/config .git/hooks/* .git/modules/sub/config; ls .git/hooks"])
    assert after == before
    assert attack_setup._plain([*bash, GIT_ATTACKS]).count("LEAK") >= 12, "they must work without a sandbox"

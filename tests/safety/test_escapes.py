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
                asyncio.run(self._confined(sandbox_kind, command, network)) if sandbox_kind else self._plain(command)
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

    async def _confined(self, kind: str, command: list[str], network: bool) -> str:
        confined = ConfinedCommand(sandbox(kind), Roots((self.root,), scratch=self.scratch), network=network)
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
@pytest.mark.parametrize("attack_setup", USERS, indirect=True)
def test_the_network_setting_allows_the_network_alone(attack_setup: AttackSetup) -> None:
    allowed = {item.name for item in NETWORK}
    for kind in KINDS:
        succeeded = attack_setup.run_attacks(kind, network=True)
        assert "TCP" in succeeded and succeeded <= allowed, kind

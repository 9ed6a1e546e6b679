from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tui_agent.common.domain import ApprovalMode, RunAction, Severity
from tui_agent.engine.host.environment import SandboxPolicy
from tui_agent.platform import landlock, supervisor
from tui_agent.platform.environment import child_environment
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Child, ProcessError, Stage, finished_process
from tui_agent.safety import protected_paths
from tui_agent.safety.protected_paths import ProtectedPaths
from tui_agent.safety.roots import Roots
from tui_agent.safety.sandbox import NONE, ConfinedCommand, Sandbox, find_sandbox
from tui_agent.settings import Settings
from tui_agent.tools.base import ToolError

FOUND = find_sandbox()
LANDLOCK = Sandbox(kind="landlock", landlock=landlock.abi_version(), sockets=FOUND.sockets)
"""Alone, as where namespaces are forbidden."""


def sandbox(kind: str) -> Sandbox:
    """The one of that name, or the test is skipped with the reason."""
    if kind == "bwrap":
        if FOUND.kind != "bwrap":
            pytest.skip("bubblewrap is not there, or does not work here")
        return FOUND
    if not LANDLOCK.landlock:
        pytest.skip(f"Linux {os.uname().release} has no Landlock")
    if kind == "landlock":
        return LANDLOCK
    whole = msgspec.structs.replace(LANDLOCK, namespaces=True)
    if FOUND.kind == "landlock" and not FOUND.namespaces:
        pytest.skip("namespaces are forbidden here")
    return whole


WHOLE = [pytest.param("bwrap", marks=pytest.mark.needs("bwrap")), "namespaces"]
EACH = [*WHOLE, "landlock"]


class Place:
    def __init__(self, folder: Path) -> None:
        self.outside = folder / "outside"
        self.root = folder / "work"
        self.scratch = folder / "scratch"
        for path in (self.outside, self.root / ".git" / "hooks", self.scratch):
            path.mkdir(parents=True)
        (self.root / ".git" / "config").write_text("[core]\n")
        (self.root / "AGENTS.md").write_text("rules\n")
        (self.root / "deep" / ".vscode").mkdir(parents=True)
        self.roots = Roots((self.root,), scratch=self.scratch)

    async def run(self, kind: str, command: str, **more: Any) -> tuple[int | None, str]:
        return await self.start(ConfinedCommand(sandbox(kind), self.roots, **more), command)

    async def start(
        self, confined: ConfinedCommand, command: str, program: Sequence[str] = ("/bin/bash", "-c")
    ) -> tuple[int | None, str]:
        stage = Stage(program=program[0], argv=(Path(program[0]).name, *program[1:], command))
        capture = Capture()
        child = await Child.start(
            [stage], cwd=self.root, environment=child_environment(), capture=capture, confinement=confined
        )
        status = await child.wait(40)
        await child.gone()
        return status, (await finished_process(capture, status)).output


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("kind", EACH)
async def test_roots_and_scratch_can_be_written_and_nothing_else(place: Place, kind: str) -> None:
    command = (
        f"echo a > made; mkdir d && mv made d/moved; echo b > {place.scratch}/s; echo c > $TMPDIR/t; echo d > /dev/null;"
        f"for w in {place.outside}/x ~/x /etc/x {place.root.parent}/x; do echo e > $w && echo LEAK $w; done;"
        f"rm -rf {place.outside}; mv {place.outside} {place.root}/stolen; ln {place.root}/d/moved {place.outside}/l; true"
    )
    status, text = await place.run(kind, command)
    assert status == 0
    if kind == "landlock":  # the others have a /tmp of their own, where all of this lies
        assert "LEAK" not in text and text.count("Permission denied") >= 4
    assert (place.root / "d" / "moved").read_text() == "a\n"
    assert (place.scratch / "s").read_text() == "b\n" and (place.scratch / "tmp" / "t").read_text() == "c\n"
    assert list(place.outside.iterdir()) == [] and not (Path.home() / "x").exists()
    assert not (place.root.parent / "x").exists() and not Path("/etc/x").exists()


@pytest.mark.parametrize("kind", WHOLE)
async def test_protected_paths_are_read_only_even_if_missing(place: Place, kind: str) -> None:
    shutil.rmtree(place.root / "deep" / ".vscode")
    (place.root / "lib" / ".git").mkdir(parents=True)
    command = (
        "for w in .git/config .git/hooks/pre-commit .git/new AGENTS.md lib/.git/config .vscode/tasks.json .idea/x;"
        "do mkdir -p $(dirname $w); echo evil > $w && echo LEAK $w; done;"
        "mv .git g2 && echo LEAK moved; rm -rf .git AGENTS.md .vscode; ln -s /tmp .claude && ls .claude/. && echo LEAK;"
        "rmdir .vscode && echo LEAK rmdir; true"
    )
    status, text = await place.run(kind, command)
    assert status == 0 and "LEAK" not in text, text
    assert "Read-only file system" in text, "the fault did not fire"
    assert (place.root / ".git" / "config").read_text() == "[core]\n"
    assert sorted(entry.name for entry in place.root.iterdir()) == [".git", "AGENTS.md", "deep", "lib"]


NETWORK = {
    "tcp": "exec 3<>/dev/tcp/127.0.0.1/{port} && echo LEAK",
    "python": "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 3); print('LEAK')\"",
}
UDP = {
    "udp": "python3 -c \"import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}));\"",
    "dns": "python3 -c \"import socket; socket.getaddrinfo('example.org', 80); print('LEAK')\"",
}


@pytest.mark.parametrize("kind", EACH)
async def test_no_tcp(place: Place, kind: str) -> None:
    if "network" not in sandbox(kind).denies:
        pytest.skip("Landlock without the filter has no say in the network")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.setblocking(False)
        for command in NETWORK.values():
            _, text = await place.run(kind, command.format(port=port))
            assert "LEAK" not in text
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("kind", EACH)
async def test_no_udp_and_no_dns(place: Place, kind: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        for command in UDP.values():
            _, text = await place.run(kind, command.format(port=server.getsockname()[1]))
            assert "LEAK" not in text
        with pytest.raises(BlockingIOError):
            server.recv(10)


@pytest.mark.parametrize("kind", WHOLE)
async def test_servers_of_its_own_work_and_the_network_does_if_allowed(place: Place, kind: str) -> None:
    own = (
        "import socket as s, threading as t; l = s.create_server(('127.0.0.1', 0));"
        "t.Thread(target=lambda: l.accept()[0].send(b'own')).start();"
        "print(s.create_connection(l.getsockname()).recv(9))"
    )
    assert "own" in (await place.run(kind, f'python3 -c "{own}"'))[1]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        _, text = await place.run(kind, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo through", network=True)
    assert text == "through"


@pytest.mark.parametrize("kind", EACH)
async def test_no_escape_by_mounts_ptrace_or_identity(place: Place, kind: str) -> None:
    trace = (
        "import ctypes, sys; l = ctypes.CDLL(None, use_errno=True);"
        f"print('LEAK' if l.ptrace(16, {os.getpid()}, 0, 0) == 0 else 'traced not')"
    )
    mount = (
        "import ctypes; l = ctypes.CDLL(None, use_errno=True);"
        "l.unshare(0x10000000 | 0x20000); r = l.mount(b'none', b'/mnt', b'tmpfs', 0, None);"
        "print('LEAK' if r == 0 and not open('/mnt/x', 'w').write('') else 'mounted not')"
    )
    _, text = await place.run(kind, f'python3 -c "{trace}"; python3 -c "{mount}"; grep NoNewPrivs /proc/self/status')
    assert "LEAK" not in text and "traced not" in text
    assert text.split()[-1] == "1", "set-user-id programs give nothing"
    assert not (place.outside / "x").exists()


@pytest.mark.parametrize("kind", EACH)
async def test_read_only_command_can_not_write(place: Place, kind: str) -> None:
    command = f"cat AGENTS.md; echo x > made; echo x > {place.scratch}/x; echo ok"
    _, text = await place.run(kind, command, writes=False)
    assert text.startswith("rules") and text.endswith("ok")
    assert not (place.root / "made").exists() and not (place.scratch / "x").exists()


@pytest.mark.parametrize("kind", WHOLE)
async def test_folders_of_keys_look_empty(place: Place, kind: str) -> None:
    keys = Path.home() / ".ssh"
    keys.mkdir()
    (keys / "id_rsa").write_text("the key")
    _, text = await place.run(kind, "cat ~/.ssh/id_rsa; ls ~/.ssh; echo end")
    assert "the key" not in text and "id_rsa" not in text.splitlines()[1:] and text.endswith("end")


async def test_no_start_without_the_sandbox(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = place.outside / "supervisor.py"
    shutil.copy(supervisor.__file__, alone)  # without what it loads
    monkeypatch.setattr(supervisor, "__file__", str(alone))
    confined = ConfinedCommand(msgspec.structs.replace(LANDLOCK, landlock=7), place.roots)
    stage = Stage(program="/bin/touch", argv=("touch", "made"))
    with pytest.raises(ProcessError) as failed:
        await Child.start([stage], cwd=place.root, environment={}, capture=Capture(), confinement=confined)
    assert failed.value.code == "sandbox"
    assert not (place.root / "made").exists()


# --- when ---------------------------------------------------------------------------------------


def command(*, safe: bool = False, sandboxed: bool = False) -> RunAction:
    return RunAction(command="make", cwd="/w", severity=Severity.MEDIUM, safe=safe, sandboxed=sandboxed)


async def test_required_fails_closed_and_off_is_off(place: Place) -> None:
    required, off = Settings(sandbox="required"), Settings(sandbox="off")
    with pytest.raises(ToolError, match="demand a sandbox") as refused:
        await SandboxPolicy(required, place.roots, NONE).confinement(command(), ApprovalMode.ASK)
    assert refused.value.code == "refused"
    there = Sandbox(kind="landlock", landlock=1)
    assert await SandboxPolicy(required, place.roots, there).confinement(command(), ApprovalMode.ASK) is not None
    assert await SandboxPolicy(off, place.roots, there).confinement(command(), ApprovalMode.AUTO) is None
    assert not SandboxPolicy(off, place.roots, there).applies_to(command(), ApprovalMode.AUTO)


@pytest.mark.parametrize(
    ("mode", "safe", "confined"),
    [("ask", False, False), ("ask", True, True), ("auto-edit", False, True), ("auto", False, True)],
)
def test_which_commands_are_confined(place: Place, mode: str, safe: bool, confined: bool) -> None:
    half = Sandbox(kind="landlock", landlock=7, sockets="asked")
    there = SandboxPolicy(Settings(), place.roots, msgspec.structs.replace(half, namespaces=True))
    assert there.applies_to(command(safe=safe), ApprovalMode(mode)) is confined
    assert there.fully_confines(command(sandboxed=confined)) is confined
    partly = SandboxPolicy(Settings(), place.roots, half)
    assert not partly.fully_confines(command(sandboxed=True))


def test_denials_are_reported() -> None:
    complete = Sandbox(kind="landlock", landlock=1, namespaces=True, sockets="denied")
    assert complete.is_complete and complete.label == "landlock"
    assert Sandbox(kind="bwrap", sockets="asked").label == "bwrap"
    without_filter = Sandbox(kind="bwrap")
    assert not without_filter.is_complete and without_filter.label == "bwrap: files, protected, network"
    assert Sandbox(kind="landlock", landlock=7, sockets="asked").label == "landlock: files, network, sockets"
    assert Sandbox(kind="landlock", landlock=7).label == "landlock: files"
    assert NONE.denies == frozenset() and NONE.label == "none"


def test_bwrap_in_the_workspace_is_not_used(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = place.root / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {place.outside}/fired\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:.:{place.outside}")
    monkeypatch.chdir(place.root / "bin")
    assert find_sandbox(place.root).kind != "bwrap"
    assert not (place.outside / "fired").exists()


# --- protected paths at every depth -------------------------------------------------------------


@pytest.mark.parametrize("kind", WHOLE)
async def test_protected_paths_are_read_only_at_every_depth_and_after_a_rename(place: Place, kind: str) -> None:
    deep = place.root.joinpath(*"abcdefgh")
    (deep / ".git").mkdir(parents=True)
    (deep / ".git" / "config").write_text("[core]\n")
    (deep / ".envrc").write_text("old\n")
    for number in range(60):
        (place.root / "many" / f"m{number}").mkdir(parents=True)
        (place.root / "many" / f"m{number}" / "AGENTS.md").write_text("rules\n")
    (place.root / "target" / ".git").mkdir(parents=True)  # not a generated folder
    command = (
        "for w in a/b/c/d/e/f/g/h/.git/config a/b/c/d/e/f/g/h/.envrc many/m59/AGENTS.md target/.git/config;"
        "do echo evil > $w && echo LEAK $w; done; mv a x; echo evil > x/b/c/d/e/f/g/h/.git/config && echo LEAK x;"
        "mv x/b y; echo evil > y/c/d/e/f/g/h/.envrc && echo LEAK y; rm -rf many; cat many/m59/AGENTS.md; true"
    )
    status, text = await place.run(kind, command)
    assert status == 0 and "LEAK" not in text and text.endswith("rules"), text


async def test_the_search_reads_only_changed_folders_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    search = ProtectedPaths(place.roots.protects)
    first = search.find([str(place.root)], 100)
    assert {os.path.relpath(path, place.root) for path in first} == {".git", "AGENTS.md", "deep/.vscode"}
    (place.root / "deep" / ".env").write_text("KEY=1")
    read: list[str] = []
    entries = protected_paths._entries

    def noted(folder: str) -> list[tuple[str, str, bool]]:
        read.append(folder)
        return entries(folder)

    monkeypatch.setattr(protected_paths, "_entries", noted)
    assert set(search.find([str(place.root)], 100)) == {*first, str(place.root / "deep" / ".env")}
    assert read == [str(place.root / "deep")]
    assert len(search.find([str(place.root)], 2)) == 2


# --- servers of its own -------------------------------------------------------------------------

SERVER = (
    "import os, socket, tempfile, threading; path = {path}; server = socket.socket(socket.AF_UNIX); server.bind(path);"
    "server.listen(); threading.Thread(target=lambda: server.accept()[0].send(b'own')).start();"
    "client = socket.socket(socket.AF_UNIX); client.settimeout(5); client.connect(path); print(client.recv(9))"
)


@pytest.mark.parametrize("kind", EACH)
async def test_a_command_can_connect_to_its_own_sockets(place: Place, kind: str) -> None:
    if sandbox(kind).sockets == "denied":
        pytest.skip("no connection can be judged here")
    for path in ("'in-root'", "os.path.join(tempfile.mkdtemp(), 's')"):
        status, text = await place.run(kind, f'python3 -c "{SERVER.format(path=path)}"')
        assert status == 0 and "own" in text, text
    multiprocessing = (
        "import multiprocessing as m, multiprocessing.connection as c; l = c.Listener(family='AF_UNIX');"
        "p = m.get_context('fork').Process(target=lambda: l.accept().send('own')); p.start();"
        "print(c.Client(l.address).recv())"
    )
    assert "own" in (await place.run(kind, f'python3 -c "{multiprocessing}"'))[1]


@pytest.mark.parametrize("kind", WHOLE)
async def test_status_signals_and_background_processes_are_those_of_the_command(place: Place, kind: str) -> None:
    assert (await place.run(kind, "exit 7"))[0] == 7
    killed = (await place.run(kind, "kill -SEGV $$"))[0]
    assert killed in (-11, 139)
    status, text = await place.run(kind, "(sleep 0.2; echo late > late) & disown; echo over")
    assert (status, text) == (0, "over")
    assert not (place.root / "late").exists(), "nothing outlives a command that may leave nothing"

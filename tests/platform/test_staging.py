"""What a killed process leaves of a write (L3), and calls that signals interrupt (L7)."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles.fault_os import WATCHED, FakeOs
from tests.faults.syscalls import CHANGES, Machine, Plan
from tests.nightly import sampled
from tui_agent.common import paths
from tui_agent.platform import staging, syscalls
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, remove_file, replace_file, sha256_of
from tui_agent.platform.staging import remove_abandoned
from tui_agent.platform.syscalls import OsCalls

OLD, NEW, THEIRS = b"old\n" * 400, b"new\n" * 500, b"theirs\n"


def edit(folder: Path) -> None:
    replace_file(folder / "a.txt", NEW, sha256_of(OLD))


def create(folder: Path) -> None:
    replace_file(folder / "b.txt", NEW, None)


def remove(folder: Path) -> None:
    remove_file(folder / "a.txt", sha256_of(OLD))


def dies(act: Callable[[Path], None], folder: Path, root: Path, number: int, kill: str) -> bool:
    """Do it in a child that dies at its call `number`; return whether there was such a call."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException), Machine(root, Plan(at=number, names=CHANGES, kill=kill)):
            act(folder)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def staged() -> list[Path]:
    return list(paths.staging_dir().iterdir()) if paths.staging_dir().exists() else []


@pytest.fixture
def other_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's data lie on another file system than the project, as far as swapping names tells."""

    def exchange(first: bytes, second: bytes, *, dir_fd: int) -> None:
        if os.path.isabs(first):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        exchange_names(first, second, dir_fd=dir_fd)

    exchange_names = syscalls.exchange
    monkeypatch.setattr(syscalls, "exchange", exchange)


@pytest.mark.parametrize("kill", sampled(["before", "after"], 1))
@pytest.mark.parametrize("act", [edit, create, remove])
def test_a_killed_write_leaves_nothing_in_the_project_and_soon_nothing_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None], kill: str
) -> None:
    for number in range(1, 100):
        root = tmp_path / str(number)
        folder = root / "work"
        folder.mkdir(parents=True)
        monkeypatch.setenv("TUI_AGENT_HOME", str(root / "home"))
        (folder / "a.txt").write_bytes(OLD)
        died = dies(act, folder, root, number, kill)
        assert {one.name for one in folder.iterdir()} <= {"a.txt", "b.txt"}
        for name, allowed in (("a.txt", (OLD, NEW)), ("b.txt", (NEW,))):
            assert not (folder / name).exists() or (folder / name).read_bytes() in allowed
        assert remove_abandoned() == []
        assert not staged()
        if not died:
            break
    assert number > 5


def test_next_to_the_target_it_is_removed_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_file_system: None
) -> None:
    left = 0
    for number in range(1, 100):
        root = tmp_path / str(number)
        folder = root / "work"
        folder.mkdir(parents=True)
        monkeypatch.setenv("TUI_AGENT_HOME", str(root / "home"))
        (folder / "a.txt").write_bytes(OLD)
        died = dies(edit, folder, root, number, "before")
        left += len(list(folder.iterdir())) > 1
        assert remove_abandoned() == []
        assert [one.name for one in folder.iterdir()] == ["a.txt"]
        assert (folder / "a.txt").read_bytes() in (OLD, NEW)
        if not died:
            break
    assert left > 1


def test_what_another_program_had_saved_is_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(OLD)

    class Dying(OsCalls):
        def exchange(self, first: str, second: str, *, dir_fd: int) -> None:
            path.write_bytes(THEIRS)
            super().exchange(first, second, dir_fd=dir_fd)
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        replace_file(path, NEW, sha256_of(OLD), calls=Dying())
    os.waitpid(pid, 0)
    assert path.read_bytes() == NEW
    for _ in range(2):  # until the user has seen to it
        (displaced,) = remove_abandoned()
        assert displaced.target == path
        assert displaced.path.read_bytes() == THEIRS
    displaced.path.unlink()
    assert remove_abandoned() == []
    assert not staged()


def test_a_file_that_a_live_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(OLD)
    found: list[object] = []

    class Watched(OsCalls):
        def exchange(self, first: str, second: str, *, dir_fd: int) -> None:
            found.extend(remove_abandoned())
            super().exchange(first, second, dir_fd=dir_fd)

    replace_file(path, NEW, sha256_of(OLD), calls=Watched())
    assert (path.read_bytes(), found) == (NEW, [])


@pytest.mark.needs("git")
def test_git_never_sees_a_file_that_is_being_written(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    path = tmp_path / "a.txt"
    path.write_bytes(OLD)
    seen: list[str] = []

    class Watched(OsCalls):
        def fsync(self, fd: int) -> None:
            status = subprocess.run(
                ["git", "-C", tmp_path, "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True
            )
            seen.append(status.stdout)
            super().fsync(fd)

    replace_file(path, NEW, sha256_of(OLD), calls=Watched())
    replace_file(tmp_path / "b.txt", NEW, None, calls=Watched())
    assert set(seen) <= {"?? a.txt\n", "?? a.txt\n?? b.txt\n"}


# --- interrupted calls ---


@pytest.mark.parametrize("act", [edit, create, remove])
def test_no_interrupted_call_fails_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]
) -> None:
    for number in range(1, 100):
        root = tmp_path / str(number)
        folder = root / "work"
        folder.mkdir(parents=True)
        monkeypatch.setenv("TUI_AGENT_HOME", str(root / "home"))
        (folder / "a.txt").write_bytes(OLD)
        with Machine(folder, Plan(at=number, error=errno.EINTR)) as machine:
            act(folder)
        left = {one.name: one.read_bytes() for one in folder.iterdir()}
        assert left == {"edit": {"a.txt": NEW}, "create": {"a.txt": OLD, "b.txt": NEW}, "remove": {}}[act.__name__]
        if not machine.fired:
            break
    assert number > 5


@pytest.mark.parametrize("name", WATCHED)
def test_each_call_is_repeated_and_not_for_ever(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(OLD)
    disk = FakeOs(fail_named={name: errno.EINTR})
    for act in (lambda: read_file(path, calls=disk), lambda: replace_file(path, NEW, sha256_of(OLD), calls=disk)):
        with contextlib.suppress(FileFault):
            act()
    assert path.read_bytes() in (OLD, NEW)
    assert staging.remove_abandoned() == []

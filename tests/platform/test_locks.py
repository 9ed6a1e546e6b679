from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.nightly import repetitions
from tui_agent.platform import locks
from tui_agent.platform.locks import FileLock, InUse, read_holder, seems_held, shared_file_system


def fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    finally:
        os._exit(0)


def hold(path: Path, ready: int) -> Callable[[], None]:
    def work() -> None:
        lock = FileLock(path)
        os.write(ready, b"held" if lock.held else b"no")
        signal.pause()

    return work


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_a_second_process_is_refused_at_once_with_the_holder(path: Path) -> None:
    reading, writing = os.pipe()
    pid = fork(hold(path, writing))
    try:
        assert os.read(reading, 4) == b"held"
        before = path.read_bytes()
        with pytest.raises(InUse, match=f"in use by process {pid} on ") as refused:
            FileLock(path)
        assert refused.value.holder is not None
        assert refused.value.holder.pid == pid
        assert path.read_bytes() == before
        assert seems_held(path)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert not seems_held(path)


@pytest.fixture
def orphan(path: Path) -> Iterator[BinaryIO]:
    """The pipe that ends a child of a killed holder: until it executes its program, a child has the lock as well."""
    ready, holds = os.pipe()
    waiting, end = os.pipe()

    def child() -> None:
        os.close(end)
        os.read(waiting, 1)

    def work() -> None:
        lock = FileLock(path)
        fork(child)
        os.write(holds, b"held" if lock.held else b"no")
        signal.pause()

    pid = fork(work)
    assert os.read(ready, 4) == b"held"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with os.fdopen(end, "wb") as pipe:
        yield pipe
    for fd in (ready, holds, waiting):
        os.close(fd)


def test_a_child_that_a_killed_holder_was_starting_is_waited_for(
    path: Path, orphan: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_ORPHAN_WAIT", 60.0)
    monkeypatch.setattr(time, "sleep", lambda _: orphan.close())
    FileLock(path).release()


def test_an_orphan_that_stays_is_not_called_by_the_name_of_the_dead_holder(
    path: Path, orphan: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_ORPHAN_WAIT", 0.05)
    with pytest.raises(InUse, match="in use by another process"):
        FileLock(path)


@pytest.mark.parametrize("times", repetitions(10, 100))
def test_a_killed_holder_frees_the_lock_at_once(path: Path, times: int) -> None:
    for _ in range(times):
        reading, writing = os.pipe()
        pid = fork(hold(path, writing))
        assert os.read(reading, 4) == b"held"
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        FileLock(path).release()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("times", repetitions(10, 200))
def test_of_two_starters_exactly_one_wins(path: Path, times: int) -> None:
    for _ in range(times):
        start_out, start_in = os.pipe()
        result_out, result_in = os.pipe()
        end_out, end_in = os.pipe()

        def race(start: int = start_out, result: int = result_in, end: int = end_out) -> None:
            os.read(start, 1)
            try:
                lock = FileLock(path)
                os.write(result, b"W" if lock.held else b"?")
            except InUse:
                os.write(result, b"L")
            os.read(end, 1)

        pids = [fork(race), fork(race)]
        os.write(start_in, b"..")
        results = os.read(result_out, 1) + os.read(result_out, 1)
        os.write(end_in, b"..")
        for pid in pids:
            os.waitpid(pid, 0)
        for fd in (start_out, start_in, result_out, result_in, end_out, end_in):
            os.close(fd)
        assert sorted(results.decode()) == ["L", "W"]


def test_a_child_does_not_inherit_the_lock(path: Path) -> None:
    with FileLock(path):
        script = "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')])"
        child = subprocess.Popen(
            [sys.executable, "-c", f"{script}\ninput()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
            text=True,
        )
        assert child.stdout is not None
        assert str(path) not in child.stdout.readline()
    FileLock(path).release()
    child.communicate("\n")


def test_the_file_stays_and_can_be_taken_again(path: Path) -> None:
    lock = FileLock(path)
    lock.release()
    lock.release()
    assert path.exists()
    with FileLock(path) as again:
        assert again.held


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_link_or_folder_in_place_of_the_lock_file_is_not_followed(path: Path, kind: str) -> None:
    if kind == "link":
        path.symlink_to(path.with_name("victim"))
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with FileLock(path), pytest.raises(InUse):
        FileLock(path)
    with FileLock(path) as again:
        assert again.held
    assert not path.with_name("victim").exists()


def test_what_a_holder_wrote_of_itself_is_no_terminal_control(path: Path) -> None:
    with FileLock(path):
        path.write_text(json.dumps({"pid": 1, "host": "\x1b]0;owned\x07", "since": "\x1b[2J"}))
        with pytest.raises(InUse) as refused:
            FileLock(path)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"pid":"x"}', b"[1]"])
def test_an_unreadable_name_costs_only_the_name(path: Path, content: bytes) -> None:
    lock = FileLock(path)
    path.write_bytes(content)
    assert read_holder(path) is None
    with pytest.raises(InUse, match="another process"):
        FileLock(path)
    lock.release()


def test_a_reused_pid_is_not_taken_for_the_holder(path: Path) -> None:
    FileLock(path).release()
    name = json.loads(path.read_bytes())
    path.write_text(json.dumps(name | {"started": "1"}))
    assert not seems_held(path)
    path.write_text(json.dumps(name | {"boot": "another"}))
    assert not seems_held(path)
    path.write_text(json.dumps(name | {"host": "elsewhere"}))
    assert seems_held(path)


def test_a_released_lock_of_our_own_does_not_seem_held(path: Path) -> None:
    with FileLock(path):
        assert seems_held(path)
    assert not seems_held(path)


@pytest.mark.parametrize(
    ("folder", "kind"), [("/home/me/x", "nfs4"), ("/home", None), ("/mnt/a b/y", "fuse.sshfs"), ("/homer", None)]
)
def test_network_file_systems_are_named(tmp_path: Path, folder: str, kind: str | None) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "40 22 0:44 / /home/me rw shared:9 - nfs4 server:/home rw\n"
        "41 22 0:45 / /mnt/a\\040b rw shared:9 - fuse.sshfs me@host: rw\n"
        "garbage\n"
    )
    assert shared_file_system(Path(folder), mounts) == kind


def test_no_mount_table_is_no_warning(tmp_path: Path) -> None:
    assert shared_file_system(tmp_path, tmp_path / "none") is None

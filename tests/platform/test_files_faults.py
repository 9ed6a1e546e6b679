from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles.fault_os import FakeOs
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import replace_file, sha256_of
from tui_agent.platform.syscalls import exchange

OLD, NEW = b"old content\n" * 100, b"new content\n" * 100
ERRORS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EXDEV, errno.ENOSYS]


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".tua-tmp")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("existing", [True, False])
def test_an_error_at_any_call_leaves_old_or_new_and_no_litter(tmp_path: Path, existing: bool, error: int) -> None:
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "file"
        if existing:
            path.write_bytes(OLD)
        disk = FakeOs(fail_at=number, error=error)
        try:
            replace_file(path, NEW, sha256_of(OLD) if existing else None, calls=disk)
            done = True
        except FileFault:
            done = False
        now = path.read_bytes() if path.exists() else None
        assert now == NEW if done else now in ((OLD, NEW) if existing else (None, NEW))
        if not done and disk.calls[-2:] != ["exchange", "unlink"]:
            assert now != NEW or "unlink" in disk.calls
        if disk.calls[number - 1 : number] != ["unlink"]:
            assert leftovers(folder) == []
        if not disk.fired:
            break
    assert number > (12 if existing else 6)


def test_before_the_swap_every_failure_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for name in ("write", "fchmod", "exchange"):
        path.write_bytes(OLD)
        disk = FakeOs(fail_named={name: errno.EIO})
        with pytest.raises(FileFault) as fault:
            replace_file(path, NEW, sha256_of(OLD), calls=disk)
        assert disk.fired
        assert fault.value.code == "io"
        assert path.read_bytes() == OLD
        assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_has_its_own_code(tmp_path: Path) -> None:
    disk = FakeOs(fail_named={"write": errno.ENOSPC})
    with pytest.raises(FileFault) as fault:
        replace_file(tmp_path / "a" / "b" / "file", NEW, None, calls=disk)
    assert (fault.value.code, disk.fired) == ("no_space", 1)
    assert os.listdir(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path) -> None:
    disk = FakeOs(short_writes=7)
    replace_file(tmp_path / "file", NEW, None, calls=disk)
    assert disk.calls.count("write") > 100
    assert (tmp_path / "file").read_bytes() == NEW


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EINVAL])
def test_without_exchange_it_looks_once_more_and_renames(tmp_path: Path, error: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    disk = FakeOs(fail_named={"exchange": error})
    replace_file(path, NEW, sha256_of(OLD), calls=disk)
    assert disk.fired == 1
    assert path.read_bytes() == NEW
    assert os.listdir(tmp_path) == ["file"]
    disk = FakeOs(fail_named={"exchange": error}, before={"exchange": lambda: save(path, b"theirs")})
    with pytest.raises(FileChangedError):
        replace_file(path, OLD, sha256_of(NEW), calls=disk)
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


def test_without_hard_links_a_new_file_is_renamed_into_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, NEW, None, calls=FakeOs(fail_named={"link": errno.EPERM}))
    assert path.read_bytes() == NEW
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_synced_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    count = iter(range(10))

    class Disk(FakeOs):
        def fsync(self, fd: int) -> None:
            if next(count) == 1:
                self.fired += 1
                raise OSError(errno.EIO, "no")

    disk = Disk()
    assert replace_file(path, NEW, sha256_of(OLD), calls=disk).durable is False
    assert disk.fired == 1
    assert path.read_bytes() == NEW


# --- others write at the same time ---


def save(path: Path, data: bytes) -> None:
    """As editors do it: a new file renamed over the old one."""
    other = path.with_name(path.name + "~swp")
    other.write_bytes(data)
    os.replace(other, path)


def overwrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def once(*actions: Callable[[], None]) -> Callable[[], None]:
    left = list(actions)

    def act() -> None:
        if left:
            left.pop(0)()

    return act


@pytest.mark.parametrize("how", [save, overwrite])
def test_a_save_just_before_the_swap_wins(tmp_path: Path, how: Callable[[Path, bytes], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    disk = FakeOs(before={"exchange": once(lambda: how(path, b"theirs"))})
    with pytest.raises(FileChangedError):
        replace_file(path, NEW, sha256_of(OLD), calls=disk)
    assert disk.calls.count("exchange") == 2
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("how", [save, overwrite])
def test_of_two_saves_around_the_swap_the_later_wins(tmp_path: Path, how: Callable[[Path, bytes], None]) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    first, second = lambda: how(path, b"theirs 1"), lambda: how(path, b"theirs 2")
    disk = FakeOs(before={"exchange": once(first, second)})
    with pytest.raises(FileChangedError):
        replace_file(path, NEW, sha256_of(OLD), calls=disk)
    assert disk.calls.count("exchange") == 3
    assert path.read_bytes() == b"theirs 2"
    assert os.listdir(tmp_path) == ["file"]


def test_a_program_that_never_stops_writing_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    numbers = itertools.count()
    disk = FakeOs(before={"exchange": lambda: save(path, b"theirs %d" % next(numbers))})
    with pytest.raises(FileFault) as fault:
        replace_file(path, NEW, sha256_of(OLD), calls=disk)
    assert fault.value.code == "busy"
    last = b"theirs %d" % (next(numbers) - 1)
    assert last in [(tmp_path / name).read_bytes() for name in os.listdir(tmp_path)]


def test_a_deletion_between_the_swaps_keeps_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    disk = FakeOs(before={"exchange": once(lambda: save(path, b"theirs"), path.unlink)})
    with pytest.raises(FileChangedError):
        replace_file(path, NEW, sha256_of(OLD), calls=disk)
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_appears_before_the_link_wins(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk = FakeOs(before={"link": once(lambda: save(path, b"theirs"))})
    with pytest.raises(FileChangedError):
        replace_file(path, NEW, None, calls=disk)
    assert path.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["file"]


def test_racing_saves_lose_no_byte(tmp_path: Path) -> None:
    """An editor and we write in turns of chance; every content that was accepted must have been seen by the next."""
    path = tmp_path / "file"
    path.write_bytes(b"start")
    rounds = 400
    ready = threading.Event()
    theirs: list[bytes] = []

    def editor() -> None:
        ready.set()
        for number in range(rounds):
            data = b"theirs %d" % number
            save(path, data)
            theirs.append(data)

    thread = threading.Thread(target=editor)
    thread.start()
    ready.wait()
    conflicts = done = 0
    while thread.is_alive():
        before = path.read_bytes()
        try:
            replace_file(path, b"ours on " + before.removeprefix(b"ours on "), sha256_of(before))
            done += 1
        except FileFault:
            conflicts += 1
    thread.join()
    # The last save of the editor is what counts, alone or with our mark on it.
    assert path.read_bytes() in (theirs[-1], b"ours on " + theirs[-1])
    assert done + conflicts > 0
    assert leftovers(tmp_path) == []


def test_swapping_a_folder_for_a_link_never_writes_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "root" / "d", tmp_path / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_bytes(OLD)
    (inside / "file").write_bytes(OLD)
    stop = threading.Event()
    swaps = wrote = 0

    (tmp_path / "root" / "link").symlink_to(outside)
    root_fd = os.open(tmp_path / "root", os.O_RDONLY)

    def swapper() -> None:
        nonlocal swaps
        while not stop.is_set():
            exchange(b"d", b"link", dir_fd=root_fd)
            swaps += 1
        if swaps % 2:
            exchange(b"d", b"link", dir_fd=root_fd)

    thread = threading.Thread(target=swapper)
    thread.start()
    try:
        for number in range(300):
            for expected in (OLD, NEW):
                try:
                    replace_file(inside / "file", NEW if expected == OLD else OLD, sha256_of(expected))
                    wrote += 1
                except FileFault:
                    continue
            try:
                replace_file(inside / f"new{number}", NEW, None)
            except FileFault:
                continue
    finally:
        stop.set()
        thread.join()
        os.close(root_fd)
    assert swaps and wrote
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_bytes() == OLD

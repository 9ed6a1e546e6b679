from __future__ import annotations

import errno
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from tests.doubles.fault_os import FakeOs
from tui_agent.platform import safe_open
from tui_agent.platform.file_faults import (
    FileChangedError,
    FileFault,
    FileTooLargeError,
    LinkedFileError,
    NotRegularError,
)
from tui_agent.platform.files import atomic_write, read_file, remove_leftovers, replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls


@pytest.fixture(params=["as the kernel offers", "by hand"])
def way(request: pytest.FixtureRequest) -> OsCalls:
    if request.param == "by hand":
        return FakeOs(fail_named={"open_beneath": errno.ENOSYS, "exchange": errno.ENOSYS})
    return OS


def make(folder: Path, name: str = "a.txt", data: bytes = b"old\n") -> tuple[Path, str]:
    path = folder / name
    path.write_bytes(data)
    return path, sha256_of(data)


# --- reading ---


def test_read_gives_bytes_hash_and_mode(tmp_path: Path, way: OsCalls) -> None:
    path, sha = make(tmp_path, data=b"x\0y")
    path.chmod(0o640)
    found = read_file(path, calls=way)
    assert (found.data, found.sha256, found.mode, found.path) == (b"x\0y", sha, 0o640, path)


def test_special_files_are_rejected(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    for path in (fifo, tmp_path / "s", tmp_path, Path("/dev/zero"), Path("/proc/self/status"), Path("/")):
        with pytest.raises(NotRegularError):
            read_file(path)
        with pytest.raises(FileFault):
            replace_file(path, b"x", sha256_of(b""))
    listener.close()


def test_size_limit(tmp_path: Path) -> None:
    path, _ = make(tmp_path, data=b"12345")
    assert read_file(path, 5).data == b"12345"
    with pytest.raises(FileTooLargeError):
        read_file(path, 4)


def test_missing_and_impossible_paths_have_codes(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    for path, code in (
        (tmp_path / "none", "not_found"),
        (tmp_path / "none" / "deeper", "not_found"),
        (tmp_path / ("n" * 300), "bad_path"),
        (tmp_path / "nul\0", "bad_path"),
        (loop, "bad_path"),
    ):
        with pytest.raises(FileFault) as fault:
            read_file(path)
        assert fault.value.code == code, path


def test_a_link_in_a_resolved_path_is_a_fault(tmp_path: Path, way: OsCalls) -> None:
    (tmp_path / "real").mkdir()
    path, sha = make(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file").symlink_to(path)
    assert read_file(tmp_path / "link" / "a.txt", calls=way).data == b"old\n"
    for wrong in (tmp_path / "link" / "a.txt", tmp_path / "file"):
        with pytest.raises(FileFault):
            read_file(wrong, follow=False, calls=way)
        with pytest.raises(FileFault):
            replace_file(wrong, b"new", sha, calls=way)
    assert path.read_bytes() == b"old\n"


def test_links_do_not_lead_out_of_a_root(tmp_path: Path, way: OsCalls) -> None:
    root, outside = tmp_path / "root", tmp_path / "root-secret"
    root.mkdir()
    outside.mkdir()
    path, sha = make(outside)
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(path)
    for wrong in (path, root / "out" / "a.txt", root / "file", root / ".." / "root-secret" / "a.txt"):
        with pytest.raises(FileFault) as fault:
            replace_file(wrong, b"new", sha, follow=True, beneath=root, calls=way)
        assert fault.value.code == "outside"
    (root / "in.txt").write_bytes(b"old\n")
    (root / "link").symlink_to("in.txt")
    replace_file(root / "link", b"new", sha, follow=True, beneath=root, calls=way)
    assert (root / "in.txt").read_bytes() == b"new"
    assert (root / "link").is_symlink()


def test_opening_a_folder_follows_no_link(tmp_path: Path, way: OsCalls) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "l").symlink_to("a")
    with safe_open.open_folder(tmp_path / "a" / "b", beneath=tmp_path, calls=way) as fd:
        assert os.fstat(fd).st_ino == (tmp_path / "a" / "b").stat().st_ino
    with pytest.raises(OSError), safe_open.open_folder(tmp_path / "l" / "b", beneath=tmp_path, calls=way):
        pass


# --- replacing ---


def test_new_file_with_new_folders(tmp_path: Path, way: OsCalls) -> None:
    path = tmp_path / "x" / "y" / "new.txt"
    done = replace_file(path, b"hello", None, calls=way)
    assert path.read_bytes() == b"hello"
    assert (done.before, done.sha256, done.path) == (None, sha256_of(b"hello"), path)
    assert os.listdir(path.parent) == ["new.txt"]


def test_new_file_gets_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        replace_file(tmp_path / "a", b"", None)
        replace_file(tmp_path / "b", b"", None, mode=0o600)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


def test_existing_file_where_none_was_expected(tmp_path: Path) -> None:
    path, _ = make(tmp_path)
    with pytest.raises(FileChangedError):
        replace_file(path, b"new", None)
    assert path.read_bytes() == b"old\n"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_replacing_keeps_mode_and_attributes(tmp_path: Path, way: OsCalls) -> None:
    path, sha = make(tmp_path)
    path.chmod(0o750)
    try:
        os.setxattr(path, "user.tua", b"kept")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    done = replace_file(path, b"new\n", sha, calls=way)
    assert path.read_bytes() == b"new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert os.getxattr(path, "user.tua") == b"kept"
    assert done.before == sha
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_replacing_keeps_the_owner(tmp_path: Path) -> None:
    path, sha = make(tmp_path)
    os.chown(path, 12345, 54321)
    replace_file(path, b"new\n", sha)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


def test_changed_deleted_and_relinked_files_are_left_alone(tmp_path: Path) -> None:
    path, sha = make(tmp_path)
    path.write_bytes(b"theirs")
    with pytest.raises(FileChangedError):
        replace_file(path, b"new", sha)
    assert path.read_bytes() == b"theirs"
    path.unlink()
    with pytest.raises(FileChangedError):
        replace_file(path, b"new", sha)
    assert os.listdir(tmp_path) == []
    path.symlink_to("/etc/hostname")
    with pytest.raises(FileChangedError):
        replace_file(path, b"new", sha)
    assert path.is_symlink()


def test_hard_links_are_left_alone(tmp_path: Path) -> None:
    path, sha = make(tmp_path)
    os.link(path, tmp_path / "other")
    with pytest.raises(LinkedFileError):
        replace_file(path, b"new", sha)
    assert path.read_bytes() == b"old\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_missing_permission_truncates_nothing(tmp_path: Path) -> None:
    path, sha = make(tmp_path)
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(FileFault) as fault:
            replace_file(path, b"new", sha)
    finally:
        tmp_path.chmod(0o755)
    assert fault.value.code == "permission"
    assert path.read_bytes() == b"old\n"
    path.chmod(0o444)
    with pytest.raises(FileFault):
        replace_file(path, b"new", sha)


def test_unusual_names(tmp_path: Path) -> None:
    for raw in (b"a\nb", b"\x1b[31m", b"[red]", "\u202etxt".encode(), b"\xff\xfe", b"-rf", b";rm", b"e\xcc\x81"):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw))
        replace_file(path, raw, None)
        replace_file(path, raw + b"2", sha256_of(raw))
        assert read_file(path).data == raw + b"2"
        with pytest.raises(FileChangedError) as fault:
            replace_file(path, b"", sha256_of(b"no"))
        str(fault.value).encode("utf-8")


def test_atomic_write_overwrites_and_sets_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    old = os.umask(0)
    try:
        atomic_write(path, b"one")
        atomic_write(path, b"two")
    finally:
        os.umask(old)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["settings.yaml"]
    with pytest.raises(NotRegularError):
        atomic_write(tmp_path, b"x")


def test_only_our_own_old_leftovers_are_removed(tmp_path: Path) -> None:
    names = [".0123456789abcdef.tua-tmp", ".0123.tua-tmp", "0123456789abcdef.tua-tmp", "notes.txt"]
    for name in names:
        (tmp_path / name).write_text("x")
    assert remove_leftovers(tmp_path, time.time() - 60) == 0
    assert remove_leftovers(tmp_path, time.time() + 60) == 1
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])
    assert remove_leftovers(tmp_path / "none", time.time() + 60) == 0

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.fake_disk import FakeDisk
from tui_agent.platform.append import Appender, AppendError

ONE, TWO, THREE = b"first record\n", b"second record\n", b"third record\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_a_new_file_is_private_and_close_on_exec(path: Path) -> None:
    appender = Appender(path)
    appender.append([ONE])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == ONE
    assert not os.get_inheritable(appender._fd)
    appender.close()


def test_a_symlink_is_refused_by_name(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_bytes(b"mine")
    path.symlink_to(target)
    with pytest.raises(AppendError, match=r"Opening events\.jsonl failed"):
        Appender(path)
    assert target.read_bytes() == b"mine"


def test_short_writes_leave_no_fragments_or_duplicates(path: Path) -> None:
    disk = FakeDisk()
    disk.short = lambda number, data: 3 if number <= 4 else None
    appender = Appender(path, calls=disk)
    appender.append([ONE, TWO])
    assert disk.fired == 4
    assert path.read_bytes() == ONE + TWO


def test_a_record_torn_by_an_error_is_written_again_on_its_own_line(path: Path) -> None:
    disk = FakeDisk()
    disk.short = lambda number, data: len(ONE) + 4 if number == 1 else None
    disk.write_error = lambda number: errno.EIO if number == 2 else None
    appender = Appender(path, calls=disk)
    with pytest.raises(AppendError, match="Input/output error"):
        appender.append([ONE, TWO, THREE])
    assert disk.fired == 2
    assert appender.has_partial_line
    appender.append([b"fourth record\n"])
    assert path.read_bytes() == ONE + b"seco\n" + TWO + THREE + b"fourth record\n"


def test_error_between_records_needs_no_repair(path: Path) -> None:
    disk = FakeDisk()
    disk.room = len(ONE)
    appender = Appender(path, calls=disk)
    with pytest.raises(AppendError, match="No space left"):
        appender.append([ONE, TWO])
    assert not appender.has_partial_line
    disk.room = None
    appender.append(())
    assert path.read_bytes() == ONE + TWO


def test_nothing_is_lost_while_the_disk_is_full_and_the_order_stays(path: Path) -> None:  # A10
    disk = FakeDisk()
    disk.room = len(ONE) + 5
    appender = Appender(path, calls=disk)
    for record in (ONE, TWO, THREE):
        try:
            appender.append([record])
        except AppendError as error:
            assert error.errno == errno.ENOSPC
    assert disk.fired == 2
    assert appender.queued_bytes == len(TWO) + len(THREE)
    disk.room = None
    appender.append(())
    assert path.read_bytes() == ONE + b"secon\n" + TWO + THREE


def test_record_survives_a_failed_repair(path: Path) -> None:
    path.write_bytes(b"torn")
    disk = FakeDisk()
    disk.write_error = lambda number: errno.ENOSPC if number == 1 else None
    appender = Appender(path, calls=disk)
    assert appender.has_partial_line
    with pytest.raises(AppendError):
        appender.append([ONE])
    assert path.read_bytes() == b"torn"
    appender.append(())
    assert path.read_bytes() == b"torn\n" + ONE


def test_end_line_ends_an_incomplete_line_once(path: Path) -> None:
    path.write_bytes(b"torn")
    disk = FakeDisk()
    appender = Appender(path, calls=disk)
    assert appender.end_line()
    assert not appender.end_line()
    assert path.read_bytes() == b"torn\n"
    assert len(disk.syncs) == 1


def test_a_failed_sync_is_never_repeated_on_its_descriptor(path: Path) -> None:
    disk = FakeDisk()
    disk.sync_error = lambda number: errno.EIO if number == 2 else None
    appender = Appender(path, calls=disk)
    appender.append([ONE])
    appender.sync()
    appender.append([TWO])
    appender.append([THREE])
    appender.sync()
    assert disk.fired == 1
    assert disk.syncs[0] == disk.syncs[1]
    assert len(disk.syncs) == 3
    assert path.read_bytes() == ONE + TWO + THREE + TWO + THREE, "all since the last good sync, and only that"
    appender.append([b"after\n"])
    appender.sync()
    assert path.read_bytes().endswith(THREE + b"after\n")


def test_failed_sync_is_reported_and_repeated_later(path: Path) -> None:
    disk = FakeDisk()
    disk.sync_error = lambda number: errno.EIO if number in (1, 2) else None
    appender = Appender(path, calls=disk)
    appender.append([ONE])
    with pytest.raises(AppendError, match=r"Saving events\.jsonl failed: Input/output error"):
        appender.sync()
    assert disk.fired == 2
    appender.append([TWO])
    appender.sync()
    assert len(disk.syncs) == 3
    assert path.read_bytes().splitlines()[-2:] == [ONE.strip(), TWO.strip()]


def test_full_disk_during_recovery_keeps_unsynced_records(path: Path) -> None:
    disk = FakeDisk()
    disk.sync_error = lambda number: errno.EIO if number == 1 else None
    appender = Appender(path, calls=disk)
    appender.append([ONE, TWO])
    disk.room = 5
    with pytest.raises(AppendError, match="No space left"):
        appender.sync()
    assert disk.fired == 2
    disk.room = None
    appender.append([THREE])
    appender.sync()
    lines = path.read_bytes().splitlines(keepends=True)
    assert [line for line in lines if line in (ONE, TWO, THREE)][-3:] == [ONE, TWO, THREE]


def test_byte_stream_continues_where_it_failed(path: Path) -> None:
    disk = FakeDisk()
    disk.room = 7
    appender = Appender(path, lines=False, calls=disk)
    with pytest.raises(AppendError):
        appender.append([ONE, TWO])
    assert path.read_bytes() == ONE[:7]
    disk.room = None
    appender.append([THREE])
    assert path.read_bytes() == ONE + TWO + THREE


def test_deleted_file_is_noticed_and_recreated(path: Path) -> None:
    appender = Appender(path, lines=False)
    appender.append([ONE])
    assert not appender.is_replaced()
    path.unlink()
    assert appender.is_replaced()
    appender.reopen()
    appender.append([TWO])
    assert path.read_bytes() == TWO


def test_a_real_file_size_limit_tears_a_record_and_loses_none(path: Path) -> None:
    script = f"""
import resource, signal, sys
from pathlib import Path
from tui_agent.platform.append import Appender, AppendError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
appender = Appender(Path({str(path)!r}))
try:
    appender.append([{ONE!r}, {TWO!r}])
except AppendError as error:
    print(error)
assert Path({str(path)!r}).stat().st_size == 20
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
appender.append([{THREE!r}])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert path.read_bytes() == ONE + TWO[:7] + b"\n" + TWO + THREE

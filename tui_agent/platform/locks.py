"""File locks that the kernel releases when their process dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.platform.syscalls import close_quietly
from tui_agent.text import one_line

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
SHARED_FILE_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse", "9p", "ceph", "glusterfs", "lustre", "ncpfs")
"""Prefixes of the names of file systems on which locks and syncs may not work across machines."""
_ORPHAN_WAIT = 2.0
"""Seconds in which a child of a killed holder must have executed its program, which closes its copy of the lock."""


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lock, for messages only."""

    pid: int
    host: str
    since: str
    """ISO 8601, UTC."""
    boot: str = ""
    started: str = ""
    """Start time of the process in clock ticks since boot, to recognize a reused pid."""


class InUse(Exception):
    """Another process holds the lock; `holder` is None if its name can't be read."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        name = f"process {holder.pid} on {one_line(holder.host, 80)}" if holder else "another process"
        since = f" since {one_line(holder.since, 40)}" if holder else ""
        super().__init__(f"{one_line(path.parent.name)} is in use by {name}{since}.")
        self.holder = holder


class FileLock:
    """An exclusive lock on a file, held until `release` or the end of the process. The file is never removed.

    It is a `flock`, as a `fcntl` lock is released when any descriptor of the file is closed, and close-on-exec, so that
    a child holds it only until it executes its program.
    """

    def __init__(self, path: Path, *, timeout: float = 0.0) -> None:
        """Acquire the lock within `timeout` seconds; a child that a killed holder was starting gets 2 s in any case.

        Raises InUse, or OSError if the file can't be opened.
        """
        self.path = path
        fd = _open(path)
        try:
            _lock(fd, path, timeout)
        except (OSError, InUse):
            close_quietly(fd)
            raise
        self._fd = fd
        self._write_holder()

    def _write_holder(self) -> None:
        pid = os.getpid()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(pid, socket.gethostname(), now, _boot_id(), start_time(pid))
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, msgspec.json.encode(holder) + b"\n", 0)
        except OSError:
            return  # on a full disk only the name in messages is missing

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def release(self) -> None:
        """Release the lock. Calling it again does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            close_quietly(fd)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _lock(fd: int, path: Path, timeout: float) -> None:
    start = time.monotonic()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = read_holder(path)
            runs = holder is not None and _runs(holder)
            limit = timeout if holder is None or runs else max(timeout, _ORPHAN_WAIT)
            if time.monotonic() - start >= limit:
                raise InUse(path, holder if runs else None) from None
            time.sleep(0.01)
        else:
            return


def _open(path: Path) -> int:
    """Open the lock file, or the folder around it if the name is that of a folder or link."""
    try:
        return os.open(path, _FLAGS, 0o600)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ELOOP):
            raise
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def read_holder(path: Path) -> Holder | None:
    """Return the last holder that is written in the lock file; None if it can't be read."""
    try:
        return msgspec.json.decode(read_file(path, 4096).data, type=Holder)
    except (FileFault, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def seems_held(path: Path) -> bool:
    """Return whether the last holder seems to run, without trying the lock, which would disturb starting processes.

    For display only. A holder on another machine counts as running.
    """
    holder = read_holder(path)
    if holder is None or not _runs(holder):
        return False
    return holder.host != socket.gethostname() or not holder.started or _is_locked(path)


def _runs(holder: Holder) -> bool:
    if holder.host != socket.gethostname():
        return True
    if holder.boot and holder.boot != _boot_id():
        return False
    if holder.started:
        return start_time(holder.pid) == holder.started
    return process_exists(holder.pid)


def process_exists(pid: int) -> bool:
    """Return whether there is a process with this id, of any user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid > 0


def _is_locked(path: Path) -> bool:
    """Return whether the kernel lists a lock on the file; True if there is no list."""
    try:
        inode = os.stat(path).st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return True
    return any(f":{inode} " in line and "FLOCK" in line for line in lines)


def shared_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return the type of the network or user-space file system of `path`; None for a local or unknown one."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    real = os.path.realpath(path)
    longest, kind = "", ""
    for line in text.splitlines():
        mount, _, file_system = line.partition(" - ")
        parts = mount.split()
        if len(parts) < 5 or not file_system:
            continue
        point = parts[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        contains = real == point or real.startswith(point.rstrip("/") + "/")
        if contains and len(point) >= len(longest):
            longest, kind = point, file_system.split()[0]
    return kind if kind.startswith(SHARED_FILE_SYSTEMS) else None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; empty if it has ended or the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = stat.rpartition(b")")[2].split()
    has_ended = fields[:1] == [b"Z"]  # a zombie: its parent has not read its status
    return fields[19].decode() if len(fields) > 19 and not has_ended else ""

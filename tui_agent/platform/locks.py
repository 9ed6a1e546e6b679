"""One holder at a time: a lock that the kernel drops when its process dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tui_agent.platform.syscalls import close_quietly
from tui_agent.text import one_line

FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
SHARED_FILE_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse", "9p", "ceph", "glusterfs", "lustre", "ncpfs")
"""Beginnings of the names of file systems on which locks and syncs may not hold across machines."""


class Holder(msgspec.Struct, frozen=True):
    """Who has a lock: for messages only, the lock itself is the kernel's."""

    pid: int
    host: str
    since: str
    """ISO 8601, UTC."""
    boot: str = ""
    started: str = ""
    """The process's start time in clock ticks since boot, so that a reused pid is not taken for it."""


class InUse(Exception):
    """Another process holds the lock. `holder` is None when it left no readable name."""

    def __init__(self, path: Path, holder: Holder | None) -> None:
        who = f"process {holder.pid} on {one_line(holder.host, 80)}" if holder else "another process"
        since = f" since {one_line(holder.since, 40)}" if holder else ""
        super().__init__(f"{one_line(path.parent.name)} is in use by {who}{since}.")
        self.holder = holder


class FileLock:
    """An exclusive lock on a file of its own, held until `release` or death. The file is never removed.

    `flock`, since a `fcntl` lock is dropped when any descriptor of the file is closed; close-on-exec, so that no
    child can keep it.
    """

    def __init__(self, path: Path) -> None:
        """Take the lock at once. Raises InUse, or OSError when the file can't be opened."""
        self.path = path
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            close_quietly(fd)
            raise InUse(path, read_holder(path)) from None
        except OSError:
            close_quietly(fd)
            raise
        self._fd = fd
        self._sign()

    def _sign(self) -> None:
        pid = os.getpid()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder = Holder(pid, socket.gethostname(), now, _boot_id(), _start_time(pid))
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, msgspec.json.encode(holder) + b"\n", 0)
        except OSError:
            return  # a full disk costs the name in a message, not the lock

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def release(self) -> None:
        """Give the lock back. Calling it again does nothing."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            close_quietly(fd)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _open(path: Path) -> int:
    """The lock file, made if need be. Where something else has its name, the folder around it serves as the lock."""
    try:
        return os.open(path, FLAGS, 0o600)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ELOOP):
            raise
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def read_holder(path: Path) -> Holder | None:
    """Who wrote their name into the lock file last; None when it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return msgspec.json.decode(os.read(fd, 4096), type=Holder)
        finally:
            close_quietly(fd)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def seems_held(path: Path) -> bool:
    """True when the last holder still seems to run, judged without touching the lock (a try would disturb starters).

    For lists and labels only. A holder on another machine is taken to be running.
    """
    holder = read_holder(path)
    if holder is None:
        return False
    if holder.host != socket.gethostname():
        return True
    if holder.boot and holder.boot != _boot_id():
        return False
    if holder.started:
        return _start_time(holder.pid) == holder.started and _locked(path)
    return process_lives(holder.pid)


def process_lives(pid: int) -> bool:
    """Whether there is a process with this id, whoever it belongs to."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid > 0


def _locked(path: Path) -> bool:
    """Whether the kernel lists a lock on the file; True where it publishes no list."""
    try:
        inode = os.stat(path).st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return True
    return any(f":{inode} " in line and "FLOCK" in line for line in lines)


def shared_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The type of the network or user-space file system that holds `path`; None for a local one or when unknown."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split()
        if len(parts) < 5 or not rest:
            continue
        point = parts[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, rest.split()[0]
    return kind if kind.startswith(SHARED_FILE_SYSTEMS) else None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = stat.rpartition(b")")[2].split()
    return fields[19].decode() if len(fields) > 19 else ""

"""Namespaces for a sandboxed command: processes, mounts, IPC and, without a network, interfaces of its own (A10).

Uses the standard library only, as the supervisor loads this file by its path. In the mounts everything is read-only
except the writable folders; /dev, /dev/shm, /proc, /run, /tmp and /var/tmp are its own. Three processes result: the
caller only passes the status on; process 1 of the namespace sets up the mounts, then collects ended processes and dies
with the supervisor, which kills all others in it; the third returns from `enter`, to execute the program.

Before executing it, call `drop_capabilities`, and let Landlock forbid that mounts are changed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import stat
import struct

TYPE_CHECKING = False  # that of `typing` would take some milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

_NEWNS, _NEWUSER, _NEWNET, _NEWPID, _NEWIPC = 0x20000, 0x10000000, 0x40000000, 0x20000000, 0x8000000
_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""On every architecture; Linux 5.12 has them all."""
_CLONE, _CLOEXEC, _RECURSIVE, _EMPTY_PATH, _FROM_EMPTY_PATH = 1, os.O_CLOEXEC, 0x8000, 0x1000, 4
_READ_ONLY = 1
"""Has the same value as a flag of `mount` and as an attribute of `mount_setattr`, like nosuid, nodev and noexec."""
_CWD = -100
_HERE = ctypes.c_int(_CWD)

_CAPBSET_DROP, _DEATHSIG, _DUMPABLE = 24, 1, 4
_FILE_CAPABILITIES = {0, 1, 3, 4, 6, 7}
"""Capabilities that root keeps: owners and modes of files, changing to another user."""

_MAX_FD = 4096

_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_FIXED = (b"sys", b"sysrq-trigger", b"irq", b"bus", b"fs", b"acpi", b"scsi", b"mtrr")
"""What is read-only in /proc, even for root."""
_COVERED = (
    b"kcore",
    b"kmsg",
    b"keys",
    b"key-users",
    b"kallsyms",
    b"kpagecount",
    b"kpageflags",
    b"timer_list",
    b"vmallocinfo",
)
"""What appears empty in /proc."""
_EMPTY_SYSTEM = (
    b"/sys/kernel/debug",
    b"/sys/kernel/tracing",
    b"/sys/kernel/security",
    b"/sys/firmware",
    b"/sys/fs/bpf",
)


Mounts = dict[str, "Any"]
"""What a command sees: the fields of `proc.Mounts`, with paths as bytes."""


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def enter(mounts: Mounts, *, network: bool, alive: int) -> None:
    """Enter the namespaces; returns in a new process. `alive`: a pipe that ends when the supervisor dies.

    Raises OSError, in this process or in the new one; then no program may be executed.
    """
    libc = _libc()
    _unshare(libc, network)
    status, write_end = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)  # afterwards process 1 replaces /dev for both
    child = os.fork()
    if child:
        os.close(write_end)
        _pass_on(status, child, null)
    os.close(status)
    if not network:
        _raise_loopback(libc)
    _set_up(libc, mounts)
    program = os.fork()
    if program:
        _collect(program, write_end, alive, null)
    os.close(write_end)
    os.close(null)
    os.setsid()


def drop_capabilities() -> None:
    """Drop what lets root change the machine, for programs to be executed."""
    libc = _libc()
    for capability in set(range(64)) - _FILE_CAPABILITIES:
        libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)


def _unshare(libc: ctypes.CDLL, network: bool) -> None:
    """Create the namespaces, with the same user and group ids.

    Root needs no user namespace for that, and thus can still access the files of others. If that is not permitted (in
    many containers), it uses a user namespace like others.
    """
    namespaces = _NEWNS | _NEWPID | _NEWIPC | (0 if network else _NEWNET)
    user, group = os.geteuid(), os.getegid()
    if user == 0 and libc.unshare(ctypes.c_int(namespaces)) == 0:
        return
    _check(libc.unshare(ctypes.c_int(_NEWUSER | namespaces)))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1\n")
    _write("/proc/self/gid_map", f"{group} {group} 1\n")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _raise_loopback(libc: ctypes.CDLL) -> None:
    """Activate the loopback interface, for tests that start local servers."""
    import fcntl

    interface = _check(libc.socket(2, 2, 0))  # AF_INET, SOCK_DGRAM
    try:
        fcntl.ioctl(interface, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running
    finally:
        os.close(interface)


# --- processes ---


def _keep_only(*kept: int, null: int) -> None:
    """Close all descriptors but these, among them the output of the program; `null` replaces the standard ones."""
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, _MAX_FD)


def _pass_on(status: int, child: int, null: int) -> NoReturn:
    """End as the program ends, which process 1 reports: its status, and whether processes are left."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _libc().prctl(_DEATHSIG, signal.SIGKILL, 0, 0, 0)  # a new user namespace has reset it
        _keep_only(status, null=null)
        report = os.read(status, 5)
        if len(report) < 5:
            os._exit(127)
        if not report[4]:
            os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(int.from_bytes(report[:4], "little"))
        if code < 0:
            _libc().prctl(_DUMPABLE, 0, 0, 0, 0)
            signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -code)
        os._exit(code if code >= 0 else 128 - code)
    finally:
        os._exit(127)


def _collect(program: int, report: int, alive: int, null: int) -> NoReturn:
    """Be process 1: collect ended processes until none is left or the supervisor is gone."""
    try:
        wakeup, write_end = os.pipe()
        for fd in (wakeup, write_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        _keep_only(report, alive, wakeup, write_end, null=null)
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(alive, select.POLLIN)
        status = None
        while True:
            left = True
            while left:
                try:
                    pid, ended = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    left = False
                    break
                if not pid:
                    break
                if pid == program:
                    status = ended
            if status is not None and report >= 0:
                os.write(report, status.to_bytes(4, "little") + bytes([left]))
                os.close(report)
                report = -1
            if not left or any(fd == alive for fd, _ in poll.poll()):
                os._exit(0)
            os.read(wakeup, 512)
    finally:
        os._exit(127)


# --- mounts ---


def _set_up(libc: ctypes.CDLL, mounts: Mounts) -> None:
    _check(libc.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None))
    writable, temporary = mounts["writable"], mounts["temporary"]
    kept = [(path, _clone(libc, path, 0 if path in writable else _READ_ONLY)) for path in _kept(mounts)]
    devices = [(name, _clone(libc, b"/dev/" + name)) for name in _DEVICES]
    private = sorted({os.path.realpath(path) for path in (b"/tmp", b"/var/tmp") if os.path.isdir(path)})
    contents = [_clone(libc, temporary, 0) if temporary else -1 for _ in private]
    _set_attributes(libc, b"/", _NOSUID | _NODEV | (0 if b"/" in writable else _READ_ONLY))
    for path, tree in zip(private, contents, strict=True):
        if not _move(libc, tree, path):
            _mount_empty(libc, path, b"mode=1777")
    _mount_empty(libc, b"/run", b"size=1m,mode=755")
    for path, tree in kept:
        _move(libc, tree, path)
    _set_attributes(libc, b"/run", _READ_ONLY, flags=0)
    _make_devices(libc, devices)
    _make_proc(libc)
    for path in (*mounts["hidden"], *_EMPTY_SYSTEM):
        _mount_empty(libc, path, b"size=4k,mode=755", _READ_ONLY)
    for path in mounts["guarded"]:
        _fix(libc, path)


def _kept(mounts: Mounts) -> list[bytes]:
    """Return what has to be mounted again, outer folders first."""
    return sorted({*mounts["writable"], *mounts["visible"]} - {b"/"}, key=len)


def _make_devices(libc: ctypes.CDLL, devices: Sequence[tuple[bytes, int]]) -> None:
    _mount_empty(libc, b"/dev", b"size=1m,mode=755")
    for name, tree in devices:
        _move(libc, tree, b"/dev/" + name)
    for folder in ("/dev/pts", "/dev/shm"):
        os.mkdir(folder)
    _mount_empty(libc, b"/dev/shm", b"mode=1777")
    options = ctypes.c_ulong(_NOSUID | _NOEXEC), b"newinstance,ptmxmode=0666,mode=620"
    _check(libc.mount(b"devpts", b"/dev/pts", b"devpts", *options))
    for link, target in _LINKS.items():
        os.symlink(target, "/dev/" + link)
    _set_attributes(libc, b"/dev", _READ_ONLY, flags=0)


def _make_proc(libc: ctypes.CDLL) -> None:
    _check(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(_NOSUID | _NODEV | _NOEXEC), None))
    for name in _FIXED:
        _fix(libc, b"/proc/" + name)
    for name in _COVERED:
        if os.path.exists(b"/proc/" + name):
            _check(libc.mount(b"/dev/null", b"/proc/" + name, None, ctypes.c_ulong(_BIND), None))


def _clone(libc: ctypes.CDLL, path: bytes, attributes: int | None = None) -> int:
    """Return a descriptor of a copy of the mounts at `path`, with additional attributes; -1 if there is nothing."""
    number, flags = ctypes.c_long(_OPEN_TREE), ctypes.c_uint(_CLONE | _CLOEXEC | _RECURSIVE)
    tree: int = libc.syscall(number, _HERE, path, flags)
    if tree < 0:
        code = ctypes.get_errno()
        if code in (errno.ENOENT, errno.ENOTDIR):
            return -1
        raise OSError(code, os.strerror(code))
    if attributes is not None:
        _set_attributes(libc, b"", attributes | _NOSUID | _NODEV, _RECURSIVE | _EMPTY_PATH, tree)
    return tree


def _set_attributes(
    libc: ctypes.CDLL, path: bytes, attributes: int, flags: int = _RECURSIVE, folder: int = _CWD
) -> None:
    argument = struct.pack("=4Q", attributes, 0, 0, 0)
    number, size = ctypes.c_long(_MOUNT_SETATTR), ctypes.c_size_t(len(argument))
    _check(libc.syscall(number, ctypes.c_int(folder), path, ctypes.c_uint(flags), argument, size))


def _move(libc: ctypes.CDLL, tree: int, path: bytes) -> bool:
    """Mount a copy at `path`, which is created if it is missing in a new folder; False if there is none."""
    if tree < 0:
        return False
    if not os.path.lexists(path):
        is_folder = stat.S_ISDIR(os.fstat(tree).st_mode)
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
    number, flags = ctypes.c_long(_MOVE_MOUNT), ctypes.c_uint(_FROM_EMPTY_PATH)
    _check(libc.syscall(number, ctypes.c_int(tree), b"", _HERE, path, flags))
    os.close(tree)
    return True


def _mount_empty(libc: ctypes.CDLL, path: bytes, options: bytes, attributes: int = 0) -> None:
    if os.path.isdir(path):
        flags = ctypes.c_ulong(_NOSUID | _NODEV | attributes)
        _check(libc.mount(b"none", path, b"tmpfs", flags, options))


def _fix(libc: ctypes.CDLL, path: bytes) -> None:
    """Make `path` read-only; it can neither be renamed nor removed."""
    if os.path.lexists(path) and not os.path.islink(path):
        _check(libc.mount(path, path, None, ctypes.c_ulong(_BIND | _REC), None))
        _set_attributes(libc, path, _READ_ONLY)

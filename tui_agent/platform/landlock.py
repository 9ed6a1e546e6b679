"""Confine a child process before it executes a program: namespaces if available, then Landlock (A10).

Uses the standard library only, as the supervisor loads this file by its path. What is denied:

* by Landlock, from ABI 1 (Linux 5.13): writing, creating, removing and renaming outside of `writable`; ptrace of
  processes outside; mount, umount and pivot_root. From ABI 4 TCP connections and listening, from ABI 6 signals and
  abstract sockets to the outside. It neither restricts UDP (thus DNS) nor parts of a writable folder.
* by a user, mount and network namespace: the network except an own loopback; writing to `guarded`; reading `hidden`.
  The mounts can't be undone, since Landlock forbids it.
* by no_new_privs: set-user-id programs get no privileges.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct

SandboxSpec = tuple[list[bytes], list[bytes], list[bytes], bool, bool, int]
"""Writable, guarded and hidden paths; whether to allow the network; whether to use namespaces; the Landlock ABI."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Landlock's system calls, on every architecture."""
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_WRITE_ACCESS = _WRITE_FILE | 0x1FF0
"""Writing, removing and creating files of every kind."""
_TCP = 0b11
_SCOPES = 0b11
"""Abstract sockets and signals."""

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_RDONLY, _REMOUNT, _BIND, _REC, _PRIVATE, _RELATIME = 1, 32, 4096, 16384, 1 << 18, 1 << 21
_LOCKED_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: an unprivileged remount may not drop them."""
_NO_NEW_PRIVS, _CAPBSET_DROP = 38, 24
_FILE_CAPABILITIES = {0, 1, 2, 3, 4, 5, 6, 7}
"""Capabilities that root keeps: owners and modes of files, signals, changing to another user."""

DEVICES = (b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom", b"/dev/tty")
"""Devices that every command may write to."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def abi_version() -> int:
    """Return the Landlock ABI of the kernel; 0 if it has none."""
    try:
        version: int = _libc().syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    except (OSError, AttributeError):
        return 0
    return max(0, version)


def enter(sandbox_spec: SandboxSpec) -> None:
    """Confine this process and its children permanently. After an OSError no program may be executed."""
    writable, guarded, hidden, network, namespaces, version = sandbox_spec
    libc = _libc()
    if namespaces:
        _enter_namespaces(libc, network)
        _check(libc.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None))
        for path in guarded:
            _make_read_only(libc, path)
        for path in hidden:
            flags = ctypes.c_ulong(_RDONLY | 2 | 4 | 8)
            _check(libc.mount(b"none", path, b"tmpfs", flags, b"size=4k,mode=755"))
    _check(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    if version > 0:
        _restrict(libc, writable, tcp=not network and not namespaces, version=version)
    elif not namespaces:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


# --- Landlock ---


def _restrict(libc: ctypes.CDLL, writable: list[bytes], *, tcp: bool, version: int) -> None:
    access = _WRITE_ACCESS | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    fields = [access]
    if version >= 4:
        fields.append(_TCP if tcp else 0)
    if version >= 6:
        fields.append(_SCOPES)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _check(
        libc.syscall(ctypes.c_long(_CREATE_RULESET), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    )
    try:
        for path in (*writable, *DEVICES):
            _allow(libc, ruleset, path, access)
        _check(libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: bytes, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path can't be written either
    try:
        rights = access if os.path.isdir(path) else access & (_WRITE_FILE | _TRUNCATE)
        rule = struct.pack("=Qi", rights, fd)
        _check(libc.syscall(ctypes.c_long(_ADD_RULE), ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0)))
    finally:
        os.close(fd)


# --- namespaces ---


def _enter_namespaces(libc: ctypes.CDLL, network: bool) -> None:
    """Enter a mount namespace, and one without a network, with the same user and group ids.

    Root needs no user namespace for that, and thus can still access the files of others; it drops capabilities that
    affect the machine. If that is not permitted (in many containers), it uses a user namespace like others.
    """
    namespaces = _NEWNS | (0 if network else _NEWNET)
    user, group = os.geteuid(), os.getegid()
    if user == 0 and libc.unshare(ctypes.c_int(namespaces)) == 0:
        for capability in set(range(64)) - _FILE_CAPABILITIES:
            libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    else:
        _check(libc.unshare(ctypes.c_int(_NEWUSER | namespaces)))
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1\n")
        _write("/proc/self/gid_map", f"{group} {group} 1\n")
    if not network:
        _raise_loopback()


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _raise_loopback() -> None:
    """Activate the loopback interface, for tests that start local servers."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as interface:
        fcntl.ioctl(interface, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running


def _make_read_only(libc: ctypes.CDLL, path: bytes) -> None:
    """Make `path` read-only; it can neither be renamed nor removed."""
    if not os.path.lexists(path) or os.path.islink(path):
        return
    _check(libc.mount(path, path, None, ctypes.c_ulong(_BIND | _REC), None))
    current = os.statvfs(path).f_flag
    flags = current & _LOCKED_FLAGS | (_RELATIME if current & 4096 else 0)
    _check(libc.mount(None, path, None, ctypes.c_ulong(_BIND | _REMOUNT | _RDONLY | flags), None))


if __name__ == "__main__":  # probe whether namespaces are available
    enter(([], [], [], False, True, abi_version()))

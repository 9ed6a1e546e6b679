"""In the child, before it becomes the program: namespaces where there are some, then Landlock (A10).

The standard library only: the supervisor loads this file by its path. What is denied:

* by Landlock, from ABI 1 (Linux 5.13): writing, making, removing and renaming outside `writable`; ptrace of whatever is
  not confined itself; mount, umount and pivot_root. From ABI 4 TCP connections and listening, from ABI 6 signals and
  abstract sockets to the outside. It has no say in UDP (so DNS) and can't take a part of a writable folder out again.
* by a user, mount and network namespace in front of it: all of the network but a loopback of its own; writing to
  `guarded`; reading `hidden`. The mounts can't be undone, since Landlock forbids it.
* by no_new_privs: set-user-id programs give nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct

SandboxSpec = tuple[list[bytes], list[bytes], list[bytes], bool, bool, int]
"""Writable, guarded and hidden paths; whether the network may be used; whether namespaces are to be had; the ABI."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Landlock's calls: the same numbers on every architecture."""
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGES = _WRITE_FILE | 0x1FF0
"""Writing, removing and making files of every kind."""
_TCP = 0b11
_SCOPED = 0b11
"""Abstract sockets and signals."""

_NEWNS, _NEWUSER, _NEWNET = 0x20000, 0x10000000, 0x40000000
_RDONLY, _REMOUNT, _BIND, _REC, _PRIVATE, _RELATIME = 1, 32, 4096, 16384, 1 << 18, 1 << 21
_KEPT = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: an unprivileged remount may not drop them."""
_NO_NEW_PRIVS, _CAPBSET_DROP = 38, 24
_OF_FILES = {0, 1, 2, 3, 4, 5, 6, 7}
"""Capabilities that root keeps: owners and modes of files, signals, changing to another user."""

DEVICES = (b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/random", b"/dev/urandom", b"/dev/tty")
"""May be written to wherever the command runs."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def abi() -> int:
    """Which Landlock the kernel has; 0 for none. Restricts nothing."""
    try:
        version: int = _libc().syscall(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    except (OSError, AttributeError):
        return 0
    return max(0, version)


def enter(sandbox_spec: SandboxSpec) -> None:
    """Confine this process and all that comes of it, for good. Raises OSError; then nothing may be run."""
    writable, guarded, hidden, network, namespaces, version = sandbox_spec
    libc = _libc()
    if namespaces:
        _separate(libc, network)
        _check(libc.mount(None, b"/", None, ctypes.c_ulong(_REC | _PRIVATE), None))
        for path in guarded:
            _seal(libc, path)
        for path in hidden:
            flags = ctypes.c_ulong(_RDONLY | 2 | 4 | 8)
            _check(libc.mount(b"none", path, b"tmpfs", flags, b"size=4k,mode=755"))
    _check(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    if version > 0:
        _restrict(libc, writable, tcp=not network and not namespaces, version=version)
    elif not namespaces:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


# --- Landlock -------------------------------------------------------------------------------


def _restrict(libc: ctypes.CDLL, writable: list[bytes], *, tcp: bool, version: int) -> None:
    changes = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    fields = [changes]
    if version >= 4:
        fields.append(_TCP if tcp else 0)
    if version >= 6:
        fields.append(_SCOPED)
    asked = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _check(libc.syscall(ctypes.c_long(_CREATE), asked, ctypes.c_size_t(len(asked)), ctypes.c_uint(0)))
    try:
        for path in (*writable, *DEVICES):
            _allow(libc, ruleset, path, changes)
        _check(libc.syscall(ctypes.c_long(_RESTRICT), ctypes.c_int(ruleset), ctypes.c_uint(0)))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: bytes, changes: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there can't be written either
    try:
        rights = changes if os.path.isdir(path) else changes & (_WRITE_FILE | _TRUNCATE)
        rule = struct.pack("=Qi", rights, fd)
        _check(libc.syscall(ctypes.c_long(_ADD), ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0)))
    finally:
        os.close(fd)


# --- namespaces -----------------------------------------------------------------------------


def _separate(libc: ctypes.CDLL, network: bool) -> None:
    """Into a mount namespace, and one without a network; with the same user and group ids as before.

    Root needs no user namespace for it, and keeps the files of others that way; it gives up what it can do to the
    machine. Where root is not allowed to either (in many containers), it does as anybody else.
    """
    wanted = _NEWNS | (0 if network else _NEWNET)
    user, group = os.geteuid(), os.getegid()
    if user == 0 and libc.unshare(ctypes.c_int(wanted)) == 0:
        for capability in set(range(64)) - _OF_FILES:
            libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)
    else:
        _check(libc.unshare(ctypes.c_int(_NEWUSER | wanted)))
        _say("/proc/self/setgroups", "deny")
        _say("/proc/self/uid_map", f"{user} {user} 1\n")
        _say("/proc/self/gid_map", f"{group} {group} 1\n")
    if not network:
        _raise_loopback()


def _say(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _raise_loopback() -> None:
    """So that tests which start servers of their own still run."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running


def _seal(libc: ctypes.CDLL, path: bytes) -> None:
    """What is at `path` can be read only, and neither be renamed nor removed."""
    if not os.path.lexists(path) or os.path.islink(path):
        return
    _check(libc.mount(path, path, None, ctypes.c_ulong(_BIND | _REC), None))
    found = os.statvfs(path).f_flag
    flags = found & _KEPT | (_RELATIME if found & 4096 else 0)
    _check(libc.mount(None, path, None, ctypes.c_ulong(_BIND | _REMOUNT | _RDONLY | flags), None))


if __name__ == "__main__":  # whether namespaces can be had here
    enter(([], [], [], False, True, abi()))

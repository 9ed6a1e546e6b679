"""Landlock: deny a process and its children all writing outside of some folders (A10).

Uses the standard library only, as the supervisor loads this file by its path. From ABI 1 (Linux 5.13) it denies
writing, creating, removing and renaming, ptrace of processes outside, mount, umount and pivot_root; from ABI 4 TCP
connections and listening, from ABI 6 signals and abstract sockets to the outside. It denies neither changes of modes,
owners and times, nor UDP, nor anything in a part of a writable folder.

As a script it restricts itself, then executes a program: `landlock.py ABI COUNT WRITABLE… PROGRAM ARGV…`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

TYPE_CHECKING = False  # that of `typing` would take some milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Landlock's system calls, on every architecture."""
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_WRITE_ACCESS = _WRITE_FILE | 0x1FF0
"""Writing, removing and creating files of every kind."""
_TCP = 0b11
_SCOPES = 0b11
"""Abstract sockets and signals."""
_NO_NEW_PRIVS = 38

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


def forbid_privileges() -> None:
    """Give set-user-id programs no privileges; Landlock and seccomp filters need that."""
    _check(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))


def restrict_writing(writable: Iterable[bytes], *, tcp: bool, version: int) -> None:
    """Restrict this process and its children permanently; `tcp` denies TCP. Raises OSError."""
    libc = _libc()
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


def _main(arguments: list[bytes]) -> None:
    version, count = int(arguments[0]), int(arguments[1])
    writable, (program, *argv) = arguments[2 : 2 + count], arguments[2 + count :]
    restrict_writing(writable, tcp=False, version=version)
    os.execv(program, argv)


if __name__ == "__main__":
    _main(list(map(os.fsencode, sys.argv[1:])))

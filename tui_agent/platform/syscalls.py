"""System calls for files, including two that Python lacks: opening beneath a folder and swapping two names.

They raise OSError; ENOSYS if the system has no such call.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

_RESOLVE_STRICTLY = 0x02 | 0x04 | 0x08
"""RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS and RESOLVE_BENEATH."""

_OPENAT2 = 437
"""On every architecture of Linux, 5.6 and later."""
_RENAME_EXCHANGE = 2
MAX_RETRIES = 100
"""How often a call is repeated that a signal keeps interrupting."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def openat2(path: bytes, flags: int, *, dir_fd: int) -> int:
    """Open `path`, relative to `dir_fd`; the kernel rejects links in it, and paths that leave the folder."""
    libc = _libc()
    if libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_STRICTLY)
    for _ in range(MAX_RETRIES):
        fd: int = libc.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(dir_fd),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        # EAGAIN: something was renamed while the path was resolved.
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), os.fsdecode(path))


def exchange(first: bytes, second: bytes, *, dir_fd: int) -> None:
    """Swap two names atomically; a relative one is in the folder `dir_fd`."""
    libc = _libc()
    function = getattr(libc, "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = function(
        ctypes.c_int(dir_fd),
        ctypes.c_char_p(first),
        ctypes.c_int(dir_fd),
        ctypes.c_char_p(second),
        ctypes.c_uint(_RENAME_EXCHANGE),
    )
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(second))


class OsCalls:
    """The system calls that file operations use; fault tests replace it by a subclass.

    Names are relative to an open folder, `dir_fd`, or absolute. Each raises OSError like the call it is named after.
    """

    def open(self, name: str | Path, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)

    def open_beneath(self, path: bytes, flags: int, *, dir_fd: int) -> int:
        """Open a path that neither leaves `dir_fd` nor contains a symbolic link; ENOSYS if that is not supported."""
        return openat2(path, flags, dir_fd=dir_fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def datasync(self, fd: int) -> None:
        """Make the content durable; macOS has only `fsync`."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def fchown(self, fd: int, uid: int, gid: int) -> None:
        os.fchown(fd, uid, gid)

    def link(self, old: str | int, new: str, *, dir_fd: int) -> None:
        """Give a file, by name or open, the name `new`."""
        if isinstance(old, int):
            os.link(f"/proc/self/fd/{old}", new, dst_dir_fd=dir_fd, follow_symlinks=True)
        else:
            os.link(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)

    def exchange(self, first: str, second: str, *, dir_fd: int) -> None:
        exchange(os.fsencode(first), os.fsencode(second), dir_fd=dir_fd)

    def rename(self, old: str, new: str, *, dir_fd: int) -> None:
        os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def unlink(self, name: str, *, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def mkdir(self, name: str, *, dir_fd: int) -> None:
        os.mkdir(name, 0o777, dir_fd=dir_fd)

    def stat(self, name: str, *, dir_fd: int) -> os.stat_result:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)


class _Retrying(OsCalls):
    """Repeats calls of another `OsCalls` that a signal interrupted (EINTR).

    Python repeats some calls by itself, but neither those by name, which network file systems interrupt, nor ours.
    """

    def __init__(self, calls: OsCalls) -> None:
        for name in _CALLS:
            setattr(self, name, functools.partial(_retry, getattr(calls, name)))

        def close(fd: int) -> None:
            with contextlib.suppress(InterruptedError):  # the descriptor is closed; its number may be in use again
                calls.close(fd)

        vars(self)["close"] = close


_CALLS = tuple(name for name in vars(OsCalls) if not name.startswith("_"))


def _retry(call: Callable[..., T], *args: Any, **named: Any) -> T:
    for _ in range(MAX_RETRIES):
        with contextlib.suppress(InterruptedError):
            return call(*args, **named)
    return call(*args, **named)


def retrying(calls: OsCalls) -> OsCalls:
    """Return calls that no signal lets fail with EINTR."""
    return calls if isinstance(calls, _Retrying) else _Retrying(calls)


OS = retrying(OsCalls())


def close_quietly(fd: int, calls: OsCalls = OS) -> None:
    """Close a descriptor and ignore errors, which a sync has reported before."""
    with contextlib.suppress(OSError):
        calls.close(fd)

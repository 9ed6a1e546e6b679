"""System calls that Python has no name for: opening beneath a folder and swapping two names (R-20, FAULTS 5.3).

Both raise OSError; ENOSYS where the system has no such call.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
NO_WAY_OUT = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS

_OPENAT2 = 437
"""The same number on every architecture of Linux (5.6 and later)."""
_RENAME_EXCHANGE = 2


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


def openat2(path: bytes, flags: int, resolve: int, *, dir_fd: int) -> int:
    """Open `path`, relative to `dir_fd`, where the kernel itself checks every step of the way by `resolve`."""
    libc = _libc()
    if libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    for _ in range(16):
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
        # EAGAIN: something was renamed during the walk, so the kernel could not vouch for it.
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), os.fsdecode(path))


def exchange(one: bytes, other: bytes, *, dir_fd: int) -> None:
    """Swap two names of one folder in a single step, so that neither is ever missing."""
    libc = _libc()
    function = getattr(libc, "renameat2", None)
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = function(
        ctypes.c_int(dir_fd),
        ctypes.c_char_p(one),
        ctypes.c_int(dir_fd),
        ctypes.c_char_p(other),
        ctypes.c_uint(_RENAME_EXCHANGE),
    )
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(other))

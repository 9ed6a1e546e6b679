"""The file operations that reading and replacing rest on, as one object that a fault test can stand in for."""

from __future__ import annotations

import os

from tui_agent.platform import syscalls


class OsCalls:
    """Everything relative to an open folder. Each raises OSError like the call it is named after."""

    def open(self, name: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=dir_fd)

    def open_beneath(self, path: bytes, flags: int, *, dir_fd: int) -> int:
        """Open without leaving `dir_fd` and without a symbolic link on the way; ENOSYS where that can't be asked."""
        return syscalls.openat2(path, flags, syscalls.NO_WAY_OUT, dir_fd=dir_fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def fchown(self, fd: int, uid: int, gid: int) -> None:
        os.fchown(fd, uid, gid)

    def link(self, old: str, new: str, *, dir_fd: int) -> None:
        os.link(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)

    def exchange(self, one: str, other: str, *, dir_fd: int) -> None:
        syscalls.exchange(os.fsencode(one), os.fsencode(other), dir_fd=dir_fd)

    def rename(self, old: str, new: str, *, dir_fd: int) -> None:
        os.rename(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def unlink(self, name: str, *, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def mkdir(self, name: str, *, dir_fd: int) -> None:
        os.mkdir(name, 0o777, dir_fd=dir_fd)

    def stat(self, name: str, *, dir_fd: int) -> os.stat_result:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)


OS = OsCalls()

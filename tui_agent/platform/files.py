"""Reading files with their hash and replacing them so that no byte of anybody is lost (FAULTS 5.3, R-22 … R-24).

All functions block; callers on the event loop use a thread. Paths are resolved here once, and every step after that
goes through a descriptor of the folder, so that a swapped link can't lead a write elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tui_agent.platform.beneath import open_folder, real
from tui_agent.platform.file_faults import (
    FileChangedError,
    FileFault,
    FileTooLargeError,
    LinkedFileError,
    NotRegularError,
    fault_of,
)
from tui_agent.platform.oscalls import OS, OsCalls
from tui_agent.platform.replacing import TEMP_NAME, Replaced, Replacement

CHUNK = 1 << 20
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class FileBytes(msgspec.Struct, frozen=True, kw_only=True):
    """A regular file as it was read."""

    data: bytes
    sha256: str
    mode: int
    """Permission bits."""
    path: Path
    """Where the bytes really lie: symbolic links followed."""


class OpenedFile(NamedTuple):
    """A regular file, open for reading."""

    fd: int
    size: int
    path: Path


def sha256_of(data: bytes) -> str:
    """The hash by which files are compared everywhere, in hex."""
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def open_regular(
    path: Path, *, follow: bool = True, beneath: Path | None = None, calls: OsCalls = OS
) -> Iterator[OpenedFile]:
    """Open `path` for reading without ever blocking: only a regular file, checked before and after the open.

    Without `follow` the path must be resolved already, and a link anywhere in it is a fault. Raises FileFault;
    `outside` when links lead out of `beneath`.
    """
    where = real(path, beneath) if follow else path
    try:
        with open_folder(where.parent, beneath=beneath, calls=calls) as folder:
            name = where.name or "."
            _check_kind(calls.stat(name, dir_fd=folder), where)
            fd = calls.open(name, _READING, dir_fd=folder)
        try:
            status = os.fstat(fd)
            _check_kind(status, where)
            yield OpenedFile(fd, status.st_size, where)
        finally:
            calls.close(fd)
    except (OSError, ValueError) as error:
        raise fault_of(error, path) from error


def read_file(
    path: Path,
    cap: int | None = None,
    *,
    follow: bool = True,
    beneath: Path | None = None,
    calls: OsCalls = OS,
) -> FileBytes:
    """All bytes of a regular file with their hash, opened as by `open_regular`.

    Raises FileFault; `too_large` above `cap` bytes.
    """
    with open_regular(path, follow=follow, beneath=beneath, calls=calls) as opened:
        if cap is not None and opened.size > cap:
            raise FileTooLargeError(path, opened.size, cap)
        pieces: list[bytes] = []
        size = 0
        while piece := calls.read(opened.fd, CHUNK):
            pieces.append(piece)
            size += len(piece)
            if cap is not None and size > cap:
                raise FileTooLargeError(path, size, cap)
        data = b"".join(pieces)
        mode = stat.S_IMODE(os.fstat(opened.fd).st_mode)
        return FileBytes(data=data, sha256=sha256_of(data), mode=mode, path=opened.path)


def replace_file(
    path: Path,
    content: bytes,
    expected_sha256: str | None,
    *,
    follow: bool = False,
    beneath: Path | None = None,
    mode: int | None = None,
    allow_linked: bool = False,
    calls: OsCalls = OS,
) -> Replaced:
    """Give `path` the bytes `content`, if what lies there still has the hash that the caller started from.

    `expected_sha256` None means that there must be no file; missing folders are then made. Mode, owner and
    attributes of an old file are kept; `mode` is for new ones (default: what the umask leaves). The path must be
    resolved already: a link in it is a fault. With `follow` links are followed, never out of `beneath`, and their
    target is replaced. On any FileFault the old content is intact and nothing is left behind; FileChangedError says
    that somebody else wrote meanwhile.
    """
    where = real(path, beneath) if follow else path
    if not where.name:
        raise NotRegularError(path, "a folder")
    try:
        new = expected_sha256 is None
        with open_folder(where.parent, beneath=beneath, create=new, calls=calls) as folder:
            work = Replacement(folder, where, content, sha256_of(content), calls)
            if expected_sha256 is None:
                return work.create(mode)
            status = _current(work, expected_sha256)
            if status.st_nlink > 1 and not allow_linked:
                raise LinkedFileError(path, status.st_nlink)
            return work.exchange(status, expected_sha256)
    except (OSError, ValueError) as error:
        raise fault_of(error, path) from error


def remove_file(path: Path, expected_sha256: str, *, calls: OsCalls = OS) -> None:
    """Take away the file at `path`, if its bytes still have the hash that the caller knows of.

    The path must be resolved already: a link in it is a fault. On FileChangedError what somebody else wrote meanwhile
    lies there. Raises FileFault.
    """
    try:
        with open_folder(path.parent, calls=calls) as folder:
            work = Replacement(folder, path, b"", "", calls)
            status = _current(work, expected_sha256)
            if status.st_nlink > 1:
                raise LinkedFileError(path, status.st_nlink)
            work.remove(expected_sha256)
    except (OSError, ValueError) as error:
        raise fault_of(error, path) from error


def remove_empty(path: Path) -> bool:
    """Take away the folder at `path`, resolved, if nothing is in it. Whether it went; never raises."""
    try:
        with open_folder(path.parent) as folder:
            os.rmdir(path.name, dir_fd=folder)
    except (OSError, ValueError):
        return False
    return True


def _current(work: Replacement, expected: str) -> os.stat_result:
    """The old file's status, once it is sure that it is a regular one, ours to write, and unchanged."""
    try:
        status = work.calls.stat(work.where.name, dir_fd=work.folder)
    except FileNotFoundError as error:
        raise FileChangedError(work.where, "was deleted meanwhile; nothing was written") from error
    if stat.S_ISLNK(status.st_mode):
        raise FileChangedError(work.where, "became a symbolic link meanwhile; nothing was written")
    _check_kind(status, work.where)
    if not _may_write(work.where.name, work.folder):
        raise FileFault(work.where, "is not writable for you; nothing was changed", "permission")
    if work.hash_of(work.where.name) != expected:
        raise FileChangedError(work.where)
    return status


def _may_write(name: str, folder: int) -> bool:
    try:
        return os.access(name, os.W_OK, dir_fd=folder, effective_ids=True)
    except (NotImplementedError, TypeError):
        return os.access(name, os.W_OK, dir_fd=folder)


def atomic_write(path: Path, content: bytes, mode: int = 0o600, *, calls: OsCalls = OS) -> None:
    """Put `content` at `path` whatever was there: all of it or nothing, durable. For our own files only.

    The file gets `mode`; folders must exist; a symbolic link is followed once. Raises FileFault.
    """
    where = real(path)
    try:
        with open_folder(where.parent, calls=calls) as folder:
            with contextlib.suppress(FileNotFoundError):
                _check_kind(calls.stat(where.name, dir_fd=folder), where)
            Replacement(folder, where, content, sha256_of(content), calls).overwrite(mode)
    except (OSError, ValueError) as error:
        raise fault_of(error, path) from error


def remove_leftovers(folder: Path, older_than: float) -> int:
    """Delete our temporary files in `folder` (not below it) whose last change lies before `older_than`.

    `older_than` is in seconds since the epoch, such as the time at which this process took its lock. Returns how
    many went. Never raises: a folder that can't be read has none.
    """
    count = 0
    with contextlib.suppress(OSError, FileFault), open_folder(real(folder)) as fd:
        for name in os.listdir(fd):
            if not re.fullmatch(TEMP_NAME, name):
                continue
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                old = max(status.st_mtime, status.st_ctime) < older_than
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and old:
                    os.unlink(name, dir_fd=fd)
                    count += 1
    return count


_SPECIAL = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_KERNEL = (Path("/proc"), Path("/sys"))


def _check_kind(status: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    for test, what in _SPECIAL:
        if test(status.st_mode):
            raise NotRegularError(path, what)
    if not stat.S_ISREG(status.st_mode) or any(path.is_relative_to(one) for one in _KERNEL):
        raise NotRegularError(path, "a view into the kernel")


__all__ = [
    "FileBytes",
    "FileChangedError",
    "FileFault",
    "FileTooLargeError",
    "LinkedFileError",
    "NotRegularError",
    "OpenedFile",
    "Replaced",
    "atomic_write",
    "open_regular",
    "read_file",
    "remove_empty",
    "remove_file",
    "remove_leftovers",
    "replace_file",
    "sha256_of",
]

"""The steps of a replacement: write a temporary file beside the target, make it durable, swap, compare, clean up."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tui_agent.platform.file_faults import (
    FileChangedError,
    FileFault,
    FileTooLargeError,
    LinkedFileError,
    NotRegularError,
    fault_of,
)
from tui_agent.platform.safe_open import open_folder, real_path
from tui_agent.platform.syscalls import OS, OsCalls

TEMP_NAME = r"\.[0-9a-f]{16}\.tua-tmp"
"""What our temporary files are called; nothing else is ever removed."""

_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
_NOT_COPIED = ("security.capability", "security.ima", "security.evm")
"""Attributes that vouch for the very bytes of the old file; the system drops them on a write, too."""
_TURNS = 64
_DISPLACED = 16 << 20


class ReplacedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A write that happened."""

    path: Path
    """Where the bytes really lie."""
    sha256: str
    before: str | None
    """Hash of the bytes that were replaced; None for a new file."""
    durable: bool = True
    """False when the folder could not be synced: the new bytes are there, but a loss of power may undo it."""


class Replacement:
    """One replacement of the file `where`, inside the open folder `folder`."""

    def __init__(self, folder: int, where: Path, content: bytes, sha256: str, calls: OsCalls) -> None:
        self.folder = folder
        self.where = where
        self.calls = calls
        self._content = content
        self._sha256 = sha256
        self._temp = f".{secrets.token_hex(8)}.tua-tmp"
        self._rescue = False

    # --- the three ways to finish ---

    def create(self, mode: int | None) -> ReplacedFile:
        """Make a file that must not exist yet."""
        name = self.where.name
        with self._cleanup():
            self._write_temp(0o666 if mode is None else mode, None, exact=mode is not None)
            try:
                self.calls.link(self._temp, name, dir_fd=self.folder)
            except FileExistsError as error:
                raise FileChangedError(self.where, "was created meanwhile; nothing was written") from error
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self._rename_if_absent()
        return self._done(None)

    def exchange(self, old: os.stat_result, expected: str) -> ReplacedFile:
        """Swap the new file with the old one, and swap back if the old one turns out to be another by now."""
        with self._cleanup():
            self._write_temp(0o600, old)
            try:
                self._swap()
            except OSError as error:
                if error.errno not in _NO_EXCHANGE:
                    raise
                self._rename_if_still(expected)
            else:
                found = self._hash_or_none(self._temp)
                if found != expected:
                    displaced = self._displaced()
                    overtaken = self._give_back(found)
                    raise FileChangedError(self.where, displaced=displaced, overtaken=overtaken)
        return self._done(expected)

    def overwrite(self, mode: int) -> ReplacedFile:
        """Put the new file there whatever it replaces."""
        with self._cleanup():
            self._write_temp(mode, None, exact=True)
            self.calls.rename(self._temp, self.where.name, dir_fd=self.folder)
        return self._done(None)

    def remove(self, expected: str) -> None:
        """Take the name away, and put it back if the file turns out to be another one than expected by now."""
        self.calls.rename(self.where.name, self._temp, dir_fd=self.folder)
        if self._hash_or_none(self._temp) != expected:
            self._rescue = True
            try:
                self.calls.link(self._temp, self.where.name, dir_fd=self.folder)
            except FileExistsError:
                pass  # they saved once more: the newest has the name
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self._rename_if_absent()
                raise FileChangedError(self.where) from error
            self.calls.unlink(self._temp, dir_fd=self.folder)
            raise FileChangedError(self.where, "changed on disk meanwhile; it was not removed")
        self.calls.unlink(self._temp, dir_fd=self.folder)
        self._done(expected)

    # --- steps ---

    def hash_of(self, name: str) -> str:
        """sha256 of a file of the folder. Raises OSError, FileFault when it is no regular file."""
        fd = self.calls.open(name, _READING, dir_fd=self.folder)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise FileFault(self.where, "is no longer a regular file", "not_regular")
            found = hashlib.sha256()
            while piece := self.calls.read(fd, 1 << 20):
                found.update(piece)
            return found.hexdigest()
        finally:
            self.calls.close(fd)

    def _displaced(self) -> bytes:
        """Their bytes that the swap took; none of a file that is no plan's size or can't be read."""
        with contextlib.suppress(OSError):
            fd = self.calls.open(self._temp, _READING, dir_fd=self.folder)
            try:
                if os.fstat(fd).st_size <= _DISPLACED:
                    return b"".join(iter(lambda: self.calls.read(fd, 1 << 20), b""))
            finally:
                self.calls.close(fd)
        return b""

    def _hash_or_none(self, name: str) -> str | None:
        """None stands for something that can't be read: certainly not the file that was expected."""
        try:
            return self.hash_of(name)
        except (OSError, FileFault):
            return None

    def _write_temp(self, mode: int, old: os.stat_result | None, *, exact: bool = False) -> None:
        fd = self.calls.open(self._temp, _WRITING, mode, dir_fd=self.folder)
        try:
            left = memoryview(self._content)
            while left:
                left = left[self.calls.write(fd, left) :]
            if old is not None:
                self._copy_marks(fd, old)
            elif exact:
                self.calls.fchmod(fd, mode)
            self.calls.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                self.calls.close(fd)
            raise
        self.calls.close(fd)

    def _copy_marks(self, fd: int, old: os.stat_result) -> None:
        """Owner as far as permitted, then mode, then attributes (which hold access lists)."""
        mine = os.fstat(fd)
        mode = stat.S_IMODE(old.st_mode)
        if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
            try:
                self.calls.fchown(fd, old.st_uid, old.st_gid)
            except PermissionError:
                with contextlib.suppress(PermissionError):
                    self.calls.fchown(fd, -1, old.st_gid)
                mode &= ~(stat.S_ISUID | stat.S_ISGID)
        self.calls.fchmod(fd, mode)
        if not hasattr(os, "listxattr"):
            return
        with contextlib.suppress(OSError):
            source = self.calls.open(self.where.name, _READING, dir_fd=self.folder)
            try:
                for name in os.listxattr(source):
                    if name not in _NOT_COPIED:
                        with contextlib.suppress(OSError):
                            os.setxattr(fd, name, os.getxattr(source, name))
            finally:
                self.calls.close(source)

    def _swap(self) -> None:
        self.calls.exchange(self._temp, self.where.name, dir_fd=self.folder)

    def _give_back(self, found: str | None) -> tuple[bytes, ...]:
        """Undo a swap that took another's file, and see that the newest save of theirs ends up under the name.

        Returns what they saved meanwhile and is not the newest: an older text lay under the name while it did not, so
        the newest may not know of it.
        """
        awaited, placed = self._sha256, found
        saved: list[bytes] = []
        for _ in range(_TURNS):
            try:
                self._swap()
            except FileNotFoundError:
                # They took the name away meanwhile; what they had saved before goes back to it.
                with contextlib.suppress(OSError):
                    self.calls.link(self._temp, self.where.name, dir_fd=self.folder)
                return tuple(saved[:-1])
            except OSError:
                break
            back = self._hash_or_none(self._temp)
            if back is not None and back == awaited:
                return tuple(saved[:-1])
            saved.append(self._displaced())
            # They saved once more in between: what came back is the newest and goes to the name in the next turn.
            awaited, placed = placed or "", back
        self._rescue = True
        raise FileFault(
            self.where,
            f"is being written by another program at this moment; what it saved may also lie in {self._temp}",
            "busy",
        )

    def _rename_if_still(self, expected: str) -> None:
        """For file systems that can't swap: look once more, then rename at once."""
        if self._hash_or_none(self.where.name) != expected:
            raise FileChangedError(self.where)
        self.calls.rename(self._temp, self.where.name, dir_fd=self.folder)

    def _rename_if_absent(self) -> None:
        """For file systems without hard links."""
        try:
            self.calls.stat(self.where.name, dir_fd=self.folder)
        except FileNotFoundError:
            self.calls.rename(self._temp, self.where.name, dir_fd=self.folder)
        else:
            raise FileChangedError(self.where, "was created meanwhile; nothing was written")

    @contextlib.contextmanager
    def _cleanup(self) -> Iterator[None]:
        """Whatever happens, the temporary file goes; after a swap it is the old file that goes."""
        try:
            yield
        finally:
            if not self._rescue:
                with contextlib.suppress(OSError):
                    self.calls.unlink(self._temp, dir_fd=self.folder)

    def _done(self, before: str | None) -> ReplacedFile:
        durable = True
        try:
            self.calls.fsync(self.folder)
        except OSError as error:
            # Some file systems can't sync a folder at all; that is no fault.
            durable = error.errno in (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP)
        return ReplacedFile(path=self.where, sha256=self._sha256, before=before, durable=durable)


CHUNK = 1 << 20


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
    where = real_path(path, beneath) if follow else path
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
    path: Path, cap: int | None = None, *, follow: bool = True, beneath: Path | None = None, calls: OsCalls = OS
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
    calls: OsCalls = OS,
) -> ReplacedFile:
    """Give `path` the bytes `content`, if what lies there still has the hash that the caller started from.

    `expected_sha256` None means that there must be no file; missing folders are then made. Mode, owner and
    attributes of an old file are kept; `mode` is for new ones (default: what the umask leaves). The path must be
    resolved already: a link in it is a fault. With `follow` links are followed, never out of `beneath`, and their
    target is replaced. On any FileFault the old content is intact and nothing is left behind; FileChangedError says
    that somebody else wrote meanwhile.
    """
    where = real_path(path, beneath) if follow else path
    if not where.name:
        raise NotRegularError(path, "a folder")
    try:
        new = expected_sha256 is None
        with open_folder(where.parent, beneath=beneath, create=new, calls=calls) as folder:
            work = Replacement(folder, where, content, sha256_of(content), calls)
            if expected_sha256 is None:
                return work.create(mode)
            status = _current(work, expected_sha256)
            if status.st_nlink > 1:
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


def atomic_write(path: Path, content: bytes, *, calls: OsCalls = OS) -> None:
    """Put `content` at `path` whatever was there: all of it or nothing, durable. For our own files only.

    The file is ours alone to read; folders must exist; a symbolic link is followed once. Raises FileFault.
    """
    where = real_path(path)
    try:
        with open_folder(where.parent, calls=calls) as folder:
            with contextlib.suppress(FileNotFoundError):
                _check_kind(calls.stat(where.name, dir_fd=folder), where)
            Replacement(folder, where, content, sha256_of(content), calls).overwrite(0o600)
    except (OSError, ValueError) as error:
        raise fault_of(error, path) from error


def remove_leftovers(folder: Path, older_than: float) -> int:
    """Delete our temporary files in `folder` (not below it) whose last change lies before `older_than`.

    `older_than` is in seconds since the epoch, such as the time at which this process took its lock. Returns how
    many went. Never raises: a folder that can't be read has none.
    """
    count = 0
    with contextlib.suppress(OSError, FileFault), open_folder(real_path(folder)) as fd:
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

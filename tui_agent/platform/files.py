"""Read, replace and remove files atomically, without overwriting changes by other programs.

A file is replaced by a temporary file, which is made durable, swapped with the old one, and swapped back if the old one
turns out to have changed. The temporary file lies outside of the project if that is on the same file system, and a new
file has no name at all until it is complete: what a killed process leaves is removed by `staging.remove_abandoned`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

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
from tui_agent.platform.staging import STAGED, Staging, staging_for, temp_name
from tui_agent.platform.syscalls import OS, OsCalls, close_quietly, retrying

TEMP_NAME = r"\.[0-9a-f]{16}\.tua-tmp"
"""Names of our temporary files; nothing else is ever removed."""

_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_UNNAMED = os.O_WRONLY | getattr(os, "O_TMPFILE", 0)
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
_CONTENT_ATTRIBUTES = ("security.capability", "security.ima", "security.evm")
"""Attributes that are valid for the old content only; the system also drops them on a write."""
_MAX_SWAPS = 64
_MAX_DISPLACED = 16 << 20
CHUNK = 1 << 20


class ReplacedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A completed write."""

    path: Path
    """Path of the file, with symbolic links followed."""
    sha256: str
    before: str | None
    """Hash of the replaced content; None for a new file."""
    durable: bool = True
    """False if the folder could not be synced: a loss of power may undo the write."""


class FileReplacement:
    """One replacement of the file `path`, in the open folder `folder`."""

    def __init__(
        self, folder: int, path: Path, content: bytes, sha256: str, calls: OsCalls, staging: Staging | None = None
    ) -> None:
        self.folder = folder
        self.path = path
        self.calls = retrying(calls)
        self._content = content
        self._sha256 = sha256
        self._staging = staging
        self._name_beside = temp_name(staging.key if staging is not None else secrets.token_hex(8))
        """Name of a temporary file in the folder."""
        self._temp = self._name_beside
        """Name in the folder, or an absolute path."""
        self._keep_temp = False

    # --- kinds of replacement ---

    def create(self, mode: int | None) -> ReplacedFile:
        """Create a file that must not exist yet."""
        permissions = 0o666 if mode is None else mode
        try:
            if not self._create_unnamed(permissions, exact=mode is not None):
                with self._cleanup():
                    self._write_temp(permissions, None, exact=mode is not None)
                    self._link_temp()
        except FileExistsError as error:
            raise FileChangedError(self.path, "was created meanwhile; nothing was written") from error
        return self._finish(None)

    def exchange(
        self, old: os.stat_result, expected: str, on_withdrawn: Callable[[int, str], object] | None = None
    ) -> ReplacedFile:
        """Swap the new file with the old one, and swap back if the old one has changed; see `replace_file`."""
        self._on_either_file_system(lambda: self._exchange(old, expected, on_withdrawn))
        return self._finish(expected)

    def overwrite(self, mode: int) -> ReplacedFile:
        """Put the new file in place without any check."""
        with self._cleanup():
            self._write_temp(mode, None, exact=True)
            self.calls.rename(self._temp, self.path.name, dir_fd=self.folder)
        return self._finish(None)

    def remove(self, expected: str) -> None:
        """Remove the file, and put it back if it has changed and no newer version has the name."""
        self._on_either_file_system(lambda: self._remove(expected))
        self._finish(expected)

    # --- where the temporary file lies ---

    def _on_either_file_system(self, replace: Callable[[], None]) -> None:
        """Call `replace` with the temporary file outside of the folder, or in it if that is another file system."""
        staging = self._staging
        if staging is None or os.fstat(staging.folder).st_dev != os.fstat(self.folder).st_dev:
            replace()
            return
        self._temp = str(staging.path / STAGED)
        try:
            replace()
        except OSError as error:
            if error.errno != errno.EXDEV:  # as between bind mounts and between quotas
                raise
            self._temp = self._name_beside
            with contextlib.suppress(OSError):
                staging.note_new()
            replace()

    def _note_swap(self, expected: str) -> None:
        if self._staging is not None:
            with contextlib.suppress(OSError):
                self._staging.note_swap(self._sha256, expected)

    def _create_unnamed(self, mode: int, *, exact: bool) -> bool:
        """Write a file without a name, then give it one. Returns False if it needs a name from the beginning."""
        if self._staging is None or _UNNAMED == os.O_WRONLY:
            return False
        try:
            fd = self.calls.open(".", _UNNAMED, mode, dir_fd=self.folder)
        except OSError:
            return False  # what is wrong with the folder shows again with a name
        try:
            self._fill(fd, mode, None, exact=exact)
            self.calls.link(fd, self.path.name, dir_fd=self.folder)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno not in (*_NO_LINKS, errno.ENOENT):
                raise
            return False
        finally:
            close_quietly(fd, self.calls)
        return True

    def _exchange(self, old: os.stat_result, expected: str, on_withdrawn: Callable[[int, str], object] | None) -> None:
        with self._cleanup(), contextlib.ExitStack() as stack:
            self._write_temp(0o600, old)
            ours = stack.enter_context(self._temp_held()) if on_withdrawn is not None else None
            self._note_swap(expected)
            try:
                self._swap()
            except OSError as error:
                if error.errno not in _NO_EXCHANGE:
                    raise
                # Check once more and rename immediately, for file systems that can't swap.
                if self._hash_or_none(self.path.name) != expected:
                    raise FileChangedError(self.path) from None
                self.calls.rename(self._temp, self.path.name, dir_fd=self.folder)
            else:
                actual = self._hash_or_none(self._temp)
                if actual != expected:
                    with self._temp_held() as theirs:
                        before = self._read_all(theirs)
                        overtaken = self._restore(actual)
                        displaced = self._versions(theirs, before)
                        hash_now = sha256_of(displaced[-1]) if displaced else ""
                        for fd, sha256 in ((ours, self._sha256), (theirs, hash_now)):
                            with contextlib.suppress(OSError):
                                if on_withdrawn is not None and fd is not None:
                                    on_withdrawn(os.dup(fd), sha256)
                    raise FileChangedError(self.path, displaced=tuple(displaced), overtaken=overtaken)

    def _remove(self, expected: str) -> None:
        self._note_swap(expected)
        self.calls.rename(self.path.name, self._temp, dir_fd=self.folder)
        has_changed = self._hash_or_none(self._temp) != expected
        if has_changed:
            with contextlib.suppress(FileExistsError):
                self._link_temp()
        with contextlib.suppress(FileNotFoundError):
            self.calls.unlink(self._temp, dir_fd=self.folder)
        if has_changed:
            raise FileChangedError(self.path, "changed on disk meanwhile; it was not removed")

    # --- steps ---

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        fd = self.calls.open(name, _READ_FLAGS, dir_fd=self.folder)
        try:
            yield fd
        finally:
            self.calls.close(fd)

    def hash_of(self, name: str) -> str:
        """Return the hash of a file in the folder. Raises OSError, and FileFault if it is not a regular file."""
        with self._opened(name) as fd:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise FileFault(self.path, "is no longer a regular file", "not_regular")
            return _hash_open(fd, self.calls)

    @contextlib.contextmanager
    def _temp_held(self) -> Iterator[int | None]:
        """Yield a descriptor of the temporary file, which stays the same file whatever its name is by then; None if it
        can't be opened. Never raises."""
        fd = None
        with contextlib.suppress(OSError):
            fd = self.calls.open(self._temp, _READ_FLAGS, dir_fd=self.folder)
        try:
            yield fd
        finally:
            if fd is not None:
                close_quietly(fd, self.calls)

    def _read_all(self, fd: int | None) -> bytes:
        """Return the present content of an open file; empty if it is too large or can't be read."""
        with contextlib.suppress(OSError):
            if fd is not None and os.fstat(fd).st_size <= _MAX_DISPLACED:
                os.lseek(fd, 0, os.SEEK_SET)
                return b"".join(iter(lambda: self.calls.read(fd, CHUNK), b""))
        return b""

    def _hash_or_none(self, name: str) -> str | None:
        """Return the hash of a file; None if it can't be read, which never equals an expected hash."""
        try:
            return self.hash_of(name)
        except (OSError, FileFault):
            return None

    def _write_temp(self, mode: int, old: os.stat_result | None, *, exact: bool = False) -> None:
        fd = self.calls.open(self._temp, _WRITE_FLAGS, mode, dir_fd=self.folder)
        try:
            self._fill(fd, mode, old, exact=exact)
        except BaseException:
            with contextlib.suppress(OSError):
                self.calls.close(fd)
            raise
        self.calls.close(fd)

    def _fill(self, fd: int, mode: int, old: os.stat_result | None, *, exact: bool) -> None:
        """Write content and metadata durably."""
        remaining = memoryview(self._content)
        while remaining:
            remaining = remaining[self.calls.write(fd, remaining) :]
        if old is not None:
            self._copy_metadata(fd, old)
        elif exact:
            self.calls.fchmod(fd, mode)
        self.calls.fsync(fd)

    def _copy_metadata(self, fd: int, old: os.stat_result) -> None:
        """Copy the owner if permitted, then the mode, then the attributes (which include access control lists)."""
        new = os.fstat(fd)
        mode = stat.S_IMODE(old.st_mode)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            try:
                self.calls.fchown(fd, old.st_uid, old.st_gid)
            except PermissionError:
                with contextlib.suppress(PermissionError):
                    self.calls.fchown(fd, -1, old.st_gid)
                mode &= ~(stat.S_ISUID | stat.S_ISGID)
        self.calls.fchmod(fd, mode)
        if not hasattr(os, "listxattr"):
            return
        with contextlib.suppress(OSError), self._opened(self.path.name) as source:
            for name in os.listxattr(source):
                if name not in _CONTENT_ATTRIBUTES:
                    with contextlib.suppress(OSError):
                        os.setxattr(fd, name, os.getxattr(source, name))

    def _swap(self) -> None:
        self.calls.exchange(self._temp, self.path.name, dir_fd=self.folder)

    def _restore(self, displaced: str | None) -> tuple[bytes, ...]:
        """Undo a swap that displaced a changed file, such that the newest version of the other program gets the name.

        Returns the versions that it saved meanwhile: an older text had the name at times, and what is saved next may be
        based on that.
        """
        with contextlib.ExitStack() as stack:
            saved: list[tuple[int | None, bytes]] = []
            if not self._swap_back(displaced, lambda: stack.enter_context(self._temp_held()), saved):
                self._fail_restoring()
            return tuple(text for fd, before in saved for text in self._versions(fd, before))

    def _swap_back(
        self, displaced: str | None, hold: Callable[[], int | None], saved: list[tuple[int | None, bytes]]
    ) -> bool:
        """See `_restore`; return whether it is done. `saved` gets a descriptor from `hold` and a text per version."""
        expected, placed = self._sha256, displaced
        for _ in range(_MAX_SWAPS):
            try:
                self._swap()
            except FileNotFoundError:
                # The other program removed the name meanwhile: its last version gets it back.
                with contextlib.suppress(OSError):
                    self.calls.link(self._temp, self.path.name, dir_fd=self.folder)
                return True
            except OSError:
                return False
            returned = self._hash_or_none(self._temp)
            if returned is not None and returned == expected:
                return True
            saved.append((fd := hold(), self._read_all(fd)))
            # It saved once more in between: what came back is the newest version, and gets the name with the next swap.
            expected, placed = placed or "", returned
        return False

    def _versions(self, fd: int | None, before: bytes) -> list[bytes]:
        """Return what was read from a file before, and what it holds now: whoever was writing it may be done, and may
        have read an older text since."""
        after = self._read_all(fd)
        return list(filter(None, [after] if after.startswith(before) else [before, after]))

    def _fail_restoring(self) -> NoReturn:
        """Raise FileFault, and keep the temporary file."""
        self._keep_temp = True
        if self._temp != self._name_beside:
            with contextlib.suppress(OSError):
                self.calls.rename(self._temp, self._name_beside, dir_fd=self.folder)
                self._temp = self._name_beside
        raise FileFault(
            self.path,
            f"is being written by another program at this moment; what it saved may also lie in {self._temp}",
            "busy",
        )

    def _link_temp(self) -> None:
        """Give the temporary file its name. Raises FileExistsError if the name is taken."""
        try:
            self.calls.link(self._temp, self.path.name, dir_fd=self.folder)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # For file systems without hard links: check, and rename immediately.
            try:
                self.calls.stat(self.path.name, dir_fd=self.folder)
            except FileNotFoundError:
                self.calls.rename(self._temp, self.path.name, dir_fd=self.folder)
            else:
                raise FileExistsError from None

    @contextlib.contextmanager
    def _cleanup(self) -> Iterator[None]:
        """Finally remove the temporary file, which is the old file after a swap."""
        try:
            yield
        finally:
            if not self._keep_temp:
                with contextlib.suppress(OSError):
                    self.calls.unlink(self._temp, dir_fd=self.folder)

    def _finish(self, before: str | None) -> ReplacedFile:
        durable = True
        try:
            self.calls.fsync(self.folder)
        except OSError as error:
            # Some file systems can't sync folders.
            durable = error.errno in (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP)
        return ReplacedFile(path=self.path, sha256=self._sha256, before=before, durable=durable)


class FileBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Content and mode of a regular file."""

    data: bytes
    sha256: str
    mode: int
    """Permission bits."""
    path: Path
    """With symbolic links followed."""


class OpenedFile(NamedTuple):
    """A regular file, open for reading."""

    fd: int
    size: int
    path: Path


def sha256_of(data: bytes) -> str:
    """Return the hash that files are compared by."""
    return hashlib.sha256(data).hexdigest()


def _hash_open(fd: int, calls: OsCalls) -> str:
    digest = hashlib.sha256()
    while chunk := calls.read(fd, CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def _file_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise fault_of(error, path) from error


@contextlib.contextmanager
def open_regular(
    path: Path, *, follow: bool = True, beneath: Path | None = None, calls: OsCalls = OS
) -> Iterator[OpenedFile]:
    """Open a regular file for reading, without ever blocking; its kind is checked before and after opening.

    Without `follow`, `path` must not contain symbolic links. Raises FileFault; `outside` if it leads out of `beneath`.
    """
    resolved = real_path(path, beneath) if follow else path
    calls = retrying(calls)
    with _file_faults(path):
        with open_folder(resolved.parent, beneath=beneath, calls=calls) as folder:
            name = resolved.name or "."
            _check_kind(calls.stat(name, dir_fd=folder), resolved)
            fd = calls.open(name, _READ_FLAGS, dir_fd=folder)
        try:
            status = os.fstat(fd)
            _check_kind(status, resolved)
            yield OpenedFile(fd, status.st_size, resolved)
        finally:
            calls.close(fd)


def read_file(
    path: Path, cap: int | None = None, *, follow: bool = True, beneath: Path | None = None, calls: OsCalls = OS
) -> FileBytes:
    """Read a regular file, opened as by `open_regular`. Raises FileFault; `too_large` above `cap` bytes."""
    with open_regular(path, follow=follow, beneath=beneath, calls=calls) as opened:
        if cap is not None and opened.size > cap:
            raise FileTooLargeError(path, opened.size, cap)
        data = bytearray()
        while chunk := calls.read(opened.fd, CHUNK):
            data += chunk
            if cap is not None and len(data) > cap:
                raise FileTooLargeError(path, len(data), cap)
        mode = stat.S_IMODE(os.fstat(opened.fd).st_mode)
        content = bytes(data)
        return FileBytes(data=content, sha256=sha256_of(content), mode=mode, path=opened.path)


def replace_file(
    path: Path,
    content: bytes,
    expected_sha256: str | None,
    *,
    follow: bool = False,
    beneath: Path | None = None,
    mode: int | None = None,
    staged: bool = True,
    on_withdrawn: Callable[[int, str], object] | None = None,
    calls: OsCalls = OS,
) -> ReplacedFile:
    """Replace the content of a file if it still has the expected hash.

    With `expected_sha256` None the file must not exist; missing folders are then created. Mode, owner and attributes of
    an old file are preserved; `mode` is for new ones (default: by the umask). Without `follow`, `path` must not contain
    symbolic links; with it, their target is replaced, but never outside of `beneath`. If not `staged`, as in our own
    folders, the temporary file lies next to it. After any FileFault the old content is intact and nothing is left
    behind; FileChangedError means that another program has written. Both files then had the name for a moment, and
    the other program may be about to write into either: `on_withdrawn` gets descriptors to read and close, and hashes.
    """
    resolved = real_path(path, beneath) if follow else path
    if not resolved.name:
        raise NotRegularError(path, "a folder")
    is_new = expected_sha256 is None
    with (
        _file_faults(path),
        open_folder(resolved.parent, beneath=beneath, create=is_new, calls=calls) as folder,
        staging_for(resolved) if staged else contextlib.nullcontext() as staging,
    ):
        replacement = FileReplacement(folder, resolved, content, sha256_of(content), calls, staging)
        if expected_sha256 is None:
            return replacement.create(mode)
        return replacement.exchange(_checked_status(replacement, expected_sha256), expected_sha256, on_withdrawn)


def remove_file(path: Path, expected_sha256: str, *, calls: OsCalls = OS) -> None:
    """Remove a file if it still has the expected hash.

    `path` must not contain symbolic links. Raises FileFault; FileChangedError means that another program has written,
    and its version is left in place.
    """
    with _file_faults(path), open_folder(path.parent, calls=calls) as folder, staging_for(path) as staging:
        replacement = FileReplacement(folder, path, b"", sha256_of(b""), calls, staging)
        _checked_status(replacement, expected_sha256)
        replacement.remove(expected_sha256)


def remove_empty(path: Path) -> bool:
    """Remove an empty folder, without symbolic links in its path; return whether it was removed. Never raises."""
    try:
        with open_folder(path.parent) as folder:
            os.rmdir(path.name, dir_fd=folder)
    except (OSError, ValueError):
        return False
    return True


def _checked_status(replacement: FileReplacement, expected: str) -> os.stat_result:
    """Return the old file's status, after checking that it is regular, writable, unchanged and not linked."""
    try:
        status = replacement.calls.stat(replacement.path.name, dir_fd=replacement.folder)
    except FileNotFoundError as error:
        raise FileChangedError(replacement.path, "was deleted meanwhile; nothing was written") from error
    if stat.S_ISLNK(status.st_mode):
        raise FileChangedError(replacement.path, "became a symbolic link meanwhile; nothing was written")
    _check_kind(status, replacement.path)
    if not _is_writable(replacement.path.name, replacement.folder):
        raise FileFault(replacement.path, "is not writable for you; nothing was changed", "permission")
    if replacement.hash_of(replacement.path.name) != expected:
        raise FileChangedError(replacement.path)
    if status.st_nlink > 1:
        raise LinkedFileError(replacement.path, status.st_nlink)
    return status


def _is_writable(name: str, folder: int) -> bool:
    try:
        return os.access(name, os.W_OK, dir_fd=folder, effective_ids=True)
    except (NotImplementedError, TypeError):
        return os.access(name, os.W_OK, dir_fd=folder)


def atomic_write(path: Path, content: bytes, *, calls: OsCalls = OS) -> None:
    """Write a file of our own atomically and durably, with mode 0600, whatever it replaces.

    The folder must exist; symbolic links are followed. Raises FileFault.
    """
    resolved = real_path(path)
    with _file_faults(path), open_folder(resolved.parent, calls=calls) as folder:
        with contextlib.suppress(FileNotFoundError):
            _check_kind(calls.stat(resolved.name, dir_fd=folder), resolved)
        FileReplacement(folder, resolved, content, sha256_of(content), calls).overwrite(0o600)


def remove_leftovers(folder: Path, older_than: float) -> int:
    """Delete our temporary files directly in `folder` that are older than a time in seconds since the epoch.

    Returns how many were deleted. Never raises.
    """
    count = 0
    with contextlib.suppress(OSError, FileFault), open_folder(real_path(folder)) as fd:
        for name in os.listdir(fd):
            if not re.fullmatch(TEMP_NAME, name):
                continue
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                is_old = max(status.st_mtime, status.st_ctime) < older_than
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and is_old:
                    os.unlink(name, dir_fd=fd)
                    count += 1
    return count


_SPECIAL_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_KERNEL_FOLDERS = (Path("/proc"), Path("/sys"))


def _check_kind(status: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if kind := _SPECIAL_KINDS.get(stat.S_IFMT(status.st_mode)):
        raise NotRegularError(path, kind)
    if not stat.S_ISREG(status.st_mode) or any(path.is_relative_to(folder) for folder in _KERNEL_FOLDERS):
        raise NotRegularError(path, "a view into the kernel")

"""Opening a folder so that no symbolic link can lead elsewhere, whatever happens to the tree meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.syscalls import OS, OsCalls, close_quietly

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
_NO_SUCH_CALL = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)


def real_path(path: Path, beneath: Path | None = None) -> Path:
    """`path` with its symbolic links followed. Raises FileFault `outside` when that leads out of `beneath`."""
    try:
        resolved = Path(os.path.realpath(path))
        root = Path(os.path.realpath(beneath)) if beneath is not None else None
    except ValueError as error:
        raise FileFault(path, "is not a possible path", "bad_path") from error
    if root is not None and not resolved.is_relative_to(root):
        raise FileFault(path, f"leads out of {root}", "outside")
    return resolved


@contextlib.contextmanager
def open_folder(path: Path, *, beneath: Path | None = None, create: bool = False, calls: OsCalls = OS) -> Iterator[int]:
    """A descriptor of the folder `path`, which must be resolved already; no component may be a symbolic link.

    With `beneath` the walk starts there, otherwise at `/`. With `create` missing folders are made, and taken away
    again when the block raises. Raises OSError, and ValueError for a path that is not absolute.
    """
    if not path.is_absolute():
        raise ValueError("not an absolute path")
    start = Path(os.path.realpath(beneath)) if beneath is not None else Path(path.anchor)
    parts = path.relative_to(start).parts
    made: list[tuple[int, str]] = []
    root_fd = os.open(start, _O_PATH | _FOLDER)
    try:
        fd = _descend(root_fd, parts, made if create else None, calls)
        try:
            yield fd
        finally:
            close_quietly(fd)
    except BaseException:
        for parent, name in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        raise
    finally:
        for parent, _ in made:
            close_quietly(parent)
        close_quietly(root_fd)


def _descend(root_fd: int, parts: tuple[str, ...], made: list[tuple[int, str]] | None, calls: OsCalls) -> int:
    try:
        return _at_once(root_fd, parts, calls)
    except OSError as error:
        missing = error.errno == errno.ENOENT and made is not None
        if not missing and error.errno not in _NO_SUCH_CALL:
            raise
    return _step_by_step(root_fd, parts, made, calls)


def _at_once(root_fd: int, parts: tuple[str, ...], calls: OsCalls) -> int:
    """One call in which the kernel refuses `..`, links and jumps by itself."""
    where = os.fsencode(os.path.join(*parts)) if parts else b"."
    try:
        return calls.open_beneath(where, os.O_RDONLY | _FOLDER, dir_fd=root_fd)
    except OSError as error:
        if error.errno != errno.EACCES or _O_PATH == os.O_RDONLY:
            raise
    # A folder that may be entered but not listed is enough.
    return calls.open_beneath(where, _O_PATH | _FOLDER, dir_fd=root_fd)


def _step_by_step(root_fd: int, parts: tuple[str, ...], made: list[tuple[int, str]] | None, calls: OsCalls) -> int:
    """The same by hand, for systems without openat2 and for making folders on the way."""
    fd = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=root_fd) if not parts else os.dup(root_fd)
    os.set_inheritable(fd, False)
    for part in parts:
        try:
            below = _enter(fd, part, made, calls)
        finally:
            close_quietly(fd)
        fd = below
    return fd


def _enter(fd: int, part: str, made: list[tuple[int, str]] | None, calls: OsCalls) -> int:
    if part in ("..", "."):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), part)
    flags = _FOLDER | os.O_NOFOLLOW
    try:
        return os.open(part, os.O_RDONLY | flags, dir_fd=fd)
    except PermissionError:
        return os.open(part, _O_PATH | flags, dir_fd=fd)
    except FileNotFoundError:
        if made is None:
            raise
    with contextlib.suppress(FileExistsError):
        calls.mkdir(part, dir_fd=fd)
        made.append((os.dup(fd), part))
    return os.open(part, os.O_RDONLY | flags, dir_fd=fd)

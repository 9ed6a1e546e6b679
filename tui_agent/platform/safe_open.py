"""Follow symbolic links step by step, and open folders without following any, even if the tree changes meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.syscalls import OS, OsCalls, close_quietly, retrying

_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 40
"""Symbolic links in one path, as in the kernel."""
_NO_SUCH_CALL = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)


def real_path(path: Path, beneath: Path | None = None) -> Path:
    """Follow the symbolic links of a path. Raises FileFault `outside` if it leads out of `beneath`."""
    try:
        resolved = Path(os.path.realpath(path))
        root = Path(os.path.realpath(beneath)) if beneath is not None else None
    except ValueError as error:
        raise FileFault(path, "is not a possible path", "bad_path") from error
    if root is not None and not resolved.is_relative_to(root):
        raise FileFault(path, f"leads out of {root}", "outside")
    return resolved


def follow_links(path: str) -> tuple[str, list[str]]:
    """Return the real path of an absolute path, and all paths that links lead through, including the real one.

    Missing components are taken literally. Raises OSError for a loop of links.
    """
    remaining = [name for name in reversed(path.split("/")) if name not in ("", ".")]
    visited = [path]
    resolved: list[str] = []
    links = 0
    while remaining:
        name = remaining.pop()
        if name == "..":
            if resolved:
                resolved.pop()
            continue
        current = "/" + "/".join((*resolved, name))
        try:
            target = os.readlink(current)
        except OSError:
            resolved.append(name)
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        visited.append("/".join((current, *reversed(remaining))))
        if target.startswith("/"):
            resolved = []
        remaining += [part for part in reversed(target.split("/")) if part not in ("", ".")]
    real = "/" + "/".join(resolved)
    return real, [*visited, real]


@contextlib.contextmanager
def open_folder(path: Path, *, beneath: Path | None = None, create: bool = False, calls: OsCalls = OS) -> Iterator[int]:
    """Open a folder; no component of `path` below `beneath` (default: `/`) may be a symbolic link.

    With `create` missing folders are created, and removed again if the block raises. Raises OSError, and ValueError for
    a path that is not absolute.
    """
    if not path.is_absolute():
        raise ValueError("not an absolute path")
    start = Path(os.path.realpath(beneath)) if beneath is not None else Path(path.anchor)
    parts = path.relative_to(start).parts
    created: list[tuple[int, str]] = []
    calls = retrying(calls)
    root_fd = os.open(start, _O_PATH | _FOLDER)
    try:
        fd = _descend(root_fd, parts, created if create else None, calls)
        try:
            yield fd
        finally:
            close_quietly(fd)
    except BaseException:
        for parent, name in reversed(created):
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=parent)
        raise
    finally:
        for parent, _ in created:
            close_quietly(parent)
        close_quietly(root_fd)


def _descend(root_fd: int, parts: tuple[str, ...], created: list[tuple[int, str]] | None, calls: OsCalls) -> int:
    try:
        return _open_at_once(root_fd, parts, calls)
    except OSError as error:
        is_missing = error.errno == errno.ENOENT and created is not None
        if not is_missing and error.errno not in _NO_SUCH_CALL:
            raise
    return _open_stepwise(root_fd, parts, created, calls)


def _open_at_once(root_fd: int, parts: tuple[str, ...], calls: OsCalls) -> int:
    """Open with one call, in which the kernel rejects `..` and links."""
    relative = os.fsencode(os.path.join(*parts)) if parts else b"."
    try:
        return calls.open_beneath(relative, os.O_RDONLY | _FOLDER, dir_fd=root_fd)
    except OSError as error:
        if error.errno != errno.EACCES or _O_PATH == os.O_RDONLY:
            raise
    # The folder may be entered, but not listed.
    return calls.open_beneath(relative, _O_PATH | _FOLDER, dir_fd=root_fd)


def _open_stepwise(root_fd: int, parts: tuple[str, ...], created: list[tuple[int, str]] | None, calls: OsCalls) -> int:
    """Open one component after the other, for systems without openat2 and to create folders."""
    fd = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=root_fd) if not parts else os.dup(root_fd)
    os.set_inheritable(fd, False)
    for part in parts:
        try:
            child = _enter(fd, part, created, calls)
        finally:
            close_quietly(fd)
        fd = child
    return fd


def _enter(fd: int, part: str, created: list[tuple[int, str]] | None, calls: OsCalls) -> int:
    if part in ("..", "."):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), part)
    flags = _FOLDER | os.O_NOFOLLOW
    try:
        return calls.open(part, os.O_RDONLY | flags, dir_fd=fd)
    except PermissionError:
        return calls.open(part, _O_PATH | flags, dir_fd=fd)
    except FileNotFoundError:
        if created is None:
            raise
    with contextlib.suppress(FileExistsError):
        calls.mkdir(part, dir_fd=fd)
        created.append((os.dup(fd), part))
    return calls.open(part, os.O_RDONLY | flags, dir_fd=fd)

"""The state of a path on disk, and changing it without losing anybody's work."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tui_agent import events
from tui_agent.platform.file_faults import FileChangedError, FileFault, fault_of
from tui_agent.platform.files import CHUNK, open_regular, read_file, remove_empty, remove_file, replace_file, sha256_of
from tui_agent.platform.safe_open import open_folder
from tui_agent.platform.syscalls import OS, OsCalls

ABSENT = events.FileState(kind="absent")


def same_content(first: events.FileState, second: events.FileState) -> bool:
    """True if the contents are the same; permission bits are ignored, since edits never change them."""
    return (first.kind, first.sha256) == (second.kind, second.sha256)


def read_state(path: Path, *, calls: OsCalls = OS) -> events.FileState:
    """Return the state at a resolved path without following links or blocking. Raises FileFault if unreadable.

    A path that leads through a link or a non-folder is `second`.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError):
        return events.FileState(kind="other")
    if stat.S_ISLNK(status.st_mode):
        return events.FileState(kind="link", sha256=sha256_of(os.fsencode(os.readlink(path))))
    if stat.S_ISDIR(status.st_mode):
        return events.FileState(kind="folder")
    if not stat.S_ISREG(status.st_mode):
        return events.FileState(kind="other")
    try:
        with open_regular(path, follow=False, calls=calls) as opened:
            return _hash_open_file(opened.fd, calls)
    except FileFault as fault:
        if fault.code == "not_found":
            return ABSENT
        if fault.code in ("bad_path", "not_regular"):
            return events.FileState(kind="other")
        raise


def _hash_open_file(fd: int, calls: OsCalls) -> events.FileState:
    import hashlib

    digest, size = hashlib.sha256(), 0
    while chunk := calls.read(fd, CHUNK):
        digest.update(chunk)
        size += len(chunk)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    return events.FileState(kind="file", sha256=digest.hexdigest(), size=size, mode=mode)


def read_content(path: Path, expected: events.FileState, *, calls: OsCalls = OS) -> bytes:
    """Read the file, which was found in state `expected`. Raises FileFault, FileChangedError."""
    file = read_file(path, follow=False, calls=calls)
    if file.sha256 != expected.sha256:
        raise FileChangedError(path)
    return file.data


def missing_folders(path: Path) -> tuple[str, ...]:
    """Return the folders that must be created for `path`, outermost first."""
    missing: list[str] = []
    for folder in path.parents:
        if os.path.lexists(folder):
            break
        missing.append(str(folder))
    return tuple(reversed(missing))


def apply_state(
    path: Path,
    before: events.FileState,
    after: events.FileState,
    data: bytes,
    folders: tuple[str, ...] = (),
    *,
    set_mode: bool = False,
    calls: OsCalls = OS,
) -> None:
    """Change `path` from the state `before` to `after`, with content `data`.

    An existing file keeps its permissions unless `set_mode`, a restored one gets those of `after`; with a deleted file,
    the `folders` created for it are deleted if empty. Raises FileFault, and FileChangedError if the state is no longer
    `before`; then nothing was changed.
    """
    known = ("absent", "file", "link")
    if before.kind not in known or after.kind not in known:
        raise FileChangedError(path, "is no longer a regular file; left unchanged")
    if before.kind == "file" and after.kind == "file":
        if before.sha256 != after.sha256:
            replace_file(path, data, before.sha256, calls=calls)
        if set_mode and after.mode and before.mode != after.mode:
            _set_mode(path, after)
        return
    if before.kind == "file":
        remove_file(path, before.sha256, calls=calls)
    elif before.kind == "link":
        _remove_link(path, before)
    if after.kind == "file":
        replace_file(path, data, None, mode=after.mode or None, calls=calls)
    elif after.kind == "link":
        _create_link(path, data)
    else:
        for folder in reversed(folders):
            if not remove_empty(Path(folder)):
                break


def _set_mode(path: Path, state: events.FileState) -> None:
    """Set the permissions of a file that has the content of `state`."""
    with open_regular(path, follow=False) as opened:
        if _hash_open_file(opened.fd, OS).sha256 != state.sha256:
            raise FileChangedError(path)
        try:
            os.fchmod(opened.fd, state.mode)
        except OSError as error:
            raise fault_of(error, path) from error


def _remove_link(path: Path, state: events.FileState) -> None:
    with _faults(path), open_folder(path.parent) as folder:
        if sha256_of(os.fsencode(os.readlink(path.name, dir_fd=folder))) != state.sha256:
            raise FileChangedError(path)
        os.unlink(path.name, dir_fd=folder)


def _create_link(path: Path, target: bytes) -> None:
    with _faults(path), open_folder(path.parent, create=True) as folder:
        try:
            os.symlink(target, os.fsencode(path.name), dir_fd=folder)
        except FileExistsError as error:
            raise FileChangedError(path, "was created meanwhile; nothing was written") from error


@contextlib.contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise fault_of(error, path) from error

"""What lies at a path at this moment, and bringing it into another state without taking anybody's work away."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tui_agent import events
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import CHUNK, open_regular, read_file, remove_empty, remove_file, replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

ABSENT = events.FileState(kind="absent")


def same(one: events.FileState, other: events.FileState) -> bool:
    """Whether the contents are the same; permission bits aside, which an edit never changes."""
    return (one.kind, one.sha256) == (other.kind, other.sha256)


def look(path: Path, *, calls: OsCalls = OS) -> events.FileState:
    """The state at `path`, resolved; nothing is followed, and nothing blocks. Raises FileFault when it can't be read.

    A path that leads through a link or something that is no folder by now holds `other`.
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
            return _hashed(opened.fd, calls)
    except FileFault as fault:
        if fault.code == "not_found":
            return ABSENT
        if fault.code in ("bad_path", "not_regular"):
            return events.FileState(kind="other")
        raise


def _hashed(fd: int, calls: OsCalls) -> events.FileState:
    import hashlib

    found, size = hashlib.sha256(), 0
    while piece := calls.read(fd, CHUNK):
        found.update(piece)
        size += len(piece)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    return events.FileState(kind="file", sha256=found.hexdigest(), size=size, mode=mode)


def content(path: Path, expected: events.FileState, *, calls: OsCalls = OS) -> bytes:
    """The bytes at `path`, which `look` found to be in the state `expected`. Raises FileFault, FileChangedError."""
    found = read_file(path, follow=False, calls=calls)
    if found.sha256 != expected.sha256:
        raise FileChangedError(path)
    return found.data


def missing_folders(path: Path) -> tuple[str, ...]:
    """The folders that would have to be made for `path`, the outermost first."""
    missing: list[str] = []
    for folder in path.parents:
        if os.path.lexists(folder):
            break
        missing.append(str(folder))
    return tuple(reversed(missing))


def put(
    path: Path,
    before: events.FileState,
    after: events.FileState,
    data: bytes,
    folders: tuple[str, ...] = (),
    *,
    calls: OsCalls = OS,
) -> None:
    """Bring `path` from the state `before` into `after`, whose bytes are `data`.

    A file that stays keeps its permissions, one that comes back gets those of `after`; with a file that goes, the
    `folders` that were made for it go if they are empty. Raises FileFault, and FileChangedError when the state on
    disk is no longer `before`; then nothing was changed.
    """
    if before.kind == "file" and after.kind == "file":
        replace_file(path, data, before.sha256, calls=calls)
    elif before.kind == "absent" and after.kind == "file":
        replace_file(path, data, None, mode=after.mode or None, calls=calls)
    elif before.kind == "file" and after.kind == "absent":
        remove_file(path, before.sha256, calls=calls)
        for folder in reversed(folders):
            if not remove_empty(Path(folder)):
                break
    else:
        raise FileChangedError(path, "is no longer a regular file; left unchanged")

"""The files of a session's folder as such: made, told from links and pipes, kept aside when they can't be used."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def make_folder(sessions: Path, name: str) -> Path:
    """A new folder in `sessions`, called `name` or, where that is taken, `name` with a number. Raises OSError."""
    for number in range(1, 10_000):
        path = sessions / (name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{sessions / name} exists")


def write_new(path: Path, data: bytes) -> None:
    """Write a file of ours that must not be there yet, durably. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        with contextlib.suppress(OSError):  # what counts was told by the sync
            os.close(fd)


def regular(path: Path) -> bool:
    """Whether there is a regular file, not a link, so that reading can't lead elsewhere or wait for ever."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def keep_aside(path: Path) -> None:
    """What can't be used, if it is there, keeps its bytes under another name. Never raises."""
    for number in range(1, 100):
        aside = path.with_name(f"{path.name}.unreadable-{number}")
        if not os.path.lexists(aside):
            with contextlib.suppress(OSError):
                os.rename(path, aside)
            return

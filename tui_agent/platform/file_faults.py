"""Errors of file operations, with a stable code each, and a class for those that callers handle differently."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

from tui_agent.text.patterns import read_table


class FileFault(Exception):
    """A file operation that failed without any effect. `str()` is a sentence for user and model.

    `code` is one of `changed`, `exists`, `not_found`, `not_regular`, `linked`, `permission`, `read_only`, `no_space`,
    `too_large`, `outside`, `bad_path`, `busy`, `io`, `other`.
    """

    def __init__(self, path: Path, message: str, code: str = "other") -> None:
        super().__init__(f"{_shown(path)}: {message}")
        self.path = path
        self.code = code


class FileChangedError(FileFault):
    """The content on disk differs from what the caller started from; nothing was written."""

    def __init__(
        self,
        path: Path,
        message: str = "changed on disk meanwhile; nothing was written",
        displaced: tuple[bytes, ...] = (),
        overtaken: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(path, message, "changed")
        self.displaced = displaced
        """What another program had saved, and what our content replaced for a moment; more than one text if it was
        being written meanwhile."""
        self.overtaken = overtaken
        """Versions that another program saved then; what it saves next may not include them."""


class NotRegularError(FileFault):
    """A folder, pipe, socket, device or kernel file, which is neither read nor replaced."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path, f"is {kind}, not a regular file", "not_regular")


class LinkedFileError(FileFault):
    """The file has other hard links, which a replacement would separate from it."""

    def __init__(self, path: Path, names: int) -> None:
        super().__init__(
            path, f"has {names} names (hard links); replacing it would separate them, so it was left alone", "linked"
        )


class FileTooLargeError(FileFault):
    """The file is larger than the caller accepts."""

    def __init__(self, path: Path, size: int, cap: int) -> None:
        super().__init__(path, f"has {size:,} bytes, more than the {cap:,} that can be taken at once", "too_large")
        self.size = size


_error_table = partial(read_table, __package__, "file_faults.json")
"""errno name → code and message."""


def fault_of(error: OSError | ValueError, path: Path) -> FileFault:
    """Return an error about `path` as a FileFault."""
    if isinstance(error, ValueError):
        return FileFault(path, "is not a possible path", "bad_path")
    code, message = _error_table().get(
        errno.errorcode.get(error.errno or 0, ""), ("other", os.strerror(error.errno) if error.errno else str(error))
    )
    return FileFault(path, message, code)


def _shown(path: Path) -> str:
    """Return the path in a form that can always be printed."""
    return str(path).replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

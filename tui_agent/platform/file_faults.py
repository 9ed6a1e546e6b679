"""Why a file could not be read or written: one class a kind that callers tell apart, with a stable code each."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

from tui_agent.common.tables import read_table


class FileFault(Exception):
    """A file operation failed and left everything as it was. `str()` is a sentence for user and model.

    `code` is one of `changed`, `exists`, `not_found`, `not_regular`, `linked`, `permission`, `read_only`, `no_space`,
    `too_large`, `outside`, `bad_path`, `busy`, `io`, `other`.
    """

    def __init__(self, path: Path, message: str, code: str = "other") -> None:
        super().__init__(f"{_shown(path)}: {message}")
        self.path = path
        self.code = code


class FileChangedError(FileFault):
    """The bytes on disk are not those that the caller started from; nothing was written."""

    def __init__(
        self,
        path: Path,
        message: str = "changed on disk meanwhile; nothing was written",
        displaced: bytes = b"",
        overtaken: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(path, message, "changed")
        self.displaced = displaced
        """What another program had saved and did not see for a moment, because our bytes lay in its place."""
        self.overtaken = overtaken
        """What another program saved in that moment and is nowhere now: it saved once more, and may have started from
        an older text that lay there while the two were put in order."""


class NotRegularError(FileFault):
    """A folder, pipe, socket, device or kernel file: neither read nor replaced."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, f"is {what}, not a regular file", "not_regular")


class LinkedFileError(FileFault):
    """The file has further names (hard links); replacing it would part them, so the caller must ask first."""

    def __init__(self, path: Path, names: int) -> None:
        super().__init__(
            path, f"has {names} names (hard links); replacing it would separate them, so it was left alone", "linked"
        )


class FileTooLargeError(FileFault):
    """The file holds more bytes than the caller is ready to take."""

    def __init__(self, path: Path, size: int, cap: int) -> None:
        super().__init__(path, f"has {size:,} bytes, more than the {cap:,} that can be taken at once", "too_large")
        self.size = size


_kinds = partial(read_table, __file__, "file_faults.json")
"""Name of an error → code and message."""


def fault_of(error: OSError | ValueError, path: Path) -> FileFault:
    """`error` as a FileFault that says in plain words what happened to `path`."""
    if isinstance(error, ValueError):
        return FileFault(path, "is not a possible path", "bad_path")
    code, message = _kinds().get(
        errno.errorcode.get(error.errno or 0, ""), ("other", os.strerror(error.errno) if error.errno else str(error))
    )
    return FileFault(path, message, code)


def _shown(path: Path) -> str:
    """The path in a form that can always be written down."""
    return str(path).replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

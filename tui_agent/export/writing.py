"""Writing an export to a file: where it goes, and that nothing is replaced unasked (S3)."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, cast

from tui_agent.export.reading import ENDINGS, Format, export
from tui_agent.platform.files import FileFault, read_file, replace_file
from tui_agent.text import Mask

BUFFER = 1 << 20


class NotWritten(Exception):
    """It can't be written; the message says why and what to do."""


def form_of(name: str) -> Format | None:
    """The format that a file's name asks for; None when it says nothing."""
    endings: dict[str, Format] = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}
    return endings.get(os.path.splitext(name)[1].lower())


def target(name: str, folder: Path, id: str, form: Format, *, replace: bool = False) -> Path:
    """The file to write, looked at before all the work: `name`, in `folder` when it is relative; a new one when it is
    empty or a folder. Raises NotWritten."""
    path = folder / os.path.expanduser(name)
    if path.is_dir():
        path /= "session-" + id.replace(":", "-") + ENDINGS[form]
    if not path.parent.is_dir():
        raise NotWritten(f"There is no folder {path.parent}. Make it, or name another one.")
    if os.path.lexists(path) and not replace:
        raise NotWritten(f"{path} is there already.")
    return path


def write(session: Path, form: Format, mask: Mask, path: Path, *, replace: bool = False) -> None:
    """Export the session in folder `session` to the file `path`, for its owner alone, whole or not at all.

    Blocks. However long the session, its text is never in memory as a whole. Raises NotWritten.
    """
    try:
        pieces = export(session, form, mask)
    except OSError as error:
        raise NotWritten(f"{session.name} can't be read: {error.strerror}.") from error
    try:
        there = read_file(path).sha256 if replace and os.path.lexists(path) else None
        with _scratch(session) as scratch:
            _fill(scratch, pieces)
            with mmap.mmap(scratch.fileno(), 0, access=mmap.ACCESS_READ) as content:
                # it is read, hashed and written like bytes, page by page
                replace_file(path, cast(bytes, content), there, follow=True, mode=0o600)
    except FileFault as error:
        raise NotWritten(f"The export was not written: {error}") from error
    except OSError as error:
        raise NotWritten(f"The export was not written: {error.strerror}.") from error


def _scratch(session: Path) -> IO[bytes]:
    """A file without a name, on the disk that holds the session if it takes one."""
    try:
        return tempfile.TemporaryFile(dir=session, buffering=BUFFER)
    except OSError:
        return tempfile.TemporaryFile(buffering=BUFFER)


def _fill(scratch: IO[bytes], pieces: Iterable[str]) -> None:
    for piece in pieces:
        scratch.write(piece.encode("utf-8", "replace"))
    scratch.flush()

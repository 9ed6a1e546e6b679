"""The files of a workspace as a server is shown them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from tui_agent.lsp.positions import ServerLines, uri_of
from tui_agent.platform.encoding import NotText, decode
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, sha256_of

FILE_CAP = 4 << 20
"""Bytes of a file that a server is shown."""
PIECE = 1 << 16
"""Characters that are written as JSON in one go: other threads stand still meanwhile."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class NoSuchFile(Exception):
    """A file that can't be shown to a server; the message says why."""


class OpenDocument(msgspec.Struct):
    """A file as the server was shown it."""

    path: Path
    uri: str
    version: int
    """Never the same for two texts that one server was shown, nor for two times that it was shown one."""
    text: msgspec.Raw
    """As JSON; empty once it was sent."""
    size: int
    """In characters."""
    lines: ServerLines
    stamp: tuple[int, int, int]
    sha256: str
    """Of the bytes on disk."""


def open_text(path: Path, known: OpenDocument | None, version: int, data: bytes | None = None) -> OpenDocument:
    """The file on disk as a document, or `data` in its place; `known` itself where nothing changed. Raises NoSuchFile.
    Does file IO."""
    stamp = (-1, 0, 0)
    try:
        if data is None:
            stat = os.stat(path)
            stamp = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if known is not None and known.stamp == stamp:
                return known
            file = read_file(path, FILE_CAP)
            data, sha256 = file.data, file.sha256
        else:
            sha256 = sha256_of(data)
        if known is not None and known.sha256 == sha256:
            known.stamp = stamp
            return known
        # A byte that is not text arrives as a lone surrogate, which JSON can't hold.
        text = _SURROGATE.sub("\ufffd", decode(data).text)
    except FileFault as fault:
        raise NoSuchFile(str(fault)) from fault
    except OSError as error:
        raise NoSuchFile(f"{path.name}: {error.strerror}") from error
    except NotText as error:
        raise NoSuchFile(f"{path.name} is not text") from error
    return OpenDocument(
        path=path,
        uri=uri_of(str(path)),
        version=version,
        text=_as_json(text),
        size=len(text),
        lines=ServerLines(text),
        stamp=stamp,
        sha256=sha256,
    )


def _as_json(text: str) -> msgspec.Raw:
    pieces = [msgspec.json.encode(text[at : at + PIECE])[1:-1] for at in range(0, len(text), PIECE)]
    return msgspec.Raw(b'"' + b"".join(pieces) + b'"')

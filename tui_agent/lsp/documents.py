"""The files of a workspace that are open in a language server."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from tui_agent.lsp.positions import ServerLines, uri_of
from tui_agent.platform.encoding import NotText, decode
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, sha256_of

MAX_FILE = 4 << 20
"""Bytes of the largest file that is opened."""
CHUNK = 1 << 16
"""Characters that are encoded as JSON at once: other threads are blocked meanwhile."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class NoSuchFile(Exception):
    """A file that can't be opened in a server; the message says why."""


class OpenDocument(msgspec.Struct):
    """A file as it was sent to the server."""

    path: Path
    uri: str
    version: int
    """Unique for every text that is sent to a server."""
    text: msgspec.Raw
    """As JSON; empty once it is sent."""
    size: int
    """In characters."""
    lines: ServerLines
    stamp: tuple[int, int, int]
    """Size, modification time and inode."""
    sha256: str
    """Of the bytes on disk."""


def open_text(path: Path, opened: OpenDocument | None, version: int, data: bytes | None = None) -> OpenDocument:
    """Return the file on disk as a document, or `data` instead; the `opened` document itself if it has not changed.

    Does file IO. Raises NoSuchFile.
    """
    stamp = (-1, 0, 0)
    try:
        if data is None:
            stat = os.stat(path)
            stamp = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if opened is not None and opened.stamp == stamp:
                return opened
            file = read_file(path, MAX_FILE)
            data, sha256 = file.data, file.sha256
        else:
            sha256 = sha256_of(data)
        if opened is not None and opened.sha256 == sha256:
            opened.stamp = stamp
            return opened
        # A byte that is not text is decoded to a lone surrogate, which JSON can't contain.
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
    chunks = [msgspec.json.encode(text[start : start + CHUNK])[1:-1] for start in range(0, len(text), CHUNK)]
    return msgspec.Raw(b'"' + b"".join(chunks) + b'"')

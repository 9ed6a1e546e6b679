"""The lines of a text file, read into memory or, if it is too large, streamed from disk."""

from __future__ import annotations

import codecs
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from tui_agent.common.domain import Target
from tui_agent.platform.encoding import Codec, NotText, decode, describe_binary, read_as
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import FileBytes, open_regular, read_file
from tui_agent.tools.base import ToolError
from tui_agent.tools.file_access import MAX_EDIT_SIZE, tool_error
from tui_agent.tools.partial_edits import LineEnds
from tui_agent.tools.tolerant_text import LINE_END
from tui_agent.tools.wording import MAX_LINE_LENGTH, printable_name, shorten_line

CHUNK_SIZE = 1 << 20
_SAMPLE_SIZE = 64 * 1024


class LineSource(msgspec.Struct):
    """Lines in order, each shortened to fit into a result. All methods block."""

    lines: Iterator[str]
    notes: list[str]
    """Facts the lines do not show, such as the encoding."""
    total: int | None = None
    """Number of lines; None while unknown."""
    sha256: str | None = None
    """Hash of the file, if it was read completely."""
    content: bytes | None = None
    """Its content, if it was read completely."""
    close: Callable[[], None] = lambda: None
    """Closes the file."""
    position: int = 0
    """Number of lines that were taken or skipped."""

    def skip(self, count: int) -> None:
        """Skip `count` lines."""
        self.position += sum(1 for _ in islice(self.lines, count))

    def take(self, count: int) -> list[str]:
        """Return the next lines; fewer than `count` at the end of the file."""
        taken = list(islice(self.lines, count))
        self.position += len(taken)
        if self.total is None and len(taken) < count:
            self.total = self.position
        return taken


def open_lines(target: Target, encoding: str | None, stop: threading.Event | None = None) -> LineSource:
    """Open the lines of a file; those of a large file end when `stop` is set. Raises ToolError."""
    if encoding is not None:
        _check_encoding(encoding)
    try:
        with open_regular(target.path, follow=False) as opened:
            large = opened.size > MAX_EDIT_SIZE
        if large:
            return _open_large(target, encoding, stop or threading.Event())
        content = read_file(target.path, 2 * MAX_EDIT_SIZE, follow=False)
    except FileFault as fault:
        raise tool_error(fault, target) from fault
    return _open_small(content, target, encoding)


def _check_encoding(encoding: str) -> None:
    try:
        is_known = codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        is_known = False
    if not is_known:
        raise ToolError(f"There is no encoding {encoding!r}. Leave it out to have it found.", "bad_arguments")


def _binary(target: Target, data: bytes, size: int) -> ToolError:
    return ToolError(
        f"{printable_name(target.display)} is {describe_binary(data)} ({size:,} bytes), not text; it can't be shown.",
        "binary",
    )


def _open_small(file: FileBytes, target: Target, encoding: str | None) -> LineSource:
    """Open a file that fits into memory."""
    notes: list[str] = []
    if encoding is not None:
        text = read_as(file.data, encoding)
        if "\ufffd" in text:
            notes.append(f"some bytes are not {encoding}: shown as \ufffd")
    else:
        try:
            decoded = decode(file.data)
        except NotText as error:
            raise _binary(target, file.data, len(file.data)) from error
        text = decoded.text.encode("utf-8", "backslashreplace").decode()
        if decoded.codec.label:
            notes.append(("probably " if decoded.codec.guessed else "") + decoded.codec.label)
    lines = LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    elif lines:
        notes.append("no newline at the end")
    kinds = LineEnds(text).kinds
    if len(kinds) > 1:
        notes.append("mixed line ends")
    elif kinds == ["\r\n"]:
        notes.append("CRLF line ends")
    return LineSource(map(shorten_line, lines), notes, total=len(lines), sha256=file.sha256, content=file.data)


def _open_large(target: Target, encoding: str | None, stop: threading.Event) -> LineSource:
    """Open a file that is too large for memory."""
    opened = contextlib.ExitStack()
    file = opened.enter_context(open_regular(target.path, follow=False))
    codec = _detect_codec(target, os.pread(file.fd, _SAMPLE_SIZE, 0), encoding, file.size)
    os.lseek(file.fd, len(codec.bom), os.SEEK_SET)
    decoder = codecs.getincrementaldecoder(codec.name)("replace")
    notes = [f"large file, {file.size:,} bytes"] + ([codec.label] if codec.label else [])
    return LineSource(_stream_lines(file.fd, decoder, stop), notes, close=opened.close)


def _stream_lines(fd: int, decoder: codecs.IncrementalDecoder, stop: threading.Event) -> Iterator[str]:
    """Yield the lines of an open file with bounded memory."""
    head, size, at_end = "", 0, False  # of the line that goes on in the next piece
    while not at_end and not stop.is_set():
        chunk = os.read(fd, CHUNK_SIZE)
        at_end = not chunk
        *complete, last = decoder.decode(chunk, final=at_end).split("\n")
        for line in complete:
            yield _shorten(head + line, size + len(line))
            head, size = "", 0
        size += len(last)
        head = (head + last)[: MAX_LINE_LENGTH + 1]
    if size and at_end:
        yield _shorten(head, size)


def _shorten(line: str, size: int) -> str:
    """Shorten a line of `size` characters, of which `line` holds at least the displayed ones."""
    return shorten_line(line.removesuffix("\r")) if len(line) == size else shorten_line(line, size=size)


def _detect_codec(target: Target, sample: bytes, encoding: str | None, size: int) -> Codec:
    if encoding is not None:
        return Codec(encoding)
    # A character may be split at the end of the sample, but not at its last line end.
    end = sample.rfind(b"\n") + 1
    try:
        return decode(sample[:end] or sample[:-4]).codec
    except NotText as error:
        raise _binary(target, sample, size) from error

"""Lines of a text file, from memory or, where it is too large for that, from disk piece by piece."""

from __future__ import annotations

import codecs
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from itertools import islice

from tui_agent.common.domain import Target
from tui_agent.platform.encoding import Codec, NotText, decode, describe_encoding, read_as
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import FileBytes, open_regular, read_file
from tui_agent.tools.base import ToolError
from tui_agent.tools.file_access import EDIT_CAP, tool_error
from tui_agent.tools.partial_edits import LineEnds
from tui_agent.tools.tolerant_text import LINE_END
from tui_agent.tools.wording import LINE_CAP, cut_line, shown_name

PIECE = 1 << 20
_SAMPLE = 64 * 1024


class LineSource:
    """Lines in order, each cut to what a result may hold. All methods block."""

    def __init__(
        self,
        lines: Iterator[str],
        notes: list[str],
        *,
        total: int | None = None,
        sha256: str | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._lines = lines
        self._passed = 0
        self.notes = notes
        """What the lines do not show."""
        self.total = total
        """How many lines there are; None while that is not known."""
        self.sha256 = sha256
        """Hash of the whole file, if it was read as a whole."""
        self.close = close
        """Let go of the file."""

    def skip(self, count: int) -> None:
        """Go on `count` lines."""
        self._passed += sum(1 for _ in islice(self._lines, count))

    def take(self, count: int) -> list[str]:
        """The next lines; fewer than `count` at the end of the file."""
        taken = list(islice(self._lines, count))
        self._passed += len(taken)
        if self.total is None and len(taken) < count:
            self.total = self._passed
        return taken


def open_lines(target: Target, encoding: str | None, stop: threading.Event | None = None) -> LineSource:
    """The lines of a file; where it is large they end as soon as `stop` is set. Raises ToolError."""
    if encoding is not None:
        _check_encoding(encoding)
    try:
        with open_regular(target.path, follow=False) as opened:
            large = opened.size > EDIT_CAP
        if large:
            return _large(target, encoding, stop or threading.Event())
        held = read_file(target.path, 2 * EDIT_CAP, follow=False)
    except FileFault as fault:
        raise tool_error(fault, target) from fault
    return _small(held, target, encoding)


def _check_encoding(encoding: str) -> None:
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        known = False
    if not known:
        raise ToolError(f"There is no encoding {encoding!r}. Leave it out to have it found.", "bad_arguments")


def _binary(target: Target, data: bytes, size: int) -> ToolError:
    return ToolError(
        f"{shown_name(target.display)} is {describe_encoding(data)} ({size:,} bytes), not text; it can't be shown.",
        "binary",
    )


def _small(file: FileBytes, target: Target, encoding: str | None) -> LineSource:
    """A file that was read as a whole."""
    notes: list[str] = []
    if encoding is not None:
        text = read_as(file.data, encoding)
        if "\ufffd" in text:
            notes.append(f"some bytes are not {encoding}: shown as \ufffd")
    else:
        try:
            found = decode(file.data)
        except NotText as error:
            raise _binary(target, file.data, len(file.data)) from error
        text = found.text.encode("utf-8", "backslashreplace").decode()
        if found.codec.label:
            notes.append(("probably " if found.codec.guessed else "") + found.codec.label)
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
    return LineSource(map(cut_line, lines), notes, total=len(lines), sha256=file.sha256)


def _large(target: Target, encoding: str | None, stop: threading.Event) -> LineSource:
    """A file that is too large to hold."""
    opened = contextlib.ExitStack()
    file = opened.enter_context(open_regular(target.path, follow=False))
    codec = _codec(target, os.pread(file.fd, _SAMPLE, 0), encoding, file.size)
    os.lseek(file.fd, len(codec.bom), os.SEEK_SET)
    decoder = codecs.getincrementaldecoder(codec.name)("replace")
    notes = [f"large file, {file.size:,} bytes"] + ([codec.label] if codec.label else [])
    return LineSource(_streamed(file.fd, decoder, stop), notes, close=opened.close)


def _streamed(fd: int, decoder: codecs.IncrementalDecoder, stop: threading.Event) -> Iterator[str]:
    """Lines piece by piece: memory stays within a few of them, whatever the lines are like."""
    head, size, ended = "", 0, False  # of the line that goes on in the next piece
    while not ended and not stop.is_set():
        piece = os.read(fd, PIECE)
        ended = not piece
        *whole, last = decoder.decode(piece, final=ended).split("\n")
        for line in whole:
            yield _whole(head + line, size + len(line))
            head, size = "", 0
        size += len(last)
        head = (head + last)[: LINE_CAP + 1]
    if size and ended:
        yield _whole(head, size)


def _whole(line: str, size: int) -> str:
    """A line of `size` characters, of which at least those that are shown are there."""
    return cut_line(line.removesuffix("\r")) if len(line) == size else cut_line(line, size=size)


def _codec(target: Target, sample: bytes, encoding: str | None, size: int) -> Codec:
    if encoding is not None:
        return Codec(encoding)
    # A character may be cut at the end of the sample: up to its last line end it can't be.
    end = sample.rfind(b"\n") + 1
    try:
        return decode(sample[:end] or sample[:-4]).codec
    except NotText as error:
        raise _binary(target, sample, size) from error

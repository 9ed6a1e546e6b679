"""Lines of a text file, from memory or, where it is too large for that, from disk piece by piece."""

from __future__ import annotations

import codecs
import contextlib
import os
import threading
from typing import Protocol

from tui_agent.domain import Target
from tui_agent.platform.encoding import Codec, NotText, decode, read_as, what_is
from tui_agent.platform.files import FileFault, OpenedFile, open_regular, read_file
from tui_agent.tools.base import ToolError
from tui_agent.tools.line_ends import LineEnds
from tui_agent.tools.lines import LINE_CAP, cut_line, shown_name
from tui_agent.tools.reading import EDIT_CAP, tool_error
from tui_agent.tools.views import LINE_END

PIECE = 1 << 20
_SAMPLE = 64 * 1024


class LineSource(Protocol):
    """Lines in order, each cut to what a result may hold. All methods block."""

    total: int | None
    """How many lines there are; None while that is not known."""
    notes: list[str]
    """What the lines do not show."""
    sha256: str | None
    """Hash of the whole file, if it was read as a whole."""

    def skip(self, count: int) -> None:
        """Go on `count` lines."""
        ...

    def take(self, count: int) -> list[str]:
        """The next lines; fewer than `count` at the end of the file."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def open_lines(target: Target, encoding: str | None, stop: threading.Event | None = None) -> LineSource:
    """The lines of a file; where it is large they end as soon as `stop` is set. Raises ToolError."""
    if encoding is not None:
        _check_encoding(encoding)
    try:
        with open_regular(target.path, follow=False) as opened:
            large = opened.size > EDIT_CAP
        if large:
            return StreamedLines(target, encoding, stop)
        held = read_file(target.path, 2 * EDIT_CAP, follow=False)
    except FileFault as fault:
        raise tool_error(fault, target) from fault
    return HeldLines(held.data, held.sha256, target, encoding)


def _check_encoding(encoding: str) -> None:
    try:
        known = codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        known = False
    if not known:
        raise ToolError(f"There is no encoding {encoding!r}. Leave it out to have it found.", "bad_arguments")


def _binary(target: Target, data: bytes, size: int) -> ToolError:
    return ToolError(
        f"{shown_name(target.display)} is {what_is(data)} ({size:,} bytes), not text; it can't be shown.",
        "binary",
    )


class HeldLines:
    """A file that was read as a whole."""

    def __init__(self, data: bytes, sha256: str, target: Target, encoding: str | None) -> None:
        self.notes: list[str] = []
        self.sha256: str | None = sha256
        if encoding is not None:
            text = read_as(data, encoding)
            if "\ufffd" in text:
                self.notes.append(f"some bytes are not {encoding}: shown as \ufffd")
        else:
            try:
                found = decode(data)
            except NotText as error:
                raise _binary(target, data, len(data)) from error
            text = found.text.encode("utf-8", "backslashreplace").decode()
            if found.codec.label:
                self.notes.append(("probably " if found.codec.guessed else "") + found.codec.label)
        self._lines = LINE_END.split(text)
        if not self._lines[-1]:
            self._lines.pop()
        elif self._lines:
            self.notes.append("no newline at the end")
        kinds = LineEnds(text).kinds
        if len(kinds) > 1:
            self.notes.append("mixed line ends")
        elif kinds == ["\r\n"]:
            self.notes.append("CRLF line ends")
        self._at = 0
        self.total: int | None = len(self._lines)

    def skip(self, count: int) -> None:
        """See LineSource."""
        self._at += count

    def take(self, count: int) -> list[str]:
        """See LineSource."""
        taken = self._lines[self._at : self._at + count]
        self._at += count
        return [cut_line(line) for line in taken]

    def close(self) -> None:
        """See LineSource."""


class StreamedLines:
    """A file that is too large to hold. Memory stays within a few pieces, whatever its lines are like."""

    def __init__(self, target: Target, encoding: str | None, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        self.total: int | None = None
        self.sha256: str | None = None
        self._open = contextlib.ExitStack()
        self._file: OpenedFile = self._open.enter_context(open_regular(target.path, follow=False))
        sample = os.pread(self._file.fd, _SAMPLE, 0)
        codec = _codec(target, sample, encoding, self._file.size)
        self.notes = [f"large file, {self._file.size:,} bytes"] + ([codec.label] if codec.label else [])
        os.lseek(self._file.fd, len(codec.bom), os.SEEK_SET)
        self._decoder = codecs.getincrementaldecoder(codec.name)("replace")
        self._lines: list[str] = []
        self._next = 0
        self._rest = ""
        self._rest_size = 0
        self._ended = False
        self._passed = 0

    def skip(self, count: int) -> None:
        """See LineSource."""
        while count and (self._next < len(self._lines) or self._more()):
            step = min(count, len(self._lines) - self._next)
            self._next += step
            self._passed += step
            count -= step

    def take(self, count: int) -> list[str]:
        """See LineSource."""
        taken: list[str] = []
        while len(taken) < count and (self._next < len(self._lines) or self._more()):
            part = self._lines[self._next : self._next + count - len(taken)]
            self._next += len(part)
            self._passed += len(part)
            taken += part
        if len(taken) < count:
            self.total = self._passed
        return taken

    def close(self) -> None:
        """See LineSource."""
        self._open.close()

    def _more(self) -> bool:
        """Read until there are further lines; False at the end, and when nobody wants them any more."""
        while not self._ended and not self._stop.is_set():
            piece = os.read(self._file.fd, PIECE)
            self._ended = not piece
            lines = self._decoder.decode(piece, final=not piece).split("\n")
            self._keep(lines[0])
            if len(lines) > 1:
                first = self._finish()
                self._keep(lines[-1])
                whole = [cut_line(line.removesuffix("\r")) for line in lines[1:-1]]
                self._lines, self._next = [first, *whole], 0
                return True
        if self._rest_size and self._ended:
            self._lines, self._next = [self._finish()], 0
            return True
        return False

    def _keep(self, text: str) -> None:
        """Hold the beginning of the line that goes on in the next piece, and count the rest."""
        self._rest_size += len(text)
        self._rest = (self._rest + text)[: LINE_CAP + 1]

    def _finish(self) -> str:
        line, size = self._rest.removesuffix("\r"), self._rest_size
        self._rest, self._rest_size = "", 0
        return line if size <= LINE_CAP + 1 else f"{line[:LINE_CAP]}… [{size - LINE_CAP:,} more characters]"


def _codec(target: Target, sample: bytes, encoding: str | None, size: int) -> Codec:
    if encoding is not None:
        return Codec(encoding)
    # A character may be cut at the end of the sample: up to its last line end it can't be.
    end = sample.rfind(b"\n") + 1
    try:
        return decode(sample[:end] or sample[:-4]).codec
    except NotText as error:
        raise _binary(target, sample, size) from error

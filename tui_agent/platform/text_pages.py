"""Rows of a long text by their byte offset; only what is asked for is loaded.

All methods block for a moment: call them in a thread. The file may grow meanwhile.
"""

from __future__ import annotations

import io
import os
import re
import stat
import threading
from bisect import bisect_right
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tui_agent.platform.output import settle_output
from tui_agent.text import clean

ROW = 4096
"""Bytes of a row; a longer line continues in the next one."""
BLOCK = 1 << 16
COUNT_BLOCK = 1 << 20
"""Bytes that are counted or searched at a time."""
COLORS = rb"(?:\x1b\[[0-9;:]{0,20}m){0,3}"
MAX_LINE = 8 << 20
"""Bytes that are searched for the start or end of a line."""


class PageRow(NamedTuple):
    """A line or a part of a very long one, without control characters other than colors."""

    start: int
    """Byte offset."""
    end: int
    """Byte offset of the next row."""
    text: str


class Pages:
    """A file, or bytes in memory. Raises OSError if the file can't be opened or is not a regular file."""

    def __init__(self, path: Path | None = None, data: bytes = b"") -> None:
        self._file: BinaryIO = io.BytesIO(data)
        self._lock = threading.Lock()
        self._counts: list[int] = [0]
        """Newlines before each block, as far as they are counted; a new list for new data."""
        if path is not None:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise OSError(f"{path} is no file")
            self._file = os.fdopen(fd, "rb", 0)

    def close(self) -> None:
        """Close the file; later calls find an empty text."""
        with self._lock:
            self._file.close()

    @property
    def size(self) -> int:
        """Current size in bytes."""
        with self._lock:
            return 0 if self._file.closed else self._file.seek(0, os.SEEK_END)

    def replace(self, data: bytes) -> None:
        """Replace the bytes in memory."""
        with self._lock:
            if not self._file.closed:
                self._file, self._counts = io.BytesIO(data), [0]

    def _read(self, offset: int, count: int) -> bytes:
        if offset < 0:
            count, offset = count + offset, 0
        with self._lock:
            if self._file.closed or count <= 0:
                return b""
            self._file.seek(offset)
            return self._file.read(count)

    # --- rows ---

    def rows_from(self, offset: int, count: int) -> list[PageRow]:
        """Return at most `count` rows from `offset` on, where a row begins."""
        rows: list[PageRow] = []
        block, block_start = b"", offset
        while len(rows) < count:
            index = offset - block_start
            if len(block) - index < ROW + 4:
                block, block_start, index = self._read(offset, BLOCK), offset, 0
                if not block:
                    break
            row = self._row(offset, block[index : index + ROW + 4])
            rows.append(row)
            offset = row.end
        return rows

    def _row(self, offset: int, data: bytes) -> PageRow:
        cut = data.find(b"\n", 0, ROW)
        if cut >= 0:
            return PageRow(offset, offset + cut + 1, _decode(data[:cut]))
        if len(data) <= ROW:
            return PageRow(offset, offset + len(data), _decode(data))
        if b"\r" in data[:ROW]:  # a progress bar: show its last state, at the end of the line
            end = self._line_end(offset)
            if end > offset + ROW:
                return PageRow(offset, end, _decode(self._read(end - ROW, ROW).rstrip(b"\n")))
        end = ROW
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        begin = 0
        while begin < 4 and data[begin] & 0xC0 == 0x80:
            begin += 1
        return PageRow(offset, offset + ROW, _decode(data[begin:end]))

    def rows_before(self, offset: int, count: int) -> list[PageRow]:
        """Return at most `count` rows that end at `offset`, in order."""
        rows: list[PageRow] = []
        while offset > 0 and len(rows) < count:
            begin = max(0, offset - BLOCK)
            data = self._read(begin, offset - begin)
            if not data:
                break
            end = len(data)
            while end > 0 and len(rows) < count:
                start = data.rfind(b"\n", 0, end - 1) + 1
                if (not start and begin) or end - start > ROW:
                    break
                rows.append(PageRow(begin + start, begin + end, _decode(data[start:end].removesuffix(b"\n"))))
                end = start
            offset = begin + end
            if end and len(rows) < count and offset > 0:
                parts = self._line_parts_before(offset, count - len(rows))
                if not parts:
                    break
                rows += parts
                offset = parts[-1].start
        rows.reverse()
        return rows

    def _line_parts_before(self, offset: int, count: int) -> list[PageRow]:
        """Return rows of the long line that ends at `offset`, the last one first."""
        start = self._line_start(offset - 1)
        rows: list[PageRow] = []
        if (
            b"\r" in self._read(start, ROW).rstrip(b"\n")
            and (first := self.rows_from(start, 1))
            and first[0].end >= offset
        ):
            return [PageRow(start, offset, first[0].text)]
        position = start + (offset - 1 - start) // ROW * ROW
        while position >= start and len(rows) < count:
            rows += [row._replace(end=min(row.end, offset)) for row in self.rows_from(position, 1)]
            position -= ROW
        return rows

    def _line_start(self, offset: int) -> int:
        """Return the start of the line that contains the byte at `offset`, or the limit of the search."""
        position = offset
        while position > 0 and offset - position < MAX_LINE:
            begin = max(0, position - BLOCK)
            data = self._read(begin, position - begin)
            newline = data.rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            position = begin
        return position

    def _line_end(self, offset: int) -> int:
        position = offset
        while position - offset < MAX_LINE:
            data = self._read(position, BLOCK)
            newline = data.find(b"\n")
            if newline >= 0:
                return position + newline + 1
            if not data:
                break
            position += len(data)
        return position

    def row_start(self, offset: int) -> int:
        """Return the start of the row that contains the byte at `offset`."""
        start = self._line_start(offset)
        if b"\r" not in self._read(start, offset - start + 1):
            return start + (offset - start) // ROW * ROW
        while (rows := self.rows_from(start, 1)) and rows[0].end <= offset:
            start = rows[0].end
        return start

    # --- line numbers ---

    def count_lines(self, stop: threading.Event) -> None:
        """Count the lines that are not counted yet; call it again when the file has grown."""
        while not stop.is_set():
            counts = self._counts  # before the data: with data that is replaced meanwhile, the list is discarded
            data = self._read((len(counts) - 1) * COUNT_BLOCK, COUNT_BLOCK)
            if len(data) < COUNT_BLOCK:
                return
            counts.append(counts[-1] + data.count(b"\n"))

    def line_count(self) -> int | None:
        """Return the number of lines; None until they are counted."""
        size = self.size
        number = self.line_number(size)
        if number is None or not size:
            return number and number - 1
        return number if self._read(size - 1, 1) != b"\n" else number - 1

    def line_number(self, offset: int) -> int | None:
        """Return the number of the line at `offset`, from 1; None until it is counted."""
        block, counts = offset // COUNT_BLOCK, self._counts
        if block >= len(counts):
            return None
        begin = block * COUNT_BLOCK
        return counts[block] + self._read(begin, offset - begin).count(b"\n") + 1

    def line_offset(self, line: int) -> int | None:
        """Return the start of a line, or the end of a shorter text; None until it is counted."""
        preceding, counts = max(0, line - 1), self._counts
        block = max(0, bisect_right(counts, preceding - 1) - 1) if preceding else 0
        remaining = preceding - counts[block]
        begin = block * COUNT_BLOCK
        data = self._read(begin, COUNT_BLOCK)
        position = 0
        for _ in range(remaining):
            newline = data.find(b"\n", position)
            if newline < 0:
                return None if len(data) == COUNT_BLOCK else begin + len(data)
            position = newline + 1
        return begin + position

    # --- searching ---

    def find(self, text: str, offset: int, *, back: bool, stop: threading.Event) -> int | None:
        """Return the nearest match after `offset`, or before it with `back`; case-sensitive if `text` has capitals."""
        if not text:
            return None
        pattern, overlap = _search_pattern(text)
        literal = text.encode() if text.isascii() else None
        ignore_case = text == text.lower()
        size = self.size
        while not stop.is_set() and (offset > 0 if back else offset < size):
            begin = max(0, offset - COUNT_BLOCK) if back else offset
            count = offset - begin if back else COUNT_BLOCK
            data = self._read(begin, count + overlap)
            if literal is not None and b"\x1b" not in data:  # much faster
                data = (data.lower() if ignore_case else data)[: count + len(literal) - 1]
                match_start = data.rfind(literal) if back else data.find(literal)
            else:
                offsets = (match.start() for match in pattern.finditer(data) if match.start() < count)
                match_start = max(offsets, default=-1) if back else next(offsets, -1)
            if match_start >= 0:
                return begin + match_start
            offset = begin if back else begin + COUNT_BLOCK
        return None


def _search_pattern(text: str) -> tuple[re.Pattern[bytes], int]:
    """Return a pattern for `text` with colors between its characters, and the maximum length of a match in bytes."""
    ignore_case = text == text.lower()
    letters: list[bytes] = []
    for letter in text:
        forms = {letter, letter.upper()} if ignore_case else {letter}
        letters.append(
            b"(?:%s)" % b"|".join(re.escape(form.encode("utf-8", "surrogatepass")) for form in sorted(forms))
        )
    return re.compile(COLORS.join(letters)), len(text) * (8 + 3 * 24)


def _decode(data: bytes) -> str:
    text = data.decode("utf-8", "replace").removesuffix("\r")
    return clean(settle_output(text), colors=True).replace("\n", " ")

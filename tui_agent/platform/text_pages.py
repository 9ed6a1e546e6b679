"""Lines of a long text by their place in its bytes; nothing is loaded but what is asked for.

All of it blocks for a moment and belongs into a thread. The file may grow meanwhile.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from tui_agent.platform.output import settle_output
from tui_agent.text import clean

ROW = 4096
"""Bytes of a row; a longer line goes on in the next one."""
BLOCK = 1 << 16
COUNTED = 1 << 20
"""Bytes that are counted or searched at a time."""
COLOURS = rb"(?:\x1b\[[0-9;:]{0,20}m){0,3}"
FAR = 8 << 20
"""Bytes in which the end of a line is looked for."""


class PageRow(NamedTuple):
    """A line, or a part of a very long one. Clean but for colours."""

    place: int
    """Where it begins, in bytes."""
    end: int
    """Where the next one begins."""
    text: str


class Pages:
    """A file, or bytes that are at hand. Raises OSError where the file can't be opened or is none."""

    def __init__(self, path: Path | None = None, data: bytes = b"") -> None:
        self._data = data
        self._fd = -1
        self._closed = False
        self._lock = threading.Lock()
        self._counts: list[int] = [0]
        """Line feeds before each block, as far as they were counted; another list for other data."""
        if path is not None:
            self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                os.close(self._fd)
                raise OSError(f"{path} is no file")

    def close(self) -> None:
        """Give the file back; what is asked for afterwards is nothing."""
        with self._lock:
            if self._fd >= 0 and not self._closed:
                os.close(self._fd)
            self._closed = True

    @property
    def size(self) -> int:
        """Bytes there are by now."""
        with self._lock:
            if self._closed:
                return 0
            return len(self._data) if self._fd < 0 else os.fstat(self._fd).st_size

    def replace(self, data: bytes) -> None:
        """Of bytes at hand: these are what there is now."""
        with self._lock:
            self._data, self._counts = data, [0]

    def _read(self, place: int, count: int) -> bytes:
        if place < 0:
            count, place = count + place, 0
        with self._lock:
            if self._closed or count <= 0:
                return b""
            return self._data[place : place + count] if self._fd < 0 else os.pread(self._fd, count, place)

    # --- rows ---

    def below(self, place: int, count: int) -> list[PageRow]:
        """At most `count` rows from `place` on, where a row begins."""
        rows: list[PageRow] = []
        block, at = b"", place
        while len(rows) < count:
            offset = place - at
            if len(block) - offset < ROW + 4:
                block, at, offset = self._read(place, BLOCK), place, 0
                if not block:
                    break
            row = self._row(place, block[offset : offset + ROW + 4])
            rows.append(row)
            place = row.end
        return rows

    def _row(self, place: int, data: bytes) -> PageRow:
        cut = data.find(b"\n", 0, ROW)
        if cut >= 0:
            return PageRow(place, place + cut + 1, _text(data[:cut]))
        if len(data) <= ROW:
            return PageRow(place, place + len(data), _text(data))
        if b"\r" in data[:ROW]:  # a progress bar: its last state counts, wherever its line ends
            end = self._line_end(place)
            if end > place + ROW:
                return PageRow(place, end, _text(self._read(end - ROW, ROW).rstrip(b"\n")))
        end = ROW
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        begin = 0
        while begin < 4 and data[begin] & 0xC0 == 0x80:
            begin += 1
        return PageRow(place, place + ROW, _text(data[begin:end]))

    def above(self, place: int, count: int) -> list[PageRow]:
        """At most `count` rows that end at `place`, from above to below."""
        rows: list[PageRow] = []
        while place > 0 and len(rows) < count:
            begin = max(0, place - BLOCK)
            data = self._read(begin, place - begin)
            if not data:
                break
            end = len(data)
            while end > 0 and len(rows) < count:
                start = data.rfind(b"\n", 0, end - 1) + 1
                if (not start and begin) or end - start > ROW:
                    break
                rows.append(PageRow(begin + start, begin + end, _text(data[start:end].removesuffix(b"\n"))))
                end = start
            place = begin + end
            if end and len(rows) < count and place > 0:
                rows += (found := self._long_above(place, count - len(rows)))
                if not found:
                    break
                place = found[-1].place
        rows.reverse()
        return rows

    def _long_above(self, place: int, count: int) -> list[PageRow]:
        """Rows of the line that ends at `place`, which is longer than one; the last one first."""
        start = self._line_start(place - 1)
        rows: list[PageRow] = []
        if b"\r" in self._read(start, ROW).rstrip(b"\n") and (whole := self.below(start, 1)) and whole[0].end >= place:
            return [PageRow(start, place, whole[0].text)]
        at = start + (place - 1 - start) // ROW * ROW
        while at >= start and len(rows) < count:
            rows += [row._replace(end=min(row.end, place)) for row in self.below(at, 1)]
            at -= ROW
        return rows

    def _line_start(self, place: int) -> int:
        """Where the line begins that holds the byte at `place`; as far back as is looked, on the border of a row."""
        at = place
        while at > 0 and place - at < FAR:
            begin = max(0, at - BLOCK)
            data = self._read(begin, at - begin)
            found = data.rfind(b"\n")
            if found >= 0:
                return begin + found + 1
            at = begin
        return at

    def _line_end(self, place: int) -> int:
        at = place
        while at - place < FAR:
            data = self._read(at, BLOCK)
            found = data.find(b"\n")
            if found >= 0:
                return at + found + 1
            if not data:
                break
            at += len(data)
        return at

    def row_of(self, place: int) -> int:
        """Where the row begins that holds the byte at `place`."""
        start = self._line_start(place)
        if b"\r" not in self._read(start, place - start + 1):
            return start + (place - start) // ROW * ROW
        while (rows := self.below(start, 1)) and rows[0].end <= place:
            start = rows[0].end
        return start

    # --- numbers ---

    def count(self, stop: threading.Event) -> None:
        """Count the lines as far as they were not; a growing file is counted on with the next call."""
        while not stop.is_set():
            counts = self._counts  # before the data: what is replaced meanwhile is counted into a list that is gone
            data = self._read((len(counts) - 1) * COUNTED, COUNTED)
            if len(data) < COUNTED:
                return
            counts.append(counts[-1] + data.count(b"\n"))

    def lines(self) -> int | None:
        """How many lines there are; None as long as they are not counted."""
        size = self.size
        number = self.number(size)
        if number is None or not size:
            return number and number - 1
        return number if self._read(size - 1, 1) != b"\n" else number - 1

    def number(self, place: int) -> int | None:
        """The number of the line at `place`, from 1; None as long as that much is not counted."""
        block, counts = place // COUNTED, self._counts
        if block >= len(counts):
            return None
        begin = block * COUNTED
        return counts[block] + self._read(begin, place - begin).count(b"\n") + 1

    def place_of(self, line: int) -> int | None:
        """Where a line begins; the end when there are fewer. None as long as that is not counted."""
        wanted, counts = max(0, line - 1), self._counts
        block = max(0, bisect_right(counts, wanted - 1) - 1) if wanted else 0
        left = wanted - counts[block]
        begin = block * COUNTED
        data = self._read(begin, COUNTED)
        at = 0
        for _ in range(left):
            found = data.find(b"\n", at)
            if found < 0:
                return None if len(data) == COUNTED else begin + len(data)
            at = found + 1
        return begin + at

    # --- searching ---

    def find(self, wanted: str, place: int, *, back: bool, stop: threading.Event) -> int | None:
        """The nearest match behind `place`, or before it; None where there is none. Capitals count if there are any."""
        if not wanted:
            return None
        needle, over = _needle(wanted)
        ascii = wanted.encode() if wanted.isascii() else None
        plain = wanted == wanted.lower()
        size = self.size
        while not stop.is_set() and (place > 0 if back else place < size):
            begin = max(0, place - COUNTED) if back else place
            count = place - begin if back else COUNTED
            data = self._read(begin, count + over)
            if ascii is not None and b"\x1b" not in data:  # the quick way
                data = (data.lower() if plain else data)[: count + len(ascii) - 1]
                found = data.rfind(ascii) if back else data.find(ascii)
            else:
                places = (match.start() for match in needle.finditer(data) if match.start() < count)
                found = max(places, default=-1) if back else next(places, -1)
            if found >= 0:
                return begin + found
            place = begin if back else begin + COUNTED
        return None


def _needle(wanted: str) -> tuple[re.Pattern[bytes], int]:
    """What finds `wanted` in bytes, also where colours begin or end in it, and how many bytes beyond its first one
    that may take."""
    plain = wanted == wanted.lower()
    letters: list[bytes] = []
    for letter in wanted:
        forms = {letter, letter.upper()} if plain else {letter}
        letters.append(b"(?:%s)" % b"|".join(re.escape(one.encode("utf-8", "surrogatepass")) for one in sorted(forms)))
    return re.compile(COLOURS.join(letters)), len(wanted) * (8 + 3 * 24)


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace").removesuffix("\r")
    return clean(settle_output(text), colors=True).replace("\n", " ")

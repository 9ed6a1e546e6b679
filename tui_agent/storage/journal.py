"""`events.jsonl`: reading it back whatever happened to the file (FAULTS 5.2.6, R2.1)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from tui_agent.events import Record
from tui_agent.platform.append import OS, Appender, OsFunctions
from tui_agent.storage.lines import MAX_LINE, Damage, Line, parse, salvage

REMEMBERED = 4096
"""How many of the last records are told from their doubles by content."""
LATE_MAX = 100_000
"""How many records that stand too late in the file are looked for."""

_HEAD = re.compile(rb'\{"v":\d+,"seq":(\d{1,18}),')


class JournalReader:
    """Iterates the intact lines of a journal in the order of their numbers, and its damages, in constant memory.

    Never raises for the file's content; a file that is not there is empty. Doubles are given once; a record that
    stands too late in the file is given where it belongs.
    """

    def __init__(
        self, path: Path, *, start: int = 0, last: int | None = None, unsigned: bool = False
    ) -> None:
        """Read from byte `start`; `last` is the number before the first expected one (None: whatever comes, when
        `start` is not 0). `unsigned` accepts lines without a crc: for scenes, never for sessions."""
        self.path = path
        self.offset = start
        """Where the next line begins."""
        self.last = last if last is not None or start else 0
        """The number of the last line given."""
        self._unsigned = unsigned
        self._recent: OrderedDict[int, int] = OrderedDict()
        self._late: dict[int, int] | None = None
        self._damage: list[Damage] = []

    def __iter__(self) -> Iterator[Line | Damage]:
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed by the with below; only opening may fail
        except FileNotFoundError:
            return
        with file:
            file.seek(self.offset)
            for offset, raw, size in _raw_lines(file):
                line = self._read(raw, offset, size)
                if line is None:
                    pass
                elif self.last is not None and line.seq == self.last + 1 and not self._damage:
                    yield self._give(line)  # as nearly all do
                else:
                    yield from self._place(line, file)
                self.offset = offset + size
                if len(self._damage) > REMEMBERED:
                    yield from self._settle(None)
        yield from self._settle(None)

    def _read(self, raw: bytes | None, offset: int, size: int) -> Line | None:
        if raw is None:
            self._damage.append(Damage(offset, size, "too long"))
            return None
        if not raw.strip(b"\r\n"):
            return None
        line = parse(raw, offset, self._unsigned)
        if line is not None:
            return line
        line = salvage(raw, offset, self._unsigned)
        bad = size if line is None else line.offset - offset
        torn = not raw.endswith(b'"}\n') or b"\0" in raw
        self._damage.append(Damage(offset, bad, "torn" if torn else "damaged"))
        return line

    def _place(self, line: Line, file: BinaryIO) -> Iterator[Line | Damage]:
        """The line at its place: doubles dropped, missing ones looked for further down."""
        if self.last is not None and line.seq <= self.last:
            if self._recent.get(line.seq, line.crc) != line.crc:
                self._damage.append(Damage(line.offset, line.size, "order"))
            return
        missing = 0
        if self.last is not None and line.seq > self.last + 1:
            missing = line.seq - self.last - 1
            for late in self._find_late(line, file):
                missing -= 1
                yield self._give(late)
        yield from self._settle(line, missing)
        yield self._give(line)

    def _give(self, line: Line) -> Line:
        self.last = line.seq
        self._recent[line.seq] = line.crc
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return line

    def _settle(self, following: Line | None, missing: int = 0) -> Iterator[Damage]:
        """Give the damages found since the last good line, now that the next one tells what they cost."""
        damages, self._damage = self._damage, []
        for index, damage in enumerate(damages):
            last = index == len(damages) - 1
            if following is not None and last and not missing and self._repeated(damage, following):
                yield msgspec.structs.replace(damage, why="retried")
            else:
                yield msgspec.structs.replace(damage, lost=missing if last else 0)
        if missing and not damages and following is not None:
            yield Damage(following.offset, 0, "gap", missing)

    def _repeated(self, damage: Damage, following: Line) -> bool:
        if damage.why == "too long":
            return False
        with open(self.path, "rb") as file:
            file.seek(damage.offset)
            head = _HEAD.match(file.read(min(damage.size, 64)))
        return head is not None and int(head[1]) == following.seq

    def _find_late(self, line: Line, file: BinaryIO) -> list[Line]:
        """Intact records before `line` in number that stand behind it in the file: one more pass, once."""
        if self._late is None:
            self._late = self._scan_late(line)
        assert self.last is not None
        found: list[Line] = []
        back = file.tell()
        for seq in sorted(seq for seq in self._late if self.last < seq < line.seq):
            file.seek(self._late[seq])
            late = parse(file.readline(MAX_LINE), self._late[seq], self._unsigned)
            if late is not None and late.seq == seq:
                found.append(late)
        file.seek(back)
        return found

    def _scan_late(self, line: Line) -> dict[int, int]:
        late: dict[int, int] = {}
        highest = line.seq
        with open(self.path, "rb") as file:
            file.seek(line.offset + line.size)
            for offset, raw, _ in _raw_lines(file):
                other = parse(raw, offset, self._unsigned) if raw else None
                if other is None:
                    continue
                if other.seq < highest and len(late) < LATE_MAX:
                    late.setdefault(other.seq, offset)
                highest = max(highest, other.seq)
        return late


def _raw_lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None, int]]:
    """Offset, bytes and size of each line; the bytes are None for one that is longer than any record."""
    offset = file.tell()
    while raw := file.readline(MAX_LINE):
        size = len(raw)
        if size < MAX_LINE or raw.endswith(b"\n"):
            yield offset, raw, size
        else:
            while not raw.endswith(b"\n") and (raw := file.readline(1 << 20)):
                size += len(raw)
            yield offset, None, size
        offset += size


def read(path: Path, after: int = 0, *, unsigned: bool = False) -> Iterator[Record | Damage]:
    """Records with a number above `after`, in order, and the damages among them."""
    for line in JournalReader(path, unsigned=unsigned):
        if isinstance(line, Damage):
            yield line
        elif line.seq > after:
            yield line.record()


def records(path: Path, after: int = 0, *, unsigned: bool = False) -> Iterator[Record]:
    """As `read`, without the damages."""
    return (item for item in read(path, after, unsigned=unsigned) if isinstance(item, Record))


def heal(path: Path, functions: OsFunctions = OS) -> bool:
    """Close a torn last line, durably and without taking anything away. True when there was one.

    Call it under the session's lock only. Raises AppendError.
    """
    appender = Appender(path, functions=functions)
    try:
        return appender.heal()
    finally:
        appender.close()


def find_last(path: Path, name: str, block: int = 1 << 20) -> Line | None:
    """The last intact record of type `name`, found from the end of the file backwards."""
    needle = b'"type":"%s"' % name.encode("ascii")
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed by the with below; only opening may fail
    except FileNotFoundError:
        return None
    with file:
        end = file.seek(0, 2)
        tail = b""
        while end > 0:
            begin = max(0, end - block)
            file.seek(begin)
            data = file.read(end - begin) + tail
            at = len(data)
            while (at := data.rfind(needle, 0, at)) >= 0:
                line = _line_around(file, begin + at)
                if line is not None and line.type == name:
                    return line
            end, tail = begin, data[: len(needle) - 1]
    return None


def _line_around(file: BinaryIO, at: int) -> Line | None:
    """The intact line whose envelope holds byte `at`, which lies within its first kilobyte."""
    low = max(0, at - 1024)
    file.seek(low)
    before = file.read(at - low)
    newline = before.rfind(b"\n")
    if newline < 0 and low > 0:
        return None
    start = low + newline + 1
    file.seek(start)
    return parse(file.readline(MAX_LINE), start, unsigned=False)

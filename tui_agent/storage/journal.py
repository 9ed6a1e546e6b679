"""`events.jsonl`: reading it back whatever happened to the file."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from tui_agent import events as e
from tui_agent.events import Record
from tui_agent.storage.lines import MAX_LINE, Damage, JournalLine, parse_line, salvage

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

    def __init__(self, path: Path, *, start: int = 0, last: int | None = None) -> None:
        """Read from byte `start`; `last` is the number before the first expected one (None: whatever
        comes, when `start` is not 0)."""
        self.path = path
        self.offset = start
        """Where the next line begins."""
        self.last = last if last is not None or start else 0
        """The number of the last line given."""
        self._recent: OrderedDict[int, int] = OrderedDict()
        self._late: dict[int, int] | None = None
        self._damage: list[Damage] = []

    def __iter__(self) -> Iterator[JournalLine | Damage]:
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
                    yield self._accept(line)  # as nearly all do
                else:
                    yield from self._place(line, file)
                self.offset = offset + size
                if len(self._damage) > REMEMBERED:
                    yield from self._settle(None)
        yield from self._settle(None)

    def _read(self, raw: bytes | None, offset: int, size: int) -> JournalLine | None:
        if raw is None:
            self._damage.append(Damage(offset, size, "too long"))
            return None
        if not raw.strip(b"\r\n"):
            return None
        line = parse_line(raw, offset)
        if line is not None:
            return line
        line = salvage(raw, offset)
        bad = size if line is None else line.offset - offset
        torn = not raw.endswith(b'"}\n') or b"\0" in raw
        self._damage.append(Damage(offset, bad, "torn" if torn else "damaged"))
        return line

    def _place(self, line: JournalLine, file: BinaryIO) -> Iterator[JournalLine | Damage]:
        """The line at its place: doubles dropped, missing ones looked for further down."""
        if self.last is not None and line.seq <= self.last:
            if self._recent.get(line.seq, line.crc) != line.crc:
                self._damage.append(Damage(line.offset, line.size, "order"))
            return
        missing = 0
        if self.last is not None and line.seq > self.last + 1:
            missing = line.seq - self.last - 1
            for late in self._find_late_lines(line, file):
                missing -= 1
                yield self._accept(late)
        yield from self._settle(line, missing)
        yield self._accept(line)

    def _accept(self, line: JournalLine) -> JournalLine:
        self.last = line.seq
        self._recent[line.seq] = line.crc
        if len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)
        return line

    def _settle(self, following: JournalLine | None, missing: int = 0) -> Iterator[Damage]:
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

    def _repeated(self, damage: Damage, following: JournalLine) -> bool:
        if damage.why == "too long":
            return False
        with open(self.path, "rb") as file:
            file.seek(damage.offset)
            head = _HEAD.match(file.read(min(damage.size, 64)))
        return head is not None and int(head[1]) == following.seq

    def _find_late_lines(self, line: JournalLine, file: BinaryIO) -> list[JournalLine]:
        """Intact records before `line` in number that stand behind it in the file: one more pass, once."""
        if self._late is None:
            self._late = self._scan_late(line)
        assert self.last is not None
        found: list[JournalLine] = []
        back = file.tell()
        for seq in sorted(seq for seq in self._late if self.last < seq < line.seq):
            file.seek(self._late[seq])
            late = parse_line(file.readline(MAX_LINE), self._late[seq])
            if late is not None and late.seq == seq:
                found.append(late)
        file.seek(back)
        return found

    def _scan_late(self, line: JournalLine) -> dict[int, int]:
        late: dict[int, int] = {}
        highest = line.seq
        with open(self.path, "rb") as file:
            file.seek(line.offset + line.size)
            for offset, raw, _ in _raw_lines(file):
                other = parse_line(raw, offset) if raw else None
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


def records(path: Path) -> Iterator[Record]:
    """The intact records of a journal, in order."""
    return (line.record() for line in JournalReader(path) if isinstance(line, JournalLine))


def find_last(path: Path, name: str, block: int = 1 << 20) -> JournalLine | None:
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


def _line_around(file: BinaryIO, at: int) -> JournalLine | None:
    """The intact line whose envelope holds byte `at`, which lies within its first kilobyte."""
    low = max(0, at - 1024)
    file.seek(low)
    before = file.read(at - low)
    newline = before.rfind(b"\n")
    if newline < 0 and low > 0:
        return None
    start = low + newline + 1
    file.seek(start)
    return parse_line(file.readline(MAX_LINE), start)


HELD_LINES = 20_000
HELD_BYTES = 8 << 20
"""How far a reply's end is looked for; a longer one is given piece by piece."""

SHORT = 2 << 20
"""Bytes of a journal that is read at once."""
END = 256 << 10
END_MAX = 8 << 20
"""Bytes of a longer one in which its end is looked for, first and at most."""

PIECES = frozenset((e.TextDelta.type, e.ReasoningDelta.type, e.ReplyPhase.type))
"""What a reply is made of until it ends."""
_THINKS = b'"phase":"thinking"'


class _HeldLine:
    """A line in its place, until it is known whether it is needed."""

    __slots__ = ("line", "settled", "size")

    def __init__(self, line: JournalLine | Damage) -> None:
        self.line: JournalLine | Damage | None = line
        self.size = line.size
        self.settled = not isinstance(line, JournalLine) or line.type not in PIECES


def _is_redundant(end: e.ReplyEnded, piece: JournalLine) -> bool:
    """Whether the end says all that the piece does, how long the model thought included."""
    if piece.type == e.TextDelta.type:
        return bool(end.text)
    if piece.type == e.ReasoningDelta.type:
        return bool(end.thought and end.thought_ms)
    return bool(end.thought_ms) or _THINKS not in piece.raw


def without_pieces(lines: Iterable[JournalLine | Damage]) -> Iterator[JournalLine | Damage]:
    """`lines` in their order, but for the pieces of replies whose end holds the whole. In bounded memory."""
    held: deque[_HeldLine] = deque()
    growing: dict[str, list[_HeldLine]] = {}
    """By node, the pieces of replies that go on."""
    size = 0
    for line in lines:
        one = _HeldLine(line)
        held.append(one)
        size += one.size
        if isinstance(line, JournalLine) and not one.settled:
            growing.setdefault(line.node, []).append(one)
        elif isinstance(line, JournalLine) and line.type == e.ReplyEnded.type:
            _settle(growing.pop(line.node, []), line)
        if size > HELD_BYTES or len(held) > HELD_LINES:
            for pieces in growing.values():
                _settle(pieces, None)
            growing.clear()
        while held and held[0].settled:
            given = held.popleft()
            size -= given.size
            if given.line is not None:
                yield given.line
    yield from (one.line for one in held if one.line is not None)


def _settle(pieces: list[_HeldLine], end: JournalLine | None) -> None:
    """Give pieces, unless the end of their reply says all that they do."""
    event = end.record().event if end is not None and pieces else None
    whole = isinstance(event, e.ReplyEnded) and all(
        _is_redundant(event, piece.line) for piece in pieces if isinstance(piece.line, JournalLine)
    )
    for piece in pieces:
        piece.settled = True
        piece.line = None if whole else piece.line


def end_of(journal: Path, last: int) -> list[e.Record]:
    """The last records up to number `last`, from where the user said something on; none of a short journal, which is
    read at once. Blocks; raises OSError."""
    size = journal.stat().st_size
    reach = END if size > SHORT else 0
    while reach:
        found = [line for line in without_pieces(_lines_from(journal, size - reach)) if isinstance(line, JournalLine)]
        said = (place for place, line in enumerate(found) if line.type == e.UserMessageAdded.type)
        begin = next(said, None)
        if begin is not None or reach >= min(size, END_MAX):
            return [line.record() for line in found[begin or 0 :] if line.seq <= last]
        reach = min(4 * reach, size)
    return []


def _lines_from(journal: Path, begin: int) -> Iterator[JournalLine | Damage]:
    """From the first line on that begins behind byte `begin`."""
    with journal.open("rb") as file:
        file.seek(begin)
        start = begin + len(file.readline(MAX_LINE))
    return iter(JournalReader(journal, start=start))

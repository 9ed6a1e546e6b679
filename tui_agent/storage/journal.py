"""Reading `events.jsonl`, whatever happened to the file."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from tui_agent import events as e
from tui_agent.events import Record
from tui_agent.storage.lines import MAX_LINE, Damage, JournalLine, parse_line

MAX_RECENT = 4096
"""Number of recent records that duplicates are compared with."""
MAX_MISPLACED = 100_000
"""Maximum number of misplaced records that are looked for."""

_HEAD = re.compile(rb'\{"v":\d+,"seq":(\d{1,18}),')


class JournalReader:
    """Iterates the intact lines of a journal in order of their numbers, and its damages, in constant memory.

    Never raises for the file's content; a missing file is empty. Duplicates are dropped, and misplaced records are
    returned in the right order.
    """

    def __init__(self, path: Path, *, start: int = 0, last: int | None = None) -> None:
        """Read from the first line at or after byte `start`; `last` is the number before the first expected record.

        If `last` is None and `start` is not 0, any number may come first.
        """
        self.path = path
        self.offset = start
        """Offset of the next line."""
        self.last = last if last is not None or start else 0
        """Number of the last line returned."""
        self._recent: OrderedDict[int, int] = OrderedDict()
        self._misplaced: dict[int, int] | None = None
        self._damage: list[Damage] = []

    def __iter__(self) -> Iterator[JournalLine | Damage]:
        try:
            file = open(self.path, "rb")  # noqa: SIM115 - closed by the with below; only opening may fail
        except FileNotFoundError:
            return
        with file:
            for offset, raw, size in raw_lines(file, self.offset):
                line = self._read(raw, offset, size)
                if line is None:
                    pass
                elif self.last is not None and line.seq == self.last + 1 and not self._damage:
                    yield self._accept(line)  # the common case
                else:
                    yield from self._in_order(line)
                self.offset = offset + size
                if len(self._damage) > MAX_RECENT:
                    yield from self._report_damage(None)
        yield from self._report_damage(None)

    def _read(self, raw: bytes | None, offset: int, size: int) -> JournalLine | None:
        if raw is None:
            self._damage.append(Damage(offset, size, "too long"))
            return None
        if not raw.strip(b"\r\n"):
            return None
        line = parse_line(raw, offset)
        if line is not None:
            return line
        begin = raw.rfind(b'{"v":')  # an intact record may follow a torn or zero-filled beginning
        line = parse_line(raw[begin:], offset + begin) if begin > 0 else None
        damaged_size = size if line is None else line.offset - offset
        torn = not raw.endswith(b'"}\n') or b"\0" in raw
        self._damage.append(Damage(offset, damaged_size, "torn" if torn else "damaged"))
        return line

    def _in_order(self, line: JournalLine) -> Iterator[JournalLine | Damage]:
        """Return the line in its place: drop duplicates, and look for missing records further down."""
        if self.last is not None and line.seq <= self.last:
            if self._recent.get(line.seq, line.crc) != line.crc:
                self._damage.append(Damage(line.offset, line.size, "order"))
            return
        missing = 0
        if self.last is not None and line.seq > self.last + 1:
            missing = line.seq - self.last - 1
            for misplaced in self._find_misplaced(line):
                missing -= 1
                yield self._accept(misplaced)
        yield from self._report_damage(line, missing)
        yield self._accept(line)

    def _accept(self, line: JournalLine) -> JournalLine:
        self.last = line.seq
        self._recent[line.seq] = line.crc
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)
        return line

    def _report_damage(self, following: JournalLine | None, missing: int = 0) -> Iterator[Damage]:
        """Return the damages since the last intact line, with the number of records they cost."""
        damages, self._damage = self._damage, []
        seq = following.seq - 1 if following is not None and missing and following.seq - 1 != self.last else 0
        for index, damage in enumerate(damages):
            last = index == len(damages) - 1
            if following is not None and last and not missing and self._is_retried(damage, following):
                yield msgspec.structs.replace(damage, why="retried")
            else:
                yield msgspec.structs.replace(damage, lost=missing if last else 0, seq=seq if last else 0)
        if missing and not damages and following is not None:
            yield Damage(following.offset, 0, "gap", missing, seq)

    def _is_retried(self, damage: Damage, following: JournalLine) -> bool:
        if damage.why == "too long":
            return False
        with open(self.path, "rb") as file:
            file.seek(damage.offset)
            head = _HEAD.match(file.read(min(damage.size, 64)))
        return head is not None and int(head[1]) == following.seq

    def _find_misplaced(self, line: JournalLine) -> list[JournalLine]:
        """Return intact records that belong before `line` but are behind it in the file, which is scanned once."""
        if self._misplaced is None:
            self._misplaced = self._scan_misplaced(line)
        assert self.last is not None
        lines: list[JournalLine] = []
        with open(self.path, "rb") as file:
            for seq in sorted(seq for seq in self._misplaced if self.last < seq < line.seq):
                file.seek(self._misplaced[seq])
                misplaced = parse_line(file.readline(MAX_LINE), self._misplaced[seq])
                if misplaced is not None and misplaced.seq == seq:
                    lines.append(misplaced)
        return lines

    def _scan_misplaced(self, line: JournalLine) -> dict[int, int]:
        misplaced: dict[int, int] = {}
        highest = line.seq
        with open(self.path, "rb") as file:
            for offset, raw, _ in raw_lines(file, line.offset + line.size):
                other = parse_line(raw, offset) if raw else None
                if other is None:
                    continue
                if other.seq < highest and len(misplaced) < MAX_MISPLACED:
                    misplaced.setdefault(other.seq, offset)
                highest = max(highest, other.seq)
        return misplaced


def raw_lines(file: BinaryIO, start: int) -> Iterator[tuple[int, bytes | None, int]]:
    """Yield offset, bytes and size of each line that begins at or after byte `start`.

    The bytes are None for a line longer than any record.
    """
    file.seek(max(0, start - 1))
    if start > 0:
        file.readline(MAX_LINE)  # up to the end of the line before
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


REPORTING_TYPES = (e.SessionRecovered.type, e.Notice.type)
"""Events that can report damage."""
DAMAGED = "journal.damaged"
"""Code of the notice that reports damage."""
GAP = "journal.gap"
"""Code of the notice in place of records that can't be read."""
MAX_DAMAGE = 10_000
"""Damaged places that are remembered."""


def gap_record(damage: Damage, at: str) -> Record | None:
    """Return a notice in place of the records that `damage` cost, which come after the time `at`; None if it cost none.

    It has the number of a lost record, so that it fits between the others. It is never written.
    """
    if not damage.lost or not damage.seq:
        return None
    records = "One record of the session is" if damage.lost == 1 else f"{damage.lost:,} records of the session are"
    where = f"{damage.size:,} bytes at byte {damage.offset:,} of the journal can't be read, and are preserved"
    reason = where if damage.size else f"the journal has a gap at byte {damage.offset:,}"
    event = e.Notice(level="warning", text=f"{records} missing here: {reason}.", code=GAP)
    return Record(seq=damage.seq, at=at, event=event)


class DamageTally:
    """Collects the damage of a journal that no record has reported yet."""

    def __init__(self) -> None:
        self._offsets: list[int] = []

    def add(self, item: JournalLine | Damage) -> None:
        """Count damage, and remove what a record reports."""
        if isinstance(item, Damage):
            if item.why != "retried" and len(self._offsets) < MAX_DAMAGE:
                self._offsets.append(item.offset)
        elif self._offsets and item.type in REPORTING_TYPES:
            event = item.record().event
            if isinstance(event, e.SessionRecovered):
                self._offsets = self.unreported(event.offset)
            elif isinstance(event, e.Notice) and event.code == DAMAGED:
                self._offsets = []

    def unreported(self, reported_from: int | None = None) -> list[int]:
        """Return the offsets of damage before `reported_from`, from which it was reported; None: of all."""
        return [offset for offset in self._offsets if reported_from is None or offset < reported_from]


def find_damage(path: Path, *, stop: Callable[[], bool] = lambda: False) -> list[Damage]:
    """Read a whole journal, or until `stop`, and return its damage. Blocks; raises OSError.

    A line that is still being written at the end is no damage.
    """
    size = path.stat().st_size
    damages: list[Damage] = []
    for item in JournalReader(path):
        if stop() or len(damages) >= MAX_DAMAGE:
            break
        if isinstance(item, Damage) and item.why != "retried":
            damages.append(item)
    return [damage for damage in damages if damage.why != "torn" or damage.offset + damage.size < size]


def find_unreported(path: Path, last: int, *, stop: Callable[[], bool] = lambda: False) -> DamageTally:
    """Read a journal up to record number `last`, or until `stop`, and return its damage. Blocks; raises OSError."""
    tally = DamageTally()
    for item in JournalReader(path):
        if stop() or (isinstance(item, JournalLine) and item.seq > last):
            break
        tally.add(item)
    return tally


def read_records(path: Path) -> Iterator[Record]:
    """Yield the intact records of a journal in order."""
    return (line.record() for line in JournalReader(path) if isinstance(line, JournalLine))


def find_last(path: Path, name: str, block: int = 1 << 20) -> JournalLine | None:
    """Find the last intact record of type `name`, searching backwards."""
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
    """Return the intact line whose envelope contains byte `at`, within its first kilobyte."""
    low = max(0, at - 1024)
    file.seek(low)
    before = file.read(at - low)
    newline = before.rfind(b"\n")
    if newline < 0 and low > 0:
        return None
    start = low + newline + 1
    file.seek(start)
    return parse_line(file.readline(MAX_LINE), start)


MAX_HELD_LINES = 20_000
MAX_HELD_BYTES = 8 << 20
"""Limits within which the end of a reply is looked for; a longer one is returned in deltas."""

SHORT_JOURNAL = 2 << 20
"""Size up to which a journal is read completely."""
TAIL_SIZE = 256 << 10
MAX_TAIL_SIZE = 8 << 20
"""Bytes at the end of a longer journal that are searched, first and at most."""

DELTA_TYPES = frozenset((e.TextDelta.type, e.ReasoningDelta.type, e.ReplyPhase.type))
"""Events that make up a reply until it ends."""
_THINKING_PHASE = b'"phase":"thinking"'


@dataclass(slots=True)
class _HeldLine:
    """A line in the queue until it is known whether it is needed."""

    line: JournalLine | Damage
    settled: bool
    dropped: bool = False


def _is_redundant(end: e.ReplyEnded, delta: JournalLine) -> bool:
    """True if the end of the reply contains the information of the delta."""
    if delta.type == e.TextDelta.type:
        return bool(end.text)
    if delta.type == e.ReasoningDelta.type:
        return bool(end.thought and end.thought_ms)
    return bool(end.thought_ms) or _THINKING_PHASE not in delta.raw


def without_deltas(lines: Iterable[JournalLine | Damage]) -> Iterator[JournalLine | Damage]:
    """Drop the deltas of replies whose end repeats them, in bounded memory."""
    held: deque[_HeldLine] = deque()
    open_replies: dict[str, list[_HeldLine]] = {}
    """Deltas of unfinished replies by node."""
    size = 0
    for line in lines:
        held_line = _HeldLine(line, settled=True)
        held.append(held_line)
        size += line.size
        if isinstance(line, JournalLine) and line.type in DELTA_TYPES:
            held_line.settled = False
            open_replies.setdefault(line.node, []).append(held_line)
        elif isinstance(line, JournalLine) and line.type == e.ReplyEnded.type:
            _release(open_replies.pop(line.node, []), line)
        if size > MAX_HELD_BYTES or len(held) > MAX_HELD_LINES:
            for deltas in open_replies.values():
                _release(deltas, None)
            open_replies.clear()
        while held and held[0].settled:
            released = held.popleft()
            size -= released.line.size
            if not released.dropped:
                yield released.line
    yield from (remaining.line for remaining in held if not remaining.dropped)


def _release(deltas: list[_HeldLine], end: JournalLine | None) -> None:
    """Release deltas, or drop them if the end of the reply repeats them."""
    event = end.record().event if end is not None and deltas else None
    is_redundant = isinstance(event, e.ReplyEnded) and all(
        _is_redundant(event, delta.line) for delta in deltas if isinstance(delta.line, JournalLine)
    )
    for delta in deltas:
        delta.settled, delta.dropped = True, is_redundant


def read_tail(journal: Path, last: int) -> list[e.Record]:
    """Return the last records up to number `last`, starting with a user message. Blocks; raises OSError.

    Returns none for a short journal, which is read completely anyway.
    """
    size = journal.stat().st_size
    tail = TAIL_SIZE if size > SHORT_JOURNAL else 0
    while tail:
        reader = JournalReader(journal, start=size - tail)
        lines = [line for line in without_deltas(reader) if isinstance(line, JournalLine)]
        user_messages = (index for index, line in enumerate(lines) if line.type == e.UserMessageAdded.type)
        begin = next(user_messages, None)
        if begin is not None or tail >= min(size, MAX_TAIL_SIZE):
            return [line.record() for line in lines[begin or 0 :] if line.seq <= last]
        tail = min(4 * tail, size)
    return []

"""The engine's only output: a stream of numbered events, written to disk before they are shown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.history import History
from tui_agent.events import Event, Notice, ReasoningDelta, Record, StateSaved, TextDelta, ToolOutput
from tui_agent.platform.append import Appender, AppendError
from tui_agent.platform.syscalls import OS, OsCalls
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import DAMAGED, JournalReader, find_unreported, gap_record, without_deltas
from tui_agent.storage.lines import Damage, JournalLine, encode_event
from tui_agent.storage.recovery import Recovery, RecoveryReport
from tui_agent.storage.writing import SessionWriter
from tui_agent.text import SecretMask

log = logging.getLogger(__name__)

RING_RECORDS = 4096
RING_BYTES = 16 << 20
"""Recent records kept in memory; followers further behind read the file."""
FOLLOW_BATCH = 256
"""Records a follower receives before it yields to the event loop."""
STATE_RECORDS = 1000
STATE_BYTES = 8 << 20
"""Amount of events after which a saved state is due."""
STREAMED = frozenset({TextDelta, ReasoningDelta, ToolOutput})
"""Deltas, which are shown but never folded into the state."""


class _Waiter(NamedTuple):
    seq: int
    durable: bool
    since: int
    """The last write or sync attempt started before the wait."""
    future: asyncio.Future[None]


class EventStream:
    """Emits events and lets followers read them. Use it only on the event loop that opened it."""

    def __init__(self, folder: SessionFolder, clock: Callable[[], datetime]) -> None:
        self.on_failure: Callable[[str | None], None] | None = None
        """Called with a message when saving begins to fail, and with None when everything is saved again."""
        self.on_emit: Callable[[Event, str], None] | None = None
        """Called with each event and its run when it is handed to the writer, except for `STREAMED` ones."""
        self._folder = folder
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._writer: SessionWriter
        self.last = 0
        """Number of the last event; 0 if there is none."""
        self._opened_at = 0
        """Number of the last record from before this process."""
        self._pending: deque[tuple[Record, int]] = deque()
        self._ring: list[Record] = []
        self._ring_sizes: deque[int] = deque()
        self._ring_bytes = 0
        self._written = 0
        self._waiters: list[_Waiter] = []
        self._followers: set[asyncio.Event] = set()
        self._reported_failure: str | None = None
        self._closed = False
        self._ended = False
        self._state: tuple[int, dict[str, Any]] | None = None
        self._reported_from: int | None = None
        """Offset from which damage was reported by `session.recovered`."""
        self._since_state = 0
        self._bytes_since_state = 0
        self._state_bytes = 0
        """Size of the last `state.saved`."""
        self.mask = SecretMask({})
        """Hides secrets from readers (A7)."""

    @classmethod
    async def open(
        cls,
        folder: SessionFolder,
        mask: SecretMask | None = None,
        clock: Callable[[], datetime] | None = None,
        *,
        calls: OsCalls = OS,
    ) -> tuple[Self, RecoveryReport]:
        """Open the folder's journal: repair a torn end, complete the chat log, find unfinished work.

        `mask` hides secrets in the chat log (the journal is exact); `clock` returns aware times. A full disk is no
        error: records wait. Raises AppendError, or OSError if the files can't be read.
        """
        stream = cls(folder, clock or (lambda: datetime.now().astimezone()))
        stream.mask = mask or stream.mask
        recovered = await asyncio.to_thread(stream._start, ChatLog(stream.mask), calls)
        stream._written = stream.last = stream._opened_at = recovered.last
        return stream, recovered

    def _start(self, chat_log: ChatLog, calls: OsCalls) -> RecoveryReport:
        log = Appender(self._folder.log, lines=False, calls=calls)
        try:
            recovery = Recovery(self._folder.journal, log, chat_log)
            recovered = recovery.run()
            journal = Appender(self._folder.journal, calls=calls)
        except BaseException:
            log.close()
            raise
        if journal.has_partial_line:
            recovered = msgspec.structs.replace(recovered, healed=True)
            with contextlib.suppress(AppendError):  # disk full: the next record terminates the line
                journal.end_line()
        self._state = recovery.state
        self._reported_from = recovered.offset
        self._since_state, self._state_bytes = recovery.since_state, recovery.state_size
        self._bytes_since_state = journal.size - recovery.start[1] - recovery.state_size
        self._writer = SessionWriter(
            journal,
            log,
            chat_log,
            recovery.open_items,
            last=recovered.last,
            start=recovery.start,
            progress=lambda: self._call(self._advance),
            remark=self._remark,
        )
        return recovered

    # --- emitting --------------------------------------------------------------------------

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """Number an event and hand it to the writer; followers get it once it is written. Returns the number.

        Never blocks. Raises TypeError for an event that is not plain data, RecordTooBig for one over 16 MiB.
        """
        if self._closed:
            raise RuntimeError("the stream is closed")
        data = encode_event(event)
        self.last += 1
        timestamp = self._clock().isoformat(timespec="milliseconds")
        record = Record(seq=self.last, at=timestamp, event=event, run=run, node=node, parent=parent)
        self._pending.append((record, len(data)))
        self._writer.submit(record, data)
        self._since_state += 1
        self._bytes_since_state += len(data)
        if isinstance(event, StateSaved):
            self._state = (record.seq, event.state)
            self._since_state = self._bytes_since_state = 0
            self._state_bytes = len(data)
        if self.on_emit is not None and type(event) not in STREAMED:
            self.on_emit(event, run)
        return record.seq

    @property
    def failure(self) -> str | None:
        """The reason why nothing can be saved at the moment, or None."""
        fault = self._writer.failure
        return None if fault is None else str(fault)

    @property
    def state_due(self) -> bool:
        """True if a `state.saved` is due."""
        return self._since_state >= STATE_RECORDS or self._bytes_since_state >= STATE_BYTES

    @property
    def final_state_due(self) -> bool:
        """True if the records since the last `state.saved` are larger than it: at most half of a journal are states."""
        return self._bytes_since_state >= self._state_bytes

    def last_state(self) -> tuple[int, dict[str, Any]] | None:
        """Return number and content of the last `state.saved`."""
        return self._state

    async def written(self, seq: int | None = None) -> None:
        """Wait until `seq` (default: all events) survives a crash of the process. Raises JournalBroken."""
        await self._wait_for(self.last if seq is None else seq, durable=False)

    async def durable(self, seq: int | None = None) -> None:
        """Wait until `seq` (default: all events) survives a loss of power: the barrier before side effects.

        Raises JournalBroken if it can't be synced; each call is a new attempt.
        """
        await self._wait_for(self.last if seq is None else seq, durable=True)

    async def _wait_for(self, seq: int, *, durable: bool) -> None:
        if self._reached(seq, durable):
            return
        since = self._writer.request(seq, durable=durable)
        waiter = _Waiter(seq, durable, since, self._loop.create_future())
        self._waiters.append(waiter)
        try:
            self._advance()  # the writer may have finished in the meantime
            await waiter.future
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _reached(self, seq: int, durable: bool) -> bool:
        return (self._writer.synced if durable else self._written) >= min(seq, self.last)

    # --- called from threads ------------------------------------------------------------------

    def _remark(self, text: str) -> None:
        self._call(lambda: self._closed or self.emit(Notice(level="warning", text=text, code="log.changed")))

    def _call(self, work: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(work)

    def _advance(self) -> None:
        """Publish written records and settle waiters."""
        written = self._writer.written
        if written > self._written:
            self._written = written
            while self._pending and self._pending[0][0].seq <= written:
                record, size = self._pending.popleft()
                self._ring.append(record)
                self._ring_sizes.append(size)
                self._ring_bytes += size
            self._trim()
            for follower in self._followers:
                follower.set()
        self._settle_waiters()
        self._report_failure()

    def _trim(self) -> None:
        """Drop the oldest records in portions, so trimming costs nothing per record."""
        if len(self._ring) <= RING_RECORDS + RING_RECORDS // 8 and self._ring_bytes <= RING_BYTES + RING_BYTES // 8:
            return
        dropped = 0
        while len(self._ring) - dropped > RING_RECORDS or (self._ring_bytes > RING_BYTES and dropped < len(self._ring)):
            self._ring_bytes -= self._ring_sizes.popleft()
            dropped += 1
        del self._ring[:dropped]

    def _settle_waiters(self) -> None:
        if not self._waiters:
            return
        fault, failed = self._writer.failure, self._writer.failed_attempt
        remaining: list[_Waiter] = []
        for waiter in self._waiters:
            if waiter.future.done():
                continue
            if self._reached(waiter.seq, waiter.durable):
                waiter.future.set_result(None)
            elif fault is not None and failed > waiter.since:
                waiter.future.set_exception(JournalBroken(str(fault)))
            else:
                remaining.append(waiter)
        self._waiters = remaining
        if remaining and fault is not None:
            self._writer.request(0, durable=False)

    def _report_failure(self) -> None:
        failure = self.failure
        if failure != self._reported_failure:
            self._reported_failure = failure
            if self.on_failure is not None:
                self.on_failure(failure)

    def journal_content(self) -> tuple[Callable[[int, int], bytes], list[Record]]:
        """Return a reader of the journal's bytes (offset, size), even if moved, and the unwritten records."""
        return self._writer.read, [record for record, _size in self._pending]

    # --- following -------------------------------------------------------------------------

    def records(self, after: int = 0) -> Iterator[Record]:
        """Yield the records of the file after number `after`, skipping damage. Does file IO."""
        for line in self._lines(after):
            if isinstance(line, JournalLine) and line.seq > after:
                yield line.record()

    def _lines(self, after: int) -> Iterator[JournalLine | Damage]:
        """Read the file from the indexed position nearest before the record `after + 1`."""
        positions = (position for position in self._writer.index if position[0] <= after + 1)
        seq, offset = max(positions, default=(1, 0))
        return iter(JournalReader(self._folder.journal, start=offset, last=seq - 1))

    async def follow(self, after: int = 0, *, pieces: bool = True) -> AsyncGenerator[Record, None]:
        """Yield all records after number `after`, past and future, once they are written, until the stream is closed.

        Without `pieces`, deltas of past replies are skipped, as the reply's end repeats them. Followers may be slow.
        """
        position = after
        past: _PastRecords | None = None
        changed = asyncio.Event()
        self._followers.add(changed)
        try:
            while True:
                changed.clear()
                if past is not None and position + 1 >= self._oldest():
                    past = None
                if position >= self._written:
                    if self._ended:
                        return
                    await changed.wait()
                    continue
                if position + 1 >= self._oldest():
                    batch = self._recent(position)
                    reached = batch[-1].seq
                else:
                    if past is None:
                        lines = self._lines(position)
                        past = _PastRecords(lines if pieces else without_deltas(lines))
                    batch, reached = await asyncio.to_thread(past.read, position, self._oldest() - 1)
                for record in batch:
                    yield record
                position = reached
                await asyncio.sleep(0)
        finally:
            self._followers.discard(changed)

    async def report_damage(self) -> None:
        """Read the whole past journal in a thread, and report its damage once; that at its end was reported on opening.

        Does not raise.
        """
        journal, last = self._folder.journal, self._opened_at
        try:
            tally = await asyncio.to_thread(find_unreported, journal, last, stop=lambda: self._closed)
        except OSError as error:
            log.warning("the journal was not checked: %s", error)
            return
        places, self._reported_from = tally.unreported(self._reported_from), 0
        if places and not self._closed:
            text = (
                f"{len(places)} {'place' if len(places) == 1 else 'places'} in {self._folder.journal.name} can't be "
                f"read, the first at byte {places[0]}. The bytes are preserved; the rest is shown."
            )
            self.emit(Notice(level="warning", text=text, code=DAMAGED))

    def _recent(self, position: int) -> list[Record]:
        """Return the next records from memory."""
        start = position + 1 - self._ring[0].seq
        return self._ring[start : start + FOLLOW_BATCH]

    def _oldest(self) -> int:
        """Return the number of the first record in memory, or of the next one."""
        return self._ring[0].seq if self._ring else self._written + 1

    # --- closing ---------------------------------------------------------------------------

    async def close(self) -> None:
        """Make everything durable and end all followers. Raises JournalBroken if something is not saved."""
        if self._closed:
            return
        self._closed = True
        try:
            await self.durable()
        finally:
            await asyncio.to_thread(self._writer.close)
            self._advance()
            self._ended = True
            for follower in self._followers:
                follower.set()


class _PastRecords:
    """The journal file as a follower reads it, with notices in place of records that can't be read."""

    def __init__(self, lines: Iterator[JournalLine | Damage]) -> None:
        self._lines = lines
        self._at = ""

    def read(self, after: int, end: int) -> tuple[list[Record], int]:
        """Return the next records numbered `after + 1` to `end`, and the number reached."""
        batch: list[Record] = []
        while after < end and len(batch) < FOLLOW_BATCH:
            line = next(self._lines, None)
            if line is None:
                return batch, end
            if isinstance(line, Damage):
                if line.seq > after and line.seq <= end and (gap := gap_record(line, self._at)) is not None:
                    batch.append(gap)
                    after = gap.seq
                continue
            if line.seq <= after:
                continue
            if line.seq > end:
                return batch, end
            batch.append(line.record())
            self._at, after = batch[-1].at, line.seq
        return batch, after


class EventSink(Protocol):
    """Receives events."""

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """Emit an event and return its number; see EventStream."""
        ...

    async def durable(self, seq: int | None = None) -> None:
        """Wait until all events survive a loss of power. Raises JournalBroken."""
        ...


class ContextState(Protocol):
    """The part of the engine's state used by a context window."""

    history: History
    log_entries: int
    side_requests: int


class StatefulStream(EventSink, Protocol):
    """An event sink that folds its events."""

    @property
    def state(self) -> ContextState:
        """The folded state."""
        ...

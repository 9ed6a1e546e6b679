"""The one stream that leaves the engine: numbered, written to disk, and only then shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from tui_agent.engine.core.history import History
from tui_agent.events import Event, Notice, ReasoningDelta, Record, SessionRecovered, StateSaved, TextDelta, ToolOutput
from tui_agent.platform.append import Appender, AppendError
from tui_agent.platform.syscalls import OS, OsCalls
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.journal import JournalReader, without_pieces
from tui_agent.storage.lines import Damage, JournalLine, encode_event
from tui_agent.storage.recovery import Recovery, RecoveryReport
from tui_agent.storage.writing import SessionWriter
from tui_agent.text import SecretMask

RING_RECORDS = 4096
RING_BYTES = 16 << 20
"""How much of the recent past is kept in memory; a follower that is further behind reads the file."""
FOLLOW_BATCH = 256
"""Records that a follower is given before the event loop gets its turn."""
STATE_RECORDS = 1000
STATE_BYTES = 8 << 20
"""After so much a saved state is due."""
DAMAGED = "journal.damaged"
"""Code of the notice that tells of damage in a session's past."""
PLACES = 10_000
"""Damaged places that are remembered."""
STREAMED = frozenset({TextDelta, ReasoningDelta, ToolOutput})
"""Events in which pieces are shown as they come: nothing of them is remembered."""


class JournalBroken(Exception):
    """The session can't be saved at the moment, so nothing that changes anything may be done.

    The message names file and cause. Records are kept in memory and written when it is possible again.
    """


class _Waiter(NamedTuple):
    seq: int
    durable: bool
    since: int
    """The last attempt at writing or syncing that had begun when the wait began."""
    future: asyncio.Future[None]


class EventStream:
    """Emit on one side, follow on the other. To be used from the event loop that it was opened on."""

    def __init__(self, folder: SessionFolder, clock: Callable[[], datetime]) -> None:
        self.on_failure: Callable[[str | None], None] | None = None
        """Called with a sentence when saving begins to fail, and with None when all is saved again."""
        self.on_emit: Callable[[Event, str], None] | None = None
        """Called with every event but `STREAMED` and its run, once the event is handed to the disk."""
        self._folder = folder
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._writer: SessionWriter
        self.last = 0
        """Number of the last event emitted; 0 when there is none."""
        self._pending: deque[tuple[Record, int]] = deque()
        self._ring: list[Record] = []
        self._ring_sizes: deque[int] = deque()
        self._ring_bytes = 0
        self._written = 0
        self._waiters: list[_Waiter] = []
        self._followers: set[asyncio.Event] = set()
        self._told_failure: str | None = None
        self._closed = False
        self._ended = False
        self._state: tuple[int, dict[str, Any]] | None = None
        self._told_from: int | None = None
        """Byte from which on damage is told by `session.recovered`."""
        self._since_state = 0
        self._bytes_since_state = 0
        self.mask = SecretMask({})
        """What is hidden wherever people read along (A7)."""

    @classmethod
    async def open(
        cls,
        folder: SessionFolder,
        mask: SecretMask | None = None,
        clock: Callable[[], datetime] | None = None,
        *,
        calls: OsCalls = OS,
    ) -> tuple[Self, RecoveryReport]:
        """Open the folder's journal: heal a torn end, complete the log, find what was left open.

        `mask` hides secrets in the log (the journal is exact), `clock` gives aware times. A disk without room is no
        error yet: what can't be written waits. Raises AppendError, or OSError when the files can't be read.
        """
        stream = cls(folder, clock or (lambda: datetime.now().astimezone()))
        stream.mask = mask or stream.mask
        recovered = await asyncio.to_thread(stream._start, ChatLog(stream.mask), calls)
        stream._written = stream.last = recovered.last
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
        if journal.tail_dirty:
            recovered = msgspec.structs.replace(recovered, healed=True)
            with contextlib.suppress(AppendError):  # no room now: the next record closes the line
                journal.heal()
        self._state = recovery.state
        self._told_from = recovered.offset
        self._since_state = recovery.since_state
        self._writer = SessionWriter(
            journal,
            log,
            chat_log,
            recovery.ends,
            last=recovered.last,
            start=recovery.start,
            progress=lambda: self._call(self._advance),
            remark=self._remark,
        )
        return recovered

    # --- emitting --------------------------------------------------------------------------

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """Number the event and hand it to the disk; followers get it when it is written. Returns the number.

        Never waits. Raises TypeError for an event that is not plain data, RecordTooBig for one over 16 MiB.
        """
        if self._closed:
            raise RuntimeError("the stream is closed")
        data = encode_event(event)
        self.last += 1
        at = self._clock().isoformat(timespec="milliseconds")
        record = Record(seq=self.last, at=at, event=event, run=run, node=node, parent=parent)
        self._pending.append((record, len(data)))
        self._writer.submit(record, data)
        self._since_state += 1
        self._bytes_since_state += len(data)
        if isinstance(event, StateSaved):
            self._state = (record.seq, event.state)
            self._since_state = self._bytes_since_state = 0
        if self.on_emit is not None and type(event) not in STREAMED:
            self.on_emit(event, run)
        return record.seq

    @property
    def failure(self) -> str | None:
        """Why nothing can be saved at the moment, as a sentence; None when all is well."""
        fault = self._writer.failure
        return None if fault is None else str(fault)

    @property
    def state_due(self) -> bool:
        """True when it is time to emit a `state.saved`."""
        return self._since_state >= STATE_RECORDS or self._bytes_since_state >= STATE_BYTES

    def last_state(self) -> tuple[int, dict[str, Any]] | None:
        """Number and content of the last `state.saved`: what follows is `records(after=number)`."""
        return self._state

    async def written(self, seq: int | None = None) -> None:
        """Wait until `seq` (default: all emitted) survives the death of the process. Raises JournalBroken."""
        await self._wait_for(self.last if seq is None else seq, durable=False)

    async def durable(self, seq: int | None = None) -> None:
        """Wait until `seq` (default: all emitted) survives a loss of power: the barrier before side effects.

        Raises JournalBroken when it does not; each call is a new try.
        """
        await self._wait_for(self.last if seq is None else seq, durable=True)

    async def _wait_for(self, seq: int, *, durable: bool) -> None:
        if self._reached(seq, durable):
            return
        since = self._writer.want(seq, durable=durable)
        waiter = _Waiter(seq, durable, since, self._loop.create_future())
        self._waiters.append(waiter)
        try:
            self._advance()  # what happened between the look and the wait
            await waiter.future
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _reached(self, seq: int, durable: bool) -> bool:
        return (self._writer.synced if durable else self._written) >= min(seq, self.last)

    # --- from the threads ------------------------------------------------------------------

    def _remark(self, text: str) -> None:
        self._call(lambda: self._closed or self.emit(Notice(level="warning", text=text, code="log.changed")))

    def _call(self, work: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended; nobody is left to tell
            self._loop.call_soon_threadsafe(work)

    def _advance(self) -> None:
        """Show what is written by now, and settle what was waited for."""
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
        self._tell_failure()

    def _trim(self) -> None:
        """Forget the oldest half at once, so that trimming costs nothing per record."""
        if len(self._ring) <= 2 * RING_RECORDS and self._ring_bytes <= 2 * RING_BYTES:
            return
        gone = 0
        while len(self._ring) - gone > RING_RECORDS or (self._ring_bytes > RING_BYTES and gone < len(self._ring)):
            self._ring_bytes -= self._ring_sizes.popleft()
            gone += 1
        del self._ring[:gone]

    def _settle_waiters(self) -> None:
        if not self._waiters:
            return
        fault, failed = self._writer.failure, self._writer.failed_attempt
        left: list[_Waiter] = []
        for waiter in self._waiters:
            if waiter.future.done():
                continue
            if self._reached(waiter.seq, waiter.durable):
                waiter.future.set_result(None)
            elif fault is not None and failed > waiter.since:
                waiter.future.set_exception(JournalBroken(str(fault)))
            else:
                left.append(waiter)
        self._waiters = left
        if left and fault is not None:
            self._writer.want(0, durable=False)

    def _tell_failure(self) -> None:
        failure = self.failure
        if failure != self._told_failure:
            self._told_failure = failure
            if self.on_failure is not None:
                self.on_failure(failure)

    def kept(self) -> tuple[Callable[[int, int], bytes], list[Record]]:
        """What reads the journal's bytes (offset, size), wherever its file is by now, and the records not in it yet."""
        return self._writer.read, [record for record, _size in self._pending]

    # --- following -------------------------------------------------------------------------

    def records(self, after: int = 0) -> Iterator[Record]:
        """What the file holds after number `after`; blocks on the disk, damaged places are skipped."""
        for line in self._lines(after):
            if isinstance(line, JournalLine) and line.seq > after:
                yield line.record()

    def _lines(self, after: int) -> Iterator[JournalLine | Damage]:
        """The file from the nearest known place before the record that follows `after`."""
        places = (place for place in self._writer.index if place[0] <= after + 1)
        seq, offset = max(places, default=(1, 0))
        return iter(JournalReader(self._folder.journal, start=offset, last=seq - 1))

    async def follow(self, after: int = 0, *, pieces: bool = True) -> AsyncIterator[Record]:
        """All records after number `after`: the past, then what comes, each once and none before it is written.

        Without `pieces`, those of a past reply that its end repeats are left out. Ends when the stream is closed. A
        follower may be as slow as it likes.
        """
        position = after
        past: _Past | None = None
        changed = asyncio.Event()
        self._followers.add(changed)
        try:
            while True:
                changed.clear()
                if past is not None and position + 1 >= self._oldest():
                    if after == 0:
                        self._tell_damage(past)
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
                    past = past or _Past(self._lines(position) if pieces else without_pieces(self._lines(position)))
                    batch, reached = await asyncio.to_thread(past.take, position, self._oldest() - 1)
                for record in batch:
                    yield record
                position = reached
                await asyncio.sleep(0)
        finally:
            self._followers.discard(changed)

    def _tell_damage(self, past: _Past) -> None:
        """Say once what a reader of the whole past had to skip; damage at the end was told on opening."""
        places, self._told_from = past.untold(self._told_from), 0
        if places and not self._closed:
            text = (
                f"{len(places)} {'place' if len(places) == 1 else 'places'} in {self._folder.journal.name} can't be "
                f"read, the first at byte {places[0]}. The bytes are preserved; the rest is shown."
            )
            self.emit(Notice(level="warning", text=text, code=DAMAGED))

    def _recent(self, position: int) -> list[Record]:
        """The next records from memory, where there are no gaps."""
        begin = position + 1 - self._ring[0].seq
        return self._ring[begin : begin + FOLLOW_BATCH]

    def _oldest(self) -> int:
        """Number of the first record in memory, or of the next one to come there."""
        return self._ring[0].seq if self._ring else self._written + 1

    # --- the end ---------------------------------------------------------------------------

    async def close(self) -> None:
        """Make everything durable, let followers finish, and end. Raises JournalBroken when something is not saved."""
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


class _Past:
    """The file as a follower reads it, and the damage in it that nobody was told of yet."""

    def __init__(self, lines: Iterator[JournalLine | Damage]) -> None:
        self._lines = lines
        self._skipped: list[int] = []

    def take(self, after: int, end: int) -> tuple[list[Record], int]:
        """The next records with numbers above `after` and up to `end`, and how far that reaches: `end` when there
        are no more of them."""
        batch: list[Record] = []
        while after < end and len(batch) < FOLLOW_BATCH:
            line = next(self._lines, None)
            if line is None:
                return batch, end
            if isinstance(line, Damage):
                if line.why != "retried" and len(self._skipped) < PLACES:
                    self._skipped.append(line.offset)
                continue
            if line.seq <= after:
                continue
            if line.seq > end:
                return batch, end
            batch.append(line.record())
            self._note(batch[-1].event)
            after = line.seq
        return batch, after

    def _note(self, event: Event) -> None:
        if isinstance(event, SessionRecovered):
            self._skipped = self.untold(event.offset)
        elif isinstance(event, Notice) and event.code == DAMAGED:
            self._skipped = []

    def untold(self, told_from: int | None) -> list[int]:
        """Bytes at which damage begins, but for what was told from byte `told_from` on."""
        return [at for at in self._skipped if told_from is None or at < told_from]


class EventSink(Protocol):
    """Where events go."""

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """Number the event and hand it on. Returns the number; see EventStream."""
        ...

    async def durable(self, seq: int | None = None) -> None:
        """Wait until all that was emitted survives a loss of power. Raises JournalBroken."""
        ...


class ContextState(Protocol):
    """The part of the engine's state that a window works on."""

    history: History
    log_entries: int
    asked_apart: int


class StatefulStream(EventSink, Protocol):
    """A stream that folds what it is given."""

    @property
    def state(self) -> ContextState:
        """What was folded."""
        ...

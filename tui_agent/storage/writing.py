"""The two threads that save a session: one writes, one syncs, so that writes never wait for a sync."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tui_agent.events import Record, StateSaved
from tui_agent.platform.append import Appender, AppendError
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.lines import to_line
from tui_agent.storage.recovery import OpenItems

SYNC_SECONDS = 0.25
SYNC_BYTES = 64 << 10
"""Written data is synced after this time or amount."""
LOG_SYNC_SECONDS = 1.0
RETRY_SECONDS = 1.0
"""Time between attempts after a failed write or sync."""
MAX_BATCH = 1024
"""Maximum number of records written together."""
INDEX_STEP = 256
"""Records per entry of the index."""


class SessionWriter:
    """Writes records to the journal and their projections to the log, in order.

    `progress` is called from both threads whenever `written`, `synced`, `failure` or `attempts` may have changed;
    `remark` gets a sentence for the user when another program changed the log.
    """

    def __init__(
        self,
        journal: Appender,
        log: Appender,
        chat_log: ChatLog,
        open_items: OpenItems,
        *,
        last: int,
        start: tuple[int, int],
        progress: Callable[[], None],
        remark: Callable[[str], None],
    ) -> None:
        self.written = last
        """Number of the last record written to journal and log."""
        self.synced = last
        """Number of the last durable record."""
        self.index = [start]
        """(number, byte): records from that number on start at or behind that byte of the journal."""
        self.failed_attempt = 0
        """Number of the last failed attempt; both threads share the counter."""
        self.attempt = 0
        self._journal = journal
        self._log = log
        self._chat_log = chat_log
        self._open_items = open_items
        self._progress = progress
        self._remark = remark
        self._queue: deque[tuple[Record, bytes]] = deque()
        self._submitted = last
        self._texts: list[bytes] = []
        self._log_end = log.size + log.queued_bytes
        self._log_failed = False
        self._failures: dict[str, AppendError] = {}
        self._retry_now: set[str] = set()
        self._requested = last
        self._unsynced_since = 0.0
        self._unsynced_bytes = 0
        self._log_dirty = False
        self._log_synced_at = time.monotonic()
        self._closing = False
        self._all_written = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._write_loop, name="journal-write", daemon=True),
            threading.Thread(target=self._sync_loop, name="journal-sync", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def failure(self) -> AppendError | None:
        """Why nothing can be saved at the moment."""
        with self._changed:
            return next(iter(self._failures.values()), None)

    def submit(self, record: Record, data: bytes) -> None:
        """Queue a record with its encoded event. Never blocks on the disk."""
        with self._changed:
            self._queue.append((record, data))
            self._changed.notify_all()

    def request(self, seq: int, *, durable: bool) -> int:
        """Request to write record `seq` (and make it durable) soon, even after a failed attempt.

        Returns the number of the last attempt started; a later one that fails is the answer.
        """
        with self._changed:
            if durable:
                self._requested = max(self._requested, seq)
            self._retry_now |= self._failures.keys()
            self._changed.notify_all()
            return self.attempt

    def read(self, offset: int, size: int) -> bytes:
        """Read from the open journal, even if it was deleted or moved."""
        return self._journal.read(offset, size)

    def close(self) -> None:
        """Write and sync what is possible, end both threads and close the files. Blocks; not for the event loop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._journal.close()
        self._log.close()

    # --- attempts and failures -------------------------------------------------------------

    def _attempt(self, name: str, work: Callable[[], None]) -> bool:
        with self._changed:
            self.attempt += 1
            number = self.attempt
            self._retry_now.discard(name)
        try:
            work()
        except Exception as error:  # a bug counts as a failure: it is reported, and nothing is acknowledged
            cause = error if isinstance(error, OSError) else OSError(repr(error))
            failure = cause if isinstance(cause, AppendError) else AppendError(self._journal.path, "Saving", cause)
            with self._changed:
                self._failures[name] = failure
                self.failed_attempt = max(self.failed_attempt, number)
                self._changed.notify_all()
            self._progress()
            return False
        with self._changed:
            self._failures.pop(name, None)
            self._changed.notify_all()
        self._progress()
        return True

    def _backing_off(self, name: str) -> bool:
        """True after a failure until the next attempt is due or requested."""
        return name in self._failures and name not in self._retry_now and not self._closing

    # --- writing ---------------------------------------------------------------------------

    def _write_loop(self) -> None:
        try:
            self._write_until_closed()
        finally:
            with self._changed:
                self._all_written = True
                self._changed.notify_all()

    def _write_until_closed(self) -> None:
        while True:
            with self._changed:
                if self._backing_off("write"):
                    self._changed.wait_for(lambda: not self._backing_off("write"), RETRY_SECONDS)
                else:
                    self._changed.wait_for(lambda: self._queue or self._closing or "write" in self._failures)
                batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
                if not batch and self._closing and "write" not in self._failures:
                    return
            succeeded = self._attempt("write", partial(self._write, batch))
            if not succeeded and self._closing:
                return

    def _write(self, batch: list[tuple[Record, bytes]]) -> None:
        self._check_log()
        lines = [self._line(record, data) for record, data in batch]
        if batch:
            first, self._submitted = batch[0][0].seq, batch[-1][0].seq
            if first >= self.index[-1][0] + INDEX_STEP and not self._journal.queued_bytes:
                self.index.append((first, self._journal.size))
        self._journal.append(lines)
        self._write_log()
        with self._changed:
            if self._submitted > self.written and self.synced == self.written:
                self._unsynced_since = time.monotonic()
            self.written = self._submitted
            self._unsynced_bytes += sum(map(len, lines))

    def _line(self, record: Record, data: bytes) -> bytes:
        self._open_items.add(record.event)
        keep: dict[str, Any] | None = None
        if isinstance(record.event, StateSaved):
            keep = {"chat": self._chat_log.state(), "ends": self._open_items.state()}
        line = to_line(record, self._log_end, data, keep)
        text = self._project(record)
        if text:
            self._texts.append(text)
            self._log_end += len(text)
        return line

    def _project(self, record: Record) -> bytes:
        try:
            return self._chat_log.project(record).encode()
        except Exception as error:  # a bug in the projection must not cost the record
            self._remark(f"Record {record.seq} could not be written to {self._log.path.name}: {error!r}")
            return b""

    def _check_log(self) -> None:
        """Detect changes of the log by other programs, and continue in the file that now has its name."""
        if self._texts or self._log.queued_bytes:
            return
        try:
            if self._log.is_replaced():
                self._log.reopen()
                reason = "was deleted or replaced; continuing in a new file"
            elif self._log.size != self._log_end:
                reason = "was changed by another program; continuing after that"
            else:
                return
        except OSError:
            return  # the next write reports it
        self._chat_log.start_new_entry(self._log.is_complete())
        self._log_end = self._log.size
        self._remark(f"{self._log.path.name} {reason}. The session itself is complete.")

    def _write_log(self) -> None:
        """Append to the log. A failure is reported and retried, and stops nothing: the log is only a projection."""
        texts, self._texts = self._texts, []
        try:
            self._log.append(texts)
        except OSError as error:
            if not self._log_failed:
                self._remark(f"{self._log.path.name} can't be written at the moment: {error}. It will be completed.")
            self._log_failed = True
            return
        self._log_failed = False
        self._log_dirty = self._log_dirty or bool(texts)

    # --- syncing ---------------------------------------------------------------------------

    def _sync_loop(self) -> None:
        while True:
            with self._changed:
                if self._backing_off("sync"):
                    self._changed.wait_for(lambda: not self._backing_off("sync"), RETRY_SECONDS)
                else:
                    self._wait_for_work()
                is_last = self._closing and self._all_written
                work = self.written > self.synced or "sync" in self._failures
            if work and not self._attempt("sync", self._sync) and is_last:
                return
            self._sync_log(now=is_last)
            if is_last:
                return

    def _wait_for_work(self) -> None:
        """Wait until a sync is requested or due, or the writing thread has ended."""
        while not self._is_sync_due():
            if self._closing and self._all_written:
                return
            if self.written > self.synced:
                remaining = self._unsynced_since + SYNC_SECONDS - time.monotonic()
                self._changed.wait(max(remaining, 0.001))
            else:
                self._changed.wait()

    def _is_sync_due(self) -> bool:
        if self.written == self.synced:
            return "sync" in self._failures
        if self._requested > self.synced or self._closing:
            return True
        return self._unsynced_bytes >= SYNC_BYTES or time.monotonic() >= self._unsynced_since + SYNC_SECONDS

    def _sync(self) -> None:
        with self._changed:
            target, size = self.written, self._unsynced_bytes
        if self._journal.is_replaced():
            missing = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            raise AppendError(self._journal.path, "Saving", missing)
        self._journal.sync()
        with self._changed:
            self.synced = target
            self._unsynced_bytes -= size
            self._unsynced_since = time.monotonic()

    def _sync_log(self, now: bool) -> None:
        if not self._log_dirty or not (now or time.monotonic() >= self._log_synced_at + LOG_SYNC_SECONDS):
            return
        self._log_dirty = False
        self._log_synced_at = time.monotonic()
        try:
            self._log.sync()
        except OSError:
            self._log_dirty = True

"""Opening a journal after a clean exit or a crash: its state, open items, and the missing end of the log."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import events as e
from tui_agent.platform.append import Appender, AppendError
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.journal import JournalReader, find_last
from tui_agent.storage.lines import Damage, JournalLine

MAX_CATCH_UP = 64 << 20
"""Limit for the missing part of the log that is restored."""
_COMPARED_SIZE = 64 << 10


class OpenItems:
    """Ids of started tool calls and requests without an end."""

    def __init__(self, tools: Iterable[str] = (), requests: Iterable[str] = ()) -> None:
        self.tools = dict.fromkeys(tools)
        self.requests = dict.fromkeys(requests)

    def add(self, event: e.Event) -> None:
        """Apply an event that starts or ends an item."""
        match event:
            case e.ToolStarted():
                self.tools[event.call.id] = None
            case e.ToolFinished():
                self.tools.pop(event.call_id, None)
            case e.ApprovalRequested() | e.QuestionAsked():
                self.requests[event.id] = None
            case e.ApprovalAnswered() | e.QuestionAnswered():
                self.requests.pop(event.id, None)
            case e.SessionRecovered():
                for call_id in event.interrupted:
                    self.tools.pop(call_id, None)
                for request_id in event.void:
                    self.requests.pop(request_id, None)

    def state(self) -> dict[str, list[str]]:
        """Return the ids as plain data."""
        return {"tools": list(self.tools), "requests": list(self.requests)}


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found when a session's journal was opened."""

    last: int = 0
    """The last record number; 0 in a new session."""
    damaged: int = 0
    """Unreadable records not yet reported by a `session.recovered`."""
    offset: int | None = None
    """Offset of the first of them, with the `size` in bytes and `sha256` of what is there."""
    size: int = 0
    sha256: str = ""
    healed: bool = False
    """The last line was torn and has been closed."""
    interrupted: tuple[str, ...] = ()
    """Ids of tool calls without an end: their outcome is unknown."""
    void: tuple[str, ...] = ()
    """Ids of unanswered approvals and questions."""
    closed: bool = True
    """The last process ended properly."""
    caught_up: int = 0
    """Bytes of chat_history.log that a crash had cost and that were restored."""
    log_changed: bool = False
    """chat_history.log was modified; it is continued as it is."""

    def event(self) -> e.SessionRecovered | None:
        """Return the event to emit, or None if nothing has to be reported."""
        if not (self.damaged or self.healed or self.interrupted or self.void):
            return None
        return e.SessionRecovered(
            damaged=self.damaged,
            offset=self.offset,
            size=self.size,
            sha256=self.sha256,
            interrupted=self.interrupted,
            void=self.void,
        )


class Recovery:
    """Reads the journal once from the last saved state on; its attributes are then used for writing."""

    def __init__(self, journal: Path, log: Appender, chat_log: ChatLog) -> None:
        self.chat_log = chat_log
        self.open_items = OpenItems()
        self.state: tuple[int, dict[str, Any]] | None = None
        """Number and content of the last `state.saved`."""
        self.state_size = 0
        """Bytes of its line."""
        self.start = (1, 0)
        """(number, byte): records from that number on start at or behind that byte."""
        self.since_state = 0
        self._journal = journal
        self._log = log
        self._last = 0
        self._closed = True
        self._damages: list[Damage] = []
        self._after_last = 0
        """Damaged complete lines behind the last intact one; their numbers are not reused."""

    def run(self) -> RecoveryReport:
        """Read the journal and restore the end of the log. Raises OSError."""
        saved = find_last(self._journal, e.StateSaved.type)
        catch_up = self._scan(saved if self._resume_at(saved) else None)
        if catch_up.misses_beginning and self.start[1]:
            self._reset()
            catch_up = self._scan(None)
        appended = catch_up.finish(self.chat_log)
        first = next(iter(self._damages), None)
        return RecoveryReport(
            last=self._last + self._after_last,
            damaged=len(self._damages),
            offset=None if first is None else first.offset,
            size=0 if first is None else first.size,
            sha256="" if first is None else _digest(self._journal, first),
            interrupted=tuple(self.open_items.tools),
            void=tuple(self.open_items.requests),
            closed=self._closed,
            caught_up=appended,
            log_changed=catch_up.changed,
        )

    def _resume_at(self, saved: JournalLine | None) -> bool:
        if saved is None:
            return False
        event = saved.record().event
        if not isinstance(event, e.StateSaved):
            return False
        self.state = (saved.seq, event.state)
        keep = saved.keep
        if not isinstance(keep, dict) or not isinstance(keep.get("ends"), dict):
            return False
        self.open_items = OpenItems(**{name: keep["ends"].get(name, ()) for name in ("tools", "requests")})
        self.chat_log.restore(keep.get("chat"))
        self.start, self.state_size = (saved.seq, saved.offset), saved.size
        return True

    def _reset(self) -> None:
        self.open_items = OpenItems()
        self.chat_log.restore({})
        self.start, self.state_size = (1, 0), 0
        self._last, self._damages, self._after_last, self._closed = 0, [], 0, True

    def _scan(self, saved: JournalLine | None) -> CatchUp:
        catch_up = CatchUp(self._log)
        if saved is None:
            reader = JournalReader(self._journal)
        else:
            reader = JournalReader(self._journal, start=saved.offset, last=saved.seq - 1)
        for item in reader:
            if isinstance(item, JournalLine):
                self._add_line(item, catch_up)
            elif item.why != "retried":
                self._damages.append(item)
                self._after_last += item.why == "damaged"
        catch_up.end()
        return catch_up

    def _add_line(self, line: JournalLine, catch_up: CatchUp) -> None:
        record = line.record()
        event = record.event
        self._last, self._after_last = line.seq, 0
        self._closed = isinstance(event, e.SessionClosed)
        self.since_state = 0 if isinstance(event, e.StateSaved) else self.since_state + 1
        if isinstance(event, e.SessionRecovered):
            self._damages.clear()
        self.open_items.add(event)
        catch_up.add(line.log, self.chat_log.project(record).encode())


class CatchUp:
    """Finds the part of the log that a crash cost, from the records' projections and recorded log sizes."""

    def __init__(self, log: Appender) -> None:
        self._log = log
        self._zeros = _trailing_zeros(log)
        self._size = log.size - self._zeros
        """Bytes of text in the log."""
        self._begin, self._text = 0, b""
        """The current record: where its projection starts, and the projection."""
        self._missing: list[bytes] = []
        self._missing_size = 0
        self._expected: bytes | None = None
        """The expected end of an unmodified log."""
        self._first_offset: int | None = None
        self.changed = False

    @property
    def misses_beginning(self) -> bool:
        """The log ends before the first examined record: reading must start earlier."""
        return self._first_offset is not None and self._size < self._first_offset

    def add(self, begin: int, text: bytes) -> None:
        """Examine the next record."""
        if self._first_offset is None or begin < self._begin:  # the log was started again: the earlier file is gone
            self._first_offset = begin
            self._missing, self._missing_size = [], 0
            self._expected = None
        else:
            self._settle(begin)
        self._begin, self._text = begin, text

    def end(self) -> None:
        """Finish the last record."""
        self._settle(self._begin + len(self._text))

    def _settle(self, end: int) -> None:
        """Decide about the current record, whose projection ends at `end`."""
        if not self._text:
            return
        if end <= self._size:
            self._expected = self._text if end == self._size else None
            return
        present = max(0, self._size - self._begin)
        if present:
            self._expected = self._text[:present]
        if self._missing_size < MAX_CATCH_UP:
            self._missing.append(self._text[present:])
            self._missing_size += len(self._text) - present

    def finish(self, chat_log: ChatLog) -> int:
        """Append what is missing, now or when there is space; return the number of bytes."""
        expected_size = self._begin + len(self._text)
        overflow = self._missing_size >= MAX_CATCH_UP
        self.changed = overflow or (self._size > 0 and not self._ends_as_expected()) or self._size > expected_size
        if self.changed:
            chat_log.start_new_entry(self._log.is_complete())
            return 0
        if self._missing:
            head = [b"\n"] if self._zeros else []
            with contextlib.suppress(AppendError):  # it stays queued and is written first
                self._log.append([*head, *self._missing])
        elif self._zeros:
            chat_log.start_new_entry(at_line_start=False)
        return self._missing_size

    def _ends_as_expected(self) -> bool:
        if not self._missing or self._expected is None:
            return True
        expected = self._expected[-_COMPARED_SIZE:]
        return self._log.read(self._size - len(expected), len(expected)) == expected


def _trailing_zeros(log: Appender) -> int:
    """Count the NUL bytes at the end of the file, which a loss of power can leave."""
    size = log.size
    count = 0
    while count < size:
        block = min(4096, size - count)
        data = log.read(size - count - block, block)
        stripped_size = len(data.rstrip(b"\0"))
        count += len(data) - stripped_size
        if stripped_size:
            break
    return count


def _digest(path: Path, damage: Damage) -> str:
    digest = hashlib.sha256()
    remaining = damage.size
    with open(path, "rb") as file:
        file.seek(damage.offset)
        while remaining > 0 and (data := file.read(min(remaining, 1 << 20))):
            digest.update(data)
            remaining -= len(data)
    return digest.hexdigest()

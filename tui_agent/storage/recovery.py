"""Opening a journal, after a crash or not: what is in it, what was left open, the log's missing end."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tui_agent import events as e
from tui_agent.platform.append import Appender, AppendError
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.journal import JournalReader, find_last
from tui_agent.storage.lines import Damage, JournalLine

CATCH_UP_MAX = 64 << 20
"""Bytes of missing log that are told again at most."""
_COMPARED = 64 << 10


class OpenEnds:
    """Ids of what was begun and has no end yet."""

    def __init__(self, tools: Iterable[str] = (), requests: Iterable[str] = ()) -> None:
        self.tools = dict.fromkeys(tools)
        self.requests = dict.fromkeys(requests)

    def note(self, event: e.Event) -> None:
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
                for name in event.interrupted:
                    self.tools.pop(name, None)
                for name in event.void:
                    self.requests.pop(name, None)

    def state(self) -> dict[str, list[str]]:
        return {"tools": list(self.tools), "requests": list(self.requests)}


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on opening a session's journal."""

    last: int = 0
    """The highest number in use; 0 in a new session."""
    damaged: int = 0
    """Records that can't be read and were not told of yet (a `session.recovered` tells of them)."""
    offset: int | None = None
    """Byte of the first of them, with the `size` in bytes and `sha256` of what stands there."""
    size: int = 0
    sha256: str = ""
    healed: bool = False
    """The last line was torn and is closed now."""
    interrupted: tuple[str, ...] = ()
    """Ids of tool calls that began and have no end: outcome unknown."""
    void: tuple[str, ...] = ()
    """Ids of approvals and questions that nobody answered."""
    closed: bool = True
    """The last process ended in order."""
    caught_up: int = 0
    """Bytes of chat_history.log that a crash had cost and that were appended now."""
    log_changed: bool = False
    """chat_history.log is not as it was written; it goes on as it is."""

    def event(self) -> e.SessionRecovered | None:
        """The event to emit; None when the session was left in order."""
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
    """One pass over the journal from the last saved state on. Afterwards its parts are what writing goes on with."""

    def __init__(self, journal: Path, log: Appender, chat_log: ChatLog) -> None:
        self.chat_log = chat_log
        self.ends = OpenEnds()
        self.state: tuple[int, dict[str, Any]] | None = None
        """The last `state.saved`: its number and content."""
        self.start = (1, 0)
        """A number and a byte: records from that number on stand at or behind that byte."""
        self.since_state = 0
        self._journal = journal
        self._log = log
        self._last = 0
        self._closed = True
        self._damages: list[Damage] = []
        self._after_last = 0
        """Damaged whole lines behind the last good one: their numbers may be known elsewhere, so none is reused."""

    def run(self) -> RecoveryReport:
        """Read, and append what is missing from the log. Raises OSError when a file can't be read."""
        saved = find_last(self._journal, e.StateSaved.type)
        catch_up = self._scan(saved if self._resume_at(saved) else None)
        if catch_up.misses_beginning and self.start[1]:
            self._forget()
            catch_up = self._scan(None)
        appended = catch_up.finish(self.chat_log)
        first = next(iter(self._damages), None)
        return RecoveryReport(
            last=self._last + self._after_last,
            damaged=len(self._damages),
            offset=None if first is None else first.offset,
            size=0 if first is None else first.size,
            sha256="" if first is None else _digest(self._journal, first),
            interrupted=tuple(self.ends.tools),
            void=tuple(self.ends.requests),
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
        self.ends = OpenEnds(**{name: keep["ends"].get(name, ()) for name in ("tools", "requests")})
        self.chat_log.restore(keep.get("chat"))
        self.start = (saved.seq, saved.offset)
        return True

    def _forget(self) -> None:
        self.ends = OpenEnds()
        self.chat_log.restore({})
        self.start = (1, 0)
        self._last, self._damages, self._after_last, self._closed = 0, [], 0, True

    def _scan(self, saved: JournalLine | None) -> CatchUp:
        catch_up = CatchUp(self._log)
        if saved is None:
            reader = JournalReader(self._journal)
        else:
            reader = JournalReader(self._journal, start=saved.offset, last=saved.seq - 1)
        for item in reader:
            if isinstance(item, Damage):
                self._add_damage(item)
            else:
                self._add_line(item, catch_up)
        catch_up.end()
        return catch_up

    def _add_damage(self, damage: Damage) -> None:
        if damage.why != "retried":
            self._damages.append(damage)
            self._after_last += damage.why == "damaged"

    def _add_line(self, line: JournalLine, catch_up: CatchUp) -> None:
        record = line.record()
        event = record.event
        self._last, self._after_last = line.seq, 0
        self._closed = isinstance(event, e.SessionClosed)
        self.since_state = 0 if isinstance(event, e.StateSaved) else self.since_state + 1
        if isinstance(event, e.SessionRecovered):
            self._damages.clear()
        self.ends.note(event)
        catch_up.note(line.log, self.chat_log.project(record).encode())


class CatchUp:
    """Finds which end of the log a crash cost, from each record's projection and the log's size before it."""

    def __init__(self, log: Appender) -> None:
        self._log = log
        self._zeros = _zeros_at_end(log)
        self._size = log.size - self._zeros
        """Bytes of text in the log."""
        self._begin, self._text = 0, b""
        """The record looked at last: where its projection begins, and the projection."""
        self._missing: list[bytes] = []
        self._missing_size = 0
        self._expected: bytes | None = None
        """How the log must end if nobody changed it."""
        self._first_offset: int | None = None
        self.changed = False

    @property
    def misses_beginning(self) -> bool:
        """The log ends before the first record that was looked at: an earlier start is needed."""
        return self._first_offset is not None and self._size < self._first_offset

    def note(self, begin: int, text: bytes) -> None:
        """The next record."""
        if self._first_offset is None or begin < self._begin:  # begun anew: the earlier file is gone
            self._first_offset = begin
            self._missing, self._missing_size = [], 0
            self._expected = None
        else:
            self._settle(begin)
        self._begin, self._text = begin, text

    def end(self) -> None:
        """There are no more records."""
        self._settle(self._begin + len(self._text))

    def _settle(self, end: int) -> None:
        """Decide about the record looked at, whose projection ends where the next one's begins."""
        if not self._text:
            return
        if end <= self._size:
            self._expected = self._text if end == self._size else None
            return
        done = max(0, self._size - self._begin)
        if done:
            self._expected = self._text[:done]
        if self._missing_size < CATCH_UP_MAX:
            self._missing.append(self._text[done:])
            self._missing_size += len(self._text) - done

    def finish(self, chat_log: ChatLog) -> int:
        """Append what is missing, now or as soon as there is room; the number of bytes."""
        known_end = self._begin + len(self._text)
        overflow = self._missing_size >= CATCH_UP_MAX
        self.changed = overflow or (self._size > 0 and not self._ends_as_expected()) or self._size > known_end
        if self.changed:
            chat_log.cut_off(self._log.ends_clean())
            return 0
        if self._missing:
            head = [b"\n"] if self._zeros else []
            with contextlib.suppress(AppendError):  # it waits, and is written before what comes
                self._log.append([*head, *self._missing])
        elif self._zeros:
            chat_log.cut_off(fresh=False)
        return self._missing_size

    def _ends_as_expected(self) -> bool:
        if not self._missing or self._expected is None:
            return True
        wanted = self._expected[-_COMPARED:]
        return self._log.read(self._size - len(wanted), len(wanted)) == wanted


def _zeros_at_end(log: Appender) -> int:
    """NUL bytes at the end of the file, as a loss of power leaves them."""
    size = log.size
    count = 0
    while count < size:
        block = min(4096, size - count)
        data = log.read(size - count - block, block)
        kept = len(data.rstrip(b"\0"))
        count += len(data) - kept
        if kept:
            break
    return count


def _digest(path: Path, damage: Damage) -> str:
    digest = hashlib.sha256()
    left = damage.size
    with open(path, "rb") as file:
        file.seek(damage.offset, os.SEEK_SET)
        while left > 0 and (data := file.read(min(left, 1 << 20))):
            digest.update(data)
            left -= len(data)
    return digest.hexdigest()

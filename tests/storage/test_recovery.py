from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.storage.samples import OPENED, STORY, story_records
from tui_agent import events as e
from tui_agent.common.domain import Answer, ToolCall, ToolResult
from tui_agent.platform.append import Appender
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.lines import to_line
from tui_agent.storage.recovery import OpenItems, Recovery, RecoveryReport


class Session:
    """A journal and a log on disk, as the writer creates them."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "events.jsonl"
        self.log = folder / "chat_history.log"
        self.chat = ChatLog()
        self.ends = OpenItems()
        self.log_sizes: list[int] = []

    def write(self, records: list[e.Record]) -> None:
        size = self.log.stat().st_size if self.log.exists() else 0
        lines, texts = [], []
        for record in records:
            keep: dict[str, Any] | None = None
            self.ends.add(record.event)
            if isinstance(record.event, e.StateSaved):
                keep = {"chat": self.chat.state(), "ends": self.ends.state()}
            lines.append(to_line(record, size, keep=keep))
            texts.append(self.chat.project(record).encode())
            self.log_sizes.append(size)
            size += len(texts[-1])
        with open(self.journal, "ab") as journal, open(self.log, "ab") as log:
            journal.write(b"".join(lines))
            log.write(b"".join(texts))

    def recover(self) -> tuple[RecoveryReport, Recovery]:
        log = Appender(self.log, lines=False)
        recovery = Recovery(self.journal, log, ChatLog())
        recovered = recovery.run()
        log.close()
        return recovered, recovery


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def numbered(*events: tuple[e.Event, str]) -> list[e.Record]:
    return [
        e.Record(seq=n, at=f"2026-01-07T10:00:{n % 60:02d}.000+02:00", event=event, node=node)
        for n, (event, node) in enumerate(events, 1)
    ]


def with_states(every: int) -> list[e.Record]:
    events: list[tuple[e.Event, str]] = []
    for n, (event, node) in enumerate(STORY * 3):
        if n % every == every - 1:
            events.append((e.StateSaved(state={"n": n}), ""))
        events.append((event, node))
    return numbered(*events)


def test_a_properly_closed_session_reports_nothing(session: Session) -> None:
    session.write(numbered((OPENED, ""), (e.SessionClosed(reason="user"), "")))
    before = session.log.read_bytes()
    recovered, _ = session.recover()
    assert recovered == RecoveryReport(last=2)
    assert recovered.event() is None
    assert session.log.read_bytes() == before


@pytest.mark.parametrize("every", [10_000, 7])
def test_a_log_cut_at_any_byte_is_completed_once_and_exactly(session: Session, every: int) -> None:
    session.write(with_states(every))
    complete = session.log.read_bytes()
    for size in range(0, len(complete), 17):
        session.log.write_bytes(complete[:size])
        recovered, _ = session.recover()
        assert session.log.read_bytes() == complete
        assert recovered.caught_up == len(complete) - size
        assert not recovered.log_changed
        again, _ = session.recover()
        assert again.caught_up == 0
        assert session.log.read_bytes() == complete


def test_a_crash_while_completing_is_completed_too(session: Session) -> None:
    session.write(story_records())
    complete = session.log.read_bytes()
    for size in (0, len(complete) // 3, len(complete) // 2, len(complete) - 1):
        session.log.write_bytes(complete[:size])
        assert session.recover()[0].caught_up == len(complete) - size


def test_a_deleted_log_is_rebuilt_from_the_journal(session: Session) -> None:
    session.write(with_states(7))
    complete = session.log.read_bytes()
    session.log.unlink()
    session.recover()
    assert session.log.read_bytes() == complete


def test_text_is_appended_after_zeros_left_by_a_power_loss(session: Session) -> None:
    session.write(story_records())
    complete = session.log.read_bytes()
    session.log.write_bytes(complete[:-100] + b"\0" * 60)
    session.recover()
    assert session.log.read_bytes() == complete[:-100] + b"\0" * 60 + b"\n" + complete[-100:]


def test_a_modified_log_is_continued_with_a_new_entry(session: Session) -> None:
    session.write(story_records())
    complete = session.log.read_bytes()
    edited = complete.replace(b"The model is gone.", b"gone")
    for content in (edited, complete[50:], complete + b"note to myself", b"all mine"):
        session.log.write_bytes(content)
        recovered, recovery = session.recover()
        assert session.log.read_bytes() == content
        assert recovered.log_changed
        record = e.Record(seq=99, at="2026-01-07T11:00:00.000+02:00", event=e.UserMessageAdded(id="1", text="x"))
        text = recovery.chat_log.project(record)
        assert text.startswith("[" if content.endswith(b"\n") else "\n[")


def test_a_log_restarted_during_the_session_is_completed_from_there(session: Session) -> None:
    story = story_records(2)
    session.write(story[: len(STORY)])
    session.log.unlink()  # as log rotation does
    session.chat.start_new_entry(at_line_start=True)
    session.write(story[len(STORY) :])
    complete = session.log.read_bytes()
    session.log.write_bytes(complete[:-40])
    session.recover()
    assert session.log.read_bytes() == complete


# --- what was left open -------------------------------------------------------------


def call(name: str) -> tuple[e.Event, str]:
    return e.ToolStarted(call=ToolCall(id=name, name="x", arguments={}), title="", reads_only=True), name


def done(name: str) -> tuple[e.Event, str]:
    return e.ToolFinished(call_id=name, name="x", result=ToolResult(success=True), text="", ms=0), name


def asked(name: str) -> tuple[e.Event, str]:
    asked = next(event for event, _ in STORY if isinstance(event, e.ApprovalRequested))
    return e.ApprovalRequested(id=name, action=asked.action, digest="", why=""), ""


@pytest.mark.parametrize("state_at", [None, 0, 3, 6, 8])
def test_calls_without_an_end_and_open_requests_are_found(session: Session, state_at: int | None) -> None:
    answer = Answer(verdict="approve")
    story: list[tuple[e.Event, str]] = [
        (OPENED, ""),
        call("t1"),
        call("t2"),
        asked("a1"),
        done("t1"),
        asked("a2"),
        (e.ApprovalAnswered(id="a1", answer=answer), ""),
        (e.QuestionAsked(id="q1", question="?"), ""),
        call("t3"),
    ]
    if state_at is not None:
        story.insert(state_at, (e.StateSaved(state={"k": 1}), ""))
    session.write(numbered(*story))
    recovered, recovery = session.recover()
    assert recovered.interrupted == ("t2", "t3")
    assert recovered.void == ("a2", "q1")
    assert not recovered.closed
    assert recovery.state == (None if state_at is None else (state_at + 1, {"k": 1}))
    event = recovered.event()
    assert event is not None
    assert (event.interrupted, event.void) == (("t2", "t3"), ("a2", "q1"))


def test_reported_damage_is_not_reported_again(session: Session) -> None:
    told = e.SessionRecovered(damaged=1, interrupted=("t1",), void=("a1",))
    session.write(numbered((OPENED, ""), call("t1"), asked("a1")))
    with open(session.journal, "ab") as file:
        file.write(b'{"v":1,"seq":4,"at":"2026\n')
    assert session.recover()[0].damaged == 1
    session.write([e.Record(seq=4, at="2026-01-07T11:00:00.000+02:00", event=told)])
    recovered, _ = session.recover()
    assert recovered.event() is None
    assert recovered.last == 4


# --- numbers -----------------------------------------------------------------------------------


def test_a_torn_last_line_frees_its_number_and_is_reported_with_offset_and_hash(session: Session) -> None:
    session.write(story_records())
    complete = session.journal.read_bytes()
    last = complete.splitlines(keepends=True)[-1]
    session.journal.write_bytes(complete[:-10])
    recovered, _ = session.recover()
    assert recovered.last == len(STORY) - 1
    assert (recovered.damaged, recovered.offset, recovered.size) == (1, len(complete) - len(last), len(last) - 10)
    assert len(recovered.sha256) == 64


def test_a_damaged_complete_last_line_keeps_its_number(session: Session) -> None:
    session.write(story_records())
    complete = bytearray(session.journal.read_bytes())
    complete[-40] ^= 1
    session.journal.write_bytes(complete)
    recovered, _ = session.recover()
    assert recovered.last == len(STORY)
    assert recovered.damaged == 1


def test_reading_starts_at_the_last_saved_state(session: Session) -> None:
    session.write(with_states(10))
    content = session.journal.read_bytes()
    cut = content.rindex(b'{"v":1,"seq":61,')
    session.journal.write_bytes(b"x" * (cut - 1) + b"\n" + content[cut:])
    recovered, recovery = session.recover()
    assert recovered.damaged == 0
    assert recovered.last == len(with_states(10))
    assert recovery.state is not None
    assert recovery.start[0] == recovery.state[0]

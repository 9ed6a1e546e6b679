from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenes import load, names
from tests.storage.samples import OPENED
from tui_agent import events as e
from tui_agent.common.domain import Usage
from tui_agent.events import Record
from tui_agent.storage import journal
from tui_agent.storage.journal import without_deltas
from tui_agent.storage.lines import Damage, JournalLine, parse_line, to_line
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView


def lines_of(records: list[Record]) -> list[JournalLine]:
    result = [parse_line(to_line(record, 0)) for record in records]
    assert all(result)
    return [line for line in result if line is not None]


def view_of(records: list[Record]) -> SessionView:
    view = SessionView()
    for record in records:
        fold_record(view, record)
    return view


def looked_back(records: list[Record]) -> list[Record]:
    return [line.record() for line in without_deltas(iter(lines_of(records))) if isinstance(line, JournalLine)]


def settled(view: SessionView) -> SessionView:
    """Return the view without the parts that only a reply in progress has."""
    return dataclasses.replace(view, seq=0, reply_phase=("", ""))


def numbered(events: list[tuple[e.Event, str]]) -> list[Record]:
    return [
        Record(seq=n, at=f"2026-01-07T10:{n // 60:02d}:{n % 60:02d}.000+02:00", event=event, run="r", node=node)
        for n, (event, node) in enumerate(events, 1)
    ]


@pytest.mark.parametrize("scene", names())
def test_every_scene_is_the_same_without_deltas(scene: str) -> None:
    records = load(scene)
    assert settled(view_of(looked_back(records))) == settled(view_of(records))


NODES = ("a", "b")
STEPS = st.sampled_from(
    [
        e.TextDelta(text="word "),
        e.ReasoningDelta(text="hm "),
        e.ReplyPhase(phase="thinking"),
        e.ReplyPhase(phase="writing"),
        e.RetryScheduled(attempt=1, of=5, seconds=1.0, why="busy"),
        e.ToolOutput(text="line\n"),
    ]
)
ENDS = st.sampled_from(
    [
        None,
        e.ReplyEnded(text="", usage=Usage(), ms=5),
        e.ReplyEnded(text="word word ", usage=Usage(), ms=5),
        e.ReplyEnded(text="word ", thought="hm hm ", usage=Usage(), ms=5),
        e.ReplyEnded(text="word ", thought="hm hm ", usage=Usage(), ms=5, thought_ms=7),
        e.ReplyEnded(text="", thought="hm ", interrupted=True, usage=Usage(), ms=5),
    ]
)
REPLY = st.tuples(st.sampled_from(NODES), st.lists(STEPS, max_size=12), ENDS)


@given(st.lists(REPLY, max_size=6), st.randoms(use_true_random=False))
def test_whatever_is_streamed_the_view_is_the_same(
    replies: list[tuple[str, list[e.Event], e.Event | None]], chance
) -> None:
    told: list[tuple[e.Event, str]] = [(OPENED, ""), (e.RunStarted(message_id="m", mode="agent", model="m"), "")]
    threads = []
    for number, (name, steps, end) in enumerate(replies):
        node = f"{name}{number}"
        begun = e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1)
        threads.append([(event, node) for event in [begun, *steps, *([end] if end is not None else [])]])
    while threads:
        thread = chance.choice(threads[:2])  # two at a time
        told.append(thread.pop(0))
        if not thread:
            threads.remove(thread)
    records = numbered([*told, (e.RunEnded(outcome="done"), "")])
    back = looked_back(records)
    assert [record.seq for record in back] == sorted({record.seq for record in back})
    assert settled(view_of(back)) == settled(view_of(records))


def test_start_and_end_of_a_long_reply_remain() -> None:
    pieces: list[tuple[e.Event, str]] = [(e.TextDelta(text="word "), "r")] * 500
    begun = (e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1), "r")
    records = numbered([begun, *pieces, (e.ReplyEnded(text="word " * 500, usage=Usage()), "r")])
    assert [record.seq for record in looked_back(records)] == [1, 502]


def test_an_unfinished_reply_and_damage_are_returned_unchanged() -> None:
    records = numbered([(e.TextDelta(text="word "), "r")] * 5)
    lines: list[JournalLine | Damage] = list(lines_of(records))
    lines.insert(3, Damage(7, 9, "torn"))
    assert list(without_deltas(iter(lines))) == lines


def test_held_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_HELD_LINES", 10)
    records = numbered(
        [*[(e.TextDelta(text="word "), "r")] * 50, (e.ReplyEnded(text="word " * 50, usage=Usage()), "r")]
    )
    taken = 0

    def counted():
        nonlocal taken
        for line in lines_of(records):
            taken += 1
            yield line

    given_back = without_deltas(counted())
    first = [next(given_back) for _ in range(5)]
    assert taken <= 5 + 11 and len(first) == 5
    assert settled(view_of(looked_back(records))) == settled(view_of(records))

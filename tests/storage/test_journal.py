from __future__ import annotations

import contextlib
import random
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.fake_disk import FakeHaste
from tests.storage.samples import story_records, write_journal
from tui_agent import events as e
from tui_agent.platform.append import Appender
from tui_agent.platform.syscalls import OS, OsCalls
from tui_agent.storage.journal import JournalReader, find_last, read_records
from tui_agent.storage.lines import MAX_LINE, Damage, RecordTooBig, encode_event, to_line

STORY = story_records()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def seqs(path: Path) -> list[int]:
    return [record.seq for record in read_records(path)]


def read_whole(path: Path) -> list[e.Record | Damage]:
    return [item if isinstance(item, Damage) else item.record() for item in JournalReader(path)]


def damages(path: Path) -> list[Damage]:
    return [item for item in JournalReader(path) if isinstance(item, Damage)]


def test_all_kinds_of_events_survive_a_round_trip(path: Path) -> None:
    write_journal(path, STORY)
    assert read_whole(path) == STORY


def test_a_line_is_one_line_with_version_log_size_and_checksum() -> None:
    line = to_line(STORY[1], 4711)
    assert line.startswith(b'{"v":1,"seq":2,"at":"2026-01-07T10:00:01.000+02:00","type":"user.said","run":"run1",')
    assert line.count(b"\n") == 1
    assert b',"log":4711,"crc":"' in line


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=200)
@given(text=st.text(st.characters(codec=None), max_size=40), state=st.dictionaries(st.text(max_size=5), json_values))
def test_any_text_survives_including_surrogates_and_control_characters(
    path: Path, text: str, state: dict[str, Any]
) -> None:
    events = [
        e.UserMessageAdded(id="1", text=text),
        e.StateSaved(state=state),
        e.UnknownEvent(name="new.kind", raw={"text": text}),
    ]
    written = [e.Record(seq=n, at="2026-01-07T10:00:00.000Z", event=event) for n, event in enumerate(events, 1)]
    write_journal(path, written)
    assert read_whole(path) == written


def test_a_missing_file_is_empty(path: Path) -> None:
    assert read_whole(path) == []


def heal(path: Path, calls: OsCalls = OS) -> bool:
    with contextlib.closing(Appender(path, calls=calls)) as appender:
        return appender.end_line()


# --- damage of every kind ------------------------------------------------------


def test_truncation_at_any_byte_loses_no_earlier_record_and_a_newline_repairs_it(path: Path) -> None:
    lines = write_journal(path, STORY)
    whole = path.read_bytes()
    saved = len(STORY) - 3
    begin = sum(map(len, lines[:saved]))
    for end in range(begin, len(whole) + 1):
        path.write_bytes(whole[:end])
        complete = saved + sum(end >= begin + sum(map(len, lines[saved : saved + n])) - 1 for n in (1, 2, 3))
        assert seqs(path) == list(range(1, complete + 1))
        torn = not whole[:end].endswith(b"\n")
        assert heal(path, FakeHaste()) == torn
        assert path.read_bytes() == whole[:end] + (b"\n" if torn else b"")
        assert not heal(path, FakeHaste())
        assert seqs(path) == list(range(1, complete + 1))
        following = e.Record(seq=complete + 1, at="2026-01-07T11:00:00.000Z", event=e.SessionRecovered(damaged=1))
        with open(path, "ab") as file:
            file.write(to_line(following, 0))
        assert seqs(path) == list(range(1, complete + 2))


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 4096,
        b"\0" * 4096 + b"\n",
        '{"v":1,"seq":24,"at":"2026","type":"user.said","data":{"text":"ü'.encode()[:-1],
        b"\xff\xfe\xfd",
        b"{}\n[]\n1\nnull\n" + b"[" * 200_000 + b"\n",
        b'{"v":1,"seq":-1,"at":"","type":"x","data":{},"crc":"00000000"}\n',
        b'{"v":1,"seq":1e999,"type":"x"}\n',
    ],
    ids=["zeros", "zeros-line", "half-utf8", "binary", "not-records", "negative", "infinite"],
)
def test_garbage_at_the_end_loses_no_record(path: Path, tail: bytes) -> None:
    write_journal(path, STORY)
    with open(path, "ab") as file:
        file.write(tail)
    assert seqs(path) == [record.seq for record in STORY]
    assert damages(path)
    heal(path)
    assert seqs(path) == [record.seq for record in STORY]


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_loses_only_its_record_and_the_file_is_unchanged(path: Path, bit: int) -> None:
    lines = write_journal(path, STORY)
    random_places = random.Random(bit)
    for index in range(1, len(lines) - 1):
        broken = bytearray(b"".join(lines))
        start = sum(map(len, lines[:index]))
        broken[start + random_places.randrange(len(lines[index]) - 1)] ^= 1 << bit
        path.write_bytes(broken)
        assert set(seqs(path)) >= {record.seq for record in STORY} - {index + 1}
        result = damages(path)
        assert sum(damage.lost for damage in result) <= 1
        assert result
        assert path.read_bytes() == bytes(broken)


def test_duplicate_lines_are_dropped(path: Path) -> None:
    lines = write_journal(path, STORY)
    path.write_bytes(b"".join([*lines[:5], *lines[2:5], lines[0], *lines[5:], lines[-1]]))
    assert read_whole(path) == STORY


def test_swapped_lines_are_reordered(path: Path) -> None:
    lines = write_journal(path, STORY)
    lines[3], lines[4] = lines[4], lines[3]
    lines.append(lines.pop(10))
    path.write_bytes(b"".join(lines))
    assert read_whole(path) == STORY


def test_missing_numbers_are_reported(path: Path) -> None:
    lines = write_journal(path, STORY)
    path.write_bytes(b"".join([*lines[:4], *lines[6:]]))
    assert seqs(path) == [1, 2, 3, 4, *range(7, len(STORY) + 1)]
    assert [(damage.why, damage.lost) for damage in damages(path)] == [("gap", 2)]


def test_a_reused_number_with_other_content_is_reported_and_ignored(path: Path) -> None:
    lines = write_journal(path, STORY)
    other = to_line(e.Record(seq=3, at="2026-01-07T10:00:00Z", event=e.UserMessageAdded(id="x", text="forged")), 0)
    path.write_bytes(b"".join([*lines, other]))
    assert list(read_records(path)) == STORY
    assert [damage.why for damage in damages(path)] == ["order"]


def test_a_retried_write_is_not_a_loss(path: Path) -> None:
    lines = write_journal(path, STORY)
    path.write_bytes(b"".join([*lines[:4], lines[4][:30] + b"\n", *lines[4:]]))
    assert list(read_records(path)) == STORY
    assert [(damage.why, damage.lost) for damage in damages(path)] == [("retried", 0)]


def test_a_record_after_a_torn_one_on_the_same_line_is_read(path: Path) -> None:
    lines = write_journal(path, STORY)
    path.write_bytes(b"".join([*lines[:4], lines[4][:30], *lines[5:]]))
    assert seqs(path) == [1, 2, 3, 4, *range(6, len(STORY) + 1)]
    path.write_bytes(b"".join([*lines[:4], b"\0" * 700, *lines[4:]]))
    assert list(read_records(path)) == STORY


def test_an_overlong_line_is_skipped(path: Path) -> None:
    lines = write_journal(path, STORY)
    path.write_bytes(b"".join([*lines[:4], b"x" * (MAX_LINE + (3 << 20)) + b"\n", *lines[4:]]))
    assert list(read_records(path)) == STORY
    assert [damage.why for damage in damages(path)] == ["too long"]


def test_an_event_too_large_for_a_line_is_refused() -> None:
    with pytest.raises(RecordTooBig, match=r"user\.said"):
        encode_event(e.UserMessageAdded(id="1", text="x" * MAX_LINE))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
@given(data=st.data())
def test_mutations_never_raise_and_lose_only_the_records_they_touch(path: Path, data: st.DataObject) -> None:
    lines = write_journal(path, STORY)
    touched = data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=4))
    out = list(lines)
    for index in touched:
        start = data.draw(st.integers(0, len(lines[index]) - 2))
        end = data.draw(st.integers(start, len(lines[index]) - 1))
        out[index] = lines[index][:start] + data.draw(st.binary(max_size=12)) + lines[index][end:]
    path.write_bytes(b"".join(out))
    actual = list(read_records(path))
    assert [record.seq for record in actual] == sorted({record.seq for record in actual})
    untouched = {record.seq for index, record in enumerate(STORY) if index not in touched}
    assert {record.seq for record in actual if STORY[record.seq - 1] == record} >= untouched


# --- other schemas -----------------------------------------------------------------------------


def test_unknown_types_and_newer_versions_are_kept_as_unknown(path: Path) -> None:
    newer = e.Record(seq=1, at="2030-01-01T00:00:00Z", event=e.UnknownEvent(name="mind.read", raw={"text": "hi"}))
    line = to_line(newer, 0)
    path.write_bytes(line)
    (actual,) = read_records(path)
    assert actual == newer
    assert to_line(actual, 0) == line
    body = to_line(STORY[1], 0).replace(b'{"v":1,', b'{"v":2,').rpartition(b',"crc"')[0]
    path.write_bytes(b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body)))
    (actual,) = read_records(path)
    assert isinstance(actual.event, e.UnknownEvent)
    assert actual.event.name == "user.said"


def test_a_known_type_of_another_shape_is_unknown_and_extra_fields_are_ignored(path: Path) -> None:
    wrong = e.Record(seq=1, at="", event=e.UnknownEvent(name="user.said", raw={"id": 5}))
    more = e.Record(seq=2, at="", event=e.UnknownEvent(name="user.said", raw={"id": "1", "text": "t", "mood": "good"}))
    write_journal(path, [wrong, more])
    first, second = read_records(path)
    assert first == wrong
    assert second.event == e.UserMessageAdded(id="1", text="t")


def test_lines_without_a_checksum_are_not_read(path: Path) -> None:
    lines = [to_line(record, 0).rpartition(b',"crc"')[0] + b"}\n" for record in STORY]
    path.write_bytes(b"".join(lines))
    assert list(read_records(path)) == []


# --- reading in parts --------------------------------------------------------------------------


def test_reading_continues_at_the_last_offset(path: Path) -> None:
    write_journal(path, STORY[:10])
    reader = JournalReader(path)
    assert len(list(reader)) == 10
    write_journal(path, STORY)
    remaining = JournalReader(path, start=reader.offset, last=reader.last)
    assert [item.seq for item in remaining if not isinstance(item, Damage)] == list(range(11, len(STORY) + 1))


def test_memory_is_bounded_for_any_file_size(path: Path) -> None:
    write_journal(path, [e.Record(seq=1, at="", event=e.UserMessageAdded(id="1", text="x" * 1000))])
    with open(path, "ab") as file:
        for seq in range(2, 20_000):
            file.write(to_line(e.Record(seq=seq, at="", event=e.UserMessageAdded(id="1", text="x" * 1000)), 0))
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 19_999
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_the_last_record_of_a_type_is_found_from_the_end(path: Path) -> None:
    lines = write_journal(path, story_records(4))
    result = find_last(path, "user.said", block=256)
    assert result is not None
    assert result.seq == 3 * len(STORY) + 2
    assert path.read_bytes()[result.offset :].startswith(lines[result.seq - 1])
    assert find_last(path, "state.saved", block=64) is None
    assert find_last(path.with_name("none"), "user.said") is None


def test_a_type_name_inside_the_data_does_not_match(path: Path) -> None:
    inner = e.Record(seq=2, at="", event=e.StateSaved(state={"type": "user.said", "x": ['"type":"user.said"']}))
    write_journal(path, [STORY[0], inner])
    assert find_last(path, "user.said") is None
    result = find_last(path, "state.saved")
    assert result is not None
    assert result.seq == 2


def test_interleaved_records_are_reordered(path: Path) -> None:
    lines = write_journal(path, story_records(20))
    path.write_bytes(b"".join([*lines[1::2], *lines[0::2]]))
    assert seqs(path) == list(range(1, len(lines) + 1))

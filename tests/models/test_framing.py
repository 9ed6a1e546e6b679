from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui_agent.models.framing import Frame, FrameTooLarge, InvalidJson, NdjsonLines, Splitter, SseEvents, read_json
from tui_agent.text.json_values import MAX_DEPTH, repair_surrogates


def frames(splitter: Splitter, chunks: Iterable[bytes]) -> list[Frame]:
    out = [frame for chunk in chunks for frame in splitter.feed(chunk)]
    return out + list(splitter.flush())


def datas(splitter: Splitter, *chunks: bytes) -> list[str]:
    return [frame.data for frame in frames(splitter, chunks)]


def test_ndjson_ends_records_at_line_feed_only():
    body = "a\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\rb\nc\r\n\n  \nd".encode()
    assert datas(NdjsonLines(), body) == ["a\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\rb", "c", "d"]


def test_c15_emoji_torn_anywhere_stay_whole():
    body = '{"a": "👩‍👩‍👧‍👦 é 漢"}\n'.encode()
    for at in range(len(body)):
        assert datas(NdjsonLines(), body[:at], body[at:]) == [body.decode().strip()]


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (b"\xff", "\ufffd"),
        (b"\x80", "\ufffd"),
        (b"\xc0\xaf", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x9f\x92", "\ufffd"),
    ],
)
def test_c16_invalid_utf8_is_replaced_and_the_stream_goes_on(bad, good):
    for splitter, end in ((NdjsonLines(), b"\n"), (SseEvents(), b"\n\n")):
        head = b"data: " if isinstance(splitter, SseEvents) else b""
        body = head + b"a" + bad + b"z" + end + head + b"next" + end
        for size in (1, len(body)):
            assert datas(type(splitter)(), *(body[at : at + size] for at in range(0, len(body), size))) == [
                f"a{good}z",
                "next",
            ]


@pytest.mark.parametrize("split", range(6))
def test_c16_a_byte_order_mark_is_dropped_at_the_start_only(split):
    body = b"\xef\xbb\xbf\n{}\n" + "\ufeffx\n".encode()
    assert datas(NdjsonLines(), body[:split], body[split:]) == ["{}", "\ufeffx"]
    document = "{\n\ufeff}".encode()
    assert datas(SseEvents(), document[:split], document[split:]) == ["{\n\ufeff}"]


def test_c16_utf16_is_no_json_and_does_no_harm():
    (line, *_) = datas(NdjsonLines(), '{"a": 1}'.encode("utf-16"))
    with pytest.raises(InvalidJson):
        read_json(line)


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_c17_unusual_separators_inside_json_are_one_record(mark):
    line = f'{{"content": "a{mark}b"}}'
    for splitter, body in ((NdjsonLines(), line + "\n"), (SseEvents(), f"data: {line}\n\n")):
        (data,) = datas(splitter, body.encode())
        assert read_json(data) == {"content": f"a{mark}b"}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("data: a\n\ndata: b\n\n", [("a", ""), ("b", "")]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", [("a", ""), ("b", "")]),
        ("data: a\r\rdata: b\r\r", [("a", ""), ("b", "")]),
        ("data: a\r\n\ndata: b\n\r\n", [("a", ""), ("b", "")]),
        ("data:a\n\ndata:  b\n\n", [("a", ""), (" b", "")]),
        ("data: a\ndata: b\ndata\n\n", [("a\nb\n", "")]),
        (": ping\n\n:\n\ndata: a\n: between\ndata: b\n\n", [("a\nb", "")]),
        ("event: error\ndata: a\n\ndata: b\n\n", [("a", "error"), ("b", "")]),
        ("event: ping\n\ndata: a\n\n", [("a", "")]),
        ("data:\n\ndata\n\n\n\ndata: a\n\n", [("a", "")]),
        ("id: 1\nretry: 500\nnonsense: x\nnonsense\ndata: a\n\n", [("a", "")]),
        ("data: a\n\ndata: [DONE]", [("a", ""), ("[DONE]", "")]),
        ("data: a", [("a", "")]),
        ("error: {}\n\n", [("{}", "error")]),
        ("", []),
        ("\n\r\n\r", []),
    ],
)
def test_c18_server_sent_events(body, wanted):
    data = body.encode()
    assert [(frame.data, frame.event) for frame in frames(SseEvents(), [data])] == wanted
    assert [(f.data, f.event) for f in frames(SseEvents(), [data[i : i + 1] for i in range(len(data))])] == wanted


def test_an_event_is_out_as_soon_as_its_last_byte_is_in():
    splitter = SseEvents()
    assert [frame.data for frame in splitter.feed(b"data: a\r\r")] == ["a"]
    assert list(splitter.feed(b"data: b\r")) == []
    assert [frame.data for frame in splitter.feed(b"\n\r")] == ["b"]


BYTES = st.binary(max_size=60) | st.lists(
    st.sampled_from([b"data: x", b"\r", b"\n", b"\r\n", b":", b"event: e", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"{}"]),
    max_size=14,
).map(b"".join)


@given(BYTES, st.lists(st.integers(0, 60), max_size=6))
@example(b"data: a\r\n\r\n", [8, 9, 10])
@example(b"\n\xef\xbb\xbf", [1])
def test_c14_where_a_stream_is_torn_makes_no_difference(body, cuts):
    borders = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[a:b] for a, b in pairwise(borders)]
    for kind in (NdjsonLines, SseEvents):
        assert frames(kind(), chunks) == frames(kind(), [body])


@pytest.mark.parametrize("kind", [NdjsonLines, SseEvents])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_c20_limits(kind, size):
    def cut(body: bytes) -> list[bytes]:
        return [body[at : at + size] for at in range(0, len(body), size)]

    assert frames(kind(100, 1000), cut(b"data: " + b"x" * 90 + b"\n\n"))
    with pytest.raises(FrameTooLarge, match="line"):
        frames(kind(100, 1000), cut(b"x" * 101))
    with pytest.raises(FrameTooLarge, match="line"):
        frames(kind(100, 1000), cut(b"x" * 101 + b"\n"))
    with pytest.raises(FrameTooLarge, match="reply"):
        frames(kind(100, 1000), cut(b"data: x\n" * 200 if kind is NdjsonLines else b"data: x\n\n" * 200))


def test_c20_an_event_of_many_lines_is_limited_too():
    with pytest.raises(FrameTooLarge, match="event"):
        frames(SseEvents(100, 10_000), [b"data: 123456789\n" * 20])


def test_frames_before_a_line_too_long_are_not_lost():
    seen = []
    with pytest.raises(FrameTooLarge):
        for frame in NdjsonLines(10, 1000).feed(b"one\ntwo\n" + b"x" * 11):
            seen.append(frame.data)
    assert seen == ["one", "two"]


# --- JSON -----------------------------------------------------------------------------------


def test_c22_values_that_could_not_be_written_again_are_changed():
    value = read_json('{"a": NaN, "b": -Infinity, "c": 12345678901234567890123, "d": "\\ud800x\\udc00", "e": 12}')
    assert value == {"a": None, "b": None, "c": 12345678901234567890123, "d": "\ufffdx\ufffd", "e": 12}
    assert read_json('"\\ud83d\\ude00"') == "😀"
    assert read_json('{"a": 1, "a": 2}') == {"a": 2}
    for digits in (18, 20, 41, 400, 5000):
        assert msgspec.json.encode(read_json("-" + "9" * digits))


@pytest.mark.parametrize(
    "text", ["", "{", "nope", '{"a": }', "[1,]", "{'a': 1}", '{"a": 1} x', "[" * 100_000, '{"a":' * 70 + "1" + "}" * 70]
)
def test_c22_garbage_is_unreadable_and_nothing_worse(text):
    with pytest.raises(InvalidJson):
        read_json(text)


def test_depth_up_to_the_limit_is_read():
    assert read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(InvalidJson, match="nested"):
        read_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert read_json(json.dumps({"text": "[" * 500, "many": [[]] * 500}))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_json_round_trip(value):
    assert read_json(json.dumps(value)) == repair_surrogates(value)

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.lsp.connection import MAX_BODY, MAX_FAULTS, MAX_NOISE, FramingError, MessageDecoder, encode_message

HELLO = {"id": 1, "result": "😀 hello"}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
messages = st.dictionaries(st.text(min_size=1, max_size=8), values, min_size=1, max_size=4)


@given(st.lists(messages, max_size=5), st.integers(1, 40))
@settings(max_examples=100)
def test_messages_in_arbitrary_chunks(sent: list[dict[str, Any]], size: int) -> None:
    data = b"".join(encode_message(message) for message in sent)
    framing = MessageDecoder()
    got = [one for at in range(0, len(data), size) for one in framing.feed(data[at : at + size])]
    assert got == sent


@given(st.binary(max_size=300), st.integers(1, 50))
@settings(max_examples=150)
def test_message_after_noise(noise: bytes, size: int) -> None:
    data = noise + b"\n" + encode_message(HELLO)
    framing = MessageDecoder()
    for at in range(0, len(data), size):
        framing.feed(data[at : at + size])  # raises nothing
    if b"ength" not in noise.lower():
        assert MessageDecoder().feed(data) == [HELLO]


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc\r\nContent-Length: %d\r\n\r\n",
        b"content-length:%d\r\n\r\n",
        b"Content-Length: %d\n\n",
    ],
)
def test_headers_as_servers_write_them(header: bytes) -> None:
    body = json.dumps(HELLO).encode()
    assert MessageDecoder().feed((header % len(body) + body) * 2) == [HELLO, HELLO]


@pytest.mark.parametrize("length", [1, 5, 20, 27, 60, 100, 150])
def test_after_a_wrong_length_the_next_messages_are_read_again(length: int) -> None:
    body = json.dumps({"method": "x", "params": "y" * 20}).encode()
    bad = b"Content-Length: %d\r\n\r\n" % length + body
    got = MessageDecoder().feed(bad + encode_message(HELLO) * 3)
    assert got[-1] == HELLO
    assert len(got) >= 2


@pytest.mark.parametrize(
    ("head", "tail", "number"),
    [
        ('{"jsonrpc": "2.0", "id": 7, "result": "', '"}', 7),
        ('{"id":7,"jsonrpc":"2.0","error":{"data":"', '"}}', 7),
        ('{"jsonrpc":"2.0","result":[{"id":3,"t":"', '","id":4}],"id":7}', 7),
        ('{"result":{"id":3,"t":"', '"},"id":7,"jsonrpc":"2.0"}\n', 7),
        ('{"result":{"t":"', '","id":3}}', None),
        ('{"jsonrpc":"2.0","id":7,"method":"workspace/applyEdit","params":"', '"}', None),
        ('{"jsonrpc":"2.0","method":"window/logMessage","params":{"id":7,"message":"', '"}}', None),
        ('{"method":"a","params":"', '","id":7}', None),
    ],
)
@pytest.mark.parametrize("step", [700, 1 << 20])
def test_too_large_reply_is_skipped_and_becomes_an_error(head: str, tail: str, number: int | None, step: int) -> None:
    framing = MessageDecoder()
    body = head.encode() + b"x" * MAX_BODY + tail.encode()
    data = b"Content-Length: %d\r\n\r\n" % len(body) + body + encode_message(HELLO)
    early = data[: 60 * step]
    got = [one for at in range(0, len(early), step) for one in framing.feed(early[at : at + step])]
    late = data[60 * step : -600] if step < 1 << 20 else b""
    got += framing.feed(late)
    rest = data[len(early) + len(late) :]
    got += [one for at in range(0, len(rest), 100) for one in framing.feed(rest[at : at + 100])]
    assert [one["id"] for one in got] == [1] if number is None else [number, 1]
    assert got[-1] == HELLO
    assert number is None or "bytes" in got[0]["error"]["message"]


def test_too_much_noise_or_too_many_faults_raise() -> None:
    framing = MessageDecoder()
    with pytest.raises(FramingError):
        for _ in range(MAX_NOISE // 1_000 + 2):
            framing.feed(b"x" * 1_000)
    framing = MessageDecoder()
    with pytest.raises(FramingError):
        for _ in range(MAX_FAULTS + 1):
            framing.feed(b"Content-Length: 3\r\n\r\n{]}")
    assert MessageDecoder().feed(b"Content-Length: 2\r\n\r\n[]" + encode_message(HELLO)) == [HELLO]


def test_endless_header_is_skipped() -> None:
    framing = MessageDecoder()
    assert framing.feed(b"Content-Length: 10\r\n" + b"X-Odd: 1\r\n" * 2_000 + encode_message(HELLO)) == [HELLO]

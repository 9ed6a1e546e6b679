from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.asking import DONE, ollama_line, stream_chunk
from tests.models.test_openai import QUIRKS
from tui_agent.models.base import CallReady, Failed, ReasoningFragment, ReplyPart, Stop, TextFragment, UsageReport
from tui_agent.models.decoding import Decoder
from tui_agent.models.faults import Peer
from tui_agent.models.framing import NdjsonLines, SseEvents
from tui_agent.models.ollama import OllamaDecoder
from tui_agent.models.openai_decoder import OpenAIDecoder

PEER = Peer(provider="openai", address="http://x", model="m")
OLLAMA: Callable[[], Decoder] = lambda: OllamaDecoder(PEER)  # noqa: E731 # a factory in one line
OPENAI: Callable[[], Decoder] = lambda: OpenAIDecoder(PEER)  # noqa: E731 # as above


def read(decoder: Decoder, chunks: Sequence[bytes]) -> list[ReplyPart]:
    decoder.check_content_type("")
    pieces = [piece for chunk in [*chunks, None] for piece in decoder.feed(chunk)]
    return [_without_made_ids(piece) for piece in _joined(pieces)]


def _joined(pieces: list[ReplyPart]) -> list[ReplyPart]:
    """The pieces, neighboring fragments of text as one: how many there are depends on the chunks."""
    out: list[ReplyPart] = []
    for piece in pieces:
        last = out[-1] if out else None
        if isinstance(piece, TextFragment | ReasoningFragment) and isinstance(last, type(piece)):
            out[-1] = type(piece)(text=last.text + piece.text)
        else:
            out.append(piece)
    return out


def _without_made_ids(piece: ReplyPart) -> ReplyPart:
    if isinstance(piece, CallReady) and piece.call.id.startswith("call_"):
        return CallReady(call=msgspec.structs.replace(piece.call, id="made"))
    return piece


def lines(*values: object) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


def events(*values: object, end: str = "\n") -> bytes:
    texts = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values)
    return "".join(f"data: {text}{end}{end}" for text in texts).encode()


WORDS = ["plain", "é漢字", "👩‍👩‍👧", "a\u2028b\u0085c", "tab\tline\n", "", '"quoted" \\ {', "\ufeff"]
END = stream_chunk("stop"), {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}, "[DONE]"


def recorded() -> list[tuple[str, bytes]]:
    """A hundred streams of both kinds, well-formed and not."""
    out: list[tuple[str, bytes]] = []
    for word in WORDS:
        out.append(("ollama", lines(ollama_line(thinking=word), ollama_line(word), ollama_line(word), DONE)))
        out.append(("ollama", lines(ollama_line(word), {"error": word or "x"})))
        out.append(("ollama", lines(ollama_line(word))[:-9]))
        for end in ("\n", "\r\n", "\r"):
            out.append(("openai", b": ping" + end.encode() + events(stream_chunk(content=word), *END, end=end)))
            out.append(("openai", events(stream_chunk(reasoning=word), stream_chunk(content=word), end=end)))
            out.append(("openai", events(stream_chunk(content=word), *END, end=end).rstrip()))
    for chunks, _ in QUIRKS.values():
        out.append(("openai", events(*(stream_chunk(tool_calls=chunk) for chunk in chunks), *END)))
    call = {"function": {"name": "f", "arguments": {"a": "漢"}}}
    out.append(("ollama", lines(ollama_line(tool_calls=[call, call]), ollama_line(tool_calls=[call], done=True))))
    out.append(("openai", "\ufeff".encode() + events(stream_chunk(content="x"), {"error": {"message": "é"}})))
    out.append(("ollama", b"\xff\xfe{}\n" + lines(DONE)))
    return out


STREAMS = recorded()


def test_there_are_a_hundred_recorded_streams():
    assert len(STREAMS) >= 100


@pytest.mark.parametrize("at", range(len(STREAMS)))
def test_c14_every_split_point_gives_the_same_pieces(at):
    kind, body = STREAMS[at]
    make, splitter = (OLLAMA, NdjsonLines) if kind == "ollama" else (OPENAI, SseEvents)
    whole = read(make(), [body])
    assert isinstance(whole[-1], (Stop, Failed))
    assert read(make(), [body[i : i + 1] for i in range(len(body))]) == whole
    for split in range(0, len(body), 1 if at % 10 == 0 else 7):
        assert read(make(), [body[:split], body[split:]]) == whole
    once = splitter()
    frames = [*once.feed(body), *once.flush()]
    for split in range(len(body)):
        torn = splitter()
        assert [*torn.feed(body[:split]), *torn.feed(body[split:]), *torn.flush()] == frames


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "message",
                    "content",
                    "thinking",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "index",
                    "done",
                    "done_reason",
                    "error",
                    "choices",
                    "delta",
                    "finish_reason",
                    "usage",
                    "prompt_tokens",
                    "timings",
                    "prompt_progress",
                    "total",
                    "processed",
                    "reasoning_details",
                    "eval_count",
                    "function_call",
                    "code",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(JSON, max_size=5))
def test_no_json_whatever_breaks_a_decoder(values):
    for make, body in ((OLLAMA, lines(*values)), (OPENAI, events(*values)), (OPENAI, events({"choices": values}))):
        pieces = read(make(), [body])
        assert isinstance(pieces[-1], (Stop, Failed))
        assert sum(isinstance(piece, (Stop, Failed)) for piece in pieces) == 1
        msgspec.json.encode(pieces)  # all of it can be journaled


@settings(max_examples=150)
@given(st.binary(max_size=80))
def test_no_bytes_whatever_break_a_decoder(body):
    for make in (OLLAMA, OPENAI):
        assert isinstance(read(make(), [body])[-1], (Stop, Failed))


@pytest.mark.parametrize("count", [-1, -1e9, 1e300, "7", True, [], float("nan")])
def test_c34_absurd_counts_are_unknown(count):
    for make, body in (
        (OLLAMA, lines(ollama_line("x"), ollama_line(done=True, eval_count=count, prompt_eval_count=count))),
        (
            OPENAI,
            events(stream_chunk("stop") | {"usage": {"prompt_tokens": count, "completion_tokens": count}}, "[DONE]"),
        ),
    ):
        assert not [piece for piece in read(make(), [body]) if isinstance(piece, UsageReport)]


def test_c23_two_hundred_calls():
    entry = [{"index": i, "id": f"c{i}", "function": {"name": "f", "arguments": "{}"}} for i in range(200)]
    pieces = read(OPENAI(), [events(stream_chunk(tool_calls=entry), "[DONE]")])
    assert len([piece for piece in pieces if isinstance(piece, CallReady)]) == 200


def test_arguments_beyond_their_limit_are_a_fault_of_the_call():
    part = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "x" * 500_000}}
    pieces = read(OPENAI(), [events(stream_chunk(tool_calls=[part])) * 10 + events("[DONE]")])
    (call,) = [piece.call for piece in pieces if isinstance(piece, CallReady)]
    assert call.fault is not None and "4,194,304" in call.fault


def test_a_name_repeated_with_every_fragment_stays_cheap():
    parts = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}} for _ in range(20_000)]
    body = events(*(stream_chunk(tool_calls=parts[at : at + 100]) for at in range(0, 20_000, 100)), "[DONE]")
    assert isinstance(read(OPENAI(), [body])[-1], Stop)

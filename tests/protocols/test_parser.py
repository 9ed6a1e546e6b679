from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpora_adapters import parse_tool_calls, parse_tool_calls_stream
from tests.nightly import sampled
from tests.protocols.replies import REPLIES, TOOLS, Reply


def squeezed(text: object) -> str:
    return " ".join(str(text).split())


def check(reply: Reply, got: dict[str, object]) -> None:
    assert got["calls"] == [{"name": name, "args": arguments} for name, arguments in reply.calls]
    if reply.left is not None:
        assert squeezed(got["text"]) == squeezed(reply.left)
    if reply.error is not None:
        assert got["error"] is reply.error


@pytest.mark.parametrize("name", REPLIES)
def test_replies(name: str) -> None:
    check(REPLIES[name], parse_tool_calls(REPLIES[name].text, TOOLS))


@pytest.mark.parametrize("size", sampled([1, 2, 3, 5, 7, 16, 33], (1, 5)))
def test_replies_in_pieces(size: int) -> None:
    assert [name for name in REPLIES if not same_in_pieces(REPLIES[name].text, size)] == []


def same_in_pieces(text: str, size: int) -> bool:
    whole = parse_tool_calls(text, TOOLS)
    cut = parse_tool_calls_stream([text[at : at + size] for at in range(0, len(text), size)], TOOLS)
    late = any(end in text for end in ("</think>", "[/THINK]")) and "<think" not in text
    return all(cut[key] == whole[key] for key in ("calls", "error", *(() if late else ("text",))))


CORPUS = json.loads((Path(__file__).parents[1] / "corpora" / "toolcalls.json").read_text(encoding="utf-8"))["cases"]


def expanded(text: Any) -> str:
    if isinstance(text, dict):
        return "".join(piece * count for piece, count in text["gen"])
    return str(text)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case["id"])
def test_corpus(case: dict[str, Any]) -> None:
    text, tools = expanded(case["text"]), case["known_tools"]
    for got in (
        parse_tool_calls(text, tools),
        parse_tool_calls_stream(list(text), tools),
        parse_tool_calls_stream([text[at : at + 5] for at in range(0, len(text), 5)], tools),
    ):
        expect = case["expect"]
        assert got["calls"] == expect["calls"]
        if "text" in expect:
            assert squeezed(got["text"]) == squeezed(expect["text"])
        if "error" in expect:
            assert got["error"] is expect["error"]

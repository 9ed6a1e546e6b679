from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocols.replies import CALL, REPLIES, TOOLS, XML
from tui_agent.common.domain import ToolSpec
from tui_agent.protocols.parser import ReplyParser, parse_reply

OFFERED = [ToolSpec(name=name, description="", parameters={}) for name in TOOLS]
BITS = st.sampled_from(
    [
        "{", "}", "[", "]", '"', "'", "`", "```", "```json\n", "\n", " ", ",", ":", "\\", "a", "name", '"name": "bash"',
        '"arguments": {', CALL, XML, "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<think>", "</think>", "[TASK_COMPLETE]",
        "<function=bash>", "<parameter=command>", "</parameter>", "</function>", '{"tool_calls": [', '{"response": "', "bash",
        "<|channel|>", "<|message|>", "[bash(", "//", "/*", "*/", "1", "e5",
        "<tool_response>", "</tool_response>", "<|im_start|>", "<|im_start|>user\n", "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>", "function<｜tool▁sep｜>bash\n", "<｜tool▁call▁end｜>", "<|tool_call_begin|>",
        "functions.bash:0", "<|tool_call_argument_begin|>", "```tool_code\n", 'bash(command="ls")', "<tool_code>",
        '<｜DSML｜invoke name="bash">', "</｜DSML｜invoke>", "<|", "｜>", "[/THINK]", "```tool_outputs\n",
        "true", "é", "😀", "<", "text ",
    ]
)  # fmt: skip
TEXTS = st.lists(BITS, max_size=14).map("".join)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


@given(
    st.one_of(TEXTS, st.sampled_from([reply.text for reply in REPLIES.values()])),
    st.lists(st.integers(0, 400), max_size=30),
)
@settings(max_examples=150, deadline=None)
def test_any_cut_gives_the_same(text: str, cuts: list[int]) -> None:
    whole = parse_reply(text, OFFERED)
    stream = ReplyParser(OFFERED)
    shown = [stream.feed(piece) for piece in pieces(text, cuts)]
    rest, parsed = stream.finish()
    assert parsed == whole
    if "</think>" not in text and "[/THINK]" not in text:
        assert "".join(shown) + rest == whole.text


@given(TEXTS)
@settings(max_examples=120, deadline=None)
def test_bare_json_calls_only_what_is_offered(text: str) -> None:
    tools = [ToolSpec(name="other", description="", parameters={})]
    markup = ("<tool", "[TOOL_CALLS]", "tool_calls", "<function=", "<|channel|>", "tool_call", "｜", "_code")
    if not any(one in text for one in markup):
        assert parse_reply(text, tools).calls == ()


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=100, deadline=None)
def test_content_arrives_as_it_was_written(path: str, content: str) -> None:
    arguments = {"path": path, "content": content + XML + CALL}
    body = json.dumps({"name": "write_file", "arguments": arguments})
    for text in (body, f"<tool_call>{body}</tool_call>", f'{{"tool_calls": [{body}]}}', f"```json\n{body}\n```"):
        (call,) = parse_reply(text, OFFERED).calls
        assert call.arguments == arguments


@pytest.mark.parametrize(
    "name", [name for name, reply in REPLIES.items() if reply.left == "" and reply.calls and "lone" not in name]
)
def test_markup_never_flashes(name: str) -> None:
    stream = ReplyParser(OFFERED)
    assert "".join(stream.feed(sign) for sign in REPLIES[name].text) == ""


def test_text_is_shown_as_soon_as_it_is_sure() -> None:
    stream = ReplyParser(OFFERED)
    assert stream.feed("Look at a <b") == "Look at a <b"
    assert stream.feed(" and [TASK_") == " and"
    assert stream.feed("LIST] x") == " [TASK_LIST] x"
    assert stream.feed("\n<tool_") == ""
    assert stream.feed(f"call>{CALL}</tool_call> then") == "\n then"


@pytest.mark.parametrize("protocol", ["native", "json", "xml"])
def test_what_came_in_its_own_form_is_not_recovered(protocol: str) -> None:
    forms = {"json": f'{{"tool_calls": [{CALL}]}}', "xml": XML, "native": CALL}
    for form, text in forms.items():
        (call,) = parse_reply(text, OFFERED, protocol=protocol).calls  # type: ignore[arg-type]  # the names are the literals
        assert call.recovered is not (form == protocol and protocol != "native")


def test_depth_is_bounded() -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    parsed = parse_reply(f'<tool_call>{{"name": "bash", "arguments": {deep}}}</tool_call>', OFFERED)
    assert all(call.fault for call in parsed.calls)
    assert "deeper than 64" in parsed.error


def test_size_is_bounded() -> None:
    long = json.dumps({"name": "bash", "arguments": {"command": "x" * (4 * 1024 * 1024)}})
    parsed = parse_reply(f"<tool_call>{long}</tool_call>", OFFERED)
    assert all(call.fault for call in parsed.calls)
    assert "longer than" in parsed.error


def test_numbers_of_absurd_length() -> None:
    (call,) = parse_reply(f'{{"name": "bash", "arguments": {{"n": {"9" * 5000}, "m": 1e400}}}}', OFFERED).calls
    assert call.arguments == {"n": None, "m": None}

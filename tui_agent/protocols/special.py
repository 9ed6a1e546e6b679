"""Special tokens of chat templates in a reply's text: which begin a call, which a turn that is not the model's own."""

from __future__ import annotations

import itertools
import re
from typing import Literal

import msgspec

from tui_agent.protocols.pieces import mentioned, quoted

Kind = Literal["old", "text", "drop", "call", "result", "turn"]
"""One that the segmenter knows by itself, a mention, one without meaning for the text, the beginning of a call, of a
tool's result, of a turn of the user."""

TOKEN = r"<[|｜][A-Za-z][\w▁ \\]{0,40}[|｜]>"
"""A token between pipes; DeepSeek's pipes are U+FF5C and its blanks U+2581, or what servers make of them."""
PLAIN = (
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|end|>", "<|return|>",
    "<|python_tag|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
    "<|tool_call|>", "<|/tool_call|>", "<|tool_call_start|>", "<|tool_call_end|>", "</s>",
    "<|START_ACTION|>", "<|END_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
)  # fmt: skip
"""Tokens that are left out wherever they stand, or that the segmenter reads by itself."""
OTHERS = ("<start_of_turn>", "<end_of_turn>", "[TOOL_RESULTS]", "[INST]")
"""Tokens without pipes: Gemma, Mistral."""
OPEN = r"</?[|｜](?:[A-Za-z/][\w▁ \\]{0,40}[|｜]?|DSML[|｜][^<>\n]{0,150})?\Z"
"""The beginning of a token at the end of a text."""
DSML = r"</?[|｜]DSML[|｜][A-Za-z_]{1,24}(?:\s[^<>\n]{0,120})?>"
"""A tag of DeepSeek V3.2."""

_PLAIN = frozenset(map(str.lower, PLAIN))
_CALLS = frozenset(
    ["tool_calls_begin", "tool_call_begin", "tool_calls_section_begin", "tool_call_section_begin"]
)
_RESULTS = frozenset(
    ["tool_outputs_begin", "tool_output_begin", "tool_response", "tool_responses", "tool_response_start",
     "tool_result", "tool_results", "tool_results_begin", "start_tool_result", "start_tool_results", "tool_output",
     "tool_outputs", "observation", "tool", "ipython"]
)  # fmt: skip
_TURNS = frozenset(["user", "system", "human", "im_user", "im_system", "user_token", "system_token", "inst"])
_OWN = frozenset(
    ["assistant", "im_assistant", "im_middle", "chatbot_token", "end_of_turn", "end_of_turn_token",
     "start_of_turn_token", "end_header_id", "end_of_role", "begin_of_text", "tool_response_end", "tool_sep"]
)  # fmt: skip
_NAMED = frozenset(["im_start", "start_header_id", "start_of_role", "start_of_turn"])
_PART = re.compile(r"tool_\w*(?:begin|end|sep)")
_ROLE = re.compile(r"\s{0,4}(?P<role>[A-Za-z_]{1,24})(?:<\|end_(?:header_id|of_role)\|>)?\s?")
_TOOL_ROLES = frozenset(
    ["tool", "tools", "ipython", "observation", "function", "tool_response", "environment"]
)
_START = re.compile(r"<\|start\|>\s{0,4}(?P<who>[^<]{1,80})<\|(?:channel|message|constrain)\|>")
_START_CUT = re.compile(r"<\|start\|>[^<]{0,84}(?:<\|?[a-z]{0,10}\|?)?\Z")
_SAYS_RESULT = re.compile(
    r"(?:tool|function)[ _-]{0,2}(?:call )?(?:responses?|results?|outputs?)", re.IGNORECASE
)

_BLANK = r"(?:[▁_ ]|\\_)"


def _spelt(words: str) -> str:
    return r"<[|｜]" + words.replace("_", _BLANK) + r"[|｜]>"


CALL_END = _spelt("tool_call_end")
_HEAD = re.compile(
    rf"(?:{_spelt('tool_calls(?:_section)?_begin')}|{_spelt('tool_call_section_begin')})?\s{{0,16}}"
    rf"(?:{_spelt('tool_call_begin')}\s{{0,16}})?"
    rf"(?P<first>[\w.:\-]{{0,80}})\s{{0,16}}"
    rf"(?P<sep>{_spelt('tool_sep')}\s{{0,16}}(?P<second>[\w.:\-]{{0,80}})\s{{0,16}}"
    rf"|{_spelt('tool_call_argument_begin')}\s{{0,16}})?"
    rf"(?P<ends>{CALL_END})?",
    re.IGNORECASE,
)
ENDS = re.compile(r"<[|｜]tool[^<>\n]{0,40}[|｜]>|<[|｜](?:im_end|end[^<>\n]{0,20})[|｜]>", re.IGNORECASE)
"""Where a call ends at the latest whose arguments can't be read."""
SECTION = re.compile(
    rf"(?:{_spelt('tool_calls(?:_section)?_begin')}|{_spelt('tool_call_section_begin')})\s{{0,16}}<",
    re.IGNORECASE,
)
"""The beginning of a section that another token follows."""
_TOKEN_CUT = re.compile(r"<(?:[|｜][A-Za-z▁_ \\]{0,40}[|｜]?)?\Z")
CLOSERS = tuple(
    f"<{pipe}tool{blank}call{blank}end{pipe}>"
    for pipe, blank in itertools.product("|｜", ["▁", "_", " ", "\\_"])
)
"""The ends of a call, in small letters."""
LONGEST_HEAD = 320


class Meaning(msgspec.Struct, frozen=True):
    """What a token says and where what belongs to it ends."""

    kind: Kind
    end: int


class Head(msgspec.Struct, frozen=True):
    """The beginning of a call in tokens, up to its arguments."""

    name: str
    end: int
    status: Literal["more", "call", "whole", "odd", "none"]
    """It is not all there; arguments follow; there are none, and the call ends here; what follows is no JSON; it is no
    call."""


def meaning(text: str, found: re.Match[str], final: bool, *, behind: bool) -> Meaning | None:
    """What the token says; None while that is open. `behind`: other markup stands right before it."""
    start, end = found.span()
    token = found.group()
    name = re.sub(r"[▁ \\_]+", "_", token.strip("<>|｜[]")).lower()
    if name == "start":
        return _harmony(text, start, final)
    if token.lower() in _PLAIN:
        return Meaning("old", end)
    spoken = mentioned(text, start) and not behind
    if quoted(text, start):
        return _in_code(text, start, end, final)
    if name in _CALLS:
        return Meaning("call", end)
    if name in _NAMED:
        return _named(text, end, final, spoken)
    if name in _RESULTS or name in _TURNS:
        if end == len(text) and not final:
            return None
        if spoken and text[end : end + 1] not in ("\r", "\n"):
            return Meaning("text", end)
        return Meaning("result" if name in _RESULTS else "turn", end)
    drop = name in _OWN or "｜" in token or _PART.fullmatch(name)
    return Meaning("drop" if drop else "text", end)


def _in_code(text: str, start: int, end: int, final: bool) -> Meaning | None:
    """A token in quotes is text, and so are those that stand behind it between the same backticks."""
    if text[start - 1] != "`":
        return Meaning("text", end)
    rest = text[end : end + LONGEST_HEAD]
    if "`" not in rest and "\n" not in rest and len(rest) < LONGEST_HEAD and not final:
        return None
    line = rest.partition("\n")[0]
    return Meaning("text", end + (line.index("`") if "`" in line else 0))


def _named(text: str, end: int, final: bool, spoken: bool) -> Meaning | None:
    """A token behind which the name of a role stands."""
    role = _ROLE.match(text, end)
    if (role is None or role.end() == len(text)) and len(text) - end < 64 and not final:
        return None
    if role is None:
        return Meaning("text" if spoken else "drop", end)
    if spoken and not role.group().endswith("\n"):
        return Meaning("text", end)
    who = role["role"].lower()
    if who in ("assistant", "model", "chatbot"):
        return Meaning("drop", role.end())
    return Meaning("result" if who in _TOOL_ROLES else "turn", role.end())


def _harmony(text: str, start: int, final: bool) -> Meaning | None:
    head = _START.match(text, start)
    if head is None:
        undecided = not final and _START_CUT.match(text, start)
        return None if undecided else Meaning("old", start + len("<|start|>"))
    who = head["who"].strip().lower()
    if who.startswith("assistant"):
        return Meaning("old", start + len("<|start|>"))
    tool = who.startswith(("functions", "tool")) or "to=assistant" in who
    return Meaning("result" if tool else "turn", head.end())


def says_result(text: str, place: int) -> bool:
    """Whether a turn that begins at `place` holds the result of a tool."""
    return _SAYS_RESULT.search(text, place, place + 200) is not None


def head_of(text: str, start: int, final: bool) -> Head:
    """The head of the call whose tokens begin at `start`."""
    found = _HEAD.match(text, start)
    assert found is not None  # it can match nothing
    first, second, end = found["first"], found["second"] or "", found.end()
    name = second if first.lower() in ("", "function") else first
    follows = text[end : end + 1]
    if found["ends"]:
        return Head(name, end, "whole" if name else "none")
    if follows in ("{", "[", "`"):
        return Head(name, end, "call")
    if not final and end - start < LONGEST_HEAD and (not follows or _TOKEN_CUT.match(text, end)):
        return Head(name, end, "more")
    if name and found["sep"]:
        return Head(name, found.start("second") if second and name != second else end, "odd")
    return Head(name, end, "none")

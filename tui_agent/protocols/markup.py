"""The marks by which parts of a reply begin: tags, special tokens of chat templates, signals, fences."""

from __future__ import annotations

import itertools
import re
from typing import Literal

import msgspec

from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "markup")

SegmentKind = Literal[
    "text",
    "thought",
    "done",
    "value",
    "wrapper",
    "function",
    "python",
    "broken",
    "fence",
    "closer",
    "unopened",
    "code",
    "invented",
]
"""Text and thoughts to show, the signal of completion, JSON without markup, markup with JSON in it, markup with tags in
it, calls as Python, markup with nothing readable in it, a fence around others, a closing tag without its opening one,
the end of a thought whose beginning never came, a block of Python whose calls are meant, the beginning of what the
model wrote in the name of a tool or the user: nothing behind it counts."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One part, with the text that it was cut from."""

    kind: SegmentKind
    raw: str
    bodies: tuple[str, ...] = ()
    """The JSON texts, or the markup's inside."""
    name: str = ""
    """The tool that the markup itself names."""
    parts: tuple[Segment, ...] = ()
    """What a fence holds."""
    tag: str = ""
    """The markup's tag: `tool_call`, `function`, `[TOOL_CALLS]`, `harmony`; `result` or `turn` of what was invented."""

    @property
    def is_text(self) -> bool:
        """Whether it belongs to what the model says or calls, and is neither a thought nor a mark."""
        if self.kind == "done":
            return self.tag != "thought"
        return self.kind not in ("thought", "unopened", "invented")


def is_at_line_start(text: str, place: int) -> bool:
    """Whether only blanks stand before `place` in its line."""
    head = text[max(0, place - 64) : place]
    return head.rpartition("\n")[2].strip() == "" and ("\n" in head or place <= 64)


def is_quoted(text: str, place: int) -> bool:
    """Whether a quote or a bracket stands right before `place`; the mark of a fence is none."""
    return place > 0 and text[place - 1] in "`\"'(«“‘" and text[max(0, place - 3) : place] != "```"


def is_mentioned(text: str, place: int) -> bool:
    """Whether markup at `place` is spoken of: in quotes, or as a word within a sentence."""
    within = text[place - 1 : place] in (" ", "\t") and not is_at_line_start(text, place)
    return within or is_quoted(text, place)


COMPLETE = "[TASK_COMPLETE]"
"""The model claims that its task is done."""


def beginning_at(text: str) -> int:
    """Where in the end of `text` a signal may have begun; the length of the text where none has."""
    at = text.find("[", max(0, len(text) - len(COMPLETE) + 1))
    while at >= 0:
        if COMPLETE.startswith(text[at:].upper()):
            return at
        at = text.find("[", at + 1)
    return len(text)


def without_signals(text: str, *, torn: bool = False) -> str:
    """The text without signals; with `torn`, without the beginning of one at its end too."""
    stripped = _RE.complete.sub("", text)
    return _RE.torn.sub("", stripped) if torn else stripped


TokenKind = Literal["old", "text", "drop", "call", "result", "turn"]
"""One that the segmenter knows by itself, a mention, one without meaning for the text, the beginning of a call, of a
tool's result, of a turn of the user."""

PLAIN = (
    "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|end|>", "<|return|>",
    "<|python_tag|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
    "<|tool_call|>", "<|/tool_call|>", "<|tool_call_start|>", "<|tool_call_end|>", "</s>",
    "<|START_ACTION|>", "<|END_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
)  # fmt: skip
"""Tokens that are left out wherever they stand, or that the segmenter reads by itself."""
OTHERS = ("<start_of_turn>", "<end_of_turn>", "[TOOL_RESULTS]", "[INST]")
"""Tokens without pipes: Gemma, Mistral."""


CLOSERS = tuple(
    f"<{pipe}tool{blank}call{blank}end{pipe}>" for pipe, blank in itertools.product("|｜", ["▁", "_", " ", "\\_"])
)
"""The ends of a call, in small letters."""
LONGEST_HEAD = 320


class TokenMeaning(msgspec.Struct, frozen=True):
    """What a token says and where what belongs to it ends."""

    kind: TokenKind
    end: int


class TokenCall(msgspec.Struct, frozen=True):
    """The beginning of a call in tokens, up to its arguments."""

    name: str
    end: int
    status: Literal["more", "call", "whole", "odd", "none"]
    """It is not all there; arguments follow; there are none, and the call ends here; what follows is no JSON; it is no
    call."""


def token_meaning(text: str, found: re.Match[str], final: bool, *, behind: bool) -> TokenMeaning | None:
    """What the token says; None while that is open. `behind`: other markup stands right before it."""
    start, end = found.span()
    token = found.group()
    name = re.sub(r"[▁ \\_]+", "_", token.strip("<>|｜[]")).lower()
    if name == "start":
        return _harmony(text, start, final)
    if token.lower() in _PLAIN:
        return TokenMeaning("old", end)
    spoken = is_mentioned(text, start) and not behind
    if is_quoted(text, start):
        return _in_code(text, start, end, final)
    if name in _RE.words("calls"):
        return TokenMeaning("call", end)
    if name in _RE.words("named"):
        return _named(text, end, final, spoken)
    if name in _RE.words("results") or name in _RE.words("turns"):
        if end == len(text) and not final:
            return None
        if spoken and text[end : end + 1] not in ("\r", "\n"):
            return TokenMeaning("text", end)
        return TokenMeaning("result" if name in _RE.words("results") else "turn", end)
    drop = name in _RE.words("own") or "｜" in token or _RE.part.fullmatch(name)
    return TokenMeaning("drop" if drop else "text", end)


def _in_code(text: str, start: int, end: int, final: bool) -> TokenMeaning | None:
    """A token in quotes is text, and so are those that stand behind it between the same backticks."""
    if text[start - 1] != "`":
        return TokenMeaning("text", end)
    rest = text[end : end + LONGEST_HEAD]
    if "`" not in rest and "\n" not in rest and len(rest) < LONGEST_HEAD and not final:
        return None
    line = rest.partition("\n")[0]
    return TokenMeaning("text", end + (line.index("`") if "`" in line else 0))


def _named(text: str, end: int, final: bool, spoken: bool) -> TokenMeaning | None:
    """A token behind which the name of a role stands."""
    role = _RE.role.match(text, end)
    if (role is None or role.end() == len(text)) and len(text) - end < 64 and not final:
        return None
    if role is None:
        return TokenMeaning("text" if spoken else "drop", end)
    if spoken and not role.group().endswith("\n"):
        return TokenMeaning("text", end)
    who = role["role"].lower()
    if who in ("assistant", "model", "chatbot"):
        return TokenMeaning("drop", role.end())
    return TokenMeaning("result" if who in _RE.words("tool_roles") else "turn", role.end())


def _harmony(text: str, start: int, final: bool) -> TokenMeaning | None:
    head = _RE.start.match(text, start)
    if head is None:
        undecided = not final and _RE.start_cut.match(text, start)
        return None if undecided else TokenMeaning("old", start + len("<|start|>"))
    who = head["who"].strip().lower()
    if who.startswith("assistant"):
        return TokenMeaning("old", start + len("<|start|>"))
    tool = who.startswith(("functions", "tool")) or "to=assistant" in who
    return TokenMeaning("result" if tool else "turn", head.end())


def says_result(text: str, place: int) -> bool:
    """Whether a turn that begins at `place` holds the result of a tool."""
    return _RE.says_result.search(text, place, place + 200) is not None


def token_call(text: str, start: int, final: bool) -> TokenCall:
    """The head of the call whose tokens begin at `start`."""
    found = _RE.head.match(text, start)
    assert found is not None  # it can match nothing
    first, second, end = found["first"], found["second"] or "", found.end()
    name = second if first.lower() in ("", "function") else first
    follows = text[end : end + 1]
    if found["ends"]:
        return TokenCall(name, end, "whole" if name else "none")
    if follows in ("{", "[", "`"):
        return TokenCall(name, end, "call")
    if not final and end - start < LONGEST_HEAD and (not follows or _RE.token_cut.match(text, end)):
        return TokenCall(name, end, "more")
    if name and found["sep"]:
        return TokenCall(name, found.start("second") if second and name != second else end, "odd")
    return TokenCall(name, end, "none")


TAGS = (
    "tool_calls", "tool_call", "tool-calls", "tool-call", "toolcall", "function_calls", "function_call",
    "functioncall", "tool_use", "tools", "tool_code", "minimax:tool_call",
)  # fmt: skip
_PLAIN = frozenset(map(str.lower, PLAIN))
_LITERALS = (
    "<think>", "<thinking>", "</think>", "</thinking>", "[think]", "[/think]", "[tool_calls]", "[/tool_calls]",
    COMPLETE.lower(), "<function=", "<invoke name=", "</function>", "</parameter>", "</invoke>",
    *(f"<{tag}>" for tag in TAGS), *(f"</{tag}>" for tag in TAGS), "<agent_", "<tool_response>", "<function_results>",
    *map(str.lower, (*PLAIN, *OTHERS)),
)  # fmt: skip
_PREFIXES = frozenset(one[:size] for one in _LITERALS for size in range(1, len(one)))
_LONGEST = max(map(len, _LITERALS))
REACH = 240
"""Characters from the end in which an undecided beginning may lie."""


def _open_ends() -> tuple[re.Pattern[str], ...]:
    """What the end of a text looks like where markup has begun and may go on."""
    return _RE.open_tag, _RE.open_value, _RE.open_fence, _RE.open_result, _RE.token_begun


def undecided_start(text: str, at: int) -> int:
    """The first place from `at` on where markup may have begun that the text does not yet show whole."""
    size = len(text)
    place = size
    for kind in _open_ends():
        if found := kind.search(text, max(at, size - REACH)):
            place = min(place, found.start())
    begin = max(at, size - _LONGEST)
    tail = text[begin:].lower()
    for offset, sign in enumerate(tail):
        if sign in "<[" and tail[offset:] in _PREFIXES:
            start = begin + offset
            start -= start > at and text[start - 1] == "`"
            return min(place, start)
    return place


def may_begin(text: str, place: int) -> bool:
    """Whether what stands at `place` up to the end of the text is the beginning of a hook, but not a whole one."""
    if len(text) - place > REACH:
        return False
    tail = text[place:].lower()
    return tail.removeprefix("`") in _PREFIXES or any(kind.match(text, place) for kind in _open_ends())

"""The marks that delimit the parts of a reply: tags, special tokens of chat templates, signals, fences."""

from __future__ import annotations

import itertools
import re
from functools import cache
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
"""Text and reasoning; the signal of completion; JSON without markup; markup around JSON; markup around tags; calls in
Python syntax; markup without a readable call; a fence around segments; a closing tag without an opening one; the end of
reasoning that was never opened; a block of Python that contains calls; the start of what the model wrote on behalf of
a tool or the user, after which everything is ignored."""


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a reply, with the text that it was taken from."""

    kind: SegmentKind
    raw: str
    bodies: tuple[str, ...] = ()
    """The JSON texts, or the content of the markup."""
    name: str = ""
    """The tool named by the markup itself."""
    parts: tuple[Segment, ...] = ()
    """The segments in a fence."""
    tag: str = ""
    """The markup's tag: `tool_call`, `function`, `[TOOL_CALLS]`, `harmony`; for invented parts `result` or `turn`."""

    @property
    def is_text(self) -> bool:
        """Whether it is text or a call, rather than reasoning or a mark."""
        if self.kind == "done":
            return self.tag != "thought"
        return self.kind not in ("thought", "unopened", "invented")


def is_at_line_start(text: str, position: int) -> bool:
    """Whether only blanks precede `position` in its line."""
    head = text[max(0, position - 64) : position]
    return head.rpartition("\n")[2].strip() == "" and ("\n" in head or position <= 64)


def is_quoted(text: str, position: int) -> bool:
    """Whether a quote or bracket directly precedes `position`; a code fence does not count."""
    return position > 0 and text[position - 1] in "`\"'(«“‘" and text[max(0, position - 3) : position] != "```"


def is_mentioned(text: str, position: int) -> bool:
    """Whether the markup at `position` is only mentioned: in quotes, or as a word within a sentence."""
    within = text[position - 1 : position] in (" ", "\t") and not is_at_line_start(text, position)
    return within or is_quoted(text, position)


COMPLETE = "[TASK_COMPLETE]"
"""The signal by which the model claims that its task is done."""


def find_partial_signal(text: str) -> int:
    """Return where a signal may begin at the end of `text`, or the length of the text."""
    at = text.find("[", max(0, len(text) - len(COMPLETE) + 1))
    while at >= 0:
        if COMPLETE.startswith(text[at:].upper()):
            return at
        at = text.find("[", at + 1)
    return len(text)


def without_signals(text: str, *, partial: bool = False) -> str:
    """Return the text without signals; with `partial`, also without an incomplete one at its end."""
    stripped = _RE.complete.sub("", text)
    return _RE.partial_signal.sub("", stripped) if partial else stripped


TokenKind = Literal["plain", "text", "drop", "call", "result", "turn"]
"""A token that the segmenter handles, a mention, a token to drop, the beginning of a call, of a tool's result, or of a
turn of the user."""


@cache
def alternatives(name: str) -> tuple[str, ...]:
    """Return the alternatives of a pattern that consists of literals, in lower case."""
    source = _RE.source(name).lower()
    return tuple(re.sub(r"\\(.)", r"\1", literal) for literal in re.split(r"(?<!\\)\|", source))


CLOSERS = tuple(
    f"<{pipe}tool{blank}call{blank}end{pipe}>" for pipe, blank in itertools.product("|｜", ["▁", "_", " ", "\\_"])
)
"""The tokens that end a call, in lower case."""
MAX_HEAD = 320


class TokenMeaning(msgspec.Struct, frozen=True):
    """The meaning of a token, and where the text that belongs to it ends."""

    kind: TokenKind
    end: int


class TokenCall(msgspec.Struct, frozen=True):
    """The beginning of a call in tokens, up to its arguments."""

    name: str
    end: int
    status: Literal["incomplete", "json", "complete", "other", "none"]
    """More text is needed; JSON arguments follow; the call ends without arguments; something other than JSON follows;
    it is not a call."""


def token_meaning(text: str, match: re.Match[str], final: bool, *, after_markup: bool) -> TokenMeaning | None:
    """Return the meaning of a token, or None while undecided. `after_markup`: other markup directly precedes it."""
    start, end = match.span()
    token = match.group()
    name = re.sub(r"[▁ \\_]+", "_", token.strip("<>|｜[]")).lower()
    if name == "start":
        return _harmony_token(text, start, final)
    if token.lower() in alternatives("plain_tokens"):
        return TokenMeaning("plain", end)
    mentioned = is_mentioned(text, start) and not after_markup
    if is_quoted(text, start):
        return _quoted_token(text, start, end, final)
    if name in _RE.words("call_tokens"):
        return TokenMeaning("call", end)
    if name in _RE.words("role_tokens"):
        return _role_token(text, end, final, mentioned)
    is_result = name in _RE.words("result_tokens")
    if is_result or name in _RE.words("turn_tokens"):
        if end == len(text) and not final:
            return None
        if mentioned and text[end : end + 1] not in ("\r", "\n"):
            return TokenMeaning("text", end)
        return TokenMeaning("result" if is_result else "turn", end)
    is_dropped = name in _RE.words("assistant_tokens") or "｜" in token or _RE.tool_token.fullmatch(name)
    return TokenMeaning("drop" if is_dropped else "text", end)


def _quoted_token(text: str, start: int, end: int, final: bool) -> TokenMeaning | None:
    """Return a quoted token as text, together with what follows between the same backticks."""
    if text[start - 1] != "`":
        return TokenMeaning("text", end)
    following = text[end : end + MAX_HEAD]
    if "`" not in following and "\n" not in following and len(following) < MAX_HEAD and not final:
        return None
    return TokenMeaning("text", end + max(0, following.partition("\n")[0].find("`")))


def _role_token(text: str, end: int, final: bool, mentioned: bool) -> TokenMeaning | None:
    """Return the meaning of a token that is followed by the name of a role."""
    role = _RE.role.match(text, end)
    if (role is None or role.end() == len(text)) and len(text) - end < 64 and not final:
        return None
    if role is None:
        return TokenMeaning("text" if mentioned else "drop", end)
    if mentioned and not role.group().endswith("\n"):
        return TokenMeaning("text", end)
    role_name = role["role"].lower()
    if role_name in ("assistant", "model", "chatbot"):
        return TokenMeaning("drop", role.end())
    return TokenMeaning("result" if role_name in _RE.words("tool_roles") else "turn", role.end())


def _harmony_token(text: str, start: int, final: bool) -> TokenMeaning | None:
    head = _RE.start.match(text, start)
    if head is None and not final and _RE.start_cut.match(text, start):
        return None
    recipient = head["recipient"].strip().lower() if head else ""
    if head is None or recipient.startswith("assistant"):
        return TokenMeaning("plain", start + len("<|start|>"))
    tool = recipient.startswith(("functions", "tool")) or "to=assistant" in recipient
    return TokenMeaning("result" if tool else "turn", head.end())


def is_tool_result(text: str, position: int) -> bool:
    """Whether a turn that begins at `position` holds a tool's result."""
    return _RE.tool_result.search(text, position, position + 200) is not None


def token_call(text: str, start: int, final: bool) -> TokenCall:
    """Return the head of the call whose tokens begin at `start`."""
    head = _RE.head.match(text, start)
    assert head is not None  # every part of the pattern is optional
    first, second, end = head["first"], head["second"] or "", head.end()
    name = second if first.lower() in ("", "function") else first
    follows = text[end : end + 1]
    if head["ends"]:
        return TokenCall(name, end, "complete" if name else "none")
    if follows in ("{", "[", "`"):
        return TokenCall(name, end, "json")
    if not final and end - start < MAX_HEAD and (not follows or _RE.token_cut.match(text, end)):
        return TokenCall(name, end, "incomplete")
    if name and head["sep"]:
        return TokenCall(name, head.start("second") if second and name != second else end, "other")
    return TokenCall(name, end, "none")


@cache
def _literal_prefixes() -> frozenset[str]:
    """Return all proper prefixes of the literal marks."""
    tags = alternatives("tags")
    literals = (
        "<think>", "<thinking>", "</think>", "</thinking>", "[think]", "[/think]", "[tool_calls]", "[/tool_calls]",
        COMPLETE.lower(), "<function=", "<invoke name=", "</function>", "</parameter>", "</invoke>", "<agent_",
        "<tool_response>", "<function_results>", *(f"<{tag}>" for tag in tags), *(f"</{tag}>" for tag in tags),
        *alternatives("tokens"),
    )  # fmt: skip
    return frozenset(literal[:size] for literal in literals for size in range(1, len(literal)))


_LONGEST_LITERAL = 32
UNDECIDED_REACH = 240
"""Characters from the end in which an undecided mark may begin."""


def _incomplete_patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of an incomplete mark at the end of a text."""
    return _RE.open_tag, _RE.open_value, _RE.open_fence, _RE.open_result, _RE.token_begun


def undecided_start(text: str, at: int) -> int:
    """Return the first position from `at` on where an incomplete mark may begin, or the length of the text."""
    size = len(text)
    position = size
    for pattern in _incomplete_patterns():
        if match := pattern.search(text, max(at, size - UNDECIDED_REACH)):
            position = min(position, match.start())
    tail_start = max(at, size - _LONGEST_LITERAL)
    tail = text[tail_start:].lower()
    for offset, char in enumerate(tail):
        if char in "<[" and tail[offset:] in _literal_prefixes():
            start = tail_start + offset
            start -= start > at and text[start - 1] == "`"
            return min(position, start)
    return position


def may_begin_mark(text: str, position: int) -> bool:
    """Whether the text from `position` to its end may be the beginning of a mark."""
    if len(text) - position > UNDECIDED_REACH:
        return False
    tail = text[position:].lower()
    return tail.removeprefix("`") in _literal_prefixes() or any(
        pattern.match(text, position) for pattern in _incomplete_patterns()
    )

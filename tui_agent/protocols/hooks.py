"""The beginnings of markup in a reply, and how much of a text's end may still become one."""

from __future__ import annotations

import re

from tui_agent.protocols import signals, special

TAGS = (
    "tool_calls", "tool_call", "tool-calls", "tool-call", "toolcall", "function_calls", "function_call",
    "functioncall", "tool_use", "tools", "tool_code", "minimax:tool_call",
)  # fmt: skip
_TAGS = "|".join(TAGS)
_KEYS = (
    "name", "tool", "function", "tool_calls", "tool_call", "function_call", "arguments", "parameters", "args",
    "params", "response", "done", "type",
)  # fmt: skip
_PROGRAM = (
    "attached", "control", "feedback", "intent", "memory", "outcome", "plan", "proposals", "step", "summary", "undo",
)  # fmt: skip
RESULT = (
    r"(?:tool|function)[_\-]?(?:calls?[_\-]?)?(?:responses?|results?|outputs?)|agent_(?:"
    + "|".join(_PROGRAM)
    + ")"
)
"""Tags of what only the program writes: results of tools, and its own messages."""
KEY = rf"""(?:"[^"\\\n]{{0,64}}"|'[^'\\\n]{{0,64}}'|(?:{"|".join(_KEYS)}))\s{{0,16}}:"""
_TOKENS = "|".join(re.escape(one) for one in (*special.PLAIN, *special.OTHERS))

HOOK = re.compile(
    rf"""
      (?P<think><think(?:ing)?>|\[THINK\])
    | (?P<unthink></think(?:ing)?>|\[/THINK\])
    | (?P<done>\[TASK_COMPLETE\])
    | (?P<mistral>\[TOOL_CALLS\])
    | (?P<wrap>`?<(?P<tag>{_TAGS})(?:\s[^<>\n]{{0,100}})?>)
    | (?P<function>`?<(?:function=|invoke\ name=)["']?[\w.:\-]{{1,64}}["']?\s?>)
    | (?P<unwrap></(?:{_TAGS}|function|parameter|invoke)>|\[/TOOL_CALLS\])
    | (?P<dsml>{special.DSML})
    | (?P<token>{_TOKENS}|{special.TOKEN})
    | (?P<result><(?P<of>{RESULT})(?:\s[^<>\n]{{0,100}})?>)
    | (?P<value>`?(?:\{{|\[\s{{0,64}}\{{)\s{{0,64}}{KEY})
    | (?P<fence>`{{3,16}}|~{{3,16}})
    """,
    re.VERBOSE | re.IGNORECASE,
)
UNTHINK = re.compile(r"</think(?:ing)?>|\[/THINK\]", re.IGNORECASE)
IN_THOUGHT = re.compile(r"</think(?:ing)?>|\[/THINK\]|(?P<done>\[TASK_COMPLETE\])", re.IGNORECASE)
IN_FENCE = re.compile(r"(?P<fence>`{3,16}|~{3,16})|(?P<done>\[TASK_COMPLETE\])", re.IGNORECASE)
IN_PYTHON = re.compile(r"(?:[A-Za-z_][\w.]*\(|\[\s{0,16}[A-Za-z_][\w.]*\()")

_LITERALS = (
    "<think>", "<thinking>", "</think>", "</thinking>", "[think]", "[/think]", "[tool_calls]", "[/tool_calls]",
    signals.COMPLETE.lower(), "<function=", "<invoke name=", "</function>", "</parameter>", "</invoke>",
    *(f"<{tag}>" for tag in TAGS), *(f"</{tag}>" for tag in TAGS), "<agent_", "<tool_response>", "<function_results>",
    *map(str.lower, (*special.PLAIN, *special.OTHERS)),
)  # fmt: skip
_PREFIXES = frozenset(one[:size] for one in _LITERALS for size in range(1, len(one)))
_LONGEST = max(map(len, _LITERALS))
_OPEN_TAG = re.compile(
    rf"`?<(?:(?:{_TAGS})(?:\s[^<>\n]{{0,100}})?|(?:function=|invoke\ name=)[\"'\w.:\-]{{0,66}}\s?)\Z",
    re.IGNORECASE,
)
_OPEN_VALUE = re.compile(
    rf"""`?(?:\{{|\[\s{{0,64}}(?:\{{|\Z))\s{{0,64}}
    (?:\Z|"[^"\\\n]{{0,64}}\Z|'[^'\\\n]{{0,64}}\Z|[a-z_]{{1,16}}\Z
      |(?:"[^"\\\n]{{0,64}}"|'[^'\\\n]{{0,64}}'|(?:{"|".join(_KEYS)}))\s{{0,16}}\Z)""",
    re.VERBOSE | re.IGNORECASE,
)
_OPEN_FENCE = re.compile(r"(?:`{1,2}|~{1,2})\Z")
_OPEN_RESULT = re.compile(
    r"<(?:(?:tool|function)[a-z_\-]{0,24}|agent_[a-z_]{0,20})(?:\s[^<>\n]{0,100})?\Z", re.IGNORECASE
)
_OPEN_TOKEN = re.compile(special.OPEN)
_OPEN = (_OPEN_TAG, _OPEN_VALUE, _OPEN_FENCE, _OPEN_RESULT, _OPEN_TOKEN)
REACH = 240
"""Characters from the end in which an undecided beginning may lie."""


def undecided_from(text: str, at: int) -> int:
    """The first place from `at` on where markup may have begun that the text does not yet show whole."""
    size = len(text)
    place = size
    for kind in _OPEN:
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
    return tail.removeprefix("`") in _PREFIXES or any(kind.match(text, place) for kind in _OPEN)

"""What the model is told when its reply could not be used, and how often it is told so (W16, R9)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from tui_agent.domain import ToolSpec
from tui_agent.engine.prompts import prompt
from tui_agent.protocols.parser import Protocol
from tui_agent.protocols.schema import example, written
from tui_agent.text import one_line

Kind = Literal[
    "unreadable",
    "unknown_tool",
    "bad_arguments",
    "empty",
    "thinking_only",
    "truncated",
    "duplicate",
    "loop",
    "degenerate",
    "too_many",
    "server",
    "broken",
    "announced",
]
"""Kinds of `reply.rejected`."""

IN_A_ROW = 6
"""Replies without anything usable after which a run is given up."""
LIMITS: dict[Kind, int] = {
    "server": 2,
    "broken": 5,
    "empty": 2,
    "thinking_only": 2,
    "degenerate": 2,
    "announced": 2,
}
"""The same for single kinds."""
COOLING: frozenset[Kind] = frozenset({"unreadable", "unknown_tool", "bad_arguments", "server"})
"""Kinds after which the next reply is sampled at a lower temperature."""
QUOTED = 300
"""Characters of a bad reply that the model is shown again (R9.1)."""
_STEP = re.compile(
    r"\b(?:let me|let's|i'll|i will|i'm going to|i am going to|i need to|i want to|we'll|we will)\s+"
    r"(?:now |first |then |also |just |next |do )?(?:read|look|check|open|view|examine|inspect|search|find|list|run|"
    r"execute|test|edit|fix|mend|change|update|modify|write|create|add|call|use|invoke|start|begin|take)\b",
    re.IGNORECASE,
)
_AHEAD = re.compile(
    r"\b(?:let me|let's|(?:i|we)(?:'ll| will|'m going| am going| are going| need| want| have| should| would)|next|now|"
    r"going to|to go on)\b",
    re.IGNORECASE,
)
_LAST = 400
"""Characters of a sentence that announces a step."""


class Tries:
    """Counts replies that could not be used; a good one forgives all before it."""

    def __init__(self, temperature: float) -> None:
        self._base = temperature
        self._kinds: dict[Kind, int] = {}
        self._cool = 0
        self.in_a_row = 0

    @property
    def temperature(self) -> float:
        """0.2 → 0.1 → 0 with every reply that could not be read, and back after a good one."""
        return self._base * (1.0, 0.5, 0.0)[min(self._cool, 2)]

    def bad(self, kind: Kind, weight: int = 1) -> int:
        """Note a bad reply; returns how many there were in a row, of any kind."""
        self.in_a_row += 1
        self._kinds[kind] = self._kinds.get(kind, 0) + weight
        self._cool += kind in COOLING
        return self.in_a_row

    def spent(self, kind: Kind) -> bool:
        """True when asking again makes no sense any more."""
        return self.in_a_row > IN_A_ROW or self._kinds.get(kind, 0) > LIMITS.get(kind, IN_A_ROW)

    def good(self) -> None:
        """A reply could be used."""
        self.in_a_row = self._cool = 0
        self._kinds.clear()


def told(kind: str, *, tools: Sequence[ToolSpec], protocol: Protocol, why: str = "", raw: str = "") -> str:
    """The feedback for a whole reply: what was wrong, which tools there are, how a call is written."""
    quoted = one_line(raw[:QUOTED], QUOTED) if raw else ""
    names = ", ".join(spec.name for spec in tools) or "none; answer in plain text"
    text = prompt(f"told_{kind}").format(
        why=why or "it is no call and no answer", tools=names, shape=shape(tools, protocol)
    )
    return f"{text}\nYour reply began: {quoted}" if quoted else text


def shape(tools: Sequence[ToolSpec], protocol: Protocol) -> str:
    """How a call is written, with an example."""
    if not tools:
        return "plain text"
    spec = tools[0]
    if protocol == "native" or protocol == "files":  # noqa: PLR1714  # the type checker narrows this form only
        arguments = json.dumps(example(spec), ensure_ascii=False)
        return f"a tool call of its own, such as {spec.name} with the arguments {arguments}"
    return written(spec.name, example(spec), protocol)


def taught(error: str, spec: ToolSpec | None, tools: Sequence[ToolSpec], protocol: Protocol) -> str:
    """The error of one call that could not be run, completed by an example and the names of all tools.

    `spec` is the tool that was meant, as far as that can be told.
    """
    parts = [error]
    if spec is not None:
        arguments = example(spec)
        shown = (
            f"{spec.name} {json.dumps(arguments, ensure_ascii=False)}"
            if protocol == "native" or protocol == "files"  # noqa: PLR1714  # as above
            else written(spec.name, arguments, protocol)
        )
        parts.append(f"Example: {shown}")
    if "The tools are:" not in error:
        parts.append(f"The tools are: {', '.join(one.name for one in tools)}.")
    return "\n".join(parts)


def torn(text: str, protocol: Protocol) -> bool:
    """True for the tail of a reply whose beginning is lost, where calls are JSON in the text: no object begins, and
    more of them end than begin."""
    text = text.strip().removesuffix("</tool_call>").strip("` \n")
    if protocol == "native" or text[-1:] not in ("}", "]") or text[:1] in ("{", "["):
        return False
    return any(text.count(end) > text.count(begin) for begin, end in ("{}", "[]"))


def announces(text: str, tools: Sequence[ToolSpec]) -> bool:
    """True when a reply without a call ends by announcing the next step, or names a tool that it is about to use."""
    last = re.split(r"(?<=[.!?])\s+|\n+", text.strip())[-1]
    if len(last) > _LAST or last.endswith("?"):
        return False
    named = any(re.search(rf"(?<!\w){re.escape(spec.name)}(?!\w)", last) for spec in tools)
    return _STEP.search(last) is not None or (named and _AHEAD.search(text) is not None)

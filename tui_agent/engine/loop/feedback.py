"""What the model is told when its reply could not be used, and how often it is told so (W16)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from tui_agent.common.domain import ToolSpec
from tui_agent.engine.core.prompts import prompt
from tui_agent.protocols.parser import Protocol
from tui_agent.protocols.rendering import example_arguments, style_of, written_call
from tui_agent.text import one_line
from tui_agent.text.patterns import Patterns

RejectionKind = Literal[
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
LIMITS: dict[RejectionKind, int] = {
    "server": 2,
    "broken": 5,
    "empty": 2,
    "thinking_only": 2,
    "degenerate": 2,
    "announced": 2,
}
"""The same for single kinds."""
COOLING: frozenset[RejectionKind] = frozenset({"unreadable", "unknown_tool", "bad_arguments", "server"})
"""Kinds after which the next reply is sampled at a lower temperature."""
QUOTED = 300
"""Characters of a bad reply that the model is shown again."""
_RE = Patterns("tui_agent.engine.loop", "feedback")
_LAST = 400
"""Characters of a sentence that announces a step."""


class RejectionCounter:
    """Counts replies that could not be used; a good one forgives all before it."""

    def __init__(self, temperature: float) -> None:
        self._base = temperature
        self._kinds: dict[RejectionKind, int] = {}
        self._cool = 0
        self.in_a_row = 0

    @property
    def temperature(self) -> float:
        """0.2 → 0.1 → 0 with every reply that could not be read, and back after a good one."""
        return self._base * (1.0, 0.5, 0.0)[min(self._cool, 2)]

    def bad(self, kind: RejectionKind, weight: int = 1) -> int:
        """Note a bad reply; returns how many there were in a row, of any kind."""
        self.in_a_row += 1
        self._kinds[kind] = self._kinds.get(kind, 0) + weight
        self._cool += kind in COOLING
        return self.in_a_row

    def spent(self, kind: RejectionKind) -> bool:
        """True when asking again makes no sense any more."""
        return self.in_a_row > IN_A_ROW or self._kinds.get(kind, 0) > LIMITS.get(kind, IN_A_ROW)

    def good(self) -> None:
        """A reply could be used."""
        self.in_a_row = self._cool = 0
        self._kinds.clear()


def feedback_text(kind: str, *, tools: Sequence[ToolSpec], protocol: Protocol, why: str = "", raw: str = "") -> str:
    """The feedback for a whole reply: what was wrong, which tools there are, how a call is written."""
    quoted = one_line(raw[:QUOTED], QUOTED) if raw else ""
    names = ", ".join(spec.name for spec in tools) or "none; answer in plain text"
    text = prompt(f"told_{kind}").format(
        why=why or "it is no call and no answer", tools=names, shape=call_format(tools, protocol)
    )
    return f"{text}\nYour reply began: {quoted}" if quoted else text


def call_format(tools: Sequence[ToolSpec], protocol: Protocol) -> str:
    """How a call is written, with an example."""
    if not tools:
        return "plain text"
    spec, style = tools[0], style_of(protocol)
    if style is not None:
        return written_call(spec.name, example_arguments(spec), style)
    arguments = json.dumps(example_arguments(spec), ensure_ascii=False)
    return f"a tool call of its own, such as {spec.name} with the arguments {arguments}"


def call_error_text(error: str, spec: ToolSpec | None, tools: Sequence[ToolSpec], protocol: Protocol) -> str:
    """The error of one call that could not be run, completed by an example and the names of all tools.

    `spec` is the tool that was meant, as far as that can be told.
    """
    parts = [error]
    if spec is not None:
        arguments, style = example_arguments(spec), style_of(protocol)
        native = f"{spec.name} {json.dumps(arguments, ensure_ascii=False)}"
        parts.append(f"Example: {written_call(spec.name, arguments, style) if style else native}")
    if "The tools are:" not in error:
        parts.append(f"The tools are: {', '.join(one.name for one in tools)}.")
    return "\n".join(parts)


def is_torn_tail(text: str, protocol: Protocol) -> bool:
    """True for the tail of a reply whose beginning is lost, where calls are JSON in the text: no object begins, and
    more of them end than begin."""
    text = text.strip().removesuffix("</tool_call>").strip("` \n")
    if protocol == "native" or text[-1:] not in ("}", "]") or text[:1] in ("{", "["):
        return False
    return any(text.count(end) > text.count(begin) for begin, end in ("{}", "[]"))


def announces_step(text: str, tools: Sequence[ToolSpec]) -> bool:
    """True when a reply without a call ends by announcing the next step, or names a tool that it is about to use."""
    last = re.split(r"(?<=[.!?])\s+|\n+", text.strip())[-1]
    if len(last) > _LAST or last.endswith("?"):
        return False
    named = any(re.search(rf"(?<!\w){re.escape(spec.name)}(?!\w)", last) for spec in tools)
    return _RE.step.search(last) is not None or (named and _RE.ahead.search(text) is not None)

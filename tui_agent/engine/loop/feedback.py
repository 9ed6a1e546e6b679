"""Feedback for the model about unusable replies, and how many of them a run tolerates (W16)."""

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

MAX_IN_A_ROW = 6
"""Rejected replies in a row that a run tolerates."""
MAX_BY_KIND: dict[RejectionKind, int] = {
    "server": 2,
    "broken": 5,
    "empty": 2,
    "thinking_only": 2,
    "degenerate": 2,
    "announced": 2,
}
"""Lower limits of some kinds."""
COOLING_KINDS: frozenset[RejectionKind] = frozenset({"unreadable", "unknown_tool", "bad_arguments", "server"})
"""Kinds that lower the temperature of the next request."""
MAX_QUOTE = 300
"""Characters of a rejected reply that the feedback quotes."""
_RE = Patterns("tui_agent.engine.loop", "feedback")
_MAX_ANNOUNCEMENT = 400
"""Characters of the longest sentence that counts as the announcement of a step."""


class RejectionCounter:
    """Counts rejected replies in a row."""

    def __init__(self, temperature: float) -> None:
        self._base_temperature = temperature
        self._by_kind: dict[RejectionKind, int] = {}
        self._cooling = 0
        self.in_a_row = 0

    @property
    def temperature(self) -> float:
        """The temperature of the next request: halved after one reply that could not be parsed, 0 after two."""
        return self._base_temperature * (1.0, 0.5, 0.0)[min(self._cooling, 2)]

    def add(self, kind: RejectionKind, weight: int = 1) -> int:
        """Count a rejected reply and return how many, of any kind, were rejected in a row."""
        self.in_a_row += 1
        self._by_kind[kind] = self._by_kind.get(kind, 0) + weight
        self._cooling += kind in COOLING_KINDS
        return self.in_a_row

    def is_exhausted(self, kind: RejectionKind) -> bool:
        """Return whether the run should give up."""
        return self.in_a_row > MAX_IN_A_ROW or self._by_kind.get(kind, 0) > MAX_BY_KIND.get(kind, MAX_IN_A_ROW)

    def reset(self) -> None:
        """Start again after a usable reply."""
        self.in_a_row = self._cooling = 0
        self._by_kind.clear()


def feedback_text(kind: str, *, tools: Sequence[ToolSpec], protocol: Protocol, why: str = "", raw: str = "") -> str:
    """Return the feedback on a reply: what was wrong, which tools there are, how a call is written."""
    quoted = one_line(raw[:MAX_QUOTE], MAX_QUOTE) if raw else ""
    names = ", ".join(spec.name for spec in tools) or "none; answer in plain text"
    text = prompt(f"feedback_{kind}").format(
        why=why or "it is no call and no answer", tools=names, shape=call_format(tools, protocol)
    )
    return f"{text}\nYour reply began: {quoted}" if quoted else text


def call_format(tools: Sequence[ToolSpec], protocol: Protocol) -> str:
    """Return an example of a call in the protocol's format."""
    if not tools:
        return "plain text"
    spec, style = tools[0], style_of(protocol)
    if style is not None:
        return written_call(spec.name, example_arguments(spec), style)
    arguments = json.dumps(example_arguments(spec), ensure_ascii=False)
    return f"a tool call of its own, such as {spec.name} with the arguments {arguments}"


def call_error_text(error: str, spec: ToolSpec | None, tools: Sequence[ToolSpec], protocol: Protocol) -> str:
    """Return the error of an invalid call, followed by an example and the names of all tools.

    `spec` is the tool that was probably meant.
    """
    parts = [error]
    if spec is not None:
        arguments, style = example_arguments(spec), style_of(protocol)
        native = f"{spec.name} {json.dumps(arguments, ensure_ascii=False)}"
        parts.append(f"Example: {written_call(spec.name, arguments, style) if style else native}")
    if "The tools are:" not in error:
        parts.append(f"The tools are: {', '.join(tool.name for tool in tools)}.")
    return "\n".join(parts)


def is_torn_tail(text: str, protocol: Protocol) -> bool:
    """Return whether a text with calls as JSON is the tail of a reply whose start is missing: it starts no object, and
    closes more of them than it opens."""
    text = text.strip().removesuffix("</tool_call>").strip("` \n")
    if protocol == "native" or text[-1:] not in ("}", "]") or text[:1] in ("{", "["):
        return False
    return any(text.count(end) > text.count(begin) for begin, end in ("{}", "[]"))


def announces_step(text: str, tools: Sequence[ToolSpec]) -> bool:
    """Return whether a reply without a call ends by announcing the next step, or names a tool it is about to use."""
    last_sentence = re.split(r"(?<=[.!?])\s+|\n+", text.strip())[-1]
    if len(last_sentence) > _MAX_ANNOUNCEMENT or last_sentence.endswith("?"):
        return False
    names_tool = any(re.search(rf"(?<!\w){re.escape(spec.name)}(?!\w)", last_sentence) for spec in tools)
    return _RE.step.search(last_sentence) is not None or (names_tool and _RE.ahead.search(text) is not None)

"""The tools on offer, as a reader of calls sees them: by which names they go and what they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui_agent.common.domain import ToolSpec
from tui_agent.common.naming import resolve_argument_name, resolve_name
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "calls")

BESIDE = ("id", "type", "thought", "thoughts", "reasoning", "explanation", "index", "call_id", "tool_call_id")
"""Keys beside the arguments that models add to a call."""


def plain_name(name: str) -> str:
    """The name alone: without the channel that harmony names behind it (`read_file<|channel|>commentary`), the
    namespace before it (`functions.read_file`) and the number of the call (`read_file:0`)."""
    addressed = _RE.addressed.search(name)
    plain = addressed[1] if addressed else _RE.behind.sub("", name)
    plain = _RE.number.sub("", _RE.namespace.sub("", plain.strip(), count=1))
    return plain or name


class OfferedTools:
    """Names and needs of the offered tools. A spec without `properties` has no shape to check."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._aliases = {alias: tool for tool in tools for alias in tool.aliases}

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' own names, in order."""
        return tuple(self._tools)

    def find(self, name: str) -> ToolSpec | None:
        """The tool of that name, whatever way of writing or other name for it the model uses."""
        name = name if name in self._tools else plain_name(name)
        return resolve_name(name, self._tools, self._aliases)

    def resolve(self, name: str) -> tuple[ToolSpec | None, str]:
        """That tool, and its own name; of one that is not offered the plain name."""
        tool = self.find(name)
        return tool, tool.name if tool is not None else plain_name(name)

    def missing(self, tool: ToolSpec, arguments: dict[str, Any]) -> list[str]:
        """The required arguments that are not there under any of their names."""
        given = {self._ours(tool, name) for name in arguments}
        return [name for name in tool.parameters.get("required", ()) if name not in given]

    def knows(self, tool: ToolSpec, name: str) -> bool:
        """Whether the tool takes an argument of that name; where no shape is told it takes any."""
        fields = tool.parameters.get("properties")
        return fields is None or self._ours(tool, name) in fields

    def is_beside(self, tool: ToolSpec | None, name: str, value: Any) -> bool:
        """Whether a key that stands among arguments is a word about the call and no argument."""
        if tool is not None and "properties" in tool.parameters:
            return name in (*BESIDE, "done") and not self.knows(tool, name)
        return (name == "type" and value == "function") or (name == "done" and isinstance(value, bool))

    def only_text(self, tool: ToolSpec) -> str:
        """The name of the one required argument if that is text, else ""."""
        required = tool.parameters.get("required", ())
        if len(required) != 1:
            return ""
        field = tool.parameters.get("properties", {}).get(required[0], {})
        return str(required[0]) if field.get("type") == "string" else ""

    def field_type(self, tool: ToolSpec | None, name: str) -> str:
        """The JSON type of an argument, "" where it is not told."""
        if tool is None:
            return ""
        fields = tool.parameters.get("properties", {})
        kind = fields.get(self._ours(tool, name), {}).get("type", "")
        return kind if isinstance(kind, str) else ""

    def _ours(self, tool: ToolSpec, name: str) -> str:
        return resolve_argument_name(name, tool.parameters.get("properties", {}), tool.argument_aliases)

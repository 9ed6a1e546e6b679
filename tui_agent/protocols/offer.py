"""The offered tools as the parser needs them: their names and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tui_agent.common.domain import ToolSpec
from tui_agent.common.naming import resolve_argument_name, resolve_name
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "calls")

METADATA_KEYS = ("id", "type", "thought", "thoughts", "reasoning", "explanation", "index", "call_id", "tool_call_id")
"""Keys that models add to a call besides its arguments."""


def clean_tool_name(name: str) -> str:
    """Return the name without harmony's channel (`read_file<|channel|>commentary`), a namespace (`functions.read_file`)
    or a number (`read_file:0`)."""
    recipient = _RE.recipient.search(name)
    cleaned = recipient[1] if recipient else _RE.channel.sub("", name)
    cleaned = _RE.number.sub("", _RE.namespace.sub("", cleaned.strip(), count=1))
    return cleaned or name


class OfferedTools:
    """Names and arguments of the offered tools. A spec without `properties` is not checked."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._aliases = {alias: tool for tool in tools for alias in tool.aliases}

    def find(self, name: str) -> ToolSpec | None:
        """Return the tool with that name, in any spelling or as an alias."""
        name = name if name in self._tools else clean_tool_name(name)
        return resolve_name(name, self._tools, self._aliases)

    def resolve(self, name: str) -> tuple[ToolSpec | None, str]:
        """Return the tool and its own name, or None and the cleaned name if it isn't offered."""
        tool = self.find(name)
        return tool, tool.name if tool is not None else clean_tool_name(name)

    def missing(self, tool: ToolSpec, arguments: dict[str, Any]) -> list[str]:
        """Return the required arguments that are not given under any of their names."""
        given = {self._canonical_name(tool, name) for name in arguments}
        return [name for name in tool.parameters.get("required", ()) if name not in given]

    def accepts(self, tool: ToolSpec, name: str) -> bool:
        """Whether the tool takes an argument of that name; without `properties` it takes any."""
        fields = tool.parameters.get("properties")
        return fields is None or self._canonical_name(tool, name) in fields

    def declares(self, tool: ToolSpec | None, name: str) -> bool:
        """Whether the tool's schema declares an argument of that name."""
        return tool is not None and "properties" in tool.parameters and self.accepts(tool, name)

    def is_metadata(self, tool: ToolSpec | None, name: str, value: Any) -> bool:
        """Whether a key among the arguments is metadata of the call rather than an argument."""
        if tool is not None and "properties" in tool.parameters:
            return name in (*METADATA_KEYS, "done") and not self.declares(tool, name)
        return (name == "type" and value == "function") or (name == "done" and isinstance(value, bool))

    def only_text_argument(self, tool: ToolSpec) -> str:
        """Return the name of the only required argument if it is a string, else ""."""
        required = tool.parameters.get("required", ())
        if len(required) != 1:
            return ""
        field = tool.parameters.get("properties", {}).get(required[0], {})
        return str(required[0]) if field.get("type") == "string" else ""

    def field_type(self, tool: ToolSpec | None, name: str) -> str:
        """Return the JSON type of an argument, "" if unknown."""
        if tool is None:
            return ""
        fields = tool.parameters.get("properties", {})
        kind = fields.get(self._canonical_name(tool, name), {}).get("type", "")
        return kind if isinstance(kind, str) else ""

    def _canonical_name(self, tool: ToolSpec, name: str) -> str:
        return resolve_argument_name(name, tool.parameters.get("properties", {}), tool.argument_aliases)

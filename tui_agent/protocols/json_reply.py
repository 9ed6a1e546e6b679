"""The JSON protocol: a reply is one object, with calls or with an answer (C2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from tui_agent.domain import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec
from tui_agent.protocols.schema import readable
from tui_agent.protocols.turns import rendered

_FORM = """\
Every reply of yours is one JSON object and nothing else. To use tools:
{"tool_calls": [{"name": "TOOL", "parameters": {}}]}
To answer without calling anything:
{"response": "TEXT"}
When the whole task is done and checked:
{"done": true, "response": "WHAT WAS DONE"}
Never put calls and an answer into one reply. What the tools gave comes back as objects {"tool_result": ...}, one for \
each call, in the same order."""


def system_section(tools: Sequence[ToolSpec]) -> str:
    """The form of a reply and the tools, for the system message."""
    return f"# Form of a reply\n\n{_FORM}\n\n# Tools\n\n{readable(tools, 'json')}"


def render(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The neutral history in this protocol: no structured calls; the results of one reply in one program message."""
    return rendered(messages, _reply, _result)


def reply_format(tools: Sequence[ToolSpec]) -> dict[str, Any] | Literal["json"]:
    """What Ollama takes as `format`: the schema of a reply, either calls of these tools or an answer."""
    if not tools:
        return "json"
    answer = _object({"done": {"type": "boolean"}, "response": {"type": "string"}}, ["response"])
    calls = [
        _object({"name": {"const": tool.name}, "parameters": tool.parameters}, ["name", "parameters"])
        for tool in tools
    ]
    wanted = {"type": "array", "minItems": 1, "items": {"anyOf": calls}}
    return {"anyOf": [_object({"tool_calls": wanted}, ["tool_calls"]), answer]}


def _object(fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _reply(message: AssistantMessage) -> str:
    if not message.calls:
        return json.dumps({"response": message.text}, ensure_ascii=False)
    calls = {"tool_calls": [_call(call) for call in message.calls]}
    return "\n".join(filter(None, [message.text, json.dumps(calls, ensure_ascii=False)]))


def _call(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "parameters": call.arguments}


def _result(message: ToolMessage) -> str:
    field = "data" if message.success else "error"
    result = {"tool": message.name, "success": message.success, field: message.text}
    return json.dumps({"tool_result": result}, ensure_ascii=False)

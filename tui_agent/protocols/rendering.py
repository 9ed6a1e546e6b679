"""Render requests as text for models without native tool calls: tools, history and results.

In the JSON protocol a reply is one object with calls or an answer (C2); in the XML protocol calls are written in the
text as `<tool_call>{…}</tool_call>` (C3).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from tui_agent.common.domain import AssistantMessage, Message, ProgramMessage, ToolMessage, ToolSpec, program_text
from tui_agent.text.patterns import read_table

Style = Literal["json", "xml"]

_BY_TYPE: dict[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


def style_of(protocol: str) -> Style | None:
    """Return the style of a protocol that writes calls as text; None for the others."""
    return next((value for value in get_args(Style) if value == protocol), None)


def system_section(style: Style, tools: Sequence[ToolSpec]) -> str:
    """Render the reply format and the tools for the system message."""
    title = "Form of a reply" if style == "json" else "Calling tools"
    form = read_table(__package__, "rendering.toml")["forms"][style]
    return f"# {title}\n\n{form}\n\n# Tools\n\n{describe_tools(tools, style)}"


def describe_tools(specs: Iterable[ToolSpec], style: Style) -> str:
    """Render tools as Markdown, each with an example call in the style (C5)."""
    return "\n\n".join(_tool_text(spec, style) for spec in specs)


def reply_format(tools: Sequence[ToolSpec]) -> dict[str, Any] | Literal["json"]:
    """Return Ollama's `format`: the schema of a reply, either calls of these tools or an answer."""
    if not tools:
        return "json"
    answer = _object({"done": {"type": "boolean"}, "response": {"type": "string"}}, ["response"])
    calls = [
        _object({"name": {"const": tool.name}, "parameters": tool.parameters}, ["name", "parameters"]) for tool in tools
    ]
    call_list = {"type": "array", "minItems": 1, "items": {"anyOf": calls}}
    return {"anyOf": [_object({"tool_calls": call_list}, ["tool_calls"]), answer]}


def _object(fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


# --- history ------------------------------------------------------------------------------------


def render_messages(style: Style, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Render the history in a style: calls in the text of their reply, consecutive results in one program message."""
    rendered: list[Message] = []
    results: list[str] = []

    def flush_results() -> None:
        if results:
            rendered.append(ProgramMessage(text=program_text("control", "\n".join(results))))
            results.clear()

    for message in messages:
        if isinstance(message, ToolMessage):
            results.append(_json_result(message) if style == "json" else _xml_result(message))
            continue
        flush_results()
        if isinstance(message, AssistantMessage):
            rendered.append(AssistantMessage(text=_json_reply(message) if style == "json" else _xml_reply(message)))
        else:
            rendered.append(message)
    flush_results()
    return tuple(rendered)


def _json_reply(message: AssistantMessage) -> str:
    if not message.calls:
        return json.dumps({"response": message.text}, ensure_ascii=False)
    calls = {"tool_calls": [{"name": call.name, "parameters": call.arguments} for call in message.calls]}
    return "\n".join(filter(None, [message.text, json.dumps(calls, ensure_ascii=False)]))


def _json_result(message: ToolMessage) -> str:
    field = "data" if message.success else "error"
    result = {"tool": message.name, "success": message.success, field: message.text}
    return json.dumps({"tool_result": result}, ensure_ascii=False)


def _xml_reply(message: AssistantMessage) -> str:
    calls = [written_call(call.name, call.arguments, "xml") for call in message.calls]
    names = ", ".join(call.name for call in message.calls)
    return "\n".join(filter(None, [message.text, *calls, f"[called: {names}]" if names else ""]))


def _xml_result(message: ToolMessage) -> str:
    head = json.dumps({"tool": message.name, "success": message.success}, ensure_ascii=False)
    return f"<tool_result>{head}\n{message.text}\n</tool_result>"


def names_with_counts(names: Sequence[str]) -> str:
    """Join names, each once, with its count."""
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in Counter(names).items())


# --- tools --------------------------------------------------------------------------------------


def example_arguments(spec: ToolSpec) -> dict[str, Any]:
    """Return sample values for a tool's required arguments, or for its first one if none is required."""
    fields: dict[str, Any] = spec.parameters.get("properties", {})
    names = spec.parameters.get("required") or list(fields)[:1]
    return {name: _sample(name, fields.get(name, {})) for name in names}


def written_call(name: str, arguments: dict[str, Any], style: Style) -> str:
    """Render a call as a model writes it: `{"tool_calls": …}` or `<tool_call>…</tool_call>`."""
    call = json.dumps({"name": name, "parameters": arguments}, ensure_ascii=False)
    return f'{{"tool_calls": [{call}]}}' if style == "json" else f"<tool_call>{call}</tool_call>"


def _tool_text(spec: ToolSpec, style: Style) -> str:
    fields: dict[str, Any] = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", [])
    lines = [f"### {spec.name}", spec.description]
    for name, field in fields.items():
        type_name = _type(field) + ("" if name in required else ", optional")
        description = f": {field['description']}" if "description" in field else ""
        lines.append(f"- `{name}` ({type_name}){description}")
    return "\n".join([*lines, f"Example: {written_call(spec.name, example_arguments(spec), style)}"])


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in field["enum"])
    kind = str(field.get("type", "any"))
    return f"list of {_type(field['items'])}" if kind == "array" and "items" in field else kind


def _sample(name: str, field: dict[str, Any]) -> Any:
    if "enum" in field:
        return field["enum"][0]
    kind = str(field.get("type", "string"))
    if kind == "string":
        return read_table(__package__, "rendering.toml")["samples"].get(name, _BY_TYPE["string"])
    return _BY_TYPE.get(kind, "text")

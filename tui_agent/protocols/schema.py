"""Tools as readable text, for models that have no field of their own for them (C5)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from tui_agent.domain import ToolSpec

Style = Literal["json", "xml"]

_SAMPLES: dict[str, Any] = {
    "path": "src/app.py",
    "directory": "src",
    "command": "pytest -q",
    "query": "def main",
    "content": "first line\nsecond line\n",
    "old_string": "timeout = 10",
    "new_string": "timeout = 30",
    "question": "Which database shall I use?",
}
_BY_TYPE: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1,
    "boolean": True,
    "array": [],
    "object": {},
}


def readable(specs: Iterable[ToolSpec], style: Style) -> str:
    """All tools as markdown, each with an example call in the form of that protocol."""
    return "\n\n".join(_one(spec, style) for spec in specs)


def example(spec: ToolSpec) -> dict[str, Any]:
    """Sample values for the required arguments of a tool, or for its first one if none is required."""
    fields: dict[str, Any] = spec.parameters.get("properties", {})
    names = spec.parameters.get("required") or list(fields)[:1]
    return {name: _sample(name, fields.get(name, {})) for name in names}


def written(name: str, arguments: dict[str, Any], style: Style) -> str:
    """One call as a model writes it: `{"tool_calls": …}` or `<tool_call>…</tool_call>`."""
    call = json.dumps({"name": name, "parameters": arguments}, ensure_ascii=False)
    return f'{{"tool_calls": [{call}]}}' if style == "json" else f"<tool_call>{call}</tool_call>"


def _one(spec: ToolSpec, style: Style) -> str:
    fields: dict[str, Any] = spec.parameters.get("properties", {})
    required = spec.parameters.get("required", [])
    lines = [f"### {spec.name}", spec.description]
    for name, field in fields.items():
        word = _type(field) + ("" if name in required else ", optional")
        about = f": {field['description']}" if "description" in field else ""
        lines.append(f"- `{name}` ({word}){about}")
    return "\n".join([*lines, f"Example: {written(spec.name, example(spec), style)}"])


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return "one of " + ", ".join(json.dumps(one, ensure_ascii=False) for one in field["enum"])
    kind = str(field.get("type", "any"))
    return f"list of {_type(field['items'])}" if kind == "array" and "items" in field else kind


def _sample(name: str, field: dict[str, Any]) -> Any:
    if "enum" in field:
        return field["enum"][0]
    kind = str(field.get("type", "string"))
    if kind == "string":
        return _SAMPLES.get(name, _BY_TYPE["string"])
    return _BY_TYPE.get(kind, "text")

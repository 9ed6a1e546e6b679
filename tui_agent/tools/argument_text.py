"""Telling a model what is wrong with the arguments it gave, so that its next call is right."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pydantic

from tui_agent.tools.base import Args
from tui_agent.tools.lines import writable
from tui_agent.tools.specs import parameters

_QUOTED = 60
_WORDS = {
    "integer": "a whole number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "number": "a number",
}


def wanted(kind: type[Args]) -> str:
    """All arguments with type, such as `path (text, required), start_line (a whole number)`."""
    schema = parameters(kind)
    required = schema.get("required", [])
    return ", ".join(
        f"{name} ({_word(field)}{', required' if name in required else ''})"
        for name, field in schema.get("properties", {}).items()
    )


def what_is_wrong(
    tool: str, kind: type[Args], error: pydantic.ValidationError, *, missing: bool = True
) -> str:
    """One sentence for each faulty argument; without `missing`, only for those that were given."""
    fields = parameters(kind).get("properties", {})
    faults = [one for one in error.errors(include_url=False) if missing or one["type"] != "missing"]
    return " ".join(_sentence(tool, fields, one) for one in faults[:5])


def _sentence(tool: str, fields: dict[str, Any], fault: Any) -> str:
    name = writable(".".join(str(part) for part in fault["loc"])) or "the arguments"
    if fault["type"] == "missing":
        return f"{tool} needs the argument {name}."
    if fault["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, fields, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]}?" if close else ""
        return f"{tool} has no argument {name}.{hint}"
    field = fields.get(str(fault["loc"][0]) if fault["loc"] else "", {})
    given = writable(json.dumps(fault["input"], ensure_ascii=False, default=str))
    given = given if len(given) <= _QUOTED else given[:_QUOTED] + "…"
    reason = "" if fault["type"].endswith(("_type", "_parsing")) else f" ({fault['msg'].lower()})"
    return f"The argument {name} of {tool} must be {_word(field)}, got {given}{reason}."


def _word(field: dict[str, Any]) -> str:
    return _WORDS.get(str(field.get("type")), str(field.get("type", "a value")))

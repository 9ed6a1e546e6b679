"""JSON Schema of a tool's arguments, as short as it can be: it is sent with every request (C5)."""

from __future__ import annotations

from typing import Any

from tui_agent.tools.base import Args

_DROPPED = (
    "title",
    "default",
    "additionalProperties",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "maxItems",
)


_made: dict[type[Args], dict[str, Any]] = {}


def parameters(kind: type[Args]) -> dict[str, Any]:
    """The schema of `kind` without titles, defaults, limits and the null that optional arguments allow."""
    if kind not in _made:
        _made[kind] = _schema(kind)
    return _made[kind]


def _schema(kind: type[Args]) -> dict[str, Any]:
    schema = kind.model_json_schema()
    schema.pop("description", None)
    short: dict[str, Any] = {
        "type": "object",
        "properties": {name: _short(field) for name, field in schema.get("properties", {}).items()},
    }
    if required := schema.get("required"):
        short["required"] = required
    return short


def _short(field: dict[str, Any]) -> dict[str, Any]:
    kinds = [one for one in field.get("anyOf", ()) if one.get("type") != "null"]
    if len(kinds) == 1:
        field = {**field, **kinds[0]}
        field.pop("anyOf")
    short = {name: value for name, value in field.items() if name not in _DROPPED}
    if "items" in short:
        short["items"] = _short(short["items"])
    return short

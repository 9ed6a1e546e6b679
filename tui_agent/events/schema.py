"""The JSON Schema of the lines of `tui-agent exec --json`, from the event classes (X3)."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from tui_agent import events as e

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FIELDS: dict[str, dict[str, Any]] = {
    "v": {"const": e.VERSION, "description": "Version of the format."},
    "seq": {"type": "integer", "minimum": 1, "description": "1, 2, 3 … within a session."},
    "at": {"type": "string", "description": "ISO 8601 with milliseconds and offset."},
    "type": {"type": "string", "description": "What happened."},
    "run": {"type": "string", "description": "Id of the run, which is the work on one message; may be empty."},
    "node": {"type": "string", "description": "Id of what the event is about: a reply, call, step or stage."},
    "parent": {"type": "string", "description": "Id of the node above it in the progress tree."},
    "data": {"type": "object", "description": "The fields of the event."},
}
"""Fields of a line → schema."""


def line_schema() -> dict[str, Any]:
    """Return the schema of one line."""
    types = dict(sorted(e.TABLE.items()))
    references, definitions = msgspec.json.schema_components(types.values(), ref_template="#/$defs/{name}")
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = " ".join(definition["description"].split())
    return {
        "$schema": DIALECT,
        "title": "A line of `tui-agent exec --json`",
        "type": "object",
        "properties": FIELDS,
        "required": list(FIELDS),
        "additionalProperties": False,
        "oneOf": [
            {"properties": {"type": {"const": name}, "data": reference}}
            for name, reference in zip(types, references, strict=True)
        ],
        "$defs": definitions,
    }


def schema_text() -> str:
    """Return the schema as indented JSON."""
    return json.dumps(line_schema(), indent=1, ensure_ascii=False) + "\n"


def print_schema() -> int:
    """Print the schema; returns the exit code 0."""
    sys.stdout.write(schema_text())
    return 0

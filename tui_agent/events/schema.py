"""The JSON Schema of the lines of `tui-agent exec --json`, and docs/events.md, both from the event classes (X3)."""

from __future__ import annotations

import ast
import enum
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec

from tui_agent import events as e
from tui_agent.common import domain, symbols, workplan
from tui_agent.events import run, session

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


# --- the page ---

HEAD = """# Events

`tui-agent exec --json` prints one event per line, as a JSON object in UTF-8. `events.jsonl` in the folder of a session
has the same lines, each with a checksum (`crc`) and without masked secrets. [events.schema.json](events.schema.json) is
a JSON Schema of a line; `tui-agent exec --json-schema` prints the one of the installed version.

```sh
tui-agent exec "explain src/app.py" --json | jq -r 'select(.type == "run.ended") | .data.outcome, .data.text'
```

A reader should ignore types and fields that it does not know, since later versions may add some. Fields with a default
may be missing in lines of earlier versions. Strings contain no control characters but line breaks and tabs.

| Field of a line | |
|---|---|
{fields}

A run ends with `run.ended`. Its `text` is the answer, or the reason why there is none. The exit code of the command
also depends on what was refused: see [Ways to use it](surfaces.md).
"""


def event_page() -> str:
    """Return docs/events.md."""
    fields = "\n".join(f"| `{name}` | {schema['description']} |" for name, schema in FIELDS.items())
    parts = [HEAD.format(fields=fields)]
    for title, module in (("A run", run), ("The session", session)):
        parts.append(f"## {title}\n")
        parts += [_section(f"`{one.type}`", one) for one in e.TABLE.values() if one.__module__ == module.__name__]
    parts.append("## Values in fields\n")
    parts += [_section(f"`{one.__name__}`", one) for one in _values()]
    return "\n".join(parts)


def _values() -> Iterator[type]:
    """The classes of values in events, by name."""
    events = {one.__name__ for one in e.TABLE.values()}
    modules: tuple[ModuleType, ...] = (domain, symbols, workplan, run, session)
    for name in sorted(set(line_schema()["$defs"]) - events):
        yield next(getattr(module, name) for module in modules if hasattr(module, name))


def _section(title: str, kind: type) -> str:
    """The heading, description and fields of a class."""
    text = " ".join(inspect.cleandoc(kind.__dict__.get("__doc__") or "").split())
    lines = [f"### {title}", "", *([text, ""] if text else [])]
    if issubclass(kind, enum.Enum):
        return "\n".join([*lines, f"One of: {', '.join(f'`{one.value}`' for one in kind)}.", ""])
    rows = list(_fields(kind))
    if rows:
        lines += ["| Field | Type | Default | |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _fields(kind: Any) -> Iterator[str]:
    comments = _comments(kind)
    if tag := kind.__struct_config__.tag:
        yield f'| `{kind.__struct_config__.tag_field}` | `"{tag}"` | | |'
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            plain = msgspec.to_builtins(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            plain = msgspec.to_builtins(field.default_factory())
        else:
            plain = msgspec.NODEFAULT
        default = "" if plain is msgspec.NODEFAULT else f"`{msgspec.json.encode(plain).decode()}`"
        annotation, comment = comments.get(field.name, ("", ""))
        yield f"| `{field.encode_name}` | `{_cell(annotation)}` | {_cell(default)} | {_cell(comment)} |"


def _comments(kind: type) -> dict[str, tuple[str, str]]:
    """Field → its annotation and the string below it, of the class and its bases."""
    found: dict[str, tuple[str, str]] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ not in sys.modules or not base.__module__.startswith("tui_agent"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for node, following in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = str(following.value.value) if is_text else ""  # type: ignore[union-attr]  # checked by is_text
            found[node.target.id] = (ast.unparse(node.annotation).replace("'", '"'), " ".join(text.split()))
    return found


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")

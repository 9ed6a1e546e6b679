"""The settings written down: a commented config.yaml with every default, and a table for the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from tui_agent.settings.model import Part, Settings
from tui_agent.settings.tightening import rule_for
from tui_agent.settings.yaml_tree import Where

_HEAD = """\
# Settings of tui-agent. Each is shown with its default; take the `#` away in front of a line to change it.
# The environment (TUI_AGENT_ and the name in capitals) and the command line count more than this file.
"""


def example() -> str:
    """A config.yaml that sets nothing and explains everything. Every line of it is a comment or blank."""
    lines = [_HEAD]
    for name, field in Settings.model_fields.items():
        lines.append(f"\n# {field.description}")
        group = _group(field)
        if group is None:
            lines.append(f"# {_range(field)}" if _range(field) else "")
            lines.append(f"#{name}: {_written(field.get_default(call_default_factory=True))}")
            continue
        lines.append(f"#{name}:")
        for inner, part in group.model_fields.items():
            extent = f" ({_range(part)})" if _range(part) else ""
            lines.append(f"#  {inner}: {_written(part.default)}  # {part.description}{extent}")
    return "\n".join(line for line in lines if line) + "\n"


def table() -> str:
    """All settings as a markdown table: name, type or range, default, what it is, and whether a workspace may tighten
    it."""
    rows = ["| Setting | Type | Default | What | Workspace |", "| --- | --- | --- | --- | --- |"]
    for where, field in fields():
        name = ".".join(where)
        may = "may tighten" if rule_for(name) else ""
        default = _written(field.get_default(call_default_factory=True))
        kind = kind_of(field).replace("|", "\\|")
        rows.append(f"| `{name}` | {kind} | `{default}` | {field.description} | {may} |")
    return "\n".join(rows) + "\n"


def fields() -> Iterator[tuple[Where, FieldInfo]]:
    """Every single setting with what is known of it."""
    for name, field in Settings.model_fields.items():
        group = _group(field)
        if group is None:
            yield (name,), field
        else:
            yield from (((name, inner), part) for inner, part in group.model_fields.items())


def kind_of(field: FieldInfo) -> str:
    """What a value may be, in words: the words there are, the range of a number, or the type."""
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not type(None)]
    outer = get_origin(field.annotation)
    if outer is dict:
        return "names with values"
    words = _range(field)
    if outer is tuple or _many(field.annotation):
        return f"list of: {words}" if words else "list of texts"
    if bool in kinds:
        return "true | false"
    number = "whole number" if int in kinds else "number" if float in kinds else ""
    if number:
        return f"{number}, {words}" if words else number
    return words or "text"


def _many(kind: Any) -> bool:
    return get_origin(kind) is tuple


def written(value: Any) -> str:
    """A value as YAML takes it, on one line."""
    return _written(value)


def _group(field: FieldInfo) -> type[Part] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Part) else None


def _range(field: FieldInfo) -> str:
    """What values there are: the words, the range of a number, or the kind."""
    words = [word for kind in (field.annotation, *get_args(field.annotation)) for word in _words(kind)]
    if words:
        return " | ".join(words)
    limits: dict[str, Any] = {}
    for one in field.metadata:
        limits |= {
            name: getattr(one, name) for name in ("ge", "gt", "le") if getattr(one, name, None) is not None
        }
    if "le" not in limits:
        return ""
    low = f"{limits['ge']:g}" if "ge" in limits else f"more than {limits.get('gt', 0):g}"
    return f"{low} to {limits['le']:,}"


def _words(kind: Any) -> list[str]:
    return [str(word) for word in get_args(kind) if isinstance(word, str)]


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value) if not isinstance(value, str) or value in ("off", "on") else value

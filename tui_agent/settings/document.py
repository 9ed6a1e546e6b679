"""Documenting the settings: a commented config.yaml and a table; changing one setting in a file."""

from __future__ import annotations

import copy
import json
import re
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from tui_agent.settings.checking import check_settings, group_of, nest_values, setting_fields
from tui_agent.settings.model import HEADINGS, Settings, SettingsGroup
from tui_agent.settings.screen import screen_problems
from tui_agent.settings.source import parse_text
from tui_agent.settings.tightening import rule_for
from tui_agent.settings.tree import KeyPath, SettingsTree, parse_tree

_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]*")
_HEADER = """\
# Settings of tui-agent. Each is shown with its default; remove the `#` at the start of a line to change it.
# The environment (TUI_AGENT_ and the name in capitals) and the command line override this file.
"""


def example_config() -> str:
    """Return a config.yaml with every setting commented out and explained."""
    lines = [_HEADER]
    for name, field in Settings.model_fields.items():
        if name in HEADINGS:
            lines.append(f"\n# === {HEADINGS[name]}")
        lines.append(f"\n# {field.description}")
        group = group_of(field)
        if group is None:
            lines.append(f"# {_range(field)}" if _range(field) else "")
            lines.append(f"#{name}: {_format_default(field.get_default(call_default_factory=True))}")
            continue
        lines.append(f"#{name}:")
        for child, part in group.model_fields.items():
            extent = f" ({_range(part)})" if _range(part) else ""
            lines.append(f"#  {child}: {_format_default(part.default)}  # {part.description}{extent}")
    return "\n".join(line for line in lines if line) + "\n"


def settings_table() -> str:
    """Return all settings as a Markdown table: type or range, default, description, and whether a workspace may tighten
    it."""
    rows = ["| Setting | Type | Default | What | Workspace |", "| --- | --- | --- | --- | --- |"]
    for key_path, field in setting_fields():
        name = ".".join(key_path)
        if heading := heading_before(key_path):
            rows.append(f"| **{heading}** |  |  |  |  |")
        workspace = "may tighten" if rule_for(name) else ""
        default = _format_default(field.get_default(call_default_factory=True))
        kind = describe_type(field).replace("|", "\\|")
        rows.append(f"| `{name}` | {kind} | `{default}` | {field.description} | {workspace} |")
    return "\n".join(rows) + "\n"


def heading_before(key_path: KeyPath) -> str:
    """Return the heading of the subject that a setting is the first one of; empty for the others."""
    field = Settings.model_fields[key_path[0]]
    group = group_of(field)
    is_first = group is None or key_path[1] == next(iter(group.model_fields))
    return HEADINGS.get(key_path[0], "") if is_first else ""


def describe_type(field: FieldInfo) -> str:
    """Describe the values of a field: the choices, the range of a number, or the type."""
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not type(None)]
    outer = get_origin(field.annotation)
    if outer is dict:
        return "names with values"
    choices = _range(field)
    if outer is tuple:
        return f"list of: {choices}" if choices else "list of strings"
    if bool in kinds:
        return "true | false"
    number = "whole number" if int in kinds else "number" if float in kinds else ""
    if number:
        return f"{number}, {choices}" if choices else number
    return choices or "string"


def _range(field: FieldInfo) -> str:
    """Describe the choices or the range of a field."""
    choices = [
        literal for kind in (field.annotation, *get_args(field.annotation)) for literal in _literal_choices(kind)
    ]
    if choices:
        return " | ".join(choices)
    limits: dict[str, Any] = {}
    for item in field.metadata:
        limits |= {name: getattr(item, name) for name in ("ge", "gt", "le") if getattr(item, name, None) is not None}
    if "le" not in limits:
        return ""
    low = f"{limits['ge']:g}" if "ge" in limits else f"more than {limits.get('gt', 0):g}"
    return f"{low} to {limits['le']:,}"


def _literal_choices(kind: Any) -> list[str]:
    return [str(literal) for literal in get_args(kind) if isinstance(literal, str)]


def _format_default(value: Any) -> str:
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value) if not isinstance(value, str) or value in ("off", "on") else value


# --- changing one setting -------------------------------------------------------------------


class SettingsEditError(Exception):
    """The text can't be changed safely; the message says why and what to do."""


def parse_value(key_path: KeyPath, literal: str) -> tuple[Any, str]:
    """Parse the text a user entered for a setting; returns the value and the error, empty if it is valid."""
    value = parse_text(key_path, literal.strip())
    if not (error := _validation_error(key_path, value)):
        return value, ""
    tree, _ = parse_tree("", f"value: {literal}\n")
    read = tree.values.get("value", value) if tree else value
    return None, error if isinstance(read, str) else _validation_error(key_path, read) or error


def _simplify_number(value: Any) -> Any:
    """Return 45 for 45.0, as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _validation_error(key_path: KeyPath, value: Any) -> str:
    tree = SettingsTree(file="", values=nest_values({key_path: value}))
    chosen, problems = check_settings(tree)
    for problem in (*problems, *screen_problems(chosen, tree)):
        return problem.message if problem.field == ".".join(key_path) else f"{problem.field}: {problem.message}"
    return ""


def yaml_literal(value: Any) -> str:
    """Return a value as one line of YAML."""
    value = _simplify_number(value)
    if isinstance(value, str):
        import yaml

        is_plain = _PLAIN_SCALAR.fullmatch(value) and not value.endswith(":") and yaml.safe_load(value) == value
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list):
        return f"[{', '.join(json.dumps(item, ensure_ascii=False) for item in value)}]"
    return json.dumps(value, ensure_ascii=False, default=_group_values)


def _group_values(group: SettingsGroup) -> dict[str, Any]:
    return group.model_dump(exclude_none=True)


def with_setting(text: str, key_path: KeyPath, value: Any) -> str:
    """Return `text` with one setting changed. Raises SettingsEditError."""
    return _edit_text(text, key_path, yaml_literal(value), _simplify_number(value))


def without_setting(text: str, key_path: KeyPath) -> str:
    """Return `text` without one setting. Raises SettingsEditError."""
    return _edit_text(text, key_path, None, None)


def _edit_text(text: str, key_path: KeyPath, literal: str | None, value: Any) -> str:
    tree, problems = parse_tree("", text)
    if tree is None:
        raise SettingsEditError(f"The file {str(problems[0]).removeprefix(': ').removeprefix(', ')}. Fix that first.")
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    editor = _YamlEditor(text, "\r\n" if "\r\n" in text else "\n")
    new = editor.append(key_path, literal) if root is None else editor.edit_mapping(root, key_path, literal)
    expected = _expected_values(tree.values, key_path, value, literal is None)
    reparsed, _ = parse_tree("", new)
    if reparsed is None or json.dumps(reparsed.values, default=str) != json.dumps(expected, default=str):
        raise SettingsEditError(
            "The file is written in a way that can't be changed safely here; edit it in your editor."
        )
    return new


def _expected_values(values: dict[str, Any], key_path: KeyPath, value: Any, remove: bool) -> dict[str, Any]:
    """Return the values that the new text must have."""
    expected = copy.deepcopy(values)
    position, parents = expected, []
    for name in key_path[:-1]:
        if not isinstance(position.get(name), dict):
            if remove:
                return expected
            position[name] = {}
        parents.append((position, name))
        position = position[name]
    if not remove:
        position[key_path[-1]] = list(value) if isinstance(value, tuple) else value
        return expected
    position.pop(key_path[-1], None)
    for outer, name in reversed(parents):
        if not outer[name]:
            del outer[name]
    return expected


class _YamlEditor:
    """Edits the text at positions reported by the YAML parser."""

    def __init__(self, text: str, end: str) -> None:
        self.text = text
        self.end = end

    def append(self, key_path: KeyPath, literal: str | None, indent: str = "") -> str:
        """Append the setting to the text."""
        if literal is None:
            return self.text
        text = self.text
        lead = "" if not text or text.endswith("\n") else self.end
        return text + lead + self._lines(key_path, literal, indent)

    def _lines(self, key_path: KeyPath, literal: str, indent: str) -> str:
        groups = [f"{indent}{'  ' * depth}{name}:{self.end}" for depth, name in enumerate(key_path[:-1])]
        return "".join(groups) + f"{indent}{'  ' * (len(key_path) - 1)}{key_path[-1]}: {literal}{self.end}"

    def edit_mapping(
        self, node: Any, key_path: KeyPath, literal: str | None, outer: tuple[Any, Any, Any] | None = None
    ) -> str:
        """Edit a mapping; `outer` is the enclosing mapping with this one's key and value."""
        for key, value in node.value:
            if key.value != key_path[0]:
                continue
            if len(key_path) > 1 and value.id == "mapping" and value.value:
                return self.edit_mapping(value, key_path[1:], literal, (node, key, value))
            if literal is None:
                if len(key_path) > 1:
                    return self.text
                return self._remove(*outer) if outer and len(node.value) == 1 else self._remove(node, key, value)
            return self._replace(key, value, key_path, literal)
        if literal is None:
            return self.text
        return self._insert(node, key_path, literal, top=outer is None)

    def _replace(self, key: Any, value: Any, key_path: KeyPath, literal: str) -> str:
        if len(key_path) > 1:  # a group with nothing in it
            return self._splice(key.end_mark.index, self._value_end(key, value), f": {{{key_path[1]}: {literal}}}")
        same_line = value.start_mark.line == key.start_mark.line and value.end_mark.index > value.start_mark.index
        if same_line and (value.id == "scalar" or value.flow_style) and getattr(value, "style", None) not in ("|", ">"):
            return self._splice(value.start_mark.index, value.end_mark.index, literal)
        return self._splice(key.end_mark.index, self._value_end(key, value), f": {literal}")

    def _insert(self, node: Any, key_path: KeyPath, literal: str, *, top: bool) -> str:
        if node.flow_style:
            position = node.end_mark.index - 1
            child = literal
            for name in reversed(key_path[1:]):
                child = f"{{{name}: {child}}}"
            before = self.text[:position].rstrip()
            comma = "" if not node.value else " " if before.endswith(",") else ", "
            return self._splice(len(before), position, f"{comma}{key_path[0]}: {child}")
        if top:
            return self.append(key_path, literal, " " * node.start_mark.column)
        position = self._line_end(self._value_end(*node.value[-1]))
        lead = "" if self.text[:position].endswith("\n") else self.end
        return self._splice(position, position, lead + self._lines(key_path, literal, " " * node.start_mark.column))

    def _remove(self, node: Any, key: Any, value: Any) -> str:
        start, end = key.start_mark.index, self._value_end(key, value)
        if not node.flow_style:
            return self._splice(self.text.rfind("\n", 0, start) + 1, self._line_end(end), "")
        comma = re.compile(r"\s*,\s*").match(self.text, end)
        if comma:
            return self._splice(start, comma.end(), "")
        before = re.search(r",?\s*$", self.text[:start])
        return self._splice(before.start() if before else start, end, "")

    def _value_end(self, key: Any, value: Any) -> int:
        """Return where a value ends; a block ends before the next key, without comments in between."""
        if value.id == "scalar" or value.flow_style or not value.value:
            empty = value.end_mark.index == value.start_mark.index
            end = key.end_mark.index + self.text[key.end_mark.index :].index(":") + 1 if empty else value.end_mark.index
            return len(self.text[:end].rstrip()) if value.id == "scalar" and value.style in ("|", ">") else end
        last = value.value[-1]
        return self._value_end(*last) if value.id == "mapping" else self._value_end(key, last)

    def _line_end(self, position: int) -> int:
        reparsed = self.text.find("\n", position)
        return len(self.text) if reparsed < 0 else reparsed + 1

    def _splice(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]

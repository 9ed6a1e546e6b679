"""The settings written down: a commented config.yaml, a table for the documentation, one setting changed in a file."""

from __future__ import annotations

import copy
import json
import re
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from tui_agent.settings.checking import as_groups, check_settings, group_of, setting_fields
from tui_agent.settings.model import Settings
from tui_agent.settings.screen import screen_problems
from tui_agent.settings.source import read_word
from tui_agent.settings.tightening import rule_for
from tui_agent.settings.tree import Tree, Where, parse_tree

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]*")
_HEAD = """\
# Settings of tui-agent. Each is shown with its default; remove the `#` at the start of a line to change it.
# The environment (TUI_AGENT_ and the name in capitals) and the command line override this file.
"""


def example_config() -> str:
    """A config.yaml that sets nothing and explains everything. Every line of it is a comment or blank."""
    lines = [_HEAD]
    for name, field in Settings.model_fields.items():
        lines.append(f"\n# {field.description}")
        group = group_of(field)
        if group is None:
            lines.append(f"# {_range(field)}" if _range(field) else "")
            lines.append(f"#{name}: {_written(field.get_default(call_default_factory=True))}")
            continue
        lines.append(f"#{name}:")
        for inner, part in group.model_fields.items():
            extent = f" ({_range(part)})" if _range(part) else ""
            lines.append(f"#  {inner}: {_written(part.default)}  # {part.description}{extent}")
    return "\n".join(line for line in lines if line) + "\n"


def settings_table() -> str:
    """All settings as a markdown table: name, type or range, default, what it is, and whether a workspace may tighten
    it."""
    rows = ["| Setting | Type | Default | What | Workspace |", "| --- | --- | --- | --- | --- |"]
    for where, field in setting_fields():
        name = ".".join(where)
        may = "may tighten" if rule_for(name) else ""
        default = _written(field.get_default(call_default_factory=True))
        kind = describe_type(field).replace("|", "\\|")
        rows.append(f"| `{name}` | {kind} | `{default}` | {field.description} | {may} |")
    return "\n".join(rows) + "\n"


def describe_type(field: FieldInfo) -> str:
    """What a value may be, in words: the words there are, the range of a number, or the type."""
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not type(None)]
    outer = get_origin(field.annotation)
    if outer is dict:
        return "names with values"
    words = _range(field)
    if outer is tuple:
        return f"list of: {words}" if words else "list of strings"
    if bool in kinds:
        return "true | false"
    number = "whole number" if int in kinds else "number" if float in kinds else ""
    if number:
        return f"{number}, {words}" if words else number
    return words or "string"


def _range(field: FieldInfo) -> str:
    """What values there are: the words, the range of a number, or the kind."""
    words = [word for kind in (field.annotation, *get_args(field.annotation)) for word in _words(kind)]
    if words:
        return " | ".join(words)
    limits: dict[str, Any] = {}
    for one in field.metadata:
        limits |= {name: getattr(one, name) for name in ("ge", "gt", "le") if getattr(one, name, None) is not None}
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


# --- changing one setting -------------------------------------------------------------------


class SettingsEditError(Exception):
    """The text can't be changed safely; the message says why and what to do."""


def parse_value(where: Where, word: str) -> tuple[Any, str]:
    """What the user typed for a setting as a value, and what is wrong with it; empty when nothing is."""
    value = read_word(where, word.strip())
    if not (wrong := _wrong(where, value)):
        return value, ""
    tree, _ = parse_tree("", f"value: {word}\n")
    read = tree.values.get("value", value) if tree else value
    return None, wrong if isinstance(read, str) else _wrong(where, read) or wrong


def _whole(value: Any) -> Any:
    """45 for 45.0, as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _wrong(where: Where, value: Any) -> str:
    tree = Tree(file="", values=as_groups({where: value}))
    chosen, problems = check_settings(tree)
    for problem in (*problems, *screen_problems(chosen, tree)):
        return problem.message if problem.field == ".".join(where) else f"{problem.field}: {problem.message}"
    return ""


def yaml_literal(value: Any) -> str:
    """A value on one line of YAML."""
    value = _whole(value)
    if isinstance(value, str):
        import yaml

        plain = _BARE.fullmatch(value) and not value.endswith(":") and yaml.safe_load(value) == value
        return value if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list):
        return f"[{', '.join(json.dumps(one, ensure_ascii=False) for one in value)}]"
    return json.dumps(value, ensure_ascii=False)


def with_setting(text: str, where: Where, value: Any) -> str:
    """`text` with one setting set. Raises SettingsEditError."""
    return _changed(text, where, yaml_literal(value), _whole(value))


def without_setting(text: str, where: Where) -> str:
    """`text` without one setting; the same where it is not there. Raises SettingsEditError."""
    return _changed(text, where, None, None)


def _changed(text: str, where: Where, word: str | None, value: Any) -> str:
    tree, problems = parse_tree("", text)
    if tree is None:
        raise SettingsEditError(f"The file {str(problems[0]).removeprefix(': ').removeprefix(', ')}. Fix that first.")
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    edit = _Edit(text, "\r\n" if "\r\n" in text else "\n")
    new = edit.append(where, word) if root is None else edit.within(root, where, word)
    wanted = _with(tree.values, where, value, word is None)
    found, _ = parse_tree("", new)
    if found is None or json.dumps(found.values, default=str) != json.dumps(wanted, default=str):
        raise SettingsEditError(
            "The file is written in a way that can't be changed safely here; edit it in your editor."
        )
    return new


def _with(values: dict[str, Any], where: Where, value: Any, remove: bool) -> dict[str, Any]:
    """The values that the new text must have."""
    wanted = copy.deepcopy(values)
    at, above = wanted, []
    for name in where[:-1]:
        if not isinstance(at.get(name), dict):
            if remove:
                return wanted
            at[name] = {}
        above.append((at, name))
        at = at[name]
    if not remove:
        at[where[-1]] = list(value) if isinstance(value, tuple) else value
        return wanted
    at.pop(where[-1], None)
    for outer, name in reversed(above):
        if not outer[name]:
            del outer[name]
    return wanted


class _Edit:
    """Cuts and inserts at the places that the parser tells."""

    def __init__(self, text: str, end: str) -> None:
        self.text = text
        self.end = end

    def append(self, where: Where, word: str | None, indent: str = "") -> str:
        """Behind everything."""
        if word is None:
            return self.text
        text = self.text
        lead = "" if not text or text.endswith("\n") else self.end
        return text + lead + self._lines(where, word, indent)

    def _lines(self, where: Where, word: str, indent: str) -> str:
        groups = [f"{indent}{'  ' * depth}{name}:{self.end}" for depth, name in enumerate(where[:-1])]
        return "".join(groups) + f"{indent}{'  ' * (len(where) - 1)}{where[-1]}: {word}{self.end}"

    def within(self, node: Any, where: Where, word: str | None, outer: tuple[Any, Any, Any] | None = None) -> str:
        """In a mapping; `outer` is the mapping around it with this one's key and value."""
        for key, value in node.value:
            if key.value != where[0]:
                continue
            if len(where) > 1 and value.id == "mapping" and value.value:
                return self.within(value, where[1:], word, (node, key, value))
            if word is None:
                if len(where) > 1:
                    return self.text
                return self._cut(*outer) if outer and len(node.value) == 1 else self._cut(node, key, value)
            return self._replace(key, value, where, word)
        if word is None:
            return self.text
        return self._insert(node, where, word, top=outer is None)

    def _replace(self, key: Any, value: Any, where: Where, word: str) -> str:
        if len(where) > 1:  # a group with nothing in it
            return self._splice(key.end_mark.index, self._last(key, value), f": {{{where[1]}: {word}}}")
        same_line = value.start_mark.line == key.start_mark.line and value.end_mark.index > value.start_mark.index
        if same_line and (value.id == "scalar" or value.flow_style) and getattr(value, "style", None) not in ("|", ">"):
            return self._splice(value.start_mark.index, value.end_mark.index, word)
        return self._splice(key.end_mark.index, self._last(key, value), f": {word}")

    def _insert(self, node: Any, where: Where, word: str, *, top: bool) -> str:
        if node.flow_style:
            at = node.end_mark.index - 1
            inner = word
            for name in reversed(where[1:]):
                inner = f"{{{name}: {inner}}}"
            before = self.text[:at].rstrip()
            comma = "" if not node.value else " " if before.endswith(",") else ", "
            return self._splice(len(before), at, f"{comma}{where[0]}: {inner}")
        if top:
            return self.append(where, word, " " * node.start_mark.column)
        at = self._line_end(self._last(*node.value[-1]))
        lead = "" if self.text[:at].endswith("\n") else self.end
        return self._splice(at, at, lead + self._lines(where, word, " " * node.start_mark.column))

    def _cut(self, node: Any, key: Any, value: Any) -> str:
        start, stop = key.start_mark.index, self._last(key, value)
        if not node.flow_style:
            return self._splice(self.text.rfind("\n", 0, start) + 1, self._line_end(stop), "")
        rest = re.compile(r"\s*,\s*").match(self.text, stop)
        if rest:
            return self._splice(start, rest.end(), "")
        before = re.search(r",?\s*$", self.text[:start])
        return self._splice(before.start() if before else start, stop, "")

    def _last(self, key: Any, value: Any) -> int:
        """Where the last word of a value ends; a block ends only where the next thing begins, comments between."""
        if value.id == "scalar" or value.flow_style or not value.value:
            empty = value.end_mark.index == value.start_mark.index
            stop = (
                key.end_mark.index + self.text[key.end_mark.index :].index(":") + 1 if empty else value.end_mark.index
            )
            return len(self.text[:stop].rstrip()) if value.id == "scalar" and value.style in ("|", ">") else stop
        last = value.value[-1]
        return self._last(*last) if value.id == "mapping" else self._last(key, last)

    def _line_end(self, at: int) -> int:
        found = self.text.find("\n", at)
        return len(self.text) if found < 0 else found + 1

    def _splice(self, start: int, stop: int, new: str) -> str:
        return self.text[:start] + new + self.text[stop:]

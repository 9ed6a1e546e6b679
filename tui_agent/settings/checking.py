"""Validating the values of one source: invalid ones are reported by line and field, the others are used."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tui_agent.common.suggestions import did_you_mean
from tui_agent.settings.model import ServerSettings, Settings, SettingsGroup
from tui_agent.settings.tree import KeyPath, SettingsProblem, SettingsTree, printable

_TYPE_NAMES = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string (in quotes)",
    "tuple_type": "a list",
    "dict_type": "a group of `name: value`",
    "model_type": "a group of settings",
    "model_attributes_type": "a group of settings",
}
_PATTERN_MESSAGES = {
    "base_url": "must be an http:// or https:// address",
    "[key]": "must be letters, digits, dots, hyphens and underscores",
    "token_env": "must be the name of an environment variable",
    "keep_alive": "must be a time such as 30m, or -1 or 0",
}


def check_settings(tree: SettingsTree) -> tuple[Settings, list[SettingsProblem]]:
    """Return the settings from the valid values in `tree`, and a problem for each invalid one."""
    values = copy.deepcopy(tree.values)
    problems: list[SettingsProblem] = []
    while True:
        try:
            return Settings.model_validate(values), problems
        except ValidationError as validation_error:
            for error in validation_error.errors(include_url=False, include_context=True):
                key_path = _existing_path(values, error["loc"])
                if not key_path:
                    continue
                problems.append(tree.problem(key_path, _describe_error(key_path, error)))
                _drop(values, key_path)


def iter_set_values(settings: Settings) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the settings that were set, with their values."""
    for key_path in setting_paths():
        node: Any = settings
        for name in key_path:
            if name not in node.model_fields_set:
                break
            node = getattr(node, name)
        else:
            yield key_path, node


@cache
def setting_paths() -> tuple[KeyPath, ...]:
    """Return the paths of all settings."""
    return tuple(key_path for key_path, _ in setting_fields())


def setting_fields(group: type[SettingsGroup] = Settings, parent: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Yield the path and the field of every setting."""
    for name, field in group.model_fields.items():
        if nested := group_of(field):
            yield from setting_fields(nested, (*parent, name))
        else:
            yield (*parent, name), field


def group_of(field: FieldInfo) -> type[SettingsGroup] | None:
    """Return the group that a field contains, or None for a single setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, SettingsGroup) else None


def nest_values(values: Mapping[KeyPath, Any]) -> dict[str, Any]:
    """Convert values by path to nested groups."""
    groups: dict[str, Any] = {}
    for key_path, value in values.items():
        node = groups
        for name in key_path[:-1]:
            node = node.setdefault(name, {})
        node[key_path[-1]] = value
    return groups


def _existing_path(values: dict[str, Any], loc: tuple[int | str, ...]) -> KeyPath:
    """Return the part of `loc` that exists in `values`."""
    key_path: list[str] = []
    node: Any = values
    for step in loc:
        if not isinstance(node, dict) or step not in node:
            break
        key_path.append(str(step))
        node = node[step]
    return tuple(key_path)


def _drop(values: dict[str, Any], key_path: KeyPath) -> None:
    node = values
    for name in key_path[:-1]:
        node = node[name]
    node.pop(key_path[-1], None)


def _describe_error(key_path: KeyPath, error: Any) -> str:
    kind, given = error["type"], error["input"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return _describe_unknown(key_path)
    if key_path[0] == "keys" and len(key_path) > 1 and kind in _TYPE_NAMES:
        return f"must be a key such as ctrl+o, a list of them, or `none`, not {_format_value(given)}"
    if kind == "missing":
        return f"needs `{error['loc'][-1]}`"
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}, not {_format_value(given)}"
    if kind == "literal_error":
        return f"must be {context['expected']}, not {_format_value(given)}"
    if kind == "string_pattern_mismatch":
        return _PATTERN_MESSAGES.get(str(error["loc"][-1]), "does not have the right form")
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if name in context:
            return f"must be {words} {context[name]:g}, not {_format_value(given)}"
    message = str(error["msg"])
    return message[:1].lower() + message[1:]


def _describe_unknown(key_path: KeyPath) -> str:
    if key_path[0] == "servers":
        return _describe_unknown_of_server(key_path[-1])
    if len(key_path) == 1 and ("token" in key_path[0] or "key" in key_path[0].split("_")):
        return (
            "is not a setting: tokens are never stored in this file; put it in the environment variable "
            "LLM_AUTH_TOKEN, or in a file that `token_file` names"
        )
    siblings = [path[len(key_path) - 1] for path in setting_paths() if path[: len(key_path) - 1] == key_path[:-1]]
    if suggestion := did_you_mean(key_path[-1], siblings, 0.6):
        return f"is not a setting{suggestion}"
    elsewhere = [".".join(path) for path in setting_paths() if path[-1] == key_path[-1]]
    return f"is not a setting; did you mean `{elsewhere[0]}`?" if elsewhere else "is not a setting"


def _describe_unknown_of_server(name: str) -> str:
    if "token" in name or "key" in name.split("_"):
        return "is not a setting: tokens are never stored in this file; `token_env` or `token_file` says where it is"
    return f"is not a setting of a server{did_you_mean(name, tuple(ServerSettings.model_fields), 0.6) or ''}"


def _format_value(given: Any) -> str:
    if given is None:
        return "empty"
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, list | tuple):
        return "a list"
    if isinstance(given, dict):
        return "a group"
    return repr(printable(str(given), 40)) if isinstance(given, str) else printable(str(given), 40)

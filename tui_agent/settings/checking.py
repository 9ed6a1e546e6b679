"""Checking the values of one source against the model: each mistake named by line and field, the rest kept."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tui_agent.settings.model import Settings, SettingsGroup
from tui_agent.settings.tree import SettingsProblem, Tree, Where, printable

_KINDS = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string (in quotes)",
    "tuple_type": "a list",
    "dict_type": "a group of `name: value`",
    "model_type": "a group of settings",
    "model_attributes_type": "a group of settings",
}
_FORMS = {
    "base_url": "must be an http:// or https:// address",
    "token_env": "must be the name of an environment variable",
    "keep_alive": "must be a time such as 30m, or -1 or 0",
}


def check_settings(tree: Tree) -> tuple[Settings, list[SettingsProblem]]:
    """Settings from what is right in `tree`, and a problem for each value that is not."""
    values = copy.deepcopy(tree.values)
    problems: list[SettingsProblem] = []
    while True:
        try:
            return Settings.model_validate(values), problems
        except ValidationError as error:
            for mistake in error.errors(include_url=False, include_context=True):
                where = _existing(values, mistake["loc"])
                if not where:
                    continue
                problems.append(
                    SettingsProblem(
                        file=tree.file,
                        line=tree.line(where),
                        field=printable(".".join(where)),
                        message=_sentence(where, mistake),
                    )
                )
                _drop(values, where)


def set_values(settings: Settings) -> Iterator[tuple[Where, Any]]:
    """The single settings that were set, groups taken apart, with their values."""
    for where in setting_paths():
        at: Any = settings
        for name in where:
            if name not in at.model_fields_set:
                break
            at = getattr(at, name)
        else:
            yield where, at


@cache
def setting_paths() -> tuple[Where, ...]:
    """All settings there are."""
    return tuple(where for where, _ in setting_fields())


def setting_fields(part: type[SettingsGroup] = Settings, above: Where = ()) -> Iterator[tuple[Where, FieldInfo]]:
    """Every single setting with what is known of it."""
    for name, field in part.model_fields.items():
        if group := group_of(field):
            yield from setting_fields(group, (*above, name))
        else:
            yield (*above, name), field


def group_of(field: FieldInfo) -> type[SettingsGroup] | None:
    """The group that a field holds; None for a single setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, SettingsGroup) else None


def as_groups(values: Mapping[Where, Any]) -> dict[str, Any]:
    """Values by where they stand, as groups in groups."""
    whole: dict[str, Any] = {}
    for where, value in values.items():
        at = whole
        for name in where[:-1]:
            at = at.setdefault(name, {})
        at[where[-1]] = value
    return whole


def _existing(values: dict[str, Any], loc: tuple[int | str, ...]) -> Where:
    """The part of `loc` that leads through groups and tables of `values`."""
    where: list[str] = []
    at: Any = values
    for step in loc:
        if not isinstance(at, dict) or step not in at:
            break
        where.append(str(step))
        at = at[step]
    return tuple(where)


def _drop(values: dict[str, Any], where: Where) -> None:
    at = values
    for name in where[:-1]:
        at = at[name]
    at.pop(where[-1], None)


def _sentence(where: Where, mistake: Any) -> str:
    kind, given = mistake["type"], mistake["input"]
    context = mistake.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(where)
    if where[0] == "keys" and len(where) > 1 and kind in _KINDS:
        return f"must be a key such as ctrl+o, a list of them, or `none`, not {_shown(given)}"
    if kind in _KINDS:
        return f"must be {_KINDS[kind]}, not {_shown(given)}"
    if kind == "literal_error":
        return f"must be {context['expected']}, not {_shown(given)}"
    if kind == "string_pattern_mismatch":
        return _FORMS.get(where[-1], "does not have the right form")
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if name in context:
            return f"must be {words} {context[name]:g}, not {_shown(given)}"
    said = str(mistake["msg"])
    return said[:1].lower() + said[1:]


def _unknown(where: Where) -> str:
    if len(where) == 1 and ("token" in where[0] or "key" in where[0].split("_")):
        return (
            "is not a setting: tokens are never stored in this file; put it in the environment variable "
            "LLM_AUTH_TOKEN, or in a file that `token_file` names"
        )
    siblings = [path[len(where) - 1] for path in setting_paths() if path[: len(where) - 1] == where[:-1]]
    near = difflib.get_close_matches(where[-1].lower().replace("-", "_"), siblings, n=1, cutoff=0.6)
    if near:
        return f"is not a setting; did you mean `{near[0]}`?"
    elsewhere = [".".join(path) for path in setting_paths() if path[-1] == where[-1]]
    return f"is not a setting; did you mean `{elsewhere[0]}`?" if elsewhere else "is not a setting"


def _shown(given: Any) -> str:
    if given is None:
        return "empty"
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, list | tuple):
        return "a list"
    if isinstance(given, dict):
        return "a group"
    return repr(printable(str(given), 40)) if isinstance(given, str) else printable(str(given), 40)

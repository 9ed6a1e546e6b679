"""The tools on offer, their argument schemas, and messages about invalid calls (T7, C5)."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from tui_agent.common.domain import Mode, ToolCall, ToolResult, ToolSpec
from tui_agent.common.naming import resolve_argument_name, resolve_name, snake_case
from tui_agent.common.suggestions import similar_names
from tui_agent.text import one_line
from tui_agent.tools.base import Args, Tool
from tui_agent.tools.wording import escape_surrogates

_DROPPED_KEYS = ("title", "default", "additionalProperties", "minLength", "maxLength", "minimum", "maximum", "maxItems")


@functools.cache
def parameter_schema(kind: type[Args]) -> dict[str, Any]:
    """Return the JSON schema of an argument model without titles, defaults, limits and null alternatives."""
    schema = kind.model_json_schema()
    schema.pop("description", None)
    short: dict[str, Any] = {
        "type": "object",
        "properties": {name: _shorten_schema(field) for name, field in schema.get("properties", {}).items()},
    }
    if required := schema.get("required"):
        short["required"] = required
    return short


def _shorten_schema(field: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in field.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        field = {**field, **kinds[0]}
        field.pop("anyOf")
    short = {name: value for name, value in field.items() if name not in _DROPPED_KEYS}
    if "items" in short:
        short["items"] = _shorten_schema(short["items"])
    return short


_MAX_QUOTED = 60
_TYPE_NAMES = {
    "integer": "a whole number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "number": "a number",
}


def describe_arguments(kind: type[Args]) -> str:
    """Describe all arguments, such as `path (text, required), start_line (a whole number)`."""
    schema = parameter_schema(kind)
    required = schema.get("required", [])
    return ", ".join(
        f"{name} ({_type_name(field)}{', required' if name in required else ''})"
        for name, field in schema.get("properties", {}).items()
    )


def describe_errors(tool: str, kind: type[Args], error: pydantic.ValidationError, *, missing: bool = True) -> str:
    """Return a sentence per invalid argument; missing ones are skipped unless `missing` is set."""
    fields = parameter_schema(kind).get("properties", {})
    errors = [item for item in error.errors(include_url=False) if missing or item["type"] != "missing"]
    return " ".join(_describe_error(tool, fields, item) for item in errors[:5])


def _describe_error(tool: str, fields: dict[str, Any], detail: Any) -> str:
    name = escape_surrogates(".".join(str(part) for part in detail["loc"])) or "the arguments"
    if detail["type"] == "missing":
        return f"{tool} needs the argument {name}."
    if detail["type"] == "extra_forbidden":
        close = similar_names(name, fields, 1, 0.5)
        hint = f" Did you mean {close[0]}?" if close else ""
        return f"{tool} has no argument {name}.{hint}"
    field = fields.get(str(detail["loc"][0]) if detail["loc"] else "", {})
    given = escape_surrogates(json.dumps(detail["input"], ensure_ascii=False, default=str))
    given = given if len(given) <= _MAX_QUOTED else given[:_MAX_QUOTED] + "…"
    reason = "" if detail["type"].endswith(("_type", "_parsing")) else f" ({detail['msg'].lower()})"
    return f"The argument {name} of {tool} must be {_type_name(field)}, got {given}{reason}."


def _type_name(field: dict[str, Any]) -> str:
    return _TYPE_NAMES.get(str(field.get("type")), str(field.get("type", "a value")))


_WRAPPERS = frozenset({"arguments", "args", "parameters", "params", "input", "kwargs"})


BUILT_IN = (
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "search_workspace",
    "run_terminal_command",
    "ask_user",
    "plan_tools",
    "run_subagent",
)
"""Modules of this package, in the order in which the model sees their `TOOLS`."""


def default_tools(disabled: Collection[str] = (), *, code: bool = False) -> Registry:
    """Return the built-in tools except `disabled`; `code` adds the tools that query language servers (T3)."""
    modules = (*BUILT_IN, "code_tools") if code else BUILT_IN
    return Registry((tool for name in modules for tool in _load_tools(name)), disabled)


def _load_tools(module: str) -> tuple[Tool[Any], ...]:
    tools: tuple[Tool[Any], ...] = importlib.import_module(f"tui_agent.tools.{module}").TOOLS
    return tools


class Registry:
    """The tools on offer, in order."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        disabled: Collection[str] = (),
        hidden: Iterable[Tool[Any]] = (),
        blocked: Mapping[str, str] | None = None,
    ) -> None:
        """Calls of `hidden` tools still reach the tool, but the model is not told of them.

        `blocked` maps those that must not run to the reason.
        """
        self._tools: dict[str, Tool[Any]] = {tool.name: tool for tool in tools if tool.name not in disabled}
        self._hidden = {tool.name: tool for tool in hidden if tool.name not in self._tools}
        self._blocked = dict(blocked or {})
        self._aliases = {
            alias: tool for tool in (*self._tools.values(), *self._hidden.values()) for alias in tool.aliases
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical names."""
        return tuple(self._tools)

    @property
    def known_names(self) -> tuple[str, ...]:
        """The canonical names and aliases of the offered tools."""
        return (*self._tools, *(name for name, tool in self._aliases.items() if tool.name in self._tools))

    def for_mode(self, mode: Mode) -> Registry:
        """Return the tools for `mode` (W11); the others are hidden, so that calls are refused with a reason."""
        return self._hide({tool.name for tool in self._tools.values() if mode not in tool.modes}, {})

    def with_blocked(self, reasons: Mapping[str, str]) -> Registry:
        """Hide and block the named tools, each with the reason given to the model (W11, T5)."""
        return self._hide(reasons, reasons)

    def _hide(self, names: Collection[str], reasons: Mapping[str, str]) -> Registry:
        hidden = [*(tool for name, tool in self._tools.items() if name in names), *self._hidden.values()]
        return Registry(self._tools.values(), names, hidden, {**self._blocked, **reasons})

    def block_reason(self, tool: Tool[Any]) -> str:
        """Return why the tool must not run, for the model, or an empty string."""
        return self._blocked.get(tool.name, "")

    def only(self, names: Collection[str]) -> Registry:
        """Offer only the named tools; blocked tools stay blocked."""
        blocked = [tool for name, tool in self._hidden.items() if name in self._blocked]
        offered = [tool for name, tool in self._tools.items() if name in names]
        return Registry(offered, hidden=blocked, blocked=self._blocked)

    def read_only(self) -> Registry:
        """Return the tools that change nothing, for the read-only modes."""
        return Registry(tool for tool in self._tools.values() if tool.reads_only)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Describe the tools for the model."""
        return tuple(_spec(tool) for tool in self._tools.values())

    def find(self, name: str) -> Tool[Any] | None:
        """Find a tool by name or alias, in any spelling."""
        return resolve_name(name, self._tools, self._hidden, self._aliases)

    def parse(self, call: ToolCall) -> tuple[Tool[Any], Args] | ToolResult:
        """Return the tool and its validated arguments, or the result that reports what is wrong with the call."""
        tool = self.find(call.name)
        if tool is None:
            return ToolResult(success=False, code="unknown_tool", error=self._unknown(call.name))
        if call.fault is not None:
            return _bad_arguments(tool, f"The arguments of {tool.name} could not be read: {call.fault}.")
        try:
            return tool, tool.args.model_validate(_normalize_arguments(tool, call.arguments))
        except pydantic.ValidationError as error:
            return _bad_arguments(tool, describe_errors(tool.name, tool.args, error))

    def check_partial(self, name: str, given: dict[str, Any]) -> str:
        """Return what is wrong with incomplete arguments, ignoring missing ones, or an empty string (W4)."""
        tool = self._tools.get(name) or self._hidden[name]
        try:
            tool.args.model_validate(_normalize_arguments(tool, given))
        except pydantic.ValidationError as error:
            return describe_errors(tool.name, tool.args, error, missing=False)
        return ""

    def suggest(self, name: str) -> tuple[str, ...]:
        """Suggest up to three tools whose names are similar to `name` or share a word with it, best first."""
        normalized = snake_case(name)
        misspelled = similar_names(normalized, self.known_names, 1, 0.85)
        if misspelled and (tool := self.find(misspelled[0])) is not None:
            return (tool.name,)
        close = similar_names(normalized, self.known_names, 3, 0.5)
        words = {word for word in normalized.split("_") if len(word) > 3}
        with_shared_word = [real for real in self._tools if words & set(real.split("_"))]
        tools = (self.find(candidate) for candidate in (*close, *with_shared_word))
        return tuple(dict.fromkeys(tool.name for tool in tools if tool is not None))[:3]

    def _unknown(self, name: str) -> str:
        suggestions = self.suggest(name)
        hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
        quoted = escape_surrogates(one_line(name, 60))
        return f"There is no tool {quoted!r}.{hint} The tools are: {', '.join(self._tools)}."


def _bad_arguments(tool: Tool[Any], text: str) -> ToolResult:
    return ToolResult(
        success=False, code="bad_arguments", error=f"{text} {tool.name} takes: {describe_arguments(tool.args)}."
    )


@functools.cache
def _description(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def _spec(tool: Tool[Any]) -> ToolSpec:
    arguments: type[Args] = tool.args
    return ToolSpec(
        name=tool.name,
        description=_description(tool.name),
        parameters=parameter_schema(arguments),
        aliases=tool.aliases,
        argument_aliases=tool.argument_aliases,
    )


def _normalize_arguments(tool: Tool[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Map the arguments to canonical names and types, dropping empty values of optional ones."""
    fields = tool.args.model_fields
    given = _unwrap(given, fields)
    normalized: dict[str, Any] = {}
    for name, value in given.items():
        canonical = resolve_argument_name(name, fields, tool.argument_aliases)
        if canonical in normalized and canonical != name:
            if normalized[canonical] != value:
                normalized[name] = value
            continue
        normalized[canonical] = value
    for name, field in fields.items():
        value = normalized.get(name)
        if name not in normalized:
            continue
        if not field.is_required() and (value is None or (value == "" and field.annotation is not str)):
            del normalized[name]
        else:
            normalized[name] = _coerce_list(value, str(field.annotation))
    return normalized


def _unwrap(given: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Unwrap arguments nested in another object, or in JSON text."""
    if len(given) != 1:
        return given
    ((name, value),) = given.items()
    inner = _load_json(value) if isinstance(value, str) and value.lstrip()[:1] == "{" else value
    if not isinstance(inner, dict):
        return given
    if name in fields:
        return inner if name in inner and all(snake_case(str(key)) in fields for key in inner) else given
    return inner if snake_case(name) in _WRAPPERS else given


def _coerce_list(value: Any, annotation: str) -> Any:
    """Parse a list from JSON text or wrap a single entry; other types are not guessed."""
    if isinstance(value, str) and "list" in annotation:
        return _load_json(value) if value.lstrip()[:1] == "[" else [value]
    return value


def _load_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

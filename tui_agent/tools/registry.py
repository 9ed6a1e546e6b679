"""Which tools there are, how their arguments are described and checked, and messages about invalid calls (T7, C5)."""

from __future__ import annotations

import difflib
import functools
import importlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from tui_agent.common.domain import Mode, ToolCall, ToolResult, ToolSpec
from tui_agent.common.naming import resolve_argument_name, resolve_name, snake_case
from tui_agent.text import one_line
from tui_agent.tools.base import Args, Tool
from tui_agent.tools.wording import writable

_DROPPED = ("title", "default", "additionalProperties", "minLength", "maxLength", "minimum", "maximum", "maxItems")


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


def what_is_wrong(tool: str, kind: type[Args], error: pydantic.ValidationError, *, missing: bool = True) -> str:
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


def default_tools(off: Collection[str] = (), *, code: bool = False) -> Registry:
    """The built-in tools without those in `off`. `code` adds the tools that query language servers (T3)."""
    modules = (*BUILT_IN, "code_tools") if code else BUILT_IN
    return Registry((tool for name in modules for tool in _tools_of(name)), off)


def _tools_of(module: str) -> tuple[Tool[Any], ...]:
    tools: tuple[Tool[Any], ...] = importlib.import_module(f"tui_agent.tools.{module}").TOOLS
    return tools


class Registry:
    """The tools that are offered, in order."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        off: Collection[str] = (),
        hidden: Iterable[Tool[Any]] = (),
        shut: Mapping[str, str] | None = None,
    ) -> None:
        """`hidden` tools are found, so that a call of them is answered by the tool itself, but nowhere named. Those of
        them that are `shut`, by name with the reason, are not run."""
        self._tools: dict[str, Tool[Any]] = {tool.name: tool for tool in tools if tool.name not in off}
        self._hidden = {tool.name: tool for tool in hidden if tool.name not in self._tools}
        self._shut = dict(shut or {})
        found = (*self._tools.values(), *self._hidden.values())
        self._aliases = {alias: tool for tool in found for alias in tool.aliases}

    @property
    def names(self) -> tuple[str, ...]:
        """The real names."""
        return tuple(self._tools)

    @property
    def known_names(self) -> tuple[str, ...]:
        """The real names and all others under which a tool that is offered is found."""
        return (*self._tools, *(name for name, tool in self._aliases.items() if tool.name in self._tools))

    def for_mode(self, mode: Mode) -> Registry:
        """What is offered in `mode` (W11); the rest is still found, so that it is refused with the reason."""
        return self._hiding({tool.name for tool in self._tools.values() if mode not in tool.modes}, {})

    def shutting(self, reasons: Mapping[str, str]) -> Registry:
        """The same, but tools by these names are found only to be refused, each with its reason (W11, T5)."""
        return self._hiding(reasons, reasons)

    def _hiding(self, names: Collection[str], reasons: Mapping[str, str]) -> Registry:
        rest = [tool for name, tool in self._tools.items() if name in names]
        hidden = [*rest, *self._hidden.values()]
        return Registry(self._tools.values(), names, hidden, {**self._shut, **reasons})

    def why_shut(self, tool: Tool[Any]) -> str:
        """Why the tool may not be run, for the model; empty when it may."""
        return self._shut.get(tool.name, "")

    def only(self, names: Collection[str]) -> Registry:
        """The same without all tools but `names`; those that are shut stay so."""
        shut = [tool for name, tool in self._hidden.items() if name in self._shut]
        shown = [tool for name, tool in self._tools.items() if name in names]
        return Registry(shown, hidden=shut, shut=self._shut)

    def reading(self) -> Registry:
        """The tools that change nothing, for the modes that only read."""
        return Registry(tool for tool in self._tools.values() if tool.reads_only)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of the tools."""
        return tuple(_spec(tool) for tool in self._tools.values())

    def find(self, name: str) -> Tool[Any] | None:
        """The tool of that name, whatever way of writing or other name for it the model uses."""
        return resolve_name(name, self._tools, self._hidden, self._aliases)

    def parse(self, call: ToolCall) -> tuple[Tool[Any], Args] | ToolResult:
        """The tool and its checked arguments, or the result that tells the model what is wrong with its call."""
        tool = self.find(call.name)
        if tool is None:
            return ToolResult(success=False, code="unknown_tool", error=self._unknown(call.name))
        if call.fault is not None:
            return _bad(tool, f"The arguments of {tool.name} could not be read: {call.fault}.")
        try:
            return tool, tool.args.model_validate(_arranged(tool, call.arguments))
        except pydantic.ValidationError as error:
            return _bad(tool, what_is_wrong(tool.name, tool.args, error))

    def misfit(self, name: str, given: dict[str, Any]) -> str:
        """What is wrong with the arguments that are given so far; those that are missing may come later (W4)."""
        tool = self._tools.get(name) or self._hidden[name]
        try:
            tool.args.model_validate(_arranged(tool, given))
        except pydantic.ValidationError as error:
            if all(one["type"] == "missing" for one in error.errors(include_url=False)):
                return ""
            return what_is_wrong(tool.name, tool.args, error, missing=False)
        return ""

    def nearest(self, name: str) -> tuple[str, ...]:
        """Real names that are like `name` or share a word with it, the likeliest first; three at the most."""
        plain = snake_case(name)
        misspelt = difflib.get_close_matches(plain, self.known_names, n=1, cutoff=0.85)
        if misspelt and (tool := self.find(misspelt[0])) is not None:
            return (tool.name,)
        close = difflib.get_close_matches(plain, self.known_names, n=3, cutoff=0.5)
        words = {word for word in plain.split("_") if len(word) > 3}
        sharing = [real for real in self._tools if words & set(real.split("_"))]
        found = [tool.name for one in (*close, *sharing) if (tool := self.find(one)) is not None]
        return tuple(dict.fromkeys(found))[:3]

    def _unknown(self, name: str) -> str:
        near = self.nearest(name)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return f"There is no tool {writable(one_line(name, 60))!r}.{hint} The tools are: {', '.join(self._tools)}."


def _bad(tool: Tool[Any], text: str) -> ToolResult:
    return ToolResult(success=False, code="bad_arguments", error=f"{text} {tool.name} takes: {wanted(tool.args)}.")


@functools.cache
def _description(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def _spec(tool: Tool[Any]) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=_description(tool.name),
        parameters=parameters(tool.args),
        aliases=tool.aliases,
        argument_aliases=tool.argument_aliases,
    )


def _arranged(tool: Tool[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments under our names and types, without empty stand-ins for what may be left out."""
    fields = tool.args.model_fields
    given = _unwrapped(given, fields)
    arranged: dict[str, Any] = {}
    for name, value in given.items():
        ours = resolve_argument_name(name, fields, tool.argument_aliases)
        if ours in arranged and ours != name:
            if arranged[ours] != value:
                arranged[name] = value
            continue
        arranged[ours] = value
    for name, field in fields.items():
        value = arranged.get(name)
        if name not in arranged:
            continue
        if not field.is_required() and (value is None or (value == "" and field.annotation is not str)):
            del arranged[name]
        else:
            arranged[name] = _fitted(value, str(field.annotation))
    return arranged


def _unwrapped(given: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The arguments where they came wrapped once more, as an object or as its JSON text."""
    if len(given) != 1:
        return given
    ((name, value),) = given.items()
    inner = _read(value) if isinstance(value, str) and value.lstrip()[:1] == "{" else value
    if not isinstance(inner, dict):
        return given
    if name in fields:
        return inner if name in inner and all(snake_case(str(key)) in fields for key in inner) else given
    return inner if snake_case(name) in _WRAPPERS else given


def _fitted(value: Any, wanted: str) -> Any:
    """A list from its JSON text or its only entry; all else as it came: a guess could write what nobody meant."""
    if isinstance(value, str) and "list" in wanted:
        return _read(value) if value.lstrip()[:1] == "[" else [value]
    return value


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

"""Which tools there are, what the model is told of them, and how its calls become arguments (T7, C5)."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from tui_agent.domain import Mode, ToolCall, ToolResult, ToolSpec
from tui_agent.text import one_line
from tui_agent.tools.argument_text import wanted, what_is_wrong
from tui_agent.tools.ask_user import AskUser
from tui_agent.tools.base import Args, Tool
from tui_agent.tools.edit_file import EditFile
from tui_agent.tools.initialize_plan import InitializePlan
from tui_agent.tools.lines import writable
from tui_agent.tools.list_files import ListFiles
from tui_agent.tools.read_file import ReadFile
from tui_agent.tools.run_subagent import RunSubagent
from tui_agent.tools.run_terminal_command import RunTerminalCommand
from tui_agent.tools.search_workspace import SearchWorkspace
from tui_agent.tools.specs import parameters
from tui_agent.tools.update_plan import UpdatePlan
from tui_agent.tools.write_file import WriteFile

_WRAPPERS = frozenset({"arguments", "args", "parameters", "params", "input", "kwargs"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def default_tools(off: Collection[str] = (), *, code: bool = False) -> Registry:
    """The product's own tools, one line each, without those that are switched off. `code`: those too that ask
    language servers."""
    return Registry(
        [
            ReadFile(),
            WriteFile(),
            EditFile(),
            ListFiles(),
            SearchWorkspace(),
            RunTerminalCommand(),
            AskUser(),
            InitializePlan(),
            UpdatePlan(),
            RunSubagent(),
            *(_code_tools() if code else ()),
        ],
        off,
    )


def _code_tools() -> tuple[Tool[Any], ...]:
    """The tools of code intelligence (T3), loaded where a server can be had."""
    from tui_agent.tools.find_definition import FindDefinition
    from tui_agent.tools.find_implementations import FindImplementations
    from tui_agent.tools.find_references import FindReferences
    from tui_agent.tools.find_symbol import FindSymbol
    from tui_agent.tools.get_call_hierarchy import GetCallHierarchy
    from tui_agent.tools.get_diagnostics import GetDiagnostics
    from tui_agent.tools.get_document_symbols import GetDocumentSymbols
    from tui_agent.tools.get_hover_info import GetHoverInfo
    from tui_agent.tools.get_type_hierarchy import GetTypeHierarchy

    return (
        GetDiagnostics(),
        GetDocumentSymbols(),
        FindDefinition(),
        FindReferences(),
        FindImplementations(),
        FindSymbol(),
        GetHoverInfo(),
        GetCallHierarchy(),
        GetTypeHierarchy(),
    )


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
        if all(mode in tool.modes for tool in self._tools.values()):
            return self
        shown = [tool for tool in self._tools.values() if mode in tool.modes]
        rest = [tool for tool in self._tools.values() if mode not in tool.modes]
        return Registry(shown, hidden=[*rest, *self._hidden.values()], shut=self._shut)

    def shutting(self, reasons: Mapping[str, str]) -> Registry:
        """The same, but tools by these names are found only to be refused, each with its reason (W11, T5)."""
        shown = [tool for name, tool in self._tools.items() if name not in reasons]
        rest = [tool for name, tool in self._tools.items() if name in reasons]
        return Registry(shown, hidden=[*rest, *self._hidden.values()], shut={**self._shut, **reasons})

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
        plain = _snake(name)
        for one in (name, plain, plain.rpartition(".")[2], plain.rpartition(":")[2]):
            tool = self._tools.get(one) or self._hidden.get(one) or self._aliases.get(one)
            if tool is not None:
                return tool
        return None

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
        plain = _snake(name)
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
    return ToolResult(
        success=False, code="bad_arguments", error=f"{text} {tool.name} takes: {wanted(tool.args)}."
    )


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


def _snake(name: str) -> str:
    return _HUMP.sub("_", name.strip()).replace("-", "_").replace(" ", "_").lower()


def _arranged(tool: Tool[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments under our names and types, without empty stand-ins for what may be left out."""
    fields = tool.args.model_fields
    given = _unwrapped(given, fields)
    arranged: dict[str, Any] = {}
    for name, value in given.items():
        plain = name if name in fields else _snake(name)
        ours = plain if plain in fields else tool.argument_aliases.get(plain, name)
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
        return inner if name in inner and all(_snake(str(key)) in fields for key in inner) else given
    return inner if _snake(name) in _WRAPPERS else given


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

"""Which tools there are, what the model is told of them, and how its calls become arguments (T7, C5)."""

from __future__ import annotations

import difflib
import functools
import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pydantic

from tui_agent.domain import ToolCall, ToolResult, ToolSpec
from tui_agent.tools.argument_text import wanted, what_is_wrong
from tui_agent.tools.ask_user import AskUser
from tui_agent.tools.base import Args, Tool
from tui_agent.tools.edit_file import EditFile
from tui_agent.tools.list_files import ListFiles
from tui_agent.tools.read_file import ReadFile
from tui_agent.tools.run_terminal_command import RunTerminalCommand
from tui_agent.tools.search_workspace import SearchWorkspace
from tui_agent.tools.specs import parameters
from tui_agent.tools.write_file import WriteFile

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def default_tools(off: Collection[str] = ()) -> Registry:
    """The product's own tools, one line each, without those that are switched off."""
    return Registry(
        [
            ReadFile(),
            WriteFile(),
            EditFile(),
            ListFiles(),
            SearchWorkspace(),
            RunTerminalCommand(),
            AskUser(),
        ],
        off,
    )


class Registry:
    """The tools that are offered, in order."""

    def __init__(self, tools: Iterable[Tool[Any]], off: Collection[str] = ()) -> None:
        self._tools: dict[str, Tool[Any]] = {tool.name: tool for tool in tools if tool.name not in off}
        self._aliases = {alias: tool for tool in self._tools.values() for alias in tool.aliases}

    @property
    def names(self) -> tuple[str, ...]:
        """The real names."""
        return tuple(self._tools)

    @property
    def known_names(self) -> tuple[str, ...]:
        """The real names and all others under which a tool is found."""
        return (*self._tools, *self._aliases)

    def only(self, names: Collection[str]) -> Registry:
        """The same without all tools but `names`."""
        return Registry(tool for name, tool in self._tools.items() if name in names)

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
            tool = self._tools.get(one) or self._aliases.get(one)
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

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(_snake(name), self.known_names, n=1, cutoff=0.5)
        found = self.find(close[0]) if close else None
        hint = f" Did you mean {found.name}?" if found is not None else ""
        return f"There is no tool {name!r}.{hint} The tools are: {', '.join(self._tools)}."


def _bad(tool: Tool[Any], text: str) -> ToolResult:
    return ToolResult(
        success=False, code="bad_arguments", error=f"{text} {tool.name} takes: {wanted(tool.args)}."
    )


@functools.cache
def _description(name: str) -> str:
    return Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8").strip()


def _spec(tool: Tool[Any]) -> ToolSpec:
    return ToolSpec(name=tool.name, description=_description(tool.name), parameters=parameters(tool.args))


def _snake(name: str) -> str:
    return _HUMP.sub("_", name.strip()).replace("-", "_").replace(" ", "_").lower()


def _arranged(tool: Tool[Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments under our names, without empty stand-ins for what may be left out."""
    fields = tool.args.model_fields
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
        elif isinstance(value, str) and value.lstrip()[:1] == "[" and "list" in str(field.annotation):
            arranged[name] = _as_list(value)
    return arranged


def _as_list(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

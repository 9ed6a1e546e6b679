"""Code intelligence tools: definitions, references, symbols, hover, hierarchies and diagnostics (T3)."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import Field

from tui_agent.common.domain import ToolResult
from tui_agent.common.symbols import LocationKind, SourcePosition, Unavailable
from tui_agent.platform.encoding import NotText, decode
from tui_agent.text import pluralize
from tui_agent.tools.base import A, Args, Tool, ToolContext, ToolError
from tui_agent.tools.code_output import (
    format_diagnostics,
    format_hierarchy,
    format_locations,
    format_outline,
    format_symbols,
)
from tui_agent.tools.file_access import display_name, read_target
from tui_agent.tools.tolerant_text import LINE_END

MAX_POSITIONS = 4
"""Occurrences of a name that are tried: the first may be in a comment or a string."""
TIME_LIMIT = 60.0
"""Total timeout in seconds."""
_DEFINITION_KEYWORD = (
    r"(?:def|class|function|fn|func|fun|interface|struct|enum|type|trait|impl|protocol|namespace|module|object|record|"
    r"const|let|var|val|macro_rules!)"
)
_WORD = re.compile(r"[^\W\d][\w$]*")


class FileArgs(Args):
    """Arguments of tools for a whole file."""

    path: str


class PositionArgs(Args):
    """Arguments of tools for a name."""

    path: str
    symbol: str | None = None
    line: int | None = None


class SymbolPosition(NamedTuple):
    """A place where a name may be."""

    path: Path
    name: str
    position: SourcePosition


Answer: TypeAlias = "str | Unavailable | None"
"""The text for the model; empty or None if there is none."""


class CodeTool(Tool[A], Generic[A]):
    """A tool that queries language servers."""

    reads_only = True
    timeout = None
    alternative: ClassVar[str] = "search_workspace and read_file"
    """Alternative to suggest if there is no answer."""

    async def run(self, args: A, ctx: ToolContext) -> ToolResult:
        """See Tool. That something can't be told is no failure (T3)."""
        answer = await self.answer(args, ctx)
        if isinstance(answer, Unavailable):
            text = f"Not available: {answer.reason}. Use {self.alternative} instead."
            return ToolResult(success=True, data=text, code="unavailable")
        return ToolResult(success=True, data=answer)

    @abstractmethod
    async def answer(self, args: A, ctx: ToolContext) -> str | Unavailable:
        """Return the answer for the model."""


P = TypeVar("P", bound=PositionArgs)


class SymbolTool(CodeTool[P], Generic[P]):
    """A tool that queries one name."""

    not_found_text: ClassVar[str]
    """Text for a name without an answer."""

    def title(self, args: P) -> str:
        """See Tool."""
        return f"{args.symbol} in {args.path}" if args.symbol else args.path

    async def answer(self, args: P, ctx: ToolContext) -> str | Unavailable:
        """Try the positions in order and return the first answer."""
        candidates = await _locate_symbol(args, ctx)
        try:
            async with asyncio.timeout(TIME_LIMIT):
                for candidate in candidates[:MAX_POSITIONS]:
                    if answer := await self.query(candidate, args, ctx):
                        return answer
        except TimeoutError:
            return Unavailable(reason=f"the language server took longer than {TIME_LIMIT:g} s")
        return self.not_found_text.format(candidates[0].name)

    @abstractmethod
    async def query(self, at: SymbolPosition, args: P, ctx: ToolContext) -> Answer:
        """Query one position."""


async def _locate_symbol(args: PositionArgs, ctx: ToolContext) -> list[SymbolPosition]:
    """Return where the name is in the file on disk, best first. Raises ToolError if file or name does not exist."""
    target, file = await read_target(ctx, args.path)
    file_name = display_name(target)
    try:
        text = (await asyncio.to_thread(decode, file.data)).text
    except NotText as error:
        raise ToolError(f"{file_name} is no text.", "not_text") from error
    lines = LINE_END.split(text)
    if args.symbol:
        name = args.symbol.strip()
        positions = positions_of(lines, name, args.line)
        if not positions:
            raise ToolError(
                f"{args.symbol!r} does not occur in {file_name}. Give the name as it is written there.", "not_found"
            )
    elif args.line is None:
        raise ToolError("Give symbol, the name to look at, and line where it occurs more than once.", "bad_arguments")
    elif not 0 < args.line <= len(lines):
        raise ToolError(f"{file_name} has {len(lines):,} lines.", "not_found")
    else:
        name, positions = _names_on_line(lines[args.line - 1], args.line)
    return [SymbolPosition(target.path, name, position) for position in positions]


def positions_of(lines: list[str], symbol: str, line: int | None) -> list[SourcePosition]:
    """Return the positions of `symbol` as a whole word: nearest to `line`, else likely definitions first.

    For `Class.method` the last part is searched after a line with the parts before it.
    """
    *containers, word = [part for part in re.split(r"\.|::|#|->", symbol.removesuffix("()")) if part] or [symbol]
    start = 0
    for container in containers:
        container_pattern = re.compile(rf"(?<!\w){re.escape(container)}(?!\w)")
        start = next((number for number in range(start, len(lines)) if container_pattern.search(lines[number])), start)
    word_pattern = re.compile(rf"(?<![\w$]){re.escape(word)}(?![\w$])")
    definition_pattern = re.compile(rf"(?<!\w){_DEFINITION_KEYWORD}\s+(?:\w+\s+)*?{re.escape(word)}(?![\w$])")
    result: list[tuple[tuple[float, ...], SourcePosition]] = []
    for number, text in enumerate(lines, 1):
        matches = list(word_pattern.finditer(text))
        is_definition = bool(matches) and len(text) < 2_000 and definition_pattern.search(text) is not None
        for match in matches:
            distance = float(number <= start) if line is None else abs(number - line)
            rank = (distance, not is_definition, number if line is None else 0)
            result.append((rank, SourcePosition(line=number, column=match.start())))
    return [position for _, position in sorted(result, key=lambda item: item[0])]


def _names_on_line(text: str, number: int) -> tuple[str, list[SourcePosition]]:
    """Return the first name on a line, and the positions of all of them; the defined one is first."""
    definition = re.search(rf"(?<!\w){_DEFINITION_KEYWORD}\s+([^\W\d][\w$]*)", text)
    names = {match.start(): match[0] for match in _WORD.finditer(text)}
    if not names:
        raise ToolError(f"There is no name on line {number}. Give symbol.", "not_found")
    starts = [definition.start(1)] if definition else []
    starts += [start for start in names if start not in starts]
    return names[starts[0]], [SourcePosition(line=number, column=start) for start in starts]


class _FindLocations(SymbolTool[PositionArgs]):
    args = PositionArgs
    kind: ClassVar[LocationKind]

    async def query(self, at: SymbolPosition, args: PositionArgs, ctx: ToolContext) -> Answer:
        """See SymbolTool."""
        locations = await ctx.code.locations(self.kind, at.path, at.position)
        if isinstance(locations, Unavailable):
            return locations
        if not locations:
            return None
        text = await format_locations(ctx, locations)
        if self.kind != "references":
            return text
        files = pluralize(len({location.path for location in locations}), "file")
        return f"{pluralize(len(locations), 'reference')} to {at.name} in {files}\n{text}"


class FindDefinition(_FindLocations):
    """Finds the definition of a name."""

    name = "find_definition"
    kind = "definitions"
    not_found_text = "No definition of {} was found."


class FindReferences(_FindLocations):
    """Finds the references to a name."""

    name = "find_references"
    kind = "references"
    not_found_text = "No references to {} were found."


class FindImplementations(_FindLocations):
    """Finds implementations and overrides."""

    name = "find_implementations"
    kind = "implementations"
    not_found_text = "No implementations of {} were found."


class FindSymbolArgs(Args):
    """See find_symbol.md."""

    name: str = Field(min_length=1, max_length=500)


class FindSymbol(CodeTool[FindSymbolArgs]):
    """Finds a symbol by name in the workspace."""

    name = "find_symbol"
    args = FindSymbolArgs
    subject = "name"
    alternative = "search_workspace"

    async def answer(self, args: FindSymbolArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        name = args.name.strip()
        result = await ctx.code.symbols(name)
        if isinstance(result, Unavailable):
            return result
        return await format_symbols(ctx, result) if result else f"No symbol is called {name}. Try search_workspace."


class GetDiagnostics(CodeTool[FileArgs]):
    """Reports errors and warnings of a file."""

    name = "get_diagnostics"
    args = FileArgs
    alternative = "run_terminal_command with the project's own checks"

    async def answer(self, args: FileArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        target, _ = await read_target(ctx, args.path)
        result = await ctx.code.diagnostics(target.path)
        if isinstance(result, Unavailable):
            return result
        if not result:
            return f"{display_name(target)}: no errors or warnings."
        kinds = Counter(str(item.kind) for item in result)
        nouns = {"error": "error", "warning": "warning", "info": "remark", "hint": "hint"}
        counts = [pluralize(kinds[kind], noun) for kind, noun in nouns.items() if kinds[kind]]
        return f"{display_name(target)}: {', '.join(counts)}\n{format_diagnostics(result)}"


class GetDocumentSymbols(CodeTool[FileArgs]):
    """Lists the symbols of a file."""

    name = "get_document_symbols"
    args = FileArgs

    async def answer(self, args: FileArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        target, _ = await read_target(ctx, args.path)
        result = await ctx.code.outline(target.path)
        if isinstance(result, Unavailable):
            return result
        if not result:
            return f"{display_name(target)} holds no symbols."
        return f"── {display_name(target)} ──\n{format_outline(result)}"


class GetHoverInfo(SymbolTool[PositionArgs]):
    """Describes a name."""

    name = "get_hover_info"
    args = PositionArgs
    not_found_text = "Nothing is known of {} there."

    async def query(self, at: SymbolPosition, args: PositionArgs, ctx: ToolContext) -> Answer:
        """See SymbolTool."""
        return await ctx.code.hover(at.path, at.position)


class GetCallHierarchyArgs(PositionArgs):
    """See get_call_hierarchy.md."""

    direction: Literal["incoming", "outgoing", "both"] = "both"


class GetCallHierarchy(SymbolTool[GetCallHierarchyArgs]):
    """Finds callers and callees."""

    name = "get_call_hierarchy"
    args = GetCallHierarchyArgs
    not_found_text = "{} is no function there."

    async def query(self, at: SymbolPosition, args: GetCallHierarchyArgs, ctx: ToolContext) -> Answer:
        """See SymbolTool."""
        incoming, outgoing = args.direction != "outgoing", args.direction != "incoming"
        hierarchy = await ctx.code.calls(at.path, at.position, incoming=incoming, outgoing=outgoing)
        return await format_hierarchy(ctx, hierarchy, "Called by", "Calls")


class GetTypeHierarchy(SymbolTool[PositionArgs]):
    """Finds super- and subtypes."""

    name = "get_type_hierarchy"
    args = PositionArgs
    not_found_text = "{} is no class or interface there."

    async def query(self, at: SymbolPosition, args: PositionArgs, ctx: ToolContext) -> Answer:
        """See SymbolTool."""
        return await format_hierarchy(ctx, await ctx.code.types(at.path, at.position), "Supertypes", "Subtypes")


TOOLS: tuple[Tool[Any], ...] = (
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

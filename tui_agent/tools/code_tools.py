"""Code intelligence tools: definitions, references, symbols, hover, hierarchies and diagnostics (T3)."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections import Counter
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from tui_agent.common.domain import Target, ToolResult
from tui_agent.common.symbols import DiagnosticKind, Hierarchy, LocationKind, SourcePosition, Unavailable
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
    """A file and the positions where the name may be, best first."""

    target: Target
    name: str
    positions: list[SourcePosition]


class CodeTool(Tool[A], Generic[A]):
    """A tool that queries language servers."""

    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
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
        symbol_position = await locate_symbol(args, ctx)
        try:
            async with asyncio.timeout(TIME_LIMIT):
                for position in symbol_position.positions[:MAX_POSITIONS]:
                    if result := await self.answer_position(position, symbol_position, args, ctx):
                        return result
        except TimeoutError:
            return Unavailable(reason=f"the language server took longer than {TIME_LIMIT:g} s")
        return self.not_found_text.format(symbol_position.name)

    @abstractmethod
    async def answer_position(
        self, position: SourcePosition, symbol_position: SymbolPosition, args: P, ctx: ToolContext
    ) -> str | Unavailable | None:
        """Query one position; empty or None if there is no answer."""


async def locate_symbol(args: PositionArgs, ctx: ToolContext) -> SymbolPosition:
    """Find the name in the file on disk. Raises ToolError if the file or the name does not exist."""
    target, file = await read_target(ctx, args.path)
    name = display_name(target)
    try:
        text = (await asyncio.to_thread(decode, file.data)).text
    except NotText as error:
        raise ToolError(f"{name} is no text.", "not_text") from error
    lines = re.split(r"\r\n|\n|\r", text)
    if args.symbol:
        positions = positions_of(lines, args.symbol.strip(), args.line)
        if not positions:
            raise ToolError(
                f"{args.symbol!r} does not occur in {name}. Give the name as it is written there.", "not_found"
            )
        return SymbolPosition(target, args.symbol.strip(), positions)
    if args.line is None:
        raise ToolError("Give symbol, the name to look at, and line where it occurs more than once.", "bad_arguments")
    if not 0 < args.line <= len(lines):
        raise ToolError(f"{name} has {len(lines):,} lines.", "not_found")
    return _names_on_line(lines[args.line - 1], args.line, target)


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
            distance = abs(number - line) if line is not None else 0
            rank = (distance, not is_definition) if line is not None else (number <= start, not is_definition, number)
            result.append((rank, SourcePosition(line=number, column=match.start())))
    return [position for _, position in sorted(result, key=lambda item: item[0])]


def _names_on_line(text: str, number: int, target: Target) -> SymbolPosition:
    """Return the names on a line, the defined one first."""
    is_definition = re.search(rf"(?<!\w){_DEFINITION_KEYWORD}\s+([^\W\d][\w$]*)", text)
    words = list(_WORD.finditer(text))
    if not words:
        raise ToolError(f"There is no name on line {number}. Give symbol.", "not_found")
    starts = [is_definition.start(1)] if is_definition else []
    starts += [word.start() for word in words if word.start() not in starts]
    first = _WORD.match(text, starts[0])
    return SymbolPosition(
        target, first[0] if first else "", [SourcePosition(line=number, column=start) for start in starts]
    )


class _FindLocations(SymbolTool[PositionArgs]):
    args = PositionArgs
    kind: ClassVar[LocationKind]

    async def answer_position(
        self, position: SourcePosition, symbol_position: SymbolPosition, args: PositionArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See SymbolTool."""
        result = await ctx.code.locations(self.kind, symbol_position.target.path, position)
        if isinstance(result, Unavailable):
            return result
        if not result:
            return None
        text = await format_locations(ctx, result)
        if self.kind != "references":
            return text
        files = pluralize(len({location.path for location in result}), "file")
        return f"{pluralize(len(result), 'reference')} to {symbol_position.name} in {files}\n{text}"


class FindDefinition(_FindLocations):
    """Finds the definition of a name."""

    name: ClassVar[str] = "find_definition"
    kind: ClassVar[LocationKind] = "definitions"
    not_found_text: ClassVar[str] = "No definition of {} was found."


class FindReferences(_FindLocations):
    """Finds the references to a name."""

    name: ClassVar[str] = "find_references"
    kind: ClassVar[LocationKind] = "references"
    not_found_text: ClassVar[str] = "No references to {} were found."


class FindImplementations(_FindLocations):
    """Finds implementations and overrides."""

    name: ClassVar[str] = "find_implementations"
    kind: ClassVar[LocationKind] = "implementations"
    not_found_text: ClassVar[str] = "No implementations of {} were found."


class FindSymbolArgs(Args):
    """See find_symbol.md."""

    name: str = Field(min_length=1, max_length=500)


class FindSymbol(CodeTool[FindSymbolArgs]):
    """Finds a symbol by name in the workspace."""

    name: ClassVar[str] = "find_symbol"
    args = FindSymbolArgs
    subject: ClassVar[str] = "name"
    alternative: ClassVar[str] = "search_workspace"

    async def answer(self, args: FindSymbolArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        name = args.name.strip()
        result = await ctx.code.symbols(name)
        if isinstance(result, Unavailable):
            return result
        return await format_symbols(ctx, result) if result else f"No symbol is called {name}. Try search_workspace."


class GetDiagnostics(CodeTool[FileArgs]):
    """Reports errors and warnings of a file."""

    name: ClassVar[str] = "get_diagnostics"
    args = FileArgs
    alternative: ClassVar[str] = "run_terminal_command with the project's own checks"

    async def answer(self, args: FileArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        target, _ = await read_target(ctx, args.path)
        result = await ctx.code.diagnostics(target.path)
        if isinstance(result, Unavailable):
            return result
        if not result:
            return f"{display_name(target)}: no errors or warnings."
        kinds = Counter(item.kind for item in result)
        counts = [pluralize(kinds[kind], word) for kind, word in _KIND_NOUNS if kinds[kind]]
        return f"{display_name(target)}: {', '.join(counts)}\n{format_diagnostics(result)}"


_KIND_NOUNS: tuple[tuple[DiagnosticKind, str], ...] = (
    ("error", "error"),
    ("warning", "warning"),
    ("info", "remark"),
    ("hint", "hint"),
)


class GetDocumentSymbols(CodeTool[FileArgs]):
    """Lists the symbols of a file."""

    name: ClassVar[str] = "get_document_symbols"
    args = FileArgs

    async def answer(self, args: FileArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        target, _ = await read_target(ctx, args.path)
        result = await ctx.code.outline(target.path)
        if isinstance(result, Unavailable):
            return result
        return (
            f"── {display_name(target)} ──\n{format_outline(result)}"
            if result
            else f"{display_name(target)} holds no symbols."
        )


class GetHoverInfo(SymbolTool[PositionArgs]):
    """Describes a name."""

    name: ClassVar[str] = "get_hover_info"
    args = PositionArgs
    not_found_text: ClassVar[str] = "Nothing is known of {} there."

    async def answer_position(
        self, position: SourcePosition, symbol_position: SymbolPosition, args: PositionArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See SymbolTool."""
        return await ctx.code.hover(symbol_position.target.path, position)


class GetCallHierarchyArgs(PositionArgs):
    """See get_call_hierarchy.md."""

    direction: Literal["incoming", "outgoing", "both"] = "both"


class GetCallHierarchy(SymbolTool[GetCallHierarchyArgs]):
    """Finds callers and callees."""

    name: ClassVar[str] = "get_call_hierarchy"
    args = GetCallHierarchyArgs
    not_found_text: ClassVar[str] = "{} is no function there."

    async def answer_position(
        self, position: SourcePosition, symbol_position: SymbolPosition, args: GetCallHierarchyArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See SymbolTool."""
        incoming, outgoing = args.direction != "outgoing", args.direction != "incoming"
        result = await ctx.code.calls(symbol_position.target.path, position, incoming=incoming, outgoing=outgoing)
        return await format_hierarchy(ctx, result, "Called by", "Calls") if isinstance(result, Hierarchy) else result


class GetTypeHierarchy(SymbolTool[PositionArgs]):
    """Finds super- and subtypes."""

    name: ClassVar[str] = "get_type_hierarchy"
    args = PositionArgs
    not_found_text: ClassVar[str] = "{} is no class or interface there."

    async def answer_position(
        self, position: SourcePosition, symbol_position: SymbolPosition, args: PositionArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See SymbolTool."""
        result = await ctx.code.types(symbol_position.target.path, position)
        return (
            await format_hierarchy(ctx, result, "Supertypes", "Subtypes") if isinstance(result, Hierarchy) else result
        )


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

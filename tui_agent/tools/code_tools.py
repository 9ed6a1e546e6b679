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
from tui_agent.tools.code_output import diagnostics_text, family_text, outline_text, places_text, symbols_text
from tui_agent.tools.file_access import name_of, read_target

TRIES = 4
"""Places of a name that are asked about: the first may lie in a comment or a text."""
PATIENCE = 60.0
"""Seconds for all of them together."""
_DEFINES = (
    r"(?:def|class|function|fn|func|fun|interface|struct|enum|type|trait|impl|protocol|namespace|module|object|record|"
    r"const|let|var|val|macro_rules!)"
)
_WORD = re.compile(r"[^\W\d][\w$]*")


class FileArgs(Args):
    """What tools take that ask about a whole file."""

    path: str


class PositionArgs(Args):
    """What all tools take that ask about one name."""

    path: str
    symbol: str | None = None
    line: int | None = None


class SymbolPosition(NamedTuple):
    """A file and the places in it where the name may stand, the likeliest first."""

    target: Target
    name: str
    spots: list[SourcePosition]


class CodeTool(Tool[A], Generic[A]):
    """A tool that asks language servers."""

    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    instead: ClassVar[str] = "search_workspace and read_file"
    """What to use where there is no answer."""

    async def run(self, args: A, ctx: ToolContext) -> ToolResult:
        """See Tool. That something can't be told is no failure (T3)."""
        answer = await self.answer(args, ctx)
        if isinstance(answer, Unavailable):
            text = f"Not available: {answer.reason}. Use {self.instead} instead."
            return ToolResult(success=True, data=text, code="unavailable")
        return ToolResult(success=True, data=answer)

    @abstractmethod
    async def answer(self, args: A, ctx: ToolContext) -> str | Unavailable:
        """The answer for the model."""


P = TypeVar("P", bound=PositionArgs)


class AtSymbol(CodeTool[P], Generic[P]):
    """A tool that asks about one name."""

    nothing: ClassVar[str]
    """What to say of a name of which no place gives an answer."""

    def title(self, args: P) -> str:
        """See Tool."""
        return f"{args.symbol} in {args.path}" if args.symbol else args.path

    async def answer(self, args: P, ctx: ToolContext) -> str | Unavailable:
        """The first answer that says something."""
        at = await locate_symbol(args, ctx)
        try:
            async with asyncio.timeout(PATIENCE):
                for spot in at.spots[:TRIES]:
                    if found := await self.answer_at(spot, at, args, ctx):
                        return found
        except TimeoutError:
            return Unavailable(reason=f"the language server took longer than {PATIENCE:g} s")
        return self.nothing.format(at.name)

    @abstractmethod
    async def answer_at(
        self, spot: SourcePosition, at: SymbolPosition, args: P, ctx: ToolContext
    ) -> str | Unavailable | None:
        """The answer for one place of the name; empty or None where there is none."""


async def locate_symbol(args: PositionArgs, ctx: ToolContext) -> SymbolPosition:
    """Find the name in the file as it is on disk. Raises ToolError where the file or the name is not there."""
    target, file = await read_target(ctx, args.path)
    name = name_of(target)
    try:
        text = (await asyncio.to_thread(decode, file.data)).text
    except NotText as error:
        raise ToolError(f"{name} is no text.", "not_text") from error
    lines = re.split(r"\r\n|\n|\r", text)
    if args.symbol:
        spots = positions_of(lines, args.symbol.strip(), args.line)
        if not spots:
            raise ToolError(
                f"{args.symbol!r} does not occur in {name}. Give the name as it is written there.", "not_found"
            )
        return SymbolPosition(target, args.symbol.strip(), spots)
    if args.line is None:
        raise ToolError("Give symbol, the name to look at, and line where it occurs more than once.", "bad_arguments")
    if not 0 < args.line <= len(lines):
        raise ToolError(f"{name} has {len(lines):,} lines.", "not_found")
    return _on_line(lines[args.line - 1], args.line, target)


def positions_of(lines: list[str], symbol: str, line: int | None) -> list[SourcePosition]:
    """Where `symbol` stands as a whole word: nearest to `line`, else where it seems to be defined first.

    Of `Class.method` the last part counts, after a line with the parts before it.
    """
    *holders, word = [part for part in re.split(r"\.|::|#|->", symbol.removesuffix("()")) if part] or [symbol]
    start = 0
    for holder in holders:
        held = re.compile(rf"(?<!\w){re.escape(holder)}(?!\w)")
        start = next((number for number in range(start, len(lines)) if held.search(lines[number])), start)
    whole = re.compile(rf"(?<![\w$]){re.escape(word)}(?![\w$])")
    defines = re.compile(rf"(?<!\w){_DEFINES}\s+(?:\w+\s+)*?{re.escape(word)}(?![\w$])")
    found: list[tuple[tuple[float, ...], SourcePosition]] = []
    for number, text in enumerate(lines, 1):
        hits = list(whole.finditer(text))
        defined = bool(hits) and len(text) < 2_000 and defines.search(text) is not None
        for hit in hits:
            away = abs(number - line) if line is not None else 0
            rank = (away, not defined) if line is not None else (number <= start, not defined, number)
            found.append((rank, SourcePosition(line=number, column=hit.start())))
    return [spot for _, spot in sorted(found, key=lambda one: one[0])]


def _on_line(text: str, number: int, target: Target) -> SymbolPosition:
    """The names on a line, what it defines first."""
    defined = re.search(rf"(?<!\w){_DEFINES}\s+([^\W\d][\w$]*)", text)
    words = list(_WORD.finditer(text))
    if not words:
        raise ToolError(f"There is no name on line {number}. Give symbol.", "not_found")
    starts = [defined.start(1)] if defined else []
    starts += [word.start() for word in words if word.start() not in starts]
    first = _WORD.match(text, starts[0])
    return SymbolPosition(
        target, first[0] if first else "", [SourcePosition(line=number, column=start) for start in starts]
    )


class _FindPlaces(AtSymbol[PositionArgs]):
    args = PositionArgs
    kind: ClassVar[LocationKind]

    async def answer_at(
        self, spot: SourcePosition, at: SymbolPosition, args: PositionArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See AtSymbol."""
        found = await ctx.code.places(self.kind, at.target.path, spot)
        if isinstance(found, Unavailable):
            return found
        if not found:
            return None
        text = await places_text(ctx, found)
        if self.kind != "references":
            return text
        files = pluralize(len({place.path for place in found}), "file")
        return f"{pluralize(len(found), 'reference')} to {at.name} in {files}\n{text}"


class FindDefinition(_FindPlaces):
    """Follows a name to its source."""

    name: ClassVar[str] = "find_definition"
    kind: ClassVar[LocationKind] = "definitions"
    nothing: ClassVar[str] = "No definition of {} was found."


class FindReferences(_FindPlaces):
    """Finds who uses a name."""

    name: ClassVar[str] = "find_references"
    kind: ClassVar[LocationKind] = "references"
    nothing: ClassVar[str] = "No references to {} were found."


class FindImplementations(_FindPlaces):
    """Finds implementations and overrides."""

    name: ClassVar[str] = "find_implementations"
    kind: ClassVar[LocationKind] = "implementations"
    nothing: ClassVar[str] = "No implementations of {} were found."


class FindSymbolArgs(Args):
    """See find_symbol.md."""

    name: str = Field(min_length=1, max_length=500)


class FindSymbol(CodeTool[FindSymbolArgs]):
    """Finds a symbol without knowing its file."""

    name: ClassVar[str] = "find_symbol"
    args = FindSymbolArgs
    subject: ClassVar[str] = "name"
    instead: ClassVar[str] = "search_workspace"

    async def answer(self, args: FindSymbolArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        name = args.name.strip()
        found = await ctx.code.symbols(name)
        if isinstance(found, Unavailable):
            return found
        return await symbols_text(ctx, found) if found else f"No symbol is called {name}. Try search_workspace."


class GetDiagnostics(CodeTool[FileArgs]):
    """Tells what is wrong in a file."""

    name: ClassVar[str] = "get_diagnostics"
    args = FileArgs
    instead: ClassVar[str] = "run_terminal_command with the project's own checks"

    async def answer(self, args: FileArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        target, _ = await read_target(ctx, args.path)
        found = await ctx.code.diagnostics(target.path)
        if isinstance(found, Unavailable):
            return found
        if not found:
            return f"{name_of(target)}: no errors or warnings."
        kinds = Counter(one.kind for one in found)
        counts = [pluralize(kinds[kind], word) for kind, word in _WORDS if kinds[kind]]
        return f"{name_of(target)}: {', '.join(counts)}\n{diagnostics_text(found)}"


_WORDS: tuple[tuple[DiagnosticKind, str], ...] = (
    ("error", "error"),
    ("warning", "warning"),
    ("info", "remark"),
    ("hint", "hint"),
)


class GetDocumentSymbols(CodeTool[FileArgs]):
    """Lists classes, functions and so on of a file."""

    name: ClassVar[str] = "get_document_symbols"
    args = FileArgs

    async def answer(self, args: FileArgs, ctx: ToolContext) -> str | Unavailable:
        """See CodeTool."""
        target, _ = await read_target(ctx, args.path)
        found = await ctx.code.outline(target.path)
        if isinstance(found, Unavailable):
            return found
        return f"── {name_of(target)} ──\n{outline_text(found)}" if found else f"{name_of(target)} holds no symbols."


class GetHoverInfo(AtSymbol[PositionArgs]):
    """Tells what a name is."""

    name: ClassVar[str] = "get_hover_info"
    args = PositionArgs
    nothing: ClassVar[str] = "Nothing is known of {} there."

    async def answer_at(
        self, spot: SourcePosition, at: SymbolPosition, args: PositionArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See AtSymbol."""
        return await ctx.code.hover(at.target.path, spot)


class GetCallHierarchyArgs(PositionArgs):
    """See get_call_hierarchy.md."""

    direction: Literal["incoming", "outgoing", "both"] = "both"


class GetCallHierarchy(AtSymbol[GetCallHierarchyArgs]):
    """Traces calls."""

    name: ClassVar[str] = "get_call_hierarchy"
    args = GetCallHierarchyArgs
    nothing: ClassVar[str] = "{} is no function there."

    async def answer_at(
        self, spot: SourcePosition, at: SymbolPosition, args: GetCallHierarchyArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See AtSymbol."""
        incoming, outgoing = args.direction != "outgoing", args.direction != "incoming"
        found = await ctx.code.calls(at.target.path, spot, incoming=incoming, outgoing=outgoing)
        return await family_text(ctx, found, "Called by", "Calls") if isinstance(found, Hierarchy) else found


class GetTypeHierarchy(AtSymbol[PositionArgs]):
    """Traces inheritance."""

    name: ClassVar[str] = "get_type_hierarchy"
    args = PositionArgs
    nothing: ClassVar[str] = "{} is no class or interface there."

    async def answer_at(
        self, spot: SourcePosition, at: SymbolPosition, args: PositionArgs, ctx: ToolContext
    ) -> str | Unavailable | None:
        """See AtSymbol."""
        found = await ctx.code.types(at.target.path, spot)
        return await family_text(ctx, found, "Supertypes", "Subtypes") if isinstance(found, Hierarchy) else found


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

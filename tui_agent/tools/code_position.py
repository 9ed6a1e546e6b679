"""Where a tool of code intelligence looks: a file and a name in it, nearest to a line (T3)."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

from tui_agent.domain import Target, ToolResult
from tui_agent.platform.encoding import NotText, decode
from tui_agent.symbols import Spot, Unavailable
from tui_agent.tools.base import Args, Bench, Code, Tool, ToolError
from tui_agent.tools.lines import shown_name
from tui_agent.tools.reading import bytes_of, leave_to_read

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


class Located(NamedTuple):
    """A file and the places in it where the name may stand, the likeliest first."""

    target: Target
    name: str
    spots: list[Spot]


ALIASES: dict[str, str] = {
    "file": "path",
    "file_path": "path",
    "filename": "path",
    "file_name": "path",
    "filepath": "path",
    "target_file": "path",
    "symbol_name": "symbol",
    "name": "symbol",
    "identifier": "symbol",
    "function": "symbol",
    "function_name": "symbol",
    "class": "symbol",
    "class_name": "symbol",
    "method": "symbol",
    "near_line": "line",
    "line_number": "line",
}


P = TypeVar("P", bound=PositionArgs)
R = TypeVar("R")


class AboutFile(Tool[FileArgs], Generic[R]):
    """A tool that asks about a whole file."""

    args = FileArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    argument_aliases: ClassVar[dict[str, str]] = ALIASES
    instead: ClassVar[str] = "search_workspace and read_file"
    """What to use where there is no answer."""

    def title(self, args: FileArgs) -> str:
        """See Tool."""
        return args.path

    async def run(self, args: FileArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        target = bench.resolve(args.path)
        await leave_to_read(bench, target)
        await bytes_of(target)
        found = await self.ask(bench.code, target.path)
        if isinstance(found, Unavailable):
            return not_available(found, self.instead)
        return ToolResult(success=True, data=self.told(found, shown_name(target.display)))

    @abstractmethod
    async def ask(self, code: Code, path: Path) -> R | Unavailable:
        """The answer."""

    @abstractmethod
    def told(self, found: R, name: str) -> str:
        """The answer for the model; `name`: the file's."""


class AtSymbol(Tool[P], Generic[P, R]):
    """A tool that asks about one name."""

    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    argument_aliases: ClassVar[dict[str, str]] = ALIASES

    def title(self, args: P) -> str:
        """See Tool."""
        return f"{args.symbol} in {args.path}" if args.symbol else args.path

    async def run(self, args: P, bench: Bench) -> ToolResult:
        """See Tool."""
        at = await located(args, bench)
        found = await first_answer(at, lambda spot: self.ask(args, bench.code, at.target.path, spot))
        if isinstance(found, Unavailable):
            return not_available(found)
        return ToolResult(success=True, data=await self.told(found, at.name, bench))

    @abstractmethod
    async def ask(self, args: P, code: Code, path: Path, spot: Spot) -> R | Unavailable | None:
        """The answer for one place of the name."""

    @abstractmethod
    async def told(self, found: R | None, name: str, bench: Bench) -> str:
        """The answer for the model; None: no place gave any."""


async def located(args: PositionArgs, bench: Bench) -> Located:
    """Find the name in the file as it is on disk. Raises ToolError where the file or the name is not there."""
    target = bench.resolve(args.path)
    await leave_to_read(bench, target)
    file = await bytes_of(target)
    name = shown_name(target.display)
    try:
        text = (await asyncio.to_thread(decode, file.data)).text
    except NotText as error:
        raise ToolError(f"{name} is no text.", "not_text") from error
    lines = re.split(r"\r\n|\n|\r", text)
    if args.symbol:
        spots = spots_of(lines, args.symbol.strip(), args.line)
        if not spots:
            raise ToolError(
                f"{args.symbol!r} does not occur in {name}. Give the name as it is written there.",
                "not_found",
            )
        return Located(target, args.symbol.strip(), spots)
    if args.line is None:
        raise ToolError(
            "Give symbol, the name to look at, and line where it occurs more than once.", "bad_arguments"
        )
    if not 0 < args.line <= len(lines):
        raise ToolError(f"{name} has {len(lines):,} lines.", "not_found")
    return _on_line(lines[args.line - 1], args.line, target)


def spots_of(lines: list[str], symbol: str, line: int | None) -> list[Spot]:
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
    found: list[tuple[tuple[float, ...], Spot]] = []
    for number, text in enumerate(lines, 1):
        hits = list(whole.finditer(text))
        defined = bool(hits) and len(text) < 2_000 and defines.search(text) is not None
        for hit in hits:
            away = abs(number - line) if line is not None else 0
            rank = (away, not defined) if line is not None else (number <= start, not defined, number)
            found.append((rank, Spot(line=number, column=hit.start())))
    return [spot for _, spot in sorted(found, key=lambda one: one[0])]


def _on_line(text: str, number: int, target: Target) -> Located:
    """The names on a line, what it defines first."""
    defined = re.search(rf"(?<!\w){_DEFINES}\s+([^\W\d][\w$]*)", text)
    words = list(_WORD.finditer(text))
    if not words:
        raise ToolError(f"There is no name on line {number}. Give symbol.", "not_found")
    starts = [defined.start(1)] if defined else []
    starts += [word.start() for word in words if word.start() not in starts]
    first = _WORD.match(text, starts[0])
    return Located(target, first[0] if first else "", [Spot(line=number, column=start) for start in starts])


async def first_answer(
    at: Located, ask: Callable[[Spot], Awaitable[R | Unavailable | None]]
) -> R | Unavailable | None:
    """The first answer that says something; None when all are empty."""
    try:
        async with asyncio.timeout(PATIENCE):
            for spot in at.spots[:TRIES]:
                answer = await ask(spot)
                if answer:
                    return answer
    except TimeoutError:
        return Unavailable(why=f"the language server took longer than {PATIENCE:g} s")
    return None


def not_available(answer: Unavailable, instead: str = "search_workspace and read_file") -> ToolResult:
    """Says that something can't be told and what to do instead; no failure (T3)."""
    text = f"Not available: {answer.why}. Use {instead} instead."
    return ToolResult(success=True, data=text, code="unavailable")

"""The text of blocks without gutters and screen line breaks: what is copied, selected and searched."""

from __future__ import annotations

from asyncio import sleep
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, TypeAlias

from rich.cells import cell_len

from widgets.styled_text import Line, split_cells


class JoinedText:
    """The text of a block's lines as the source has it, and where each line stands in it.

    A place in this text stays the same when the lines are broken for another width.
    """

    __slots__ = ("_contents", "_lines", "_starts", "text")

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._contents = [painted_line.content for painted_line in lines]
        self._starts: list[int] = []
        parts: list[str] = []
        size = 0
        for painted_line, content in zip(lines, self._contents, strict=True):
            self._starts.append(size)
            size += len(content) + len(painted_line.glue)
            parts += (content, painted_line.glue)
        self.text = "".join(parts)

    def place_at(self, line: int, cell: int, *, after: bool = False) -> int:
        """The place in the text of what stands at a cell; with `after`, the place behind it."""
        if not self._lines:
            return 0
        if line >= len(self._lines):
            return len(self.text)
        content = self._contents[line]
        cells = cell - self._lines[line].gutter
        if cells < 0:
            return self._starts[line]
        count = len(split_cells(content, cells)[0])
        return self._starts[line] + min(len(content), count + (1 if after else 0))

    def line_of(self, offset: int) -> int:
        """The line on which a place in the text stands."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def cells(self, line: int, begin: int, end: int) -> tuple[int, int] | None:
        """The cells of a line that show the text from `begin` to `end`; None when there are none."""
        start, content = self._starts[line], self._contents[line]
        low, high = max(begin - start, 0), min(end - start, len(content))
        if low >= high:
            return None
        left = self._lines[line].gutter + cell_len(content[:low])
        return left, left + cell_len(content[low:high])

    def copy(self, begin: int, end: int, *, alone: bool = True) -> str:
        """What a copy of the text from `begin` to `end` holds.

        Where all lines of a piece of source are within, it is the source itself. `alone` says that nothing of
        another block is copied with it.
        """
        parts: list[str] = []
        glue = ""
        for first, last in self._pieces():
            start, stop = self._starts[first], self._starts[last] + len(self._contents[last])
            if stop < begin or start >= end:
                continue
            source = self._lines[first].source
            whole = begin <= start + self._blanks(first) and end >= start + len(self.text[start:stop].rstrip())
            if source is not None and whole:
                only = alone and begin >= start - 2 and end <= stop + 2
                parts += (glue, source.bare if only else source.text)
            else:
                parts += (glue, self._shown(first, last, begin, end))
            glue = self._lines[last].glue
        return "".join(parts)

    def _blanks(self, line: int) -> int:
        content = self._contents[line]
        return len(content) - len(content.lstrip())

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """First and last line of each run of lines with one source; lines without one stand alone."""
        first = 0
        for number in range(1, len(self._lines) + 1):
            source = self._lines[first].source
            if number == len(self._lines) or source is None or self._lines[number].source is not source:
                yield first, number - 1
                first = number

    def _shown(self, first: int, last: int, begin: int, end: int) -> str:
        parts: list[str] = []
        fresh = first == 0 or self._lines[first - 1].glue == "\n"
        for number in range(first, last + 1):
            painted_line, start, content = self._lines[number], self._starts[number], self._contents[number]
            low, high = max(begin - start, 0), min(end - start, len(content))
            if low <= high and end > start:
                if fresh and low == 0:
                    parts.append(painted_line.prefix)
                piece = content[low:high]
                wraps = painted_line.glue != "\n"
                parts.append(piece if wraps else piece.rstrip())
                if number < last and end > start + len(content):
                    parts.append(painted_line.glue)
            fresh = painted_line.glue == "\n"
        return "".join(parts)


Place: TypeAlias = tuple[int, int]
"""A block and a place in its text."""


@dataclass(frozen=True, slots=True)
class CharacterSpan:
    """The character under the pointer: its block, where it begins and where it ends."""

    block: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TextSelection:
    """From the character where it began to the one where it stands now, both included."""

    anchor: CharacterSpan
    head: CharacterSpan

    @property
    def start(self) -> Place:
        """The first selected place."""
        return min((self.anchor.block, self.anchor.begin), (self.head.block, self.head.begin))

    @property
    def stop(self) -> Place:
        """The place behind the last selected one."""
        return max((self.anchor.block, self.anchor.end), (self.head.block, self.head.end))

    def within(self, block: int, size: int) -> tuple[int, int] | None:
        """What is selected of the text of a block that has `size` characters; None when nothing is."""
        (first, begin), (last, end) = self.start, self.stop
        if not first <= block <= last:
            return None
        return begin if block == first else 0, end if block == last else size

    def text(self, joined: Callable[[int], JoinedText]) -> str:
        """All that is selected, blocks apart by a blank line."""
        first, last = self.start[0], self.stop[0]
        parts = []
        for block in range(first, last + 1):
            joined_text = joined(block)
            found = self.within(block, len(joined_text.text))
            if found is not None:
                parts.append(joined_text.copy(*found, alone=first == last).strip("\n"))
        return "\n\n".join(part for part in parts if part.strip())


SLICE = 0.004
"""Seconds of counting after which the event loop gets a turn."""


class Searchable(Protocol):
    """A block as far as the search needs it."""

    def plain(self) -> str:
        """Its own text."""


def lower(text: str) -> str:
    """`text` in lower case with every character in its place."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def find_all(text: str, query: str) -> Iterator[tuple[int, int]]:
    """Where `query` stands in `text`, one place behind the other."""
    offset = text.find(query) if query else -1
    while offset >= 0:
        yield offset, offset + len(query)
        offset = text.find(query, offset + len(query))


class TextSearch:
    """One search. A query without capital letters finds both."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.counts: list[int] = []
        """Matches in each block that was counted, from the first one on."""
        self.total = 0
        self.done = False
        self.current: tuple[int, int] | None = None
        """Block of the match the user is at, and which of its matches it is."""
        self._folded = query == query.lower()
        self._spans: dict[int, tuple[JoinedText, list[tuple[int, int]]]] = {}

    def _fold(self, text: str) -> str:
        return lower(text) if self._folded else text

    def count(self, block: int, matches: int) -> None:
        """So many matches are in a block."""
        if block < len(self.counts):
            self.total += matches - self.counts[block]
            self.counts[block] = matches

    def recount(self, block: int, source: Searchable) -> None:
        """A block changed."""
        if block < len(self.counts):
            self.count(block, self._fold(source.plain()).count(self.query))
            self._spans.pop(block, None)

    async def scan(self, blocks: Sequence[Searchable]) -> None:
        """Count the matches of all blocks."""
        began = perf_counter()
        while self.query and len(self.counts) < len(blocks):
            self.counts.append(0)
            self.recount(len(self.counts) - 1, blocks[len(self.counts) - 1])
            if perf_counter() - began > SLICE:
                await sleep(0)
                began = perf_counter()
        await sleep(0)
        self.done = True

    def spans(self, block: int, joined: JoinedText) -> list[tuple[int, int]]:
        """Where the matches stand in what a block shows."""
        known = self._spans.get(block)
        if known is None or known[0] is not joined:
            known = self._spans[block] = (joined, list(find_all(self._fold(joined.text), self.query)))
            if len(self._spans) > 200:
                del self._spans[next(iter(self._spans))]
        return known[1]

    def beyond(self, block: int, direction: int) -> int | None:
        """The next block with matches in a direction, around the end if need be; the same one last."""
        size = len(self.counts)
        return next(
            (offset for step in range(1, size + 1) if self.counts[offset := (block + direction * step) % size]), None
        )

    @property
    def number(self) -> int:
        """Which match of all the user is at, from 1; 0 before the first."""
        if self.current is None:
            return 0
        block, which = self.current
        return sum(self.counts[:block]) + min(which + 1, self.counts[block])

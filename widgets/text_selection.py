"""The text of blocks without gutters and line wraps, for selection, copying and search."""

from __future__ import annotations

import re
from asyncio import sleep
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple, Protocol

from rich.cells import cell_len

from widgets.styled_text import Line, split_cells


class JoinedText:
    """The text of a block's lines without line wraps, with the offset of each line.

    Offsets in this text do not change when the lines are wrapped for another width.
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
        """Return the offset of the character at a cell, or with `after` the offset following it."""
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
        """Return the line that contains an offset."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def cells(self, line: int, begin: int, end: int) -> tuple[int, int] | None:
        """Return the range of cells of a line that show text between two offsets; None if there are none."""
        start, content = self._starts[line], self._contents[line]
        low, high = max(begin - start, 0), min(end - start, len(content))
        if low >= high:
            return None
        left = self._lines[line].gutter + cell_len(content[:low])
        return left, left + cell_len(content[low:high])

    def copy(self, begin: int, end: int, *, alone: bool = True) -> str:
        """Return the text to copy for the range from `begin` to `end`.

        Lines whose source is completely inside the range are copied as that source. `alone` means that no other
        block is copied with this one.
        """
        parts: list[str] = []
        glue = ""
        for first, last in self._source_runs():
            start, stop = self._starts[first], self._starts[last] + len(self._contents[last])
            if stop < begin or start >= end:
                continue
            source = self._lines[first].source
            outside = self.text[start : max(start, begin)] + self.text[min(stop, end) : stop]
            if source is not None and not outside.strip():
                is_only = alone and begin >= start - 2 and end <= stop + 2
                parts += (glue, source.inner if is_only else source.text)
            else:
                parts += (glue, self._copied_lines(first, last, begin, end))
            glue = self._lines[last].glue
        return "".join(parts)

    def _source_runs(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last line of each run with the same source; a line without source is its own run."""
        first = 0
        for number in range(1, len(self._lines) + 1):
            source = self._lines[first].source
            if number == len(self._lines) or source is None or self._lines[number].source is not source:
                yield first, number - 1
                first = number

    def _copied_lines(self, first: int, last: int, begin: int, end: int) -> str:
        """Return the text of painted lines, with their prefixes for copying and without line wraps."""
        parts: list[str] = []
        starts_line = first == 0 or self._lines[first - 1].glue == "\n"
        for number in range(first, last + 1):
            painted_line, start, content = self._lines[number], self._starts[number], self._contents[number]
            low, high = max(begin - start, 0), min(end - start, len(content))
            if low <= high and end > start:
                if starts_line and low == 0:
                    parts.append(painted_line.prefix)
                piece = content[low:high]
                parts.append(piece.rstrip() if painted_line.glue == "\n" else piece)
                if number < last and end > start + len(content):
                    parts.append(painted_line.glue)
            starts_line = painted_line.glue == "\n"
        return "".join(parts)


class CharacterSpan(NamedTuple):
    """The character under the pointer: its block and its range of offsets."""

    block: int
    begin: int
    end: int


class TextSelection(NamedTuple):
    """A selection between two characters, both included."""

    anchor: CharacterSpan
    head: CharacterSpan

    @property
    def start(self) -> tuple[int, int]:
        """First selected position, as (block, offset)."""
        return min((self.anchor.block, self.anchor.begin), (self.head.block, self.head.begin))

    @property
    def stop(self) -> tuple[int, int]:
        """Position after the last selected one, as (block, offset)."""
        return max((self.anchor.block, self.anchor.end), (self.head.block, self.head.end))

    def within(self, block: int, size: int) -> tuple[int, int] | None:
        """Return the selected range of a block with `size` characters; None if nothing of it is selected."""
        (first, begin), (last, end) = self.start, self.stop
        if not first <= block <= last:
            return None
        return begin if block == first else 0, end if block == last else size

    def text(self, joined: Callable[[int], JoinedText]) -> str:
        """Return the selected text, with a blank line between blocks."""
        first, last = self.start[0], self.stop[0]
        parts = []
        for block in range(first, last + 1):
            block_text = joined(block)
            if (selected := self.within(block, len(block_text.text))) is not None:
                parts.append(block_text.copy(*selected, alone=first == last).strip("\n"))
        return "\n\n".join(part for part in parts if part.strip())


MAX_COUNT_SECONDS = 0.004
"""Seconds of counting before yielding to the event loop."""


class Searchable(Protocol):
    """The part of a block that the search uses."""

    def searched_texts(self) -> Iterator[str]:
        """Yield the texts to search; the first one with a match counts."""


def lower(text: str) -> str:
    """Return `text` in lower case without changing any offset."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c if len(c.lower()) > 1 else c.lower() for c in text)


def find_all(text: str, query: str) -> Iterator[tuple[int, int]]:
    """Return the range of each non-overlapping match of `query`."""
    return (match.span() for match in re.finditer(re.escape(query), text)) if query else iter(())


class TextSearch:
    """A search through blocks; case-sensitive if the query has capitals."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.counts: list[int] = []
        """Number of matches in each block counted so far."""
        self.total = 0
        self.done = False
        self.current: tuple[int, int] | None = None
        """Current match as (block, index of the match in it)."""
        self._ignore_case = query == query.lower()
        self._spans: dict[int, tuple[JoinedText, list[tuple[int, int]]]] = {}

    def _fold(self, text: str) -> str:
        return lower(text) if self._ignore_case else text

    def set_count(self, block: int, matches: int) -> None:
        """Set the number of matches of a block that was already counted."""
        if block < len(self.counts):
            self.total += matches - self.counts[block]
            self.counts[block] = matches

    def recount(self, block: int, source: Searchable) -> None:
        """Count the matches of a changed block again."""
        if block < len(self.counts):
            counts = (self._fold(text).count(self.query) for text in source.searched_texts())
            self.set_count(block, next(filter(None, counts), 0))
            self._spans.pop(block, None)

    async def scan(self, blocks: Sequence[Searchable]) -> None:
        """Count the matches of all blocks."""
        started = perf_counter()
        while self.query and len(self.counts) < len(blocks):
            self.counts.append(0)
            self.recount(len(self.counts) - 1, blocks[len(self.counts) - 1])
            if perf_counter() - started > MAX_COUNT_SECONDS:
                await sleep(0)
                started = perf_counter()
        await sleep(0)
        self.done = True

    def spans(self, block: int, joined: JoinedText) -> list[tuple[int, int]]:
        """Return the ranges of the matches in the text of a block."""
        cached = self._spans.get(block)
        if cached is None or cached[0] is not joined:
            cached = self._spans[block] = (joined, list(find_all(self._fold(joined.text), self.query)))
            if len(self._spans) > 200:
                del self._spans[next(iter(self._spans))]
        return cached[1]

    def next_block(self, block: int, direction: int) -> int | None:
        """Return the next block with matches in a direction, wrapping around and trying `block` itself last."""
        size = len(self.counts)
        candidates = ((block + direction * step) % size for step in range(1, size + 1))
        return next((index for index in candidates if self.counts[index]), None)

    @property
    def number(self) -> int:
        """Number of the current match, from 1; 0 if there is none."""
        if self.current is None:
            return 0
        block, match_index = self.current
        return sum(self.counts[:block]) + min(match_index + 1, self.counts[block])
